//! The protocol as pure values: no IO, no clock, no randomness, no async.
//!
//! [`candidate`] is the timeless state machine of docs/design/protocol.md section 4: that a lease
//! has lapsed or ended is an input, so that a model checker can explore it under any clock;
//! [`single`] is its like for a single object, section 13, and [`machine`] either of them.
//! [`lease`] is the arithmetic of time, with the time as an argument.

pub mod candidate;
pub mod compaction;
pub mod depose;
pub mod find;
pub mod layout;
mod leader;
pub mod lease;
pub mod machine;
pub mod message;
pub mod single;
#[cfg(test)]
mod testing;
