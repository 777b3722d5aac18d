//! Operations on an election: the requests around [`DeposeOrder::decide`].
//!
//! A write whose fate is unknown is read back, and said to have happened only where the very body
//! that was sent is found. As each write has the ETag of the last reading as its condition, one
//! that comes late takes effect only where it would have in time.

pub(crate) mod outcomes;
mod resign;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt as _};

use super::{Context, Driver};
use crate::driver::leader::Leader;
use crate::driver::operator::outcomes::Deposed;
use crate::env::timer::sleep;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::depose::{DeposeOrder, Verdict};
use crate::protocol::layout::Layout;
use crate::protocol::message::Input;
use crate::protocol::message::{EpochEnd, Request, Step, Wait};
use crate::record::{BadRecord, MAX_READ_BYTES, Record};
use crate::store::escape::plain;
use crate::store::listing_within;
use crate::store::{ETag, GetOutcome, Object, PutOutcome, StoreError, StoreErrorKind, Written};

/// How often a write is tried: each time somebody else was faster, or its fate is not known.
pub(super) const ATTEMPTS: u32 = 5;
/// How often what only reads is tried.
const TRIES: u32 = 3;
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// An operator at work on one election.
#[derive(Debug)]
pub(crate) struct Operator {
    pub(super) cx: Arc<Context>,
    /// Requests that failed in a row.
    failures: u32,
}

/// An epoch as it was read.
#[derive(Debug)]
pub(super) struct Standing {
    pub(super) epoch: Epoch,
    pub(super) etag: ETag,
    /// `None`: too long to be read.
    pub(super) body: Option<Bytes>,
    pub(super) record: Result<Record, BadRecord>,
}

/// What became of a conditional write.
#[derive(Debug)]
pub(super) enum Wrote {
    Done,
    Refused,
    /// The error tells why nobody knows.
    Unknown(Error),
    /// The store turned it away: nothing was written. Another attempt may succeed.
    TurnedAway(Error),
}

impl Operator {
    pub(crate) fn new(cx: &Arc<Context>) -> Operator {
        Operator { cx: Arc::clone(cx), failures: 0 }
    }

    /// Carries out the order on the newest epoch, or on the one in the single object.
    pub(crate) async fn depose(&mut self, order: DeposeOrder) -> Result<Deposed, Error> {
        match self.cx.config.layout {
            Layout::SingleObject => self.depose_at(None, order).await,
            Layout::EpochFiles => {
                let mut deposed = Deposed::NoLeader;
                // What is gone when it is read was compacted, so there is a greater one.
                for _ in 0..TRIES {
                    let Some(newest) = self.newest().await? else { break };
                    let meant = self.meant(newest, order).await?;
                    deposed = self.depose_at(Some(meant), order).await?;
                    // Another restoring below it is not the one to finish.
                    let held = matches!(deposed, Deposed::NoLeader | Deposed::Held(_));
                    if held && meant != newest {
                        return Ok(Deposed::Held(newest));
                    }
                    if deposed != Deposed::NoLeader {
                        break;
                    }
                }
                Ok(deposed)
            }
        }
    }

    /// The newest; or the one that the order names, below an epoch that a restoring holds: a record
    /// there that does not say for how long its holder may believe keeps the restoring from its
    /// end.
    async fn meant(&mut self, newest: Epoch, order: DeposeOrder) -> Result<Epoch, Error> {
        let Some(only) = order.only.filter(|only| *only < newest) else { return Ok(newest) };
        let now = self.read(Some(newest)).await?;
        let held = now.is_some_and(|now| now.record.as_ref().is_ok_and(Record::is_held));
        Ok(if held { only } else { newest })
    }

    /// Carries out the order on this epoch object, or on the single object.
    pub(super) async fn depose_at(
        &mut self,
        epoch: Option<Epoch>,
        mut order: DeposeOrder,
    ) -> Result<Deposed, Error> {
        let mut sent: Vec<(Bytes, Record)> = Vec::new();
        // An attempt that may yet take effect, as long as this ETag is there.
        let mut open: Option<(ETag, Error)> = None;
        let mut turned_away = None;
        let mut attempt = 0;
        loop {
            let now = self.read(epoch).await.map_err(|error| instead(&open, error))?;
            let Some(now) = now else {
                return open.map_or(Ok(Deposed::NoLeader), |(_, error)| Err(error));
            };
            open = open.filter(|(over, _)| *over == now.etag);
            if let Some((_, seal)) = sent.iter().find(|(body, _)| now.body.as_ref() == Some(body)) {
                return Ok(self.deposed(now.epoch, seal));
            }
            let blank = Record::blank();
            let record = now.record.as_ref().unwrap_or(&blank);
            let leader = Leader::new(now.epoch, record);
            let meant = order.only.is_none_or(|only| only == now.epoch);
            if epoch.is_some() && meant && record.is_held() {
                // Sealed by this, it would be succeeded beside a leader below it.
                return Ok(Deposed::Held(now.epoch));
            }
            let (heartbeat, ended) = match self.decide(order, epoch, &now)? {
                Verdict::Seal { .. } if attempt == ATTEMPTS => {
                    let why = open.map(|(_, error)| error).or(turned_away);
                    return why.map_or(Ok(Deposed::Renewed(leader)), Err);
                }
                Verdict::Seal { heartbeat, ended } => (heartbeat, ended),
                Verdict::Sealed(ended) => {
                    let ended = record.end().unwrap_or(ended);
                    return Ok(Deposed::Already { leader, ended });
                }
                Verdict::NotCurrent => return Ok(Deposed::NotCurrent(leader)),
                Verdict::NeedsForce => return Ok(Deposed::NeedsForce(leader)),
            };
            // A candidate that has taken over meanwhile must not be deposed.
            order.only = Some(now.epoch);
            let seal = self.cx.sealed(record, ended, heartbeat);
            let seal = seal.ordered(record, order.force, self.cx.config.reason.as_deref());
            let body = self.encode(now.epoch, &seal);
            let wrote = self.replace("sealing", now.epoch, body.clone(), now.etag.clone()).await;
            match wrote.map_err(|error| instead(&open, error))? {
                Wrote::Done => return Ok(self.deposed(now.epoch, &seal)),
                Wrote::Refused => turned_away = None,
                Wrote::Unknown(error) => {
                    sent.push((body, seal));
                    open = Some((now.etag, error));
                }
                Wrote::TurnedAway(error) => turned_away = Some(error),
            }
            attempt += 1;
            self.pause().await;
        }
    }

