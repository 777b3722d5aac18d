//! The protocol of partition groups as pure values (docs/design/groups.md).
//!
//! An [`Assignment`] names the owner of each partition. [`plan`] makes the next assignment from the
//! newest assignment and the sessions that the coordinator has read. A plan makes only the changes
//! that rules R1 to R4 allow. [`reader`] follows and confirms the newest assignment. [`holdings`]
//! keeps the partitions of one member. [`session_reader`] reads the sessions. Only
//! [`session_timers`] and [`standby`] depend on the time, and they take it as an argument. So a
//! model checker can explore the machines under any clocks.

pub mod assignment;
pub mod assignor;
pub mod holdings;
pub mod message;
pub mod operation;
pub mod participant;
pub mod plan;
pub mod reader;
pub mod session;
pub mod session_reader;
pub mod session_timers;
pub mod standby;

pub use assignment::{AssignedPartition, Assignment, Member, PartitionNumber};
pub use session::{Release, Session, SessionId};
