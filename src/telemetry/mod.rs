//! The metrics for operators; docs/observability.md has the whole table.
//!
//! Reports to the recorder of the crate `metrics`. Without a recorder nothing is counted.

mod group;
mod key_cache;
mod lease_names;
mod meter;
mod names;
mod requests;

pub(crate) use group::{GroupSight, Overdue, Owner};
pub use meter::place;
pub(crate) use meter::{Counted, Leading, Meter, Sight};
