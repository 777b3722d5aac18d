//! The record that a driver follows: what was read last, and since when it stands.

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use crate::epoch::Epoch;
use crate::layout::Layout;
use crate::leader::Leader;
use crate::moment::Moment;
use crate::protocol::lease::{LapseTimer, Reading, StoreAge};
use crate::protocol::message::{Seen, Sighting};
use crate::protocol::single::expiry::left_until;
use crate::record::{BadRecord, Record};
use crate::store::Object;

/// What is known of the newest epoch, and when this candidate acts on it.
#[derive(Debug)]
pub(super) struct Followed {
    cx: Arc<Context>,
    /// The last record read, and what cannot be read of it.
    pub(super) record: Option<Arc<(Epoch, Record)>>,
    pub(super) unreadable: Option<BadRecord>,
    /// How long ago that record was written, by the store's clock.
    pub(super) age: Option<Duration>,
    /// Since when the record stands as it was read: of this call alone.
    timer: Option<Arc<LapseTimer>>,
    /// Polls since this leader is followed.
    pub(super) polls: u32,
    /// How long after the lapse this candidate seals, so that not all do at once.
    lapse_jitter: Duration,
    /// Not before this moment on the boot clock is it tried again.
    seal_again: Duration,
    /// Whether a predecessor's epoch may be sealed at once.
    pub(super) reclaim: bool,
    /// The epoch after which this candidate defers to nobody any more.
    pub(super) deferred: Option<Epoch>,
    /// The notifications it has heard of.
    pub(super) notified: u64,
}

impl Followed {
    pub(super) fn new(cx: &Arc<Context>) -> Followed {
        Followed {
            cx: Arc::clone(cx),
            record: None,
            unreadable: None,
            age: None,
            timer: None,
            polls: 0,
            lapse_jitter: Duration::ZERO,
            seal_again: Duration::ZERO,
            reclaim: false,
            deferred: None,
            notified: cx.refresh.count(),
        }
    }

    /// The leader that the last record tells of.
    pub(super) fn leader(&self) -> Option<Leader> {
        self.record.as_deref().map(|(epoch, record)| Leader::new(*epoch, record))
    }

    /// Takes note of a record. Returns what the machine sees of it, and whether it shows a sign of
    /// life. Somebody else's lease is observed unless this driver leads.
    pub(super) fn read(
        &mut self,
        (epoch, record): (Epoch, Record),
        object: &Object,
        leading: bool,
    ) -> (Sighting, bool) {
        let age = object.served_at.zip(object.last_modified).map(|(now, then)| now - then);
        // A negative age is the rounding of dates to whole seconds.
        self.age = age.map(|age| age.to_std().unwrap_or_default());
        let mut seen = record.seen();
        seen.reclaimable = self.reclaimable(&record, &seen);
        let sighting = Sighting { epoch, etag: object.etag.clone(), seen };
        let read = Arc::new((epoch, record));
        let touched = !leading && self.observe(&sighting, &read, object);
        self.record = Some(read);
        (sighting, touched)
    }

    fn observe(
        &mut self,
        sighting: &Sighting,
        read: &Arc<(Epoch, Record)>,
        object: &Object,
    ) -> bool {
        let (_, record) = &**read;
        let config = &self.cx.config;
        let received = self.cx.process.now();
        let dates = config.store_clock_margin.zip(self.age);
        let (validity, store_age) = match record.expires_at {
            // What is left of such a lease says nothing of how old its record may be.
            Some(at) if sighting.is_foreign() => {
                (Some(left_until(at, received, config.expiry_margin())), None)
            }
            _ => (record.validity(), dates.map(|(margin, age)| StoreAge { age, margin })),
        };
        let last_modified = object.last_modified;
        let reading = Reading { sighting, validity, last_modified, store_age, received };
        let mut knowledge = self.cx.knowledge();
        knowledge.learn(Some(sighting.epoch), &self.cx.meter);
        let known = knowledge.timer.as_ref();
        let sign_of_life = LapseTimer::observe(&mut self.timer, known, &reading, config.drift);
        knowledge.keep(self.timer.as_ref());
        // A slow call may have read an older epoch.
        if knowledge.read.as_deref().is_none_or(|(known, _)| *known <= sighting.epoch) {
            knowledge.read = Some(Arc::clone(read));
        }
        sign_of_life
    }

