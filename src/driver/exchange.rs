//! One request: from the machine's words to the store's call, and back.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tracing::Instrument as _;

use super::{Driver, spans};
use crate::epoch::Epoch;
use crate::error::Error;
use crate::layout::Layout;
use crate::listing::{EpochsOfPage, key_of};
use crate::moment::Moment;
use crate::protocol::find::After;
use crate::protocol::lease::{LapseTimer, Reading, StoreAge};
use crate::protocol::message::{Answer, Ended, Nonce, Request, Seen, Sighting, Write};
use crate::protocol::single::expiry::left_until;
use crate::record::{BadRecord, Lock, MAX_READ_BYTES, Record};
use crate::store::{ETag, GetOutcome, Happened, Object, PutOutcome, StoreError, StoreErrorKind};
use crate::timer::bounded;

/// Keys asked for in one LIST: as many as S3 gives, as the price is the same.
const PAGE: usize = 1_000;
/// Keys asked for from the end of a listing: the newest epoch, and a few foreign keys behind it.
const LAST: usize = 4;
/// Writes in a row that may be answered with success and without an ETag before the store counts as
/// unfit. A lease that is led under is kept all the same, as long as reads show its renewals.
const WRITES_WITHOUT_ETAG: u32 = 5;
/// What a replacement that ends an epoch is called in messages.
const SEALING: &str = "sealing";

impl Driver {
    /// Sends one request, for `limit` at most, and says what came of it.
    pub(super) async fn perform(&mut self, request: &Request, limit: Duration) -> Answer {
        let span = spans::request(&self.cx, request);
        let answer = self.exchange(request, limit).instrument(span.clone()).await;
        span.record("outcome", spans::outcome(&answer));
        match answer {
            Answer::Unknown | Answer::Denied | Answer::Unsafe => self.failures += 1,
            _ => self.failures = 0,
        }
        if !matches!(answer, Answer::Unknown) {
            let now = self.now();
            self.answered = Some(now);
            self.cx.answered(now.boot);
        }
        answer
    }

    async fn exchange(&mut self, request: &Request, limit: Duration) -> Answer {
        match request {
            Request::List(after) => self.list(after, limit).await,
            Request::Get { epoch, unless } => self.get(*epoch, unless.clone(), limit).await,
            Request::Look { unless } => self.look(unless.clone(), limit).await,
            Request::Create { epoch, write } => {
                let body = self.first_body(*epoch, write);
                let key = self.key(*epoch);
                let store = self.cx.store.clone();
                let outcome = self.send(limit, &mut store.create(&key, body)).await;
                self.written("creating", *epoch, outcome)
            }
            Request::Take { epoch, etag, write } => {
                let body = self.first_body(*epoch, write);
                self.replace("taking over with", *epoch, etag.clone(), body, limit).await
            }
            Request::Renew { epoch, etag, write } => {
                self.sending(write.heartbeat);
                let sent = self.now().boot;
                self.renewing_since.get_or_insert(sent);
                let body = self.next_body(*epoch, write);
                let answer = self.replace("renewing", *epoch, etag.clone(), body, limit).await;
                self.cx.meter.renewal(&answer);
                answer
            }
            Request::Seal { epoch, etag, nonce, heartbeat, ended } => {
                let Some(body) = self.sealed_body(*epoch, *nonce, *heartbeat, *ended) else {
                    return Answer::Unknown;
                };
                self.replace(SEALING, *epoch, etag.clone(), body, limit).await
            }
        }
    }

    async fn send<T>(
        &mut self,
        limit: Duration,
        call: &mut (impl Future<Output = Result<T, StoreError>> + Unpin),
    ) -> Result<T, StoreError> {
        let outcome = bounded(&self.cx.process, limit, call).await;
        self.polled = self.now().boot;
        outcome.unwrap_or_else(|| Err(StoreError::timed_out(format!("no answer within {limit:?}"))))
    }

    /// The lease counts from before the write is sent.
    fn sending(&mut self, heartbeat: u64) {
        self.heartbeat = heartbeat;
        self.lease.sending(heartbeat, self.cx.process.now());
    }

