//! What the models and the simulations have in common. They themselves are in `tests`.

pub mod part;
