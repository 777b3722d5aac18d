//! Exponential backoff.

use std::time::Duration;

use crate::env::process::Process;

/// A delay that starts at `first` and doubles up to `longest`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Backoff {
    /// Returns the delay after this number of doublings.
    pub(crate) fn delay(self, doublings: u32) -> Duration {
        self.first.saturating_mul(1 << doublings.min(20)).min(self.longest)
    }

    /// Returns a random duration, from half of [`delay`](Backoff::delay) to the whole delay. So if
    /// the requests of several candidates fail at the same time, they retry at different times.
    pub(crate) fn jittered(self, doublings: u32, process: &Process) -> Duration {
        let delay = self.delay(doublings);
        delay / 2 + process.jitter(delay / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_doubles_up_to_the_longest() {
        let ms = Duration::from_millis;
        let backoff = Backoff { first: ms(50), longest: ms(1_600) };
        let delays = [0, 1, 2, 5, 6, u32::MAX].map(|doublings| backoff.delay(doublings));
        assert_eq!(delays, [50, 100, 200, 1_600, 1_600, 1_600].map(ms));
        for _ in 0..100 {
            let delay = backoff.jittered(1, &Process::system());
            assert!((ms(50)..=ms(100)).contains(&delay), "{delay:?}");
        }
    }
}