    async fn list(&mut self, after: &After, limit: Duration) -> Answer {
        let keys = self.cx.keys.clone();
        let store = self.cx.store.clone();
        let start = key_of(&keys, after);
        let from_the_end = self.machine.looks_for_the_newest();
        // Boxed: it is rare, and would make the future of every poll larger.
        let mut call = Box::pin(async {
            // What is found so may be older than a listing from the start would show, which a
            // campaign does not mind; its confirmation is always such a listing.
            if from_the_end
                && let Some(page) = store.list_last(keys.lock_prefix(), &start, LAST).await?
                && let Some(page) = EpochsOfPage::of_last(&keys, after, &page)?
            {
                return Ok(page);
            }
            let page = store.list(keys.lock_prefix(), &start, PAGE).await?;
            EpochsOfPage::of(&keys, after, &page)
        });
        match self.send(limit, &mut call).await.map_err(StoreError::of_a_read) {
            Ok(page) => Answer::Listed(page.listing()),
            Err(error) => self.failed("listing the epochs", error),
        }
    }

    async fn get(&mut self, epoch: Epoch, unless: Option<ETag>, limit: Duration) -> Answer {
        let object = match self.fetch(self.cx.keys.epoch(epoch), unless, limit).await {
            Ok(object) => object,
            Err(answer) => return answer,
        };
        match Record::parse(&object.body) {
            Ok(record) => {
                let (Sighting { etag, seen, .. }, touched) = self.read(epoch, record, &object);
                Answer::Found { etag, seen, touched }
            }
            Err(why) => self.cannot_read(why),
        }
    }

    /// Reads the single object, which says itself which epoch it holds.
    async fn look(&mut self, unless: Option<ETag>, limit: Duration) -> Answer {
        let object = match self.fetch(self.cx.keys.lock(), unless, limit).await {
            Ok(object) => object,
            Err(answer) => return answer,
        };
        match Lock::parse(&object.body) {
            Ok(Lock { token, record }) => Answer::Lock(self.read(token, record, &object).0),
            Err(why) => self.cannot_read(why),
        }
    }

    async fn fetch(
        &mut self,
        key: String,
        unless: Option<ETag>,
        limit: Duration,
    ) -> Result<Object, Answer> {
        let store = self.cx.store.clone();
        let read = self.send(limit, &mut store.get(&key, unless, MAX_READ_BYTES)).await;
        match read.map_err(StoreError::of_a_read) {
            Ok(GetOutcome::Found(object)) => Ok(object),
            Ok(GetOutcome::NotModified) => Err(Answer::NotModified),
            Ok(GetOutcome::Missing) => Err(Answer::Missing),
            Ok(GetOutcome::TooLarge { len, .. }) => Err(self.cannot_read(BadRecord::TooLarge(len))),
            Err(error) => Err(self.failed(&format!("reading {key}"), error)),
        }
    }

    fn cannot_read(&mut self, why: BadRecord) -> Answer {
        self.unreadable = Some(why);
        Answer::Unreadable
    }

    /// Takes note of a record: who leads, and when that was seen.
    fn read(&mut self, epoch: Epoch, record: Record, object: &Object) -> (Sighting, bool) {
        let age = object.served_at.zip(object.last_modified).map(|(now, then)| now - then);
        // A negative age is the rounding of dates to whole seconds.
        self.age = age.map(|age| age.to_std().unwrap_or_default());
        let mut seen = record.seen();
        seen.reclaimable = self.reclaimable(&record, &seen);
        let sighting = Sighting { epoch, etag: object.etag.clone(), seen };
        let touched = self.observe(&sighting, &record, object);
        self.record = Some((epoch, record));
        (sighting, touched)
    }

    fn observe(&mut self, sighting: &Sighting, record: &Record, object: &Object) -> bool {
        if self.leading {
            return false;
        }
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
        sign_of_life
    }

    fn reclaimable(&self, record: &Record, seen: &Seen) -> bool {
        self.reclaim
            && record.candidate.as_deref() == Some(&self.cx.config.name)
            && seen.nonce.is_some_and(|nonce| !self.cx.process.has_sent(nonce))
    }

    /// The body of an attempt to be elected. The first of an epoch forgets those of others.
    fn first_body(&mut self, epoch: Epoch, write: &Write) -> Bytes {
        if write.heartbeat == 1 {
            self.lease.reset();
            self.elected_at = None;
        }
        self.sending(write.heartbeat);
        self.next_body(epoch, write)
    }

    // These are bytes before they are sent, as whoever waits for the answer would keep the record:
    // a process may follow thousands of elections.
    fn next_body(&mut self, epoch: Epoch, write: &Write) -> Bytes {
        let record = self.body(write);
        self.encode(epoch, &record)
    }

    fn sealed_body(
        &mut self,
        epoch: Epoch,
        nonce: Option<Nonce>,
        heartbeat: u64,
        ended: Ended,
    ) -> Option<Bytes> {
        let record = self.sealed(epoch, nonce, heartbeat, ended)?;
        Some(self.encode(epoch, &record))
    }

