//! The metrics for operators; docs/observability.md has the whole table.
//!
//! Reports to the recorder of the crate `metrics`. Without a recorder nothing is counted.

mod gate;
mod group;
mod key_cache;
mod lease_names;
mod meter;
mod names;
mod requests;

pub(crate) use gate::GateMeter;
pub(crate) use group::{GroupSight, Overdue, Owner};
pub(crate) use meter::{Counted, Leading, Meter, Sight};
