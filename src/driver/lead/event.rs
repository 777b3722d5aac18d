//! The events of a leadership.

use std::time::Duration;

use super::Loss;
use crate::driver::across::StoreHold;
use crate::error::Error;

/// An event of a leadership.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LeadershipEvent {
    /// The lease was extended.
    Renewed {
        /// Remaining time of the lease.
        remaining: Duration,
    },
    /// The lease was not extended in time, so at most a quarter of the validity remains. Stop the
    /// work.
    AtRisk {
        /// Remaining time of the lease.
        remaining: Duration,
        /// The error of the last request, if it failed.
        last_error: Option<Error>,
    },
    /// A leadership across stores does not hold all its stores. Sent at each change of the stores'
    /// states.
    Degraded {
        /// All stores, in the order of the markers.
        stores: Vec<StoreHold>,
    },
    /// A leadership across stores holds all its stores again.
    Whole,
    /// The leadership has ended.
    Lost(Loss),
}
