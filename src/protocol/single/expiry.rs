//! Computes the lapse of a lease from a body that has only an expiry time. Peers that follow the
//! post *Leader election with S3 and If-Match* write such bodies.

use std::time::Duration;

use crate::env::moment::Moment;

/// Minimum wait after `expires_at`. Wall clocks that NTP synchronises differ by less than this
/// margin.
const MIN_MARGIN: Duration = Duration::from_secs(5);

/// Returns the time from the first receipt of a body until its lease lapses. The body has only an
/// expiry time, `expires_at`, in seconds since the Unix epoch. The lease lapses after `expires_at`
/// plus the observer's own validity, or plus 5 s if that is longer. The wall clock is read only at
/// the receipt. Monotonic clocks measure the rest, so a step of the wall clock cannot shorten the
/// wait.
pub fn left_until(expires_at: f64, received: Moment, validity: Duration) -> Duration {
    let left = expires_at - received.wall.as_secs_f64();
    let left = match Duration::try_from_secs_f64(left) {
        Ok(left) => left,
        // `expires_at` is in the past, or too far away for a `Duration`.
        Err(_) if left < 0.0 => Duration::ZERO,
        Err(_) => Duration::MAX,
    };
    left.saturating_add(validity.max(MIN_MARGIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_lapses_after_its_expiry_and_the_margin() {
        let (margin, validity) = (Duration::from_secs(5), Duration::from_secs(3));
        let wall = Duration::from_secs(1_740_151_473);
        let at = Moment { boot: Duration::from_secs(77), raw: Duration::from_secs(70), wall };
        assert_eq!(left_until(1_740_151_483.5, at, validity), Duration::from_millis(15_500));
        let long = Duration::from_secs(30);
        assert_eq!(left_until(1_740_151_483.5, at, long), Duration::from_millis(40_500));
        for past in [1_740_151_473.0, 1.0, -1.0, -1e300, f64::MIN] {
            assert_eq!(left_until(past, at, validity), margin, "{past}");
        }
        for never in [1e300, f64::MAX, f64::INFINITY, f64::NAN] {
            assert_eq!(left_until(never, at, validity), Duration::MAX, "{never}");
        }
    }
}
