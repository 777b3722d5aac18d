//! The metrics of the library. docs/reference/metrics.md lists all of them.
//!
//! This module reports to the recorder of the crate `metrics`. Without a recorder no metrics are
//! kept.

mod key_cache;
mod lease_names;
mod meter;
mod names;
mod requests;
mod role;

pub use lease_names::LeaseMetrics;
pub(crate) use meter::{Leading, Sight, StoreGauge};
pub use meter::{Meter, place};
pub(crate) use requests::Counted;
