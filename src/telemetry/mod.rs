//! The metrics for operators; docs/observability.md has the whole table.
//!
//! Reports to the recorder of the crate `metrics` (feature `metrics`). Without the feature
//! everything here is empty and compiles to nothing, so that the driver need not check for it.

#[cfg(feature = "metrics")]
mod gate;
#[cfg(feature = "metrics")]
mod group;
#[cfg(feature = "metrics")]
mod key_cache;
#[cfg(feature = "metrics")]
mod lease_names;
#[cfg(feature = "metrics")]
mod names;
#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;
#[cfg(feature = "metrics")]
mod requests;

#[cfg(feature = "metrics")]
pub(crate) use gate::GateMeter;
#[cfg(feature = "metrics")]
pub(crate) use group::{GroupSight, Overdue, Owner};
#[cfg(not(feature = "metrics"))]
pub(crate) use off::{Counted, GateMeter, GroupSight, Leading, Meter, Overdue, Owner, Sight};
#[cfg(feature = "metrics")]
pub(crate) use on::{Counted, Leading, Meter, Sight};
