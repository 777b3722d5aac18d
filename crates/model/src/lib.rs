//! The common part of the models and the simulations in `tests`.

pub mod clock;
pub mod fuzzing;
pub mod gate;
pub mod part;
pub mod seeds;
pub mod time;
