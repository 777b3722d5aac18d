//! The deadlines for the end of CMD. This module compares them with clock times that the caller
//! reads.

use std::time::Duration;

use tenure::Moment;

/// The longest sleep between two readings of the clocks. A long sleep could last past a deadline if
/// the machine is suspended or paused (I7).
pub const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// The times at which CMD gets SIGTERM and SIGKILL. A renewal of the lease replaces both times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    pub term_at: Moment,
    pub kill_at: Moment,
}

/// The signal that CMD must get now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Term,
    Kill,
}

/// Compares the deadlines of one CMD with the clocks, and remembers whether SIGTERM was due.
#[derive(Debug, Clone)]
pub struct DeadlineTimer {
    deadlines: Deadlines,
    terminated: bool,
}

impl Deadlines {
    /// Returns deadlines that every clock has passed, so that CMD gets SIGKILL immediately.
    pub fn long_past() -> Deadlines {
        let long_past = Moment::new(Duration::ZERO, Duration::ZERO, Duration::ZERO);
        Deadlines { term_at: long_past, kill_at: long_past }
    }

    /// Moves the deadline for SIGTERM to `now`, and keeps the grace between SIGTERM and SIGKILL.
    /// Neither deadline moves to a later time.
    pub fn brought_forward(self, now: Moment) -> Deadlines {
        let Deadlines { term_at, kill_at } = self;
        // The grace is the time from SIGTERM to SIGKILL. All clocks show the same grace, except a
        // wall clock that does not limit the lease.
        let grace = kill_at.boot.saturating_sub(term_at.boot);
        Deadlines { term_at: earlier(term_at, now), kill_at: earlier(kill_at, now.plus(grace)) }
    }
}

impl DeadlineTimer {
    pub fn new(deadlines: Deadlines) -> DeadlineTimer {
        DeadlineTimer { deadlines, terminated: false }
    }

    /// Replaces the deadlines after a renewal of the lease, or to end CMD earlier.
    pub fn set(&mut self, deadlines: Deadlines) {
        self.deadlines = deadlines;
    }

    /// Ends CMD earlier, because the lease is not renewed any more. CMD gets SIGTERM now, and
    /// SIGKILL after the grace or at the deadline, whichever is earlier.
    pub fn end_now(&mut self, now: Moment) {
        self.deadlines = self.deadlines.brought_forward(now);
    }

    /// Returns the signal to send now: SIGTERM at the first call after the deadline for SIGTERM,
    /// and SIGKILL at every call after the deadline for SIGKILL. After a renewal, SIGTERM can be
    /// due again.
    pub fn due(&mut self, now: Moment) -> Option<Due> {
        if reached(self.deadlines.kill_at, now) {
            return Some(Due::Kill);
        }
        let at_risk = reached(self.deadlines.term_at, now);
        let due = at_risk && !self.terminated;
        self.terminated = at_risk;
        due.then_some(Due::Term)
    }

    /// Returns whether SIGTERM was due, and the lease has not been renewed after that.
    pub fn is_at_risk(&self) -> bool {
        self.terminated
    }

    /// Returns the deadline for SIGKILL.
    pub fn kill_at(&self) -> Moment {
        self.deadlines.kill_at
    }

    /// Returns the time until the deadline for SIGKILL.
    pub fn until_kill(&self, now: Moment) -> Duration {
        now.until(self.deadlines.kill_at)
    }

    /// Returns the time to sleep before the clocks are read and compared with the deadlines again.
    pub fn next_look(&self, now: Moment) -> Duration {
        let next = if self.terminated { self.deadlines.kill_at } else { self.deadlines.term_at };
        now.until(next).min(self.until_kill(now)).min(LOOK_AT_LEAST_EVERY)
    }
}

/// Returns whether any of the three clocks has reached its time in `moment`.
fn reached(moment: Moment, now: Moment) -> bool {
    now.until(moment).is_zero()
}