    fn decide(
        &self,
        order: DeposeOrder,
        epoch: Option<Epoch>,
        now: &Standing,
    ) -> Result<Verdict, Error> {
        self.refuse_later_format(now)?;
        let record = match &now.record {
            Ok(record) => Some(record),
            // Its token is in the body alone, so nobody can say above which to go on.
            Err(why) if epoch.is_none() => {
                return Err(self.cannot_read(now, ErrorKind::CorruptRecord, why));
            }
            Err(_) => None,
        };
        let seen = record.map(Record::seen);
        Ok(order.decide(now.epoch, seen.as_ref(), record.and_then(Record::validity)))
    }

    pub(super) fn refuse_later_format(&self, now: &Standing) -> Result<(), Error> {
        match &now.record {
            Err(why @ BadRecord::TooNew(_)) => {
                Err(self.cannot_read(now, ErrorKind::RecordTooNew, why))
            }
            _ => Ok(()),
        }
    }

    fn cannot_read(&self, now: &Standing, kind: ErrorKind, why: &BadRecord) -> Error {
        let (key, store) = (self.key(now.epoch), self.cx.store.describe());
        let remedy = match kind {
            ErrorKind::CorruptRecord => format!("; {}", self.cx.config.layout.repair()),
            _ => String::new(),
        };
        Error::new(kind, format!("{key} in {store} cannot be read: {why}{remedy}"))
    }

    fn deposed(&self, epoch: Epoch, seal: &Record) -> Deposed {
        let wait = match seal.ended {
            Some(EpochEnd::Deposed) => seal.validity().map(|v| self.cx.config.drift.stretch(v)),
            _ => None,
        };
        let leader = Leader::new(epoch, seal);
        tracing::info!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            epoch = epoch.get(),
            leader = plain(leader.name()),
            outcome = "deposed",
            "deposed"
        );
        Deposed::Sealed { leader, wait: wait.unwrap_or_default() }
    }

    /// The newest epoch object there is. What this process has seen before is not asked of it: it
    /// may be what was lost.
    pub(super) async fn newest(&mut self) -> Result<Option<Epoch>, Error> {
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
                        observer.requests.last_error.take().filter(|_| self.failures >= TRIES)
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

    /// Reads an epoch object, or the single object; `None` if there is none.
    pub(super) async fn read(&mut self, epoch: Option<Epoch>) -> Result<Option<Standing>, Error> {
        let key = epoch.map_or_else(|| self.cx.keys.lock(), |epoch| self.cx.keys.epoch(epoch));
        let store = Arc::clone(&self.cx.store);
        let doing = format!("reading {key}");
        let call = || {
            let (store, key) = (Arc::clone(&store), key.clone());
            async move { store.get(&key, None, MAX_READ_BYTES).await }.boxed()
        };
        let outcome = self.ask(&doing, call).await?;
        Ok(Standing::of(epoch, outcome))
    }

    /// Overwrites what had this ETag.
    pub(super) async fn replace(
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

    pub(super) fn wrote(
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

    /// Asks what changes nothing, a few times.
    pub(super) async fn ask<T>(
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
        unreachable!("the last attempt returns")
    }

    pub(super) async fn send<T>(
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

    fn failed(&self, doing: &str, error: StoreError) -> Error {
        Error::from_store(doing, &self.cx.store.describe(), error)
    }

    pub(super) async fn pause(&self) {
        sleep(&self.cx.process, self.cx.retry_delay(self.failures, LONGEST_PAUSE)).await;
    }

    pub(super) fn key(&self, epoch: Epoch) -> String {
        self.cx.keys.of(self.cx.config.layout, epoch)
    }

    /// The body of an epoch that has ended.
    pub(super) fn encode(&self, epoch: Epoch, record: &Record) -> Bytes {
        record.encode(self.cx.config.layout, epoch, Duration::ZERO).into()
    }
}

impl Standing {
    fn of(epoch: Option<Epoch>, outcome: GetOutcome) -> Option<Standing> {
        // Of a single object that cannot be read the token is not known.
        let unknown = epoch.unwrap_or(Epoch::FIRST);
        Some(match outcome {
            GetOutcome::Found(Object { etag, body, .. }) => {
                let (epoch, record) = match Record::decode(epoch, &body) {
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

/// Reports the write with an unknown outcome first, rather than the error of reading it back.
fn instead(open: &Option<(ETag, Error)>, error: Error) -> Error {
    open.as_ref().map_or(error, |(_, unknown)| unknown.clone())
}
