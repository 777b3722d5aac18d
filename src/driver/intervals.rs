//! The default validity, and the default intervals of renewals and polls.

use std::time::Duration;

/// Default validity of a lease.
pub const DEFAULT_VALIDITY: Duration = Duration::from_secs(30);
/// Bounds of a poll interval that follows from the validity of another process.
const OFTEN: Duration = Duration::from_secs(1);
const RARELY: Duration = Duration::from_secs(60);

/// Returns the time between two renewals.
pub fn renew_interval(validity: Duration) -> Duration {
    validity / 3
}

/// Returns the time between two polls.
pub fn poll_interval(validity: Duration) -> Duration {
    validity / 6
}

/// Returns the time between two polls of an observer that follows a lease of this validity. The
/// result is 1 s to 60 s. If `own`, the observer's own interval, is outside of these bounds, it
/// extends them.
pub fn observer_poll_interval(validity: Duration, own: Duration) -> Duration {
    poll_interval(validity).clamp(OFTEN.min(own), RARELY.max(own))
}
