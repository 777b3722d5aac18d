//! What the models and the simulations have in common. They themselves are in `tests`.

pub mod clock;
pub mod fuzzing;
pub mod gate;
pub mod part;
pub mod seeds;
pub mod time;
