//! The metrics for operators; docs/reference/metrics.md has the whole table.
//!
//! Reports to the recorder of the crate `metrics`. Without a recorder nothing is counted.

mod key_cache;
mod lease_names;
mod meter;
mod names;
mod requests;
mod role;

pub use lease_names::LeaseMetrics;
pub(crate) use meter::{Leading, Sight};
pub use meter::{Meter, place};
pub(crate) use requests::Counted;
