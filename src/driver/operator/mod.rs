//! The operator's actions on an election (O1 to O6, L8, RS1 to RS10), and their common requests.

mod depose;
pub(crate) mod outcomes;
mod resign;
pub(in crate::driver) mod restore;
mod sent_seals;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};

use super::{Context, Driver};
use crate::env::timer::sleep;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::message::Input;
use crate::protocol::message::{Request, Step, Wait};
use crate::record::{BadRecord, Formats, MAX_READ_BYTES, Record};
use crate::store::listing_within;
use crate::store::{ETag, GetOutcome, Object, PutOutcome, StoreError, StoreErrorKind, Written};

/// Maximum number of attempts of a write. The operator repeats a write after a concurrent write, or
/// if the outcome is unknown.
pub(in crate::driver) const ATTEMPTS: u32 = 5;
/// Maximum number of attempts of a read.
const TRIES: u32 = 3;
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// One action of an operator on one election.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(in crate::driver) cx: Arc<Context>,
    /// Number of consecutive failed requests.
    failures: u32,
}

/// The last reading of an epoch.
#[derive(Debug)]
pub(in crate::driver) struct Standing {
    epoch: Epoch,
    pub(in crate::driver) etag: ETag,
    /// Body, or `None` if it is too long.
    pub(in crate::driver) body: Option<Bytes>,
    pub(in crate::driver) record: Result<Record, BadRecord>,
}

/// The outcome of a conditional write.
#[derive(Debug)]
pub(in crate::driver) enum Wrote {
    Done,
    Refused,
    /// The effect of the write is unknown. The error gives the reason.
    Unknown(Error),
    /// The store rejected the request, which had no effect. Another attempt may succeed.
    TurnedAway(Error),
}

impl Operator {
    pub(crate) fn new(cx: &Arc<Context>) -> Operator {
        Operator { cx: Arc::clone(cx), failures: 0 }
    }

    pub(in crate::driver) fn refuse_later_format(&self, now: &Standing) -> Result<(), Error> {
        match &now.record {
            Err(why) if why.kind() != ErrorKind::CorruptRecord => {
                Err(self.cannot_read(now, why.kind(), why))
            }
            _ => Ok(()),
        }
    }

    pub(in crate::driver) fn cannot_read(
        &self,
        now: &Standing,
        kind: ErrorKind,
        why: &BadRecord,
    ) -> Error {
        let (key, store) = (self.key(now.epoch), self.cx.store.describe());
        let remedy = match kind {
            ErrorKind::CorruptRecord => format!("; {}", self.cx.config.layout.repair()),
            _ => String::new(),
        };
        Error::new(kind, format!("{key} in {store} cannot be read: {why}{remedy}"))
    }

    /// Returns the newest epoch in the store. This function ignores the greatest epoch that this
    /// process has seen, because an accident may have deleted the object of that epoch.
    async fn newest(&mut self) -> Result<Option<Epoch>, Error> {
        let mut observer = Driver::without_memory(&self.cx);
        loop {
            match observer.machine.step() {
                Step::Request(Request::Get { epoch, .. }) => return Ok(epoch),
                Step::Request(request) => {
                    let limit = self.cx.config.request_timeout;
                    let answer = observer.perform(&request, limit).await;
                    observer.machine.handle(Input::Answer(answer));
                }
                Step::Failed(failure) => return Err(observer.explain(failure)),
                Step::Wait(Wait::Retry) => {
                    self.count(false);
                    if let Some(error) =
                        observer.link.requests.last_error.take().filter(|_| self.failures >= TRIES)
                    {
                        return Err(error);
                    }
                    self.pause().await;
                    observer.machine.handle(Input::Resume);
                }
                _ => return Ok(None),
            }
        }
    }

    /// Reads the object of this epoch. If `epoch` is `None`, reads `lock.json`. Returns `None` if
    /// the object is missing.
    pub(in crate::driver) async fn read(
        &mut self,
        epoch: Option<Epoch>,
    ) -> Result<Option<Standing>, Error> {
        let key = epoch.map_or_else(|| self.cx.keys.lock(), |epoch| self.cx.keys.epoch(epoch));
        let store = Arc::clone(&self.cx.store);
        let doing = format!("reading {key}");
        let call = || {
            let (store, key) = (Arc::clone(&store), key.clone());
            async move { store.get(&key, None, MAX_READ_BYTES).await }.boxed()
        };
        let outcome = self.ask(&doing, call).await?;
        Ok(Standing::of(self.cx.config.formats(), epoch, outcome))
    }

