//! The margins of a lease. They determine how long before the end of the lease the process group of
//! CMD gets SIGTERM and SIGKILL.

use std::time::Duration;

use tenure::Moment;

use crate::guard::Deadlines;
use crate::output::print::in_ms;

const SHORTEST_KILL_MARGIN: Duration = Duration::from_millis(200);

/// The grace and the kill margin of one run. [`Margins::with`] checks both values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Margins {
    /// Time from the SIGTERM for CMD to the SIGKILL.
    pub grace: Duration,
    /// Time from SIGKILL to the end of the lease. This time allows for delays of the kernel and the
    /// guard.
    pub kill_margin: Duration,
}

impl Margins {
    /// Calls [`Margins::with`] with the default renew interval and request timeout.
    #[cfg(test)]
    pub fn new(validity: Duration, grace: Option<Duration>) -> Result<Margins, String> {
        Margins::with(validity, validity / 3, validity / 5, grace)
    }

    /// Returns the margins for leases of this validity. The default of `grace` is a sixth of the
    /// validity.
    ///
    /// Refuses margins that leave no time for a renewal and its retry before SIGTERM.
    pub fn with(
        validity: Duration,
        renew_interval: Duration,
        request_timeout: Duration,
        grace: Option<Duration>,
    ) -> Result<Margins, String> {
        let grace = grace.unwrap_or(validity / 6);
        let kill_margin = SHORTEST_KILL_MARGIN.max(validity / 20);
        let total = [request_timeout, request_timeout, kill_margin, grace]
            .iter()
            .fold(renew_interval, |sum, part| sum.saturating_add(*part));
        if total <= validity {
            return Ok(Margins { grace, kill_margin });
        }
        Err(format!(
            "a validity of {} is too short: {} until a renewal, 2 × {} for the renewal and its \
             retry, a grace of {}, and {} between SIGKILL and the end of the lease make {}; use a \
             longer --validity, or a shorter --renew, --request-timeout or --grace",
            in_ms(validity),
            in_ms(renew_interval),
            in_ms(request_timeout),
            in_ms(grace),
            in_ms(kill_margin),
            in_ms(total),
        ))
    }

    /// Returns the moments at which CMD gets SIGTERM and SIGKILL if the lease is not renewed again
    /// and ends at `lease_end`.
    pub fn deadlines(self, lease_end: Moment) -> Deadlines {
        let kill_at = lease_end.minus(self.kill_margin);
        Deadlines { term_at: kill_at.minus(self.grace), kill_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn default_margins_are_a_sixth_and_a_twentieth_of_the_validity() {
        let margins = Margins::new(ms(30_000), None);
        assert_eq!(margins, Ok(Margins { grace: ms(5_000), kill_margin: ms(1_500) }));
    }

    #[test]
    fn the_kill_margin_is_never_below_200_ms() {
        let margins = Margins::new(ms(2_400), None);
        assert_eq!(margins, Ok(Margins { grace: ms(400), kill_margin: ms(200) }));
    }

    #[test]
    fn deadlines_come_before_the_end_on_each_clock() {
        let margins = Margins { grace: ms(5_000), kill_margin: ms(1_500) };
        let at = |boot, raw, wall| Moment::new(ms(boot), ms(raw), ms(wall));
        let deadlines = margins.deadlines(at(100_000, 80_000, 9_000_000));
        assert_eq!(deadlines.kill_at, at(98_500, 78_500, 8_998_500));
        assert_eq!(deadlines.term_at, at(93_500, 73_500, 8_993_500));
    }

    #[test]
    fn a_lease_that_ends_right_after_boot_has_deadlines_in_the_past() {
        let margins = Margins { grace: ms(5_000), kill_margin: ms(1_500) };
        let up = |ms| Moment::new(ms, ms, ms);
        let deadlines = margins.deadlines(up(ms(1_000)));
        assert_eq!(deadlines.kill_at, up(ms(0)));
    }

    #[test]
    fn a_validity_without_room_for_a_renewal_is_refused() {
        let why = Margins::new(ms(1_000), None);
        let why = why.expect_err("1/3 + 2/5 + 1/6 of a second and 200 ms are more than a second");
        for part in ["validity of 1s", "2 × 200ms", "333ms", "grace of 166ms", "1s 99ms;"] {
            assert!(why.contains(part), "{part} is not in: {why}");
        }
    }

    #[test]
    fn the_bounds_of_the_margins_are_exact() {
        assert!(Margins::new(ms(2_000), None).is_ok());
        assert!(Margins::new(ms(1_900), None).is_err());
        // Of the validity of 60 s, the renew interval needs 20 s, two requests need 12 s each, and
        // the kill margin needs 3 s. This leaves 13 s for the grace.
        assert!(Margins::new(ms(60_000), Some(ms(13_000))).is_ok());
        assert!(Margins::new(ms(60_000), Some(ms(13_001))).is_err());
        assert!(Margins::new(ms(30_000), Some(Duration::ZERO)).is_ok());
        assert!(Margins::new(ms(30_000), Some(Duration::MAX)).is_err());
    }
}
