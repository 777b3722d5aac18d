//! Pauses of a deletion of many folders, which takes the lock once for each folder.
//!
//! A waiter tries to take the lock, and tries again after a pause. If a loop takes the lock again as
//! soon as it has released it, a waiter rarely finds the lock free.

use std::time::Duration;

use super::lock::{LONGEST_PAUSE, sleep};
use crate::env::clock::{Clock as _, SystemClock};

/// Longer than the longest pause of a waiter, so that each waiter tries once in a rest.
const SHORTEST_REST: Duration = LONGEST_PAUSE.saturating_add(Duration::from_millis(1));
const LONGEST_REST: Duration = Duration::from_millis(50);

/// Time of the last rest, on the boot clock.
#[derive(Debug)]
pub(super) struct Pace(Duration);

impl Pace {
    pub(super) fn start() -> Pace {
        Pace(SystemClock.now().boot)
    }

    /// Sleeps for as long as the caller has worked since the last rest, waits for the lock
    /// included: at most 50 ms, and not at all before 6 ms. The caller does not hold the lock.
    pub(super) fn rest(&mut self) {
        let worked = SystemClock.now().boot.saturating_sub(self.0);
        if worked >= SHORTEST_REST {
            sleep(worked.min(LONGEST_REST));
            *self = Pace::start();
        }
    }
}
