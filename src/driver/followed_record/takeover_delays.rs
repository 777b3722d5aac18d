//! How long a candidate waits before it seals, and before it takes over: the jitter, the takeover
//! delay, and the head start of a named successor.

use std::time::Duration;

use super::FollowedRecord;
use crate::env::moment::Moment;
use crate::epoch::Epoch;
use crate::protocol::layout::Layout;
use crate::protocol::lease::LapseTimer;

impl FollowedRecord {
    /// A leader is followed for the first time. All others may have seen it at the same moment;
    /// but those who find one that is long dead come when they come.
    pub(in crate::driver) fn started(&mut self) {
        self.polls = 0;
        self.draw_lapse_jitter(Duration::ZERO);
        if self.timer.as_ref().is_some_and(|timer| timer.is_lapsed_by_store()) {
            self.lapse_jitter = Duration::ZERO;
        }
    }

    /// Up to a tenth of the leader's validity, less what candidates are spread over already, so
    /// that they do not all seal at once.
    pub(in crate::driver) fn draw_lapse_jitter(&mut self, spread: Duration) {
        let validity = self.timer.as_ref().and_then(|timer| timer.validity());
        let most = (validity.unwrap_or_default() / 10).saturating_sub(spread);
        self.lapse_jitter = self.cx.process.jitter(most);
    }

    /// The next seal of the same epoch waits for `pause` at least, so that a store that refuses it
    /// for no reason does not make the candidate spin.
    pub(in crate::driver) fn lapsed(&mut self, pause: Duration) {
        self.draw_lapse_jitter(Duration::ZERO);
        self.seal_again = self.cx.process.now().boot.saturating_add(pause.max(self.lapse_jitter));
    }

    /// How long until the lease lapses by this process's clocks; `None` if it never does.
    pub(in crate::driver) fn lapses_in(&self) -> Option<Duration> {
        self.lapses_after(Duration::ZERO, self.cx.process.now())
    }

    /// How long from `now` until `delay` after the lapse.
    pub(in crate::driver) fn lapses_after(&self, delay: Duration, now: Moment) -> Option<Duration> {
        let (epoch, _) = self.record.as_deref()?;
        self.timer_of(*epoch)?.lapses_in(delay, self.cx.config.drift, now)
    }

    /// An own epoch that was read has no timer.
    fn timer_of(&self, epoch: Epoch) -> Option<&LapseTimer> {
        self.timer.as_deref().filter(|timer| timer.epoch() == epoch)
    }

    /// The takeover delay, where there is no seal from which it would count.
    fn delay_after_lapse(&self) -> Duration {
        match self.cx.config.layout {
            Layout::EpochFiles => Duration::ZERO,
            Layout::SingleObject => self.cx.config.takeover_delay,
        }
    }

    /// How long until this candidate seals the epoch: its jitter after the lapse.
    pub(in crate::driver) fn seals_in(&self) -> Option<Duration> {
        let delay = self.delay_after_lapse().saturating_add(self.cx.config.priority_delay);
        let now = self.cx.process.now();
        let left = self.lapses_after(delay.saturating_add(self.lapse_jitter), now)?;
        Some(left.max(self.seal_again.saturating_sub(now.boot)))
    }

    /// How long until nothing but the jitter keeps this candidate from sealing.
    pub(in crate::driver) fn could_seal_in(&self) -> Option<Duration> {
        self.lapses_after(self.delay_after_lapse(), self.cx.process.now())
    }

    /// The takeover delay counts from the first sight of the seal; after a deposition from the
    /// lapse, if that is later, as until then its holder may believe that it leads.
    pub(in crate::driver) fn takeover_in(&self) -> Duration {
        let (delay, now) = (self.cx.config.takeover_delay, self.cx.process.now());
        let after_seal = self.timer.as_ref().map_or(delay, |timer| timer.takeover_in(delay, now));
        let waited_for =
            self.record.as_deref().is_some_and(|(_, record)| record.seen().is_waited_for());
        let after_lapse = if waited_for { self.lapses_after(delay, now) } else { None };
        after_seal.max(after_lapse.unwrap_or_default())
    }

    /// The sealed epoch that waits for a successor, and how much longer this candidate leaves it to
    /// others. Counts from when the seal was first seen.
    pub(in crate::driver) fn defers_for(&self) -> Option<(Epoch, Duration)> {
        let (epoch, record) = self.record.as_deref()?;
        // Its own seal it has waited for already.
        if !record.expired || self.deferred >= Some(*epoch) {
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
        let timer = self.timer_of(*epoch)?;
        Some((*epoch, timer.takeover_in(head_start, self.cx.process.now())))
    }
}
