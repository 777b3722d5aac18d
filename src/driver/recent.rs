//! How long renewals take, and how long to wait for one when the lease is at stake.

use std::time::Duration;

use super::Driver;
use crate::protocol::message::Request;

/// So many of the last renewals are remembered.
const REMEMBERED: usize = 100;
/// Fewer say nothing of how long one takes.
const ENOUGH: usize = 20;
/// An attempt is not given up sooner, however fast the last ones were.
const SHORTEST: Duration = Duration::from_millis(50);

/// How long the last renewals took that were answered.
///
/// Memory is taken with the first: those who only follow never renew.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent {
    took: Vec<Duration>,
    /// Where the oldest is, once there are as many as are remembered.
    oldest: usize,
}

impl Recent {
    pub(super) fn took(&mut self, duration: Duration) {
        if self.took.len() < REMEMBERED {
            self.took.reserve_exact(REMEMBERED - self.took.len());
            self.took.push(duration);
        } else {
            self.took[self.oldest] = duration;
            self.oldest = (self.oldest + 1) % REMEMBERED;
        }
    }

    /// What 99 of 100 of them did not exceed; `None` while there are too few.
    pub(super) fn p99(&self) -> Option<Duration> {
        let known = self.took.len();
        if known < ENOUGH {
            return None;
        }
        let mut sorted = [Duration::ZERO; REMEMBERED];
        let sorted = &mut sorted[..known];
        sorted.copy_from_slice(&self.took);
        sorted.sort_unstable();
        Some(sorted[(known * 99).div_ceil(100) - 1])
    }
}

impl Driver {
    /// How long a request of the leader may take, with `left` of the lease left.
    ///
    /// Once half of the lease is gone, an attempt that takes longer than nearly all did is given up
    /// for another, with a heartbeat of its own. Each that fails doubles the patience, so that a
    /// store which has become slow still gets to answer.
    pub(super) fn patience(&self, request: &Request, left: Duration) -> Duration {
        let most = self.cx.config.request_timeout.min(left);
        let renews =
            matches!(request, Request::Renew { .. } | Request::Get { .. } | Request::Look { .. });
        let config = &self.cx.config;
        if !renews || !config.hedged_renewals || left >= config.validity / 2 {
            return most;
        }
        match self.recent.p99() {
            Some(p99) => p99.max(SHORTEST).saturating_mul(1 << self.failures.min(10)).min(most),
            None => most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn too_few_renewals_say_nothing() {
        let mut recent = Recent::default();
        for _ in 1..ENOUGH {
            recent.took(MS);
            assert_eq!(recent.p99(), None);
        }
        recent.took(MS);
        assert_eq!(recent.p99(), Some(MS));
    }

    #[test]
    fn one_of_a_hundred_may_take_longer_and_the_oldest_are_forgotten() {
        let mut recent = Recent::default();
        for number in 1..=100 {
            recent.took(MS * number);
        }
        assert_eq!(recent.p99(), Some(MS * 99));
        for _ in 0..99 {
            recent.took(MS);
        }
        assert_eq!(recent.p99(), Some(MS), "only one of the slow ones is left");
    }
}
