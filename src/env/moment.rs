//! A reading of the clocks, and the arithmetic on it. `clock` reads them.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// A reading of the three clocks of one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Moment {
    /// Time since the start of the machine, suspension included. A clock daemon may slew it.
    pub boot: Duration,
    /// Time since the start of the machine, suspension included, at the rate of its oscillator: no
    /// clock daemon changes it. A [`Clock`](crate::Clock) that has no such source repeats `boot`.
    pub raw: Duration,
    /// Time since the Unix epoch, by the wall clock. It can only end a lease early.
    pub wall: Duration,
}

impl Moment {
    /// A reading of a [`Clock`](crate::Clock): its `boot`, `raw` and `wall`.
    #[must_use]
    pub const fn new(boot: Duration, raw: Duration, wall: Duration) -> Moment {
        Moment { boot, raw, wall }
    }

    /// The time of day of this reading, for people.
    #[must_use]
    pub fn time_of_day(self) -> DateTime<Utc> {
        time_of_day(self.wall)
    }

    /// This moment and `by`, on each clock.
    #[must_use]
    pub fn plus(self, by: Duration) -> Moment {
        self.map(|clock| clock.saturating_add(by))
    }

    /// This moment less `by`, on each clock.
    #[must_use]
    pub fn minus(self, by: Duration) -> Moment {
        self.map(|clock| clock.saturating_sub(by))
    }

    fn map(self, change: impl Fn(Duration) -> Duration) -> Moment {
        Moment { boot: change(self.boot), raw: change(self.raw), wall: change(self.wall) }
    }

    /// Returns the time until `end`, by the clock on which the least is left: zero once any clock
    /// has reached it. A lease ends by this rule.
    ///
    /// Boot and wall clock are slewed alike. So a gain of the wall clock on the boot clock is a
    /// step of the wall clock, or a pause that only the wall clock shows. The gain is subtracted
    /// from the remaining time of the raw clock.
    #[must_use]
    pub fn until(self, end: Moment) -> Duration {
        let boot = end.boot.saturating_sub(self.boot);
        let wall = end.wall.saturating_sub(self.wall);
        let raw = end.raw.saturating_sub(self.raw).saturating_sub(boot.saturating_sub(wall));
        boot.min(raw).min(wall)
    }

    /// Returns the time since `start`, by the boot or the raw clock, whichever shows less. A lease
    /// lapses by this rule. The wall clock does not count, as it can be set to anything.
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
        // The wall clock has gained 10 s on the boot clock. The raw clock does not show them.
        assert_eq!(at(70, 90, 80).until(end), Duration::ZERO);
        assert_eq!(at(80, 70, 90).until(end), Duration::from_secs(10));
        assert_eq!(at(80, 70, 101).until(end), Duration::ZERO);
        assert_eq!(at(101, 70, 0).until(end), Duration::ZERO);
        assert_eq!(at(0, 101, 70).until(end), Duration::ZERO);
    }

    /// Boot and wall clock were slewed to 9 of 10 s. Then the machine was paused for 5 s, which
    /// only the wall clock shows. The wall clock shows 14 s, but 15 s have passed.
    #[test]
    fn regression_a_pause_with_a_slewed_clock_counts_fully() {
        let end = at(100, 100, 100).plus(Duration::from_secs(15));
        assert_eq!(at(109, 110, 114).until(end), Duration::ZERO);
        assert_eq!(at(109, 110, 109).until(end), Duration::from_secs(5));
        // A wall clock that was set back changes nothing.
        assert_eq!(at(109, 110, 50).until(end), Duration::from_secs(5));
    }

    #[test]
    fn since_uses_the_monotonic_clock_that_moved_least() {
        let start = at(100, 100, 100);
        assert_eq!(at(110, 120, 100).since(start), Duration::from_secs(10));
        assert_eq!(at(120, 110, 900).since(start), Duration::from_secs(10));
        assert_eq!(at(120, 110, 0).since(start), Duration::from_secs(10), "the wall clock is out");
        assert_eq!(at(99, 110, 900).since(start), Duration::ZERO);
    }
}
