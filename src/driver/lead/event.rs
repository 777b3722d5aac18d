//! The events of a leadership.

use std::time::Duration;

use super::Loss;
use crate::error::Error;

/// An event of a leadership.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum LeadershipEvent {
    /// The lease was extended.
    Renewed {
        /// What is left of the lease.
        remaining: Duration,
    },
    /// Renewals fail and less than a quarter of the validity is left: stop the work.
    AtRisk {
        /// What is left of the lease.
        remaining: Duration,
        /// The error of the last request, if it failed.
        last_error: Option<Error>,
    },
    /// The leadership is over.
    Lost(Loss),
}
