//! What is counted and timed for whoever operates it; docs/observability.md has the whole table.
//!
//! Told to the recorder of the crate `metrics` (feature `metrics`). Without the feature everything
//! here is empty and compiles to nothing, so that the driver need not ask.

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