    /// As it lies in the store. For peers of the If-Match post the lease ends no earlier than for
    /// this process, which has read the clock before.
    fn encode(&self, epoch: Epoch, record: &Record) -> Bytes {
        match self.cx.config.layout {
            Layout::EpochFiles => record.to_bytes().into(),
            Layout::SingleObject => {
                let expires_at = self.now().wall.saturating_add(self.cx.config.validity);
                Lock::to_bytes(epoch, record, expires_at).into()
            }
        }
    }

    fn key(&self, epoch: Epoch) -> String {
        self.cx.keys.of(self.cx.config.layout, epoch)
    }

    /// The body of the own epoch object.
    fn body(&mut self, write: &Write) -> Record {
        let now = self.cx.process.now().time_of_day();
        let mut record = self.cx.config.record(write.nonce, write.heartbeat, self.data.clone());
        record.elected_at = Some(*self.elected_at.get_or_insert(now));
        record.renewed_at = Some(now);
        record
    }

    /// The body that ends an epoch: of the record that was read, or of the own.
    fn sealed(
        &mut self,
        epoch: Epoch,
        nonce: Option<Nonce>,
        heartbeat: u64,
        ended: Ended,
    ) -> Option<Record> {
        let now = self.cx.process.now().time_of_day();
        let name = self.cx.config.name.clone();
        let own = nonce.filter(|nonce| self.cx.process.has_sent(*nonce));
        let record = match (&self.record, own) {
            (Some((read, record)), _) if *read == epoch && record.nonce == nonce => record.clone(),
            (_, Some(nonce)) => self.body(&Write { nonce, heartbeat }),
            _ => return None,
        };
        let mut record = record.sealed(ended, heartbeat, &name, now);
        if ended == Ended::Resigned {
            record.successor = self.successor.clone();
        }
        Some(record)
    }

    async fn replace(
        &mut self,
        doing: &str,
        epoch: Epoch,
        etag: ETag,
        body: Bytes,
        limit: Duration,
    ) -> Answer {
        let key = self.key(epoch);
        let store = self.cx.store.clone();
        let outcome = self.send(limit, &mut store.replace(&key, body, etag)).await;
        if let (Ok(PutOutcome::Done { .. }), SEALING) = (&outcome, doing) {
            self.sealed_here(epoch);
        }
        self.written(doing, epoch, outcome)
    }

    fn sealed_here(&mut self, epoch: Epoch) {
        let now = self.cx.process.now();
        if let Some(timer) = &mut self.timer {
            Arc::make_mut(timer).sealed_here(epoch, now);
            self.cx.knowledge().keep(Some(timer));
        }
    }

    fn written(
        &mut self,
        doing: &str,
        epoch: Epoch,
        outcome: Result<PutOutcome, StoreError>,
    ) -> Answer {
        match outcome {
            Ok(PutOutcome::Done { etag: Some(etag) }) => {
                self.without_etag = 0;
                Answer::Done { etag }
            }
            Ok(PutOutcome::Done { etag: None }) => {
                self.without_etag += 1;
                let kind = match self.without_etag < WRITES_WITHOUT_ETAG {
                    true => StoreErrorKind::Transient,
                    // No passing fault: a campaign would go on for ever.
                    false => StoreErrorKind::Unsupported,
                };
                let why = "it answered with success and without an ETag; is it the store, or a \
                           proxy in between?";
                let error = StoreError::new(kind, Happened::Maybe, why);
                self.failed(&format!("{doing} epoch {epoch}"), error)
            }
            Ok(PutOutcome::Refused) => Answer::Refused,
            Ok(PutOutcome::Missing) => Answer::Missing,
            Err(error) => self.failed(&format!("{doing} epoch {epoch}"), error),
        }
    }

    /// A request failed: remembers why, and tells the machine what it may know of it.
    fn failed(&mut self, doing: &str, error: StoreError) -> Answer {
        let answer = match (error.kind(), error.happened()) {
            (StoreErrorKind::Unsupported, _) => Answer::Unsafe,
            (StoreErrorKind::Transient, _) | (_, Happened::Maybe) => Answer::Unknown,
            _ => Answer::Denied,
        };
        let error = Error::from_store(doing, &self.cx.store.describe(), error);
        tracing::warn!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            outcome = spans::outcome(&answer),
            %error,
            "a request failed"
        );
        self.last_error = Some(error);
        answer
    }

    pub(super) fn now(&self) -> Moment {
        self.cx.process.now()
    }
}
