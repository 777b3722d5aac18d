//! Executes the requests of the machine as calls of the store.

use std::time::Duration;

use bytes::Bytes;
use tracing::Instrument as _;

use super::own_epoch::OwnEpoch;
use super::{Driver, spans};
use crate::env::moment::Moment;
use crate::epoch::Epoch;
use crate::protocol::find::After;
use crate::protocol::message::{Answer, Request};
use crate::record::MAX_READ_BYTES;
use crate::record::listing::{EpochsOfPage, key_of};
use crate::store::{ETag, PutOutcome, StoreError};

/// Number of keys that one LIST requests: the maximum of S3, because the price of a LIST does not
/// depend on the number of keys.
const PAGE: usize = 1_000;
/// Number of keys in a listing from the end: the key of the newest epoch, and up to three keys of
/// other objects after this key (N7).
const LAST: usize = 4;

impl Driver {
    /// Sends one request, and returns its answer. `limit` is the time limit of the request. If a
    /// campaign lists, each page has this limit.
    pub(super) async fn perform(&mut self, request: &Request, limit: Duration) -> Answer {
        let span = spans::request(&self.cx, request);
        let answer = self.call_store(request, limit).instrument(span.clone()).await;
        span.record("outcome", spans::outcome(&answer));
        self.link.requests.count(&answer);
        if !self.link.own.leading {
            self.link.requests.count_write(request, &answer);
        }
        match request {
            // Count reads that do not find a listed epoch. The reads of a leader do not count,
            // because a leader reads the next epoch, which usually does not exist (L5).
            Request::Get { epoch: Some(epoch), .. } if !self.link.own.leading => {
                self.link.requests.read(*epoch, &answer);
            }
            _ => {}
        }
        answer
    }

    // Records are encoded before the first `await`. If a record were encoded later, the future
    // would contain the record and use more memory, and a process may follow thousands of
    // elections.
    async fn call_store(&mut self, request: &Request, limit: Duration) -> Answer {
        match request {
            Request::List(after) => self.list(after, limit).await,
            Request::Get { epoch, unless } => self.get(*epoch, unless.clone(), limit).await,
            Request::Create { epoch, write } => {
                let body = self.link.own_body(*epoch, write, OwnEpoch::first_record);
                let key = self.link.key(*epoch);
                let store = self.cx.store.clone();
                let call = &mut store.create(&key, body);
                let outcome = self.link.requests.send(limit, call).await;
                self.link.requests.written("creating", *epoch, outcome)
            }
            Request::Take { epoch, etag, write } => {
                let body = self.link.own_body(*epoch, write, OwnEpoch::first_record);
                let outcome = self.replace(*epoch, etag.clone(), body, limit).await;
                self.link.requests.written("taking over with", *epoch, outcome)
            }
            Request::Renew { epoch, etag, write } => {
                let body = self.link.own_body(*epoch, write, OwnEpoch::renewed_record);
                let outcome = self.replace(*epoch, etag.clone(), body, limit).await;
                let answer = self.link.requests.written("renewing", *epoch, outcome);
                self.cx.meter.renewal(&answer);
                answer
            }
            Request::Seal { epoch, etag, nonce, heartbeat, ended } => {
                let Some(body) = self.link.sealed_body(*epoch, *nonce, *heartbeat, *ended) else {
                    return Answer::Unknown;
                };
                let outcome = self.replace(*epoch, etag.clone(), body, limit).await;
                let answer = self.link.requests.written("sealing", *epoch, outcome);
                if let Answer::Done { .. } = answer {
                    self.link.followed.sealed_here(*epoch);
                }
                answer
            }
        }
    }

    async fn list(&mut self, after: &After, limit: Duration) -> Answer {
        let keys = self.cx.keys.clone();
        let store = self.cx.store.clone();
        let start = key_of(&keys, after);
        let from_the_end = self.machine.searches_for_the_newest();
        // The call is in a box. Without the box, this rare call would make the future of every poll
        // larger.
        let mut call = Box::pin(async {
            // A listing from the end may miss the newest epoch. This is safe: the search tolerates
            // a missed epoch (N4), and the confirmation always lists from the start (N7).
            if from_the_end
                && let Some(page) = store.list_last(keys.epoch_prefix(), &start, LAST).await?
                && let Some(page) = EpochsOfPage::of_last(&keys, after, &page)?
            {
                return Ok(page);
            }
            let page = store.list(keys.epoch_prefix(), &start, PAGE).await?;
            EpochsOfPage::of(&keys, after, &page)
        });
        // A leader must renew in time, so `limit` applies to its whole listing (N6).
        let page = match self.link.own.leading {
            true => self.link.requests.send(limit, &mut call).await,
            false => self.link.requests.send_listing(limit, call).await,
        };
        match page.map_err(StoreError::of_a_read) {
            Ok(page) => Answer::Listed(page.listing()),
            Err(error) => self.link.requests.failed("listing the epochs", error),
        }
    }

    async fn get(&mut self, epoch: Option<Epoch>, unless: Option<ETag>, limit: Duration) -> Answer {
        let keys = &self.cx.keys;
        let key = epoch.map_or_else(|| keys.lock(), |epoch| keys.epoch(epoch));
        let store = self.cx.store.clone();
        let read =
            self.link.requests.send(limit, &mut store.get(&key, unless, MAX_READ_BYTES)).await;
        self.link.read(epoch, read)
    }

    async fn replace(
        &mut self,
        epoch: Epoch,
        etag: ETag,
        body: Bytes,
        limit: Duration,
    ) -> Result<PutOutcome, StoreError> {
        let key = self.link.key(epoch);
        let store = self.cx.store.clone();
        let call = &mut store.replace(&key, body, etag);
        self.link.requests.send(limit, call).await
    }

    pub(super) fn now(&self) -> Moment {
        self.cx.process.now()
    }
}
