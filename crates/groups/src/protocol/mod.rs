//! Partition groups as pure values (docs/design/groups.md): who owns which partition, and who may
//! say so.
//!
//! [`Assignment`] holds who owns what. [`plan`] makes the next one of it and of what was read of
//! the sessions, and changes only what rules R1 to R4 allow. [`reader`] follows the newest
//! assignment, and confirms what a process may act on. [`holdings`] is what one member owns.
//! [`session_reader`] reads the sessions. [`session_timers`] and [`standby`] are the arithmetic of
//! time, with the time as an argument; all else is timeless, so that a model checker can explore it
//! under any clocks.

pub mod assignment;
pub mod assignor;
pub mod holdings;
pub mod marks;
pub mod message;
pub mod operation;
pub mod participant;
pub mod partition_number;
pub mod plan;
pub mod reader;
pub mod session;
pub mod session_id;
pub mod session_reader;
pub mod session_timers;
pub mod standby;

pub use assignment::{AssignedPartition, Assignment, Member};
pub use partition_number::PartitionNumber;
pub use session::{Release, Session};
pub use session_id::SessionId;
