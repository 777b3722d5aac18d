//! The requests of one driver to one store: their bodies, their answers and their failures.

use std::sync::Arc;

use bytes::Bytes;

use super::Context;
use super::followed_record::FollowedRecord;
use super::own_epoch::OwnEpoch;
use super::requests::Requests;
use crate::epoch::Epoch;
use crate::protocol::message::{Answer, EpochEnd, Nonce, Write};
use crate::record::{BadRecord, Record};
use crate::store::{GetOutcome, StoreError};

/// The knowledge that one driver has of one store.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) cx: Arc<Context>,
    pub(super) requests: Requests,
    pub(super) followed: FollowedRecord,
    pub(super) own: OwnEpoch,
}

impl Link {
    pub(super) fn new(cx: &Arc<Context>, observer: bool) -> Link {
        Link {
            cx: Arc::clone(cx),
            requests: Requests::new(cx).of_observer(observer),
            followed: FollowedRecord::new(cx),
            own: OwnEpoch::new(cx),
        }
    }

    /// Converts the outcome of a GET to an answer for the machine.
    pub(super) fn read(
        &mut self,
        epoch: Option<Epoch>,
        outcome: Result<GetOutcome, StoreError>,
    ) -> Answer {
        let object = match outcome.map_err(StoreError::of_a_read) {
            Ok(GetOutcome::Found(object)) => object,
            Ok(GetOutcome::NotModified) => return Answer::NotModified,
            Ok(GetOutcome::NotFound) => return Answer::Missing,
            Ok(GetOutcome::TooLarge { len, .. }) => {
                return self.cannot_read(BadRecord::TooLarge(len));
            }
            Err(error) => {
                let key = epoch.map_or_else(|| self.cx.keys.lock(), |it| self.cx.keys.epoch(it));
                return self.requests.failed(&format!("reading {key}"), error);
            }
        };
        match Record::decode(self.cx.config.formats(), epoch, &object.body) {
            Ok(read) => {
                let (sighting, touched) = self.followed.read(read, &object, self.own.leading);
                Answer::Found { sighting, touched }
            }
            Err(why) => self.cannot_read(why),
        }
    }

    fn cannot_read(&mut self, why: BadRecord) -> Answer {
        self.followed.unreadable = Some(why);
        Answer::Unreadable
    }

    pub(super) fn own_body(
        &mut self,
        epoch: Epoch,
        write: &Write,
        record: fn(&mut OwnEpoch, &Write) -> Record,
    ) -> Bytes {
        let record = record(&mut self.own, write);
        self.encode(epoch, &record)
    }

    /// Returns the body of a seal, based on the record that was read or on this process's own
    /// record.
    pub(super) fn sealed_body(
        &mut self,
        epoch: Epoch,
        nonce: Option<Nonce>,
        heartbeat: u64,
        ended: EpochEnd,
    ) -> Option<Bytes> {
        let own = nonce.filter(|nonce| self.cx.process.has_sent(*nonce));
        let mut record = match (self.followed.record.as_deref(), own) {
            (Some((read, record)), _) if *read == epoch && record.nonce == nonce => record.clone(),
            (_, Some(nonce)) => self.own.record(&Write { nonce, heartbeat }),
            _ => return None,
        };
        if own.is_some() {
            record.data = self.own.data.clone();
        }
        let mut record = self.cx.sealed(&record, ended, heartbeat);
        if ended == EpochEnd::Resigned {
            record.successor = self.own.successor.clone();
            record.park_ms =
                self.own.reserve.map(|time| time.as_millis().try_into().unwrap_or(u64::MAX));
        }
        Some(self.encode(epoch, &record))
    }

    /// Returns the body of the record. `expires_at` is never earlier than the end of this process's
    /// own lease, because the lease started at an earlier reading of the clock (SO1).
    pub(super) fn encode(&self, epoch: Epoch, record: &Record) -> Bytes {
        let expires_at = self.cx.process.now().wall.saturating_add(self.cx.config.validity);
        record.encode(self.cx.config.layout, epoch, expires_at).into()
    }

    pub(super) fn key(&self, epoch: Epoch) -> String {
        self.cx.keys.of(self.cx.config.layout, epoch)
    }
}
