//! Whether the process runs: a lease does not wait for one that was stopped, suspended or starved.

use std::time::Duration;

use crate::env::moment::Moment;

/// Notices when the process was not running for a while: stopped, suspended, or starved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pulse {
    last: Duration,
    longest_gap: Duration,
    /// When the longest gap was over.
    gap_over: Duration,
}

impl Pulse {
    pub(crate) fn new(now: Moment) -> Pulse {
        Pulse { last: now.boot, longest_gap: Duration::ZERO, gap_over: now.boot }
    }

    /// The longest time between two looks at the boot clock since it was made.
    pub(crate) fn longest_gap(&self) -> Duration {
        self.longest_gap
    }

    /// When that was over, on the boot clock.
    pub(crate) fn gap_over(&self) -> Duration {
        self.gap_over
    }

    pub(crate) fn beat(&mut self, now: Moment) {
        let gap = now.boot.saturating_sub(self.last);
        if gap > self.longest_gap {
            (self.longest_gap, self.gap_over) = (gap, now.boot);
        }
        self.last = now.boot;
    }
}
