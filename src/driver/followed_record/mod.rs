//! The leader's record that a driver follows: the last reading of the record, and its lapse timer
//! (E4).

mod takeover_delays;

use std::sync::Arc;
use std::time::Duration;

use super::Context;
use crate::driver::leader::Leader;
use crate::epoch::Epoch;
use crate::error::ErrorKind;
use crate::protocol::lease::{LapseTimer, Reading, StoreAge};
use crate::protocol::message::{Seen, Sighting};
use crate::protocol::single::expiry::left_until;
use crate::record::{BadRecord, Record};
use crate::store::Object;

/// The last reading of the newest epoch, and the times at which this candidate acts on this
/// reading.
#[derive(Debug)]
pub(super) struct FollowedRecord {
    cx: Arc<Context>,

    // These fields describe the last reading of the newest epoch.
    /// Last readable record.
    pub(super) record: Option<Arc<(Epoch, Record)>>,
    /// Reason why the last body could not be read.
    pub(super) unreadable: Option<BadRecord>,
    /// Age of the last record when it was read, by the store's clock.
    pub(super) age: Option<Duration>,
    /// Lapse timer of the record. Other calls of the process have separate timers.
    timer: Option<Arc<LapseTimer>>,
    /// Number of polls since this driver first saw the current leader.
    pub(super) polls: u32,

    // These fields determine the time at which this candidate acts.
    /// Random delay between the lapse and the seal.
    lapse_jitter: Duration,
    /// Earliest time of the next attempt to seal, on the boot clock.
    seal_again: Duration,
    /// True if this campaign is the first, and its name is unique. The campaign may then
    /// immediately seal an epoch that has this name, because the process that led this epoch is
    /// dead (E16).
    pub(super) reclaim: bool,
    /// Last sealed epoch for which this candidate has completed its wait for preferred candidates
    /// (PR1, PR2).
    pub(super) deferred: Option<Epoch>,
    /// Number of `refresh` calls of the application that the driver has processed.
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

    /// Returns the kind of the error for an unreadable body.
    pub(super) fn unreadable_kind(&self) -> ErrorKind {
        self.unreadable.as_ref().map_or(ErrorKind::CorruptRecord, BadRecord::kind)
    }

    /// Returns the leader in the last record.
    pub(super) fn leader(&self) -> Option<Leader> {
        self.record.as_deref().map(|(epoch, record)| Leader::new(*epoch, record))
    }

    /// Notes a record. Returns the input for the machine, and whether the record shows that its
    /// leader is alive. If this driver does not lead, the lapse timer starts or continues.
    pub(super) fn read(
        &mut self,
        (epoch, record): (Epoch, Record),
        object: &Object,
        leading: bool,
    ) -> (Sighting, bool) {
        let age = object.served_at.zip(object.last_modified).map(|(now, then)| now - then);
        // Dates in whole seconds can give a negative age, which counts as zero.
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
            // A peer that does not use tenure wrote the end of its lease into the record. This end
            // alone determines the lapse, so the age of the record is not used.
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
        // Another call of this process may have read the record of a newer epoch. In this case
        // `knowledge` keeps the newer record.
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

    /// Notes that this driver has sealed the epoch.
    pub(super) fn sealed_here(&mut self, epoch: Epoch) {
        if let Some(timer) = &mut self.timer {
            Arc::make_mut(timer).sealed_here(epoch, self.cx.process.now());
            self.cx.knowledge().keep(Some(timer));
        }
    }
}
