//! Standing back: letting a named successor, or candidates of a higher priority, go first.
//!
//! It only delays a candidate that is about to create, so nothing that an election promises rests on
//! it.

use std::time::Duration;

use super::Driver;
use crate::epoch::Epoch;

impl Driver {
    /// Whether another is to be elected before this candidate tries.
    pub(super) fn others_go_first(&self) -> bool {
        self.stands_back_for().is_some_and(|(_, left)| !left.is_zero())
    }

    /// Waits until that is over, or somebody asks for a look, and then looks who leads: most often
    /// the other does.
    pub(super) async fn stand_back(&mut self) {
        let Some((epoch, left)) = self.stands_back_for() else { return };
        if !self.sleep_unless_refreshed(left).await {
            self.stood_back = Some(epoch);
        }
        self.machine.restart();
    }

    /// The sealed epoch that waits for a successor, and how much longer this candidate leaves it to
    /// others. Counts from when the seal was first seen.
    fn stands_back_for(&self) -> Option<(Epoch, Duration)> {
        let (epoch, record) = self.record.as_ref()?;
        // Its own seal it has waited for already.
        if !record.expired || self.stood_back >= Some(*epoch) {
            return None;
        }
        let config = &self.cx.config;
        let head_start = match record.successor.as_deref() {
            Some(name) if name == config.name => return None,
            Some(_) => {
                let looks = config.poll_backoff.unwrap_or(config.poll_interval);
                config.priority_delay.max(looks)
            }
            None => config.priority_delay,
        };
        let timer = self.timer.as_ref().filter(|timer| timer.epoch() == *epoch)?;
        Some((*epoch, timer.takeover_in(head_start, self.now())))
    }
}
