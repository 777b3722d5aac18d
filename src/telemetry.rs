//! The metrics for operators; docs/observability.md has the whole table.
//!
//! Reports to the recorder of the crate `metrics` (feature `metrics`). Without the feature
//! everything here is empty and compiles to nothing, so that the driver need not check for it.

#[cfg(feature = "metrics")]
mod describe;
#[cfg(feature = "metrics")]
mod gate;
#[cfg(feature = "metrics")]
mod kept;
#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;
#[cfg(feature = "metrics")]
mod requests;

#[cfg(feature = "metrics")]
pub(crate) use gate::GateMeter;
#[cfg(not(feature = "metrics"))]
pub(crate) use off::{Counted, GateMeter, Leading, Meter, Sight};
#[cfg(feature = "metrics")]
pub(crate) use on::{Counted, Leading, Meter, Sight};
