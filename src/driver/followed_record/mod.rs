//! The record that a driver follows: what was read last, and since when it stands.

mod takeover_delays;

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use crate::driver::leader::Leader;
use crate::epoch::Epoch;
use crate::protocol::lease::{LapseTimer, Reading, StoreAge};
use crate::protocol::message::{Seen, Sighting};
use crate::protocol::single::expiry::left_until;
use crate::record::{BadRecord, Record};
use crate::store::Object;

/// What is known of the newest epoch, and when this candidate acts on it.
#[derive(Debug)]
pub(super) struct FollowedRecord {
    cx: Arc<Context>,

    // The last reading of the newest epoch.
    /// The last record read, and what cannot be read of it.
    pub(super) record: Option<Arc<(Epoch, Record)>>,
    pub(super) unreadable: Option<BadRecord>,
    /// How long ago that record was written, by the store's clock.
    pub(super) age: Option<Duration>,
    /// Timer of the record, of this call alone.
    timer: Option<Arc<LapseTimer>>,
    /// Number of polls since this leader is followed.
    pub(super) polls: u32,

    // The time at which this candidate acts.
    /// Random delay between the lapse and the seal.
    lapse_jitter: Duration,
    /// Earliest time of the next attempt to seal, on the boot clock.
    seal_again: Duration,
    /// Whether a predecessor's epoch may be sealed at once.
    pub(super) reclaim: bool,
    /// The epoch after which this candidate defers to nobody any more.
    pub(super) deferred: Option<Epoch>,
    /// Number of notifications heard.
    pub(super) notified: u64,
}

impl FollowedRecord {
    pub(super) fn new(cx: &Arc<Context>) -> FollowedRecord {
        FollowedRecord {
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
                (Some(left_until(at, received, config.validity)), None)
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
}