    fn reclaimable(&self, record: &Record, seen: &Seen) -> bool {
        self.reclaim
            && record.candidate.as_deref() == Some(&self.cx.config.name)
            && seen.nonce.is_some_and(|nonce| !self.cx.process.has_sent(nonce))
    }

    /// This driver has sealed the epoch.
    pub(super) fn sealed_here(&mut self, epoch: Epoch) {
        if let Some(timer) = &mut self.timer {
            Arc::make_mut(timer).sealed_here(epoch, self.cx.process.now());
            self.cx.knowledge().keep(Some(timer));
        }
    }

    /// A leader is followed for the first time. All others may have seen it at the same moment;
    /// but those who find one that is long dead come when they come.
    pub(super) fn started(&mut self) {
        self.polls = 0;
        self.draw_lapse_jitter(Duration::ZERO);
        if self.timer.as_ref().is_some_and(|timer| timer.is_lapsed_by_store()) {
            self.lapse_jitter = Duration::ZERO;
        }
    }

    /// Up to a tenth of the leader's validity, less what candidates are spread over already, so
    /// that they do not all seal at once.
    pub(super) fn draw_lapse_jitter(&mut self, spread: Duration) {
        let validity = self.timer.as_ref().and_then(|timer| timer.validity());
        let most = (validity.unwrap_or_default() / 10).saturating_sub(spread);
        self.lapse_jitter = self.cx.process.jitter(most);
    }

    /// The next seal of the same epoch waits for `pause` at least, so that a store that refuses it
    /// for no reason does not make the candidate spin.
    pub(super) fn lapsed(&mut self, pause: Duration) {
        self.draw_lapse_jitter(Duration::ZERO);
        self.seal_again = self.cx.process.now().boot.saturating_add(pause.max(self.lapse_jitter));
    }

    /// How long until the lease lapses by this process's clocks; `None` if it never does.
    pub(super) fn lapses_in(&self) -> Option<Duration> {
        self.lapses_after(Duration::ZERO, self.cx.process.now())
    }

    /// How long from `now` until `delay` after the lapse.
    pub(super) fn lapses_after(&self, delay: Duration, now: Moment) -> Option<Duration> {
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
    pub(super) fn seals_in(&self) -> Option<Duration> {
        let delay = self.delay_after_lapse().saturating_add(self.cx.config.priority_delay);
        let now = self.cx.process.now();
        let left = self.lapses_after(delay.saturating_add(self.lapse_jitter), now)?;
        Some(left.max(self.seal_again.saturating_sub(now.boot)))
    }

    /// How long until nothing but the jitter keeps this candidate from sealing.
    pub(super) fn could_seal_in(&self) -> Option<Duration> {
        self.lapses_after(self.delay_after_lapse(), self.cx.process.now())
    }

    /// The takeover delay counts from the first sight of the seal; after a deposition from the
    /// lapse, if that is later, as until then its holder may believe that it leads.
    pub(super) fn takeover_in(&self) -> Duration {
        let (delay, now) = (self.cx.config.takeover_delay, self.cx.process.now());
        let after_seal = self.timer.as_ref().map_or(delay, |timer| timer.takeover_in(delay, now));
        let waited_for =
            self.record.as_deref().is_some_and(|(_, record)| record.seen().is_waited_for());
        let after_lapse = if waited_for { self.lapses_after(delay, now) } else { None };
        after_seal.max(after_lapse.unwrap_or_default())
    }

    /// The sealed epoch that waits for a successor, and how much longer this candidate leaves it to
    /// others. Counts from when the seal was first seen.
    pub(super) fn defers_for(&self) -> Option<(Epoch, Duration)> {
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