/// Returns, for each clock, the earlier time of the two moments.
fn earlier(one: Moment, other: Moment) -> Moment {
    Moment::new(one.boot.min(other.boot), one.raw.min(other.raw), one.wall.min(other.wall))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Difference of the wall clock and the boot clock, in milliseconds. Some tests change it.
    const DAY: u64 = 86_400_000;

    fn at(boot: u64) -> Moment {
        Moment::new(ms(boot), ms(boot), ms(boot + DAY))
    }

    fn timer(term: u64, kill: u64) -> DeadlineTimer {
        DeadlineTimer::new(Deadlines { term_at: at(term), kill_at: at(kill) })
    }

    #[test]
    fn sigterm_is_due_once_and_sigkill_at_every_check() {
        let mut timer = timer(1_000, 2_000);
        assert_eq!(timer.due(at(999)), None);
        assert_eq!(timer.due(at(1_000)), Some(Due::Term));
        assert_eq!(timer.due(at(1_001)), None);
        assert_eq!(timer.due(at(2_000)), Some(Due::Kill));
        assert_eq!(timer.due(at(2_001)), Some(Due::Kill));
    }

    #[test]
    fn sigterm_is_due_again_after_a_renewal() {
        let mut timer = timer(1_000, 2_000);
        assert_eq!(timer.due(at(1_500)), Some(Due::Term));
        timer.set(Deadlines { term_at: at(3_000), kill_at: at(4_000) });
        assert_eq!(timer.due(at(2_500)), None);
        assert_eq!(timer.due(at(3_000)), Some(Due::Term));
    }

    #[test]
    fn sigterm_is_not_repeated_if_its_renewed_deadline_has_passed() {
        let mut timer = timer(1_000, 2_000);
        assert_eq!(timer.due(at(1_500)), Some(Due::Term));
        timer.set(Deadlines { term_at: at(1_200), kill_at: at(2_200) });
        assert_eq!(timer.due(at(1_600)), None);
    }

    #[test]
    fn sigkill_is_due_without_sigterm_after_a_long_pause() {
        assert_eq!(timer(1_000, 2_000).due(at(60_000)), Some(Due::Kill));
    }

    #[test]
    fn one_clock_at_the_deadline_is_enough() {
        let wall_jumped = Moment::new(ms(0), ms(0), ms(DAY + 2_000));
        assert_eq!(timer(1_000, 2_000).due(wall_jumped), Some(Due::Kill));
        let wall_set_back = Moment::new(ms(2_000), ms(2_000), ms(0));
        assert_eq!(timer(1_000, 2_000).due(wall_set_back), Some(Due::Kill));
        let suspended = Moment::new(ms(2_000), ms(0), ms(DAY + 2_000));
        assert_eq!(timer(1_000, 2_000).due(suspended), Some(Due::Kill));
        let slewed = Moment::new(ms(0), ms(2_000), ms(DAY));
        assert_eq!(timer(1_000, 2_000).due(slewed), Some(Due::Kill));
    }

    /// If the wall clock does not limit the lease, both deadlines have the latest possible time of
    /// that clock.
    #[test]
    fn an_early_end_keeps_the_grace_if_the_wall_clock_has_no_deadline() {
        let never = |at: Moment| Moment::new(at.boot, at.raw, Duration::MAX);
        let deadlines = Deadlines { term_at: never(at(10_000)), kill_at: never(at(12_000)) };
        let mut timer = DeadlineTimer::new(deadlines);
        timer.end_now(at(1_000));
        assert_eq!(timer.due(at(1_000)), Some(Due::Term));
        assert_eq!(timer.due(at(2_999)), None);
        assert_eq!(timer.due(at(3_000)), Some(Due::Kill));
    }

    #[test]
    fn an_earlier_deadline_makes_sigterm_due() {
        let mut timer = timer(10_000, 20_000);
        assert_eq!(timer.due(at(0)), None);
        timer.set(Deadlines { term_at: at(0), kill_at: at(20_000) });
        assert_eq!(timer.due(at(0)), Some(Due::Term));
    }

    #[test]
    fn sleeps_end_at_the_next_deadline_and_within_a_second() {
        let mut timer = timer(5_000, 5_300);
        assert_eq!(timer.next_look(at(0)), LOOK_AT_LEAST_EVERY);
        assert_eq!(timer.next_look(at(4_900)), ms(100));
        assert_eq!(timer.due(at(5_000)), Some(Due::Term));
        assert_eq!(timer.next_look(at(5_000)), ms(300));
        let wall_ahead = Moment::new(ms(5_000), ms(5_000), ms(DAY + 5_250));
        assert_eq!(timer.next_look(wall_ahead), ms(50));
    }

    #[test]
    fn an_early_end_keeps_the_grace_if_the_lease_allows_it() {
        let mut timer = timer(20_000, 25_000);
        assert_eq!(timer.due(at(1_000)), None);
        timer.end_now(at(1_000));
        assert_eq!(timer.due(at(1_000)), Some(Due::Term));
        assert_eq!(timer.until_kill(at(1_000)), ms(5_000));
        assert_eq!(timer.due(at(5_999)), None);
        assert_eq!(timer.due(at(6_000)), Some(Due::Kill));
    }

    #[test]
    fn an_early_end_never_postpones_the_kill() {
        let mut timer = timer(20_000, 25_000);
        assert_eq!(timer.due(at(22_000)), Some(Due::Term));
        timer.end_now(at(23_000));
        assert_eq!(timer.due(at(23_000)), None, "SIGTERM was due before");
        assert_eq!(timer.until_kill(at(23_000)), ms(2_000));
        let mut past = DeadlineTimer::new(Deadlines::long_past());
        past.end_now(at(1));
        assert_eq!(past.due(at(1)), Some(Due::Kill));
    }
}
