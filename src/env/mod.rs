//! The environment of a process: clocks, timers, random numbers.

pub(crate) mod clock;
pub(crate) mod entropy;
pub mod moment;
pub(crate) mod mutex;
pub(crate) mod nonce;
pub(crate) mod process;
pub(crate) mod timer;
