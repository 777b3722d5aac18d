//! The delays before a seal and before a takeover: the jitter (E7), the takeover delay (E10), and
//! the time in which only preferred candidates take over (PR1, PR2).

use std::time::Duration;

use super::FollowedRecord;
use crate::env::moment::Moment;
use crate::epoch::Epoch;
use crate::protocol::layout::Layout;
use crate::protocol::lease::LapseTimer;

impl FollowedRecord {
    /// Notes that this candidate has seen a new leader. Other candidates may have seen the leader
    /// at the same moment, so this candidate adds a jitter to the time of its seal. The jitter is
    /// zero for a lease that has lapsed by the store's dates (E6), because candidates detect this
    /// lapse at different times.
    pub(in crate::driver) fn started(&mut self) {
        self.polls = 0;
        self.draw_lapse_jitter(Duration::ZERO);
        if self.timer.as_ref().is_some_and(|timer| timer.is_lapsed_by_store()) {
            self.lapse_jitter = Duration::ZERO;
        }
    }

    /// Draws a new jitter: the random delay between the lapse and the seal. `spread` is the time
    /// over which the candidates spread their polls. The maximum jitter is a tenth of the leader's
    /// validity, minus `spread` (E7).
    pub(in crate::driver) fn draw_lapse_jitter(&mut self, spread: Duration) {
        let validity = self.timer.as_ref().and_then(|timer| timer.validity());
        let most = (validity.unwrap_or_default() / 10).saturating_sub(spread);
        self.lapse_jitter = self.cx.process.jitter(most);
    }

    /// Delays the next seal of the same epoch by at least `pause`. Otherwise a store that refuses
    /// every seal would get one seal immediately after another (E19).
    pub(in crate::driver) fn lapsed(&mut self, pause: Duration) {
        self.draw_lapse_jitter(Duration::ZERO);
        self.seal_again = self.cx.process.now().boot.saturating_add(pause.max(self.lapse_jitter));
    }

    /// Returns the time until the lease lapses by this process's clocks, or `None` if it never
    /// lapses.
    pub(in crate::driver) fn lapses_in(&self) -> Option<Duration> {
        self.lapses_after(Duration::ZERO, self.cx.process.now())
    }

    /// Returns the time from `now` until the moment that is `delay` after the lapse.
    pub(in crate::driver) fn lapses_after(&self, delay: Duration, now: Moment) -> Option<Duration> {
        let (epoch, _) = self.record.as_deref()?;
        self.timer_of(*epoch)?.lapses_in(delay, self.cx.config.drift, now)
    }

    /// Returns the lapse timer of this epoch. The driver's own epoch has no timer.
    fn timer_of(&self, epoch: Epoch) -> Option<&LapseTimer> {
        self.timer.as_deref().filter(|timer| timer.epoch() == epoch)
    }

    /// Returns the part of the takeover delay that starts at the lapse. With `Layout::SingleObject`
    /// this part is the whole delay, because a takeover has no separate seal. With epoch objects
    /// this part is zero, because the delay starts at the seal (E10).
    fn delay_after_lapse(&self) -> Duration {
        match self.cx.config.layout {
            Layout::EpochFiles => Duration::ZERO,
            Layout::SingleObject => self.cx.config.takeover_delay,
        }
    }

    /// Returns the time until this candidate seals the epoch: the time until the lapse, plus the
    /// delays and the jitter.
    pub(in crate::driver) fn seals_in(&self) -> Option<Duration> {
        let delay = self.delay_after_lapse().saturating_add(self.cx.config.priority_delay);
        let now = self.cx.process.now();
        let left = self.lapses_after(delay.saturating_add(self.lapse_jitter), now)?;
        Some(left.max(self.seal_again.saturating_sub(now.boot)))
    }

    /// Returns the time until this candidate may seal the epoch. The time does not include the
    /// jitter and the priority delay.
    pub(in crate::driver) fn could_seal_in(&self) -> Option<Duration> {
        self.lapses_after(self.delay_after_lapse(), self.cx.process.now())
    }

    /// Returns the time until the takeover. The takeover delay starts at the moment at which this
    /// candidate first saw the seal. After a deposition, the holder may believe until the lapse
    /// that it leads. So if the lapse is later, the delay starts at the lapse (E10).
    pub(in crate::driver) fn takeover_in(&self) -> Duration {
        let (delay, now) = (self.cx.config.takeover_delay, self.cx.process.now());
        let after_seal = self.timer.as_ref().map_or(delay, |timer| timer.takeover_in(delay, now));
        let waited_for =
            self.record.as_deref().is_some_and(|(_, record)| record.seen().is_waited_for());
        let after_lapse = if waited_for { self.lapses_after(delay, now) } else { None };
        after_seal.max(after_lapse.unwrap_or_default())
    }

    /// Returns the sealed epoch, and the remaining time in which only preferred candidates take
    /// over (PR1, PR2). The time starts at the moment at which this candidate first saw the seal.
    pub(in crate::driver) fn defers_for(&self) -> Option<(Epoch, Duration)> {
        let (epoch, record) = self.record.as_deref()?;
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
