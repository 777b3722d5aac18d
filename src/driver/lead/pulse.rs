//! Detects pauses of the process, from gaps between its readings of the boot clock. A process
//! pauses after a SIGSTOP, during a suspension of its machine, or if it gets no processor time. Its
//! lease continues to run during a pause.

use std::time::Duration;

use crate::env::moment::Moment;

/// The longest gap so far between two readings of the boot clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pulse {
    last: Duration,
    longest_gap: Duration,
    /// Time on the boot clock at which the longest gap ended.
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

    /// Returns the time on the boot clock at which the longest gap ended.
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