    /// Writes the object if no object has this key.
    pub(in crate::driver) async fn create(
        &mut self,
        key: &str,
        body: Bytes,
    ) -> Result<Wrote, Error> {
        let store = Arc::clone(&self.cx.store);
        let outcome = self.send(store.create(key, body)).await;
        self.wrote("creating", key, outcome)
    }

    /// Overwrites the object if it still has this ETag.
    pub(in crate::driver) async fn replace(
        &mut self,
        doing: &str,
        epoch: Epoch,
        body: Bytes,
        etag: ETag,
    ) -> Result<Wrote, Error> {
        let key = self.key(epoch);
        let store = Arc::clone(&self.cx.store);
        let outcome = self.send(store.replace(&key, body, etag)).await;
        self.wrote(doing, &key, outcome)
    }

    fn wrote(
        &self,
        doing: &str,
        key: &str,
        outcome: Result<PutOutcome, StoreError>,
    ) -> Result<Wrote, Error> {
        let failed = |error| self.failed(&format!("{doing} {key}"), error);
        match self.cx.writes.read(outcome) {
            Written::Done(_) => Ok(Wrote::Done),
            Written::Refused | Written::Missing => Ok(Wrote::Refused),
            Written::Unknown(error) => Ok(Wrote::Unknown(failed(error).maybe())),
            Written::Failed(error) if error.kind() == StoreErrorKind::Transient => {
                Ok(Wrote::TurnedAway(failed(error)))
            }
            Written::Failed(error) => Err(failed(error)),
        }
    }

    /// Sends a request that does not change the store. Repeats the request after a transient
    /// failure.
    pub(in crate::driver) async fn ask<T>(
        &mut self,
        doing: &str,
        call: impl Fn() -> BoxFuture<'static, Result<T, StoreError>>,
    ) -> Result<T, Error> {
        for attempt in 1.. {
            match self.send(call()).await.map_err(StoreError::of_a_read) {
                Ok(answer) => return Ok(answer),
                Err(error) if error.kind() == StoreErrorKind::Transient && attempt < TRIES => {
                    self.pause().await;
                }
                Err(error) => return Err(self.failed(doing, error)),
            }
        }
        unreachable!("the last attempt returns its result")
    }

    pub(in crate::driver) async fn send<T>(
        &mut self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.cx.config.request_timeout;
        let outcome = listing_within(&self.cx.process, limit, call).await;
        self.count(outcome.is_ok());
        outcome
    }

    fn count(&mut self, answered: bool) {
        self.failures = if answered { 0 } else { self.failures + 1 };
    }

    pub(in crate::driver) fn failed(&self, doing: &str, error: StoreError) -> Error {
        Error::from_store(doing, &self.cx.store.describe(), error)
    }

    pub(in crate::driver) async fn pause(&self) {
        sleep(&self.cx.process, self.cx.retry_delay(self.failures, LONGEST_PAUSE)).await;
    }

    pub(in crate::driver) fn key(&self, epoch: Epoch) -> String {
        self.cx.keys.of(self.cx.config.layout, epoch)
    }

    /// Returns the body for the object of an epoch that has ended.
    pub(in crate::driver) fn encode(&self, epoch: Epoch, record: &Record) -> Bytes {
        record.encode(self.cx.config.layout, epoch, Duration::ZERO).into()
    }
}

impl Standing {
    fn of(formats: Formats, epoch: Option<Epoch>, outcome: GetOutcome) -> Option<Standing> {
        // The token of `lock.json` is in its body. If the body cannot be read, the token is
        // unknown, and this value replaces the token.
        let unknown = epoch.unwrap_or(Epoch::FIRST);
        Some(match outcome {
            GetOutcome::Found(Object { etag, body, .. }) => {
                let (epoch, record) = match Record::decode(formats, epoch, &body) {
                    Ok((epoch, record)) => (epoch, Ok(record)),
                    Err(why) => (unknown, Err(why)),
                };
                Standing { epoch, etag, body: Some(body), record }
            }
            GetOutcome::TooLarge { etag, len } => {
                let record = Err(BadRecord::TooLarge(len));
                Standing { epoch: unknown, etag, body: None, record }
            }
            GetOutcome::NotFound | GetOutcome::NotModified => return None,
        })
    }
}
