//! The protocol as pure values: no IO, no clock, no randomness, no async.
//!
//! [`candidate`] is the timeless state machine of docs/protocol.md section 4: that a lease has
//! lapsed or ended is an input, so that a model checker can explore it under any clock. [`lease`]
//! is the arithmetic of time, with the time as an argument.

pub(crate) mod candidate;
pub(crate) mod compaction;
#[cfg(test)]
mod explorer;
pub(crate) mod find;
mod leader;
pub(crate) mod lease;
pub(crate) mod message;
#[cfg(test)]
mod testing;
