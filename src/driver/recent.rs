//! How long a leader's requests take, and how long to wait for one when the lease is at risk.

use std::time::Duration;

use crate::driver::backoff::Backoff;
use crate::driver::quantile::quantile;
use crate::protocol::message::Request;

/// So many of the last requests of a kind are remembered.
const REMEMBERED: usize = 100;
/// Fewer say nothing of how long one takes.
const ENOUGH: usize = 20;
/// A request is not given up sooner, however fast the last ones were.
const SHORTEST: Duration = Duration::from_millis(50);

/// How long the last requests of one kind took that were answered.
///
/// Memory is taken with the first: processes that only follow never renew.
#[derive(Debug, Clone, Default)]
struct Times {
    took: Vec<Duration>,
    /// Where the oldest is, once there are as many as are remembered.
    oldest: usize,
}

/// How a leader's requests went lately.
#[derive(Debug, Clone, Default)]
pub(super) struct Recent {
    renewals: Times,
    /// Looks at the next epoch, and read-backs.
    reads: Times,
    /// Requests given up for another attempt since the lease was last extended.
    given_up: u32,
}

impl Times {
    fn took(&mut self, duration: Duration) {
        if self.took.len() < REMEMBERED {
            self.took.reserve_exact(REMEMBERED - self.took.len());
            self.took.push(duration);
        } else {
            self.took[self.oldest] = duration;
            self.oldest = (self.oldest + 1) % REMEMBERED;
        }
    }

    /// What nine of ten of them did not exceed; `None` while there are too few.
    fn p90(&self) -> Option<Duration> {
        let known = self.took.len();
        if known < ENOUGH {
            return None;
        }
        let mut sorted = [Duration::ZERO; REMEMBERED];
        let sorted = &mut sorted[..known];
        sorted.copy_from_slice(&self.took);
        sorted.sort_unstable();
        quantile(sorted, 0.9)
    }
}

impl Recent {
    /// An answer took so long.
    pub(super) fn took(&mut self, request: &Request, duration: Duration) {
        if let Some(times) = self.times(request) {
            times.took(duration);
        }
    }

    /// A request was given up for another attempt.
    pub(super) fn gave_up(&mut self) {
        self.given_up += 1;
    }

    /// The lease was extended.
    pub(super) fn extended(&mut self) {
        self.given_up = 0;
    }

    /// How long to wait for this request before another attempt is worth more; `None` if that is
    /// not known.
    ///
    /// Each request that is given up doubles it, until the lease is extended. No other answer
    /// halves it again: a store that became slow refuses what it has already written.
    pub(super) fn patience(&mut self, request: &Request) -> Option<Duration> {
        let first = self.times(request)?.p90()?.max(SHORTEST);
        Some(Backoff { first, longest: Duration::MAX }.delay(self.given_up.min(10)))
    }

    fn times(&mut self, request: &Request) -> Option<&mut Times> {
        match request {
            Request::Renew { .. } => Some(&mut self.renewals),
            Request::Get { .. } => Some(&mut self.reads),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn too_few_answers_say_nothing() {
        let mut times = Times::default();
        for _ in 1..ENOUGH {
            times.took(MS);
            assert_eq!(times.p90(), None);
        }
        times.took(MS);
        assert_eq!(times.p90(), Some(MS));
    }

    #[test]
    fn one_of_ten_may_take_longer_and_the_oldest_are_forgotten() {
        let mut times = Times::default();
        for number in 1..=100 {
            times.took(MS * number);
        }
        assert_eq!(times.p90(), Some(MS * 90));
        for _ in 0..90 {
            times.took(MS);
        }
        assert_eq!(times.p90(), Some(MS), "only ten of the slow ones are left");
    }

    #[test]
    fn patience_doubles_with_each_request_given_up_until_the_lease_is_extended() {
        let read = Request::Get { epoch: None, unless: None };
        let mut recent = Recent::default();
        assert_eq!(recent.patience(&read), None);
        for _ in 0..ENOUGH {
            recent.took(&read, MS * 80);
        }
        for factor in [1, 2, 4, 8] {
            assert_eq!(recent.patience(&read), Some(MS * 80 * factor));
            recent.gave_up();
            recent.took(&read, MS * 80);
        }
        recent.extended();
        assert_eq!(recent.patience(&read), Some(MS * 80));
    }
}
