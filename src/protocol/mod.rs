//! The protocol of an election, in types without IO, clock, randomness or async.
//!
//! [`machine`] is the state machine of an election in either layout. The machine has no clock. The
//! lapse of a lease is an input, so a model checker can explore the machine under any clock.
//! [`candidate`] implements the machine for `Layout::EpochFiles` (E1 to E20 in
//! docs/design/protocol.md), and [`single`] for `Layout::SingleObject` (SO1 to SO9). [`lease`] has
//! the arithmetic of leases. Its functions take the time as an argument.

pub mod across;
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
