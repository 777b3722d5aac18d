//! Detects pauses of the process. While a process is stopped, suspended or starved, its lease
//! continues to run.

use std::time::Duration;

use crate::env::moment::Moment;

/// Detects pauses of the process: stops, suspensions and starvation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pulse {
    last: Duration,
    longest_gap: Duration,
    /// End of the longest gap between two readings of the boot clock, on the boot clock.
    gap_over: Duration,
}

impl Pulse {
    pub(crate) fn new(now: Moment) -> Pulse {
        Pulse { last: now.boot, longest_gap: Duration::ZERO, gap_over: now.boot }
    }

    /// Returns the longest gap between two readings of the boot clock.
    pub(crate) fn longest_gap(&self) -> Duration {
        self.longest_gap
    }

    /// Returns the end of the longest gap, on the boot clock.
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
