//! The common part of the models and the simulations in `tests`.

pub mod clock;
pub mod faults;
pub mod fuzzing;
pub mod gate;
pub mod hashed_arc;
pub mod seeds;
pub mod time;
