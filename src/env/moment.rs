//! A reading of the clocks, and its arithmetic.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// A reading of the three clocks of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Moment {
    /// Time since the start of the machine, including suspension. A clock daemon may slew this
    /// clock.
    pub boot: Duration,
    /// Time since the start of the machine, including suspension, at the rate of the machine's
    /// oscillator. No clock daemon changes this rate. A [`Clock`](crate::Clock) that has no source
    /// for this time returns `boot` instead.
    pub raw: Duration,
    /// Time since the Unix epoch, by the wall clock. This clock can only end a lease early.
    pub wall: Duration,
}

impl Moment {
    /// Creates a reading of a [`Clock`](crate::Clock) from its `boot`, `raw` and `wall`.
    #[must_use]
    pub const fn new(boot: Duration, raw: Duration, wall: Duration) -> Moment {
        Moment { boot, raw, wall }
    }

    /// Returns the time of day of this reading, for display.
    #[must_use]
    pub fn time_of_day(self) -> DateTime<Utc> {
        time_of_day(self.wall)
    }

    /// Returns this reading with `by` added to each clock.
    #[must_use]
    pub fn plus(self, by: Duration) -> Moment {
        self.map(|clock| clock.saturating_add(by))
    }

    /// Returns this reading with `by` subtracted from each clock.
    #[must_use]
    pub fn minus(self, by: Duration) -> Moment {
        self.map(|clock| clock.saturating_sub(by))
    }

    fn map(self, change: impl Fn(Duration) -> Duration) -> Moment {
        Moment { boot: change(self.boot), raw: change(self.raw), wall: change(self.wall) }
    }

    /// Returns the time until `end`, by the clock with the least remaining time. Returns zero if
    /// any clock has reached `end`. A lease ends by this rule.
    ///
    /// A clock daemon slews the boot and the wall clock by the same amount. So if the wall clock
    /// gains on the boot clock, the wall clock was stepped, or it shows a pause that the other
    /// clocks miss. This gain is subtracted from the remaining time of the raw clock.
    #[must_use]
    pub fn until(self, end: Moment) -> Duration {
        let boot = end.boot.saturating_sub(self.boot);
        let wall = end.wall.saturating_sub(self.wall);
        let raw = end.raw.saturating_sub(self.raw).saturating_sub(boot.saturating_sub(wall));
        boot.min(raw).min(wall)
    }

    /// Returns the time since `start`: the smaller of the times by the boot clock and the raw
    /// clock. A lease lapses by this rule. The wall clock is ignored, because it can be set to any
    /// time.
    #[must_use]
    pub fn since(self, start: Moment) -> Duration {
        let boot = self.boot.saturating_sub(start.boot);
        boot.min(self.raw.saturating_sub(start.raw))
    }
}

pub(crate) fn time_of_day(wall: Duration) -> DateTime<Utc> {
    let nanos = wall.subsec_nanos();
    let seconds = i64::try_from(wall.as_secs()).unwrap_or(i64::MAX);
    DateTime::from_timestamp(seconds, nanos).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: u64, raw: u64, wall: u64) -> Moment {
        let [boot, raw, wall] = [boot, raw, wall].map(Duration::from_secs);
        Moment { boot, raw, wall }
    }

    #[test]
    fn until_uses_the_clock_with_the_least_time_left() {
        let end = at(100, 100, 100);
        assert_eq!(at(90, 80, 70).until(end), Duration::from_secs(10));
        assert_eq!(at(80, 90, 80).until(end), Duration::from_secs(10));
        // The wall clock has gained 10 s on the boot clock. The raw clock does not show this gain,
        // so the gain shortens the remaining time.
        assert_eq!(at(70, 90, 80).until(end), Duration::ZERO);
        assert_eq!(at(80, 70, 90).until(end), Duration::from_secs(10));
        assert_eq!(at(80, 70, 101).until(end), Duration::ZERO);
        assert_eq!(at(101, 70, 0).until(end), Duration::ZERO);
        assert_eq!(at(0, 101, 70).until(end), Duration::ZERO);
    }

    /// A pause shortens the lease by its whole length, even if the clock that shows the pause was
    /// slewed. In the first 10 s, slewing makes the boot and the wall clock advance by 9 s. Then
    /// the machine is paused for 5 s, which only the wall clock shows. So after 15 s, the wall
    /// clock has advanced by 14 s.
    #[test]
    fn regression_a_pause_shortens_the_lease_fully_despite_a_slewed_clock() {
        let end = at(100, 100, 100).plus(Duration::from_secs(15));
        assert_eq!(at(109, 110, 114).until(end), Duration::ZERO);
        assert_eq!(at(109, 110, 109).until(end), Duration::from_secs(5));
        // Setting the wall clock back has no effect on the remaining time.
        assert_eq!(at(109, 110, 50).until(end), Duration::from_secs(5));
    }

    #[test]
    fn since_uses_the_monotonic_clock_that_advanced_least() {
        let start = at(100, 100, 100);
        assert_eq!(at(110, 120, 100).since(start), Duration::from_secs(10));
        assert_eq!(at(120, 110, 900).since(start), Duration::from_secs(10));
        assert_eq!(
            at(120, 110, 0).since(start),
            Duration::from_secs(10),
            "the wall clock is \
                                                                           ignored"
        );
        assert_eq!(at(99, 110, 900).since(start), Duration::ZERO);
    }
}
