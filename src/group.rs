//! Partition groups (docs/groups.md): the bytes of their objects.
//!
//! What drives the machines of [`protocol::group`](crate::protocol::group) is not here yet, so this
//! is compiled for tests alone.

pub mod assignment_record;
pub mod session_data;
