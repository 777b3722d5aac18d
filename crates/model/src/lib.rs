//! The code that the models and the simulations in `tests` share.

pub mod clock;
pub mod faults;
pub mod fuzzing;
pub mod gate;
pub mod hashed_arc;
pub mod seeds;
pub mod sim;
pub mod time;
