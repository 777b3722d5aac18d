//! When to end a group: the lease's deadlines against the clocks. No clock is read here.

use std::time::Duration;

use tenure::Moment;

/// However far the next deadline is, look at the clocks this often: in a suspend or a pause of the
/// machine a sleep runs on too long (invariant I7).
pub const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// When a group is told to end and when it is killed, unless the lease is renewed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    pub term_at: Moment,
    pub kill_at: Moment,
}

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Term,
    Kill,
}

/// Watches over the deadlines of one group.
#[derive(Debug, Clone)]
pub struct Vigil {
    deadlines: Deadlines,
    terminated: bool,
}

impl Vigil {
    pub fn new(deadlines: Deadlines) -> Vigil {
        Vigil { deadlines, terminated: false }
    }

    /// The lease was renewed, or its end was brought forward.
    pub fn set(&mut self, deadlines: Deadlines) {
        self.deadlines = deadlines;
    }

    /// What to do now. SIGTERM is due once for each time that the lease comes to be at risk;
    /// SIGKILL is due for as long as the group lives.
    pub fn due(&mut self, now: Moment) -> Option<Due> {
        if reached(self.deadlines.kill_at, now) {
            return Some(Due::Kill);
        }
        let at_risk = reached(self.deadlines.term_at, now);
        let due = at_risk && !self.terminated;
        self.terminated = at_risk;
        due.then_some(Due::Term)
    }

    /// How long to sleep before looking at the clocks again.
    pub fn next_look(&self, now: Moment) -> Duration {
        let next = if self.terminated { self.deadlines.kill_at } else { self.deadlines.term_at };
        now.until(next).min(now.until(self.deadlines.kill_at)).min(LOOK_AT_LEAST_EVERY)
    }
}

/// Whether any clock has come to the moment.
fn reached(moment: Moment, now: Moment) -> bool {
    now.until(moment).is_zero()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The wall clock is a day ahead of the boot clock unless a test sets it.
    const DAY: u64 = 86_400_000;

    fn at(boot: u64) -> Moment {
        Moment { boot: ms(boot), raw: ms(boot), wall: ms(boot + DAY) }
    }

    fn vigil(term: u64, kill: u64) -> Vigil {
        Vigil::new(Deadlines { term_at: at(term), kill_at: at(kill) })
    }

    #[test]
    fn term_comes_once_and_kill_until_the_end() {
        let mut vigil = vigil(1_000, 2_000);
        assert_eq!(vigil.due(at(999)), None);
        assert_eq!(vigil.due(at(1_000)), Some(Due::Term));
        assert_eq!(vigil.due(at(1_001)), None);
        assert_eq!(vigil.due(at(2_000)), Some(Due::Kill));
        assert_eq!(vigil.due(at(2_001)), Some(Due::Kill));
    }

    #[test]
    fn a_renewal_ends_the_risk_and_the_next_one_terminates_again() {
        let mut vigil = vigil(1_000, 2_000);
        assert_eq!(vigil.due(at(1_500)), Some(Due::Term));
        vigil.set(Deadlines { term_at: at(3_000), kill_at: at(4_000) });
        assert_eq!(vigil.due(at(2_500)), None);
        assert_eq!(vigil.due(at(3_000)), Some(Due::Term));
    }

    #[test]
    fn a_renewal_within_the_risk_does_not_terminate_twice() {
        let mut vigil = vigil(1_000, 2_000);
        assert_eq!(vigil.due(at(1_500)), Some(Due::Term));
        vigil.set(Deadlines { term_at: at(1_200), kill_at: at(2_200) });
        assert_eq!(vigil.due(at(1_600)), None);
    }

    #[test]
    fn a_long_pause_goes_straight_to_the_kill() {
        assert_eq!(vigil(1_000, 2_000).due(at(60_000)), Some(Due::Kill));
    }

    #[test]
    fn the_clock_that_is_further_counts() {
        let wall_jumped = Moment { wall: ms(DAY + 2_000), ..at(0) };
        assert_eq!(vigil(1_000, 2_000).due(wall_jumped), Some(Due::Kill));
        let wall_set_back = Moment { wall: ms(0), ..at(2_000) };
        assert_eq!(vigil(1_000, 2_000).due(wall_set_back), Some(Due::Kill));
        let suspended = Moment { raw: ms(0), ..at(2_000) };
        assert_eq!(vigil(1_000, 2_000).due(suspended), Some(Due::Kill));
        let slewed = Moment { raw: ms(2_000), ..at(0) };
        assert_eq!(vigil(1_000, 2_000).due(slewed), Some(Due::Kill));
    }

    #[test]
    fn the_end_can_be_brought_forward() {
        let mut vigil = vigil(10_000, 20_000);
        assert_eq!(vigil.due(at(0)), None);
        vigil.set(Deadlines { term_at: at(0), kill_at: at(20_000) });
        assert_eq!(vigil.due(at(0)), Some(Due::Term));
    }

    #[test]
    fn sleeps_end_at_the_next_deadline_and_within_a_second() {
        let mut vigil = vigil(5_000, 5_300);
        assert_eq!(vigil.next_look(at(0)), LOOK_AT_LEAST_EVERY);
        assert_eq!(vigil.next_look(at(4_900)), ms(100));
        assert_eq!(vigil.due(at(5_000)), Some(Due::Term));
        assert_eq!(vigil.next_look(at(5_000)), ms(300));
        let wall_ahead = Moment { wall: ms(DAY + 5_250), ..at(5_000) };
        assert_eq!(vigil.next_look(wall_ahead), ms(50));
    }
}
