//! The default validity, and the default intervals of renewals and polls.

use std::time::Duration;

/// Default validity of a lease.
pub const DEFAULT_VALIDITY: Duration = Duration::from_secs(30);
/// Bounds of the poll interval that an observer derives from the validity of the leader.
const OFTEN: Duration = Duration::from_secs(1);
const RARELY: Duration = Duration::from_secs(60);

/// Returns the time between two renewals of a lease with this validity.
pub fn renew_interval(validity: Duration) -> Duration {
    validity / 3
}

/// Returns the time between two polls of a lease with this validity.
pub fn poll_interval(validity: Duration) -> Duration {
    validity / 6
}

/// Returns the time between two polls of an observer that follows a lease of this validity. `own`
/// is the observer's own interval. The result is at least the lesser of 1 s and `own`, and at most
/// the greater of 60 s and `own`.
pub fn observer_poll_interval(validity: Duration, own: Duration) -> Duration {
    poll_interval(validity).clamp(OFTEN.min(own), RARELY.max(own))
}
