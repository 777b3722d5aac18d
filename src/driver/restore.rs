//! Restoring: after an accident counting goes on above an epoch that an operator names.
//!
//! With epoch objects, whoever campaigns beside it counts on from the newest epoch that is left. So
//! the restored epoch is first *held*: an unsealed object that never lapses, which nobody succeeds,
//! and beside which no lower epoch is confirmed any more. Then whoever holds a lower one is deposed.
//! Only after that the held one is sealed, and successors wait for what was deposed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::FutureExt as _;
use serde_json::json;

use super::operator::{ATTEMPTS, Operator, Standing, Wrote};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::leader::Leader;
use crate::listing::{EpochsOfPage, key_of};
use crate::operator::{Deposed, Restored};
use crate::protocol::depose::Order;
use crate::protocol::find::After;
use crate::protocol::message::Ended;
use crate::record::{Record, Validity};

const PAGE_KEYS: usize = 1_000;
/// Where a held epoch says above which it was restored, for a run that goes on after another.
const ABOVE: &str = "restored_above";

/// As long as the longest validity.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

/// What an epoch below asks of the successor.
enum Below {
    Wait(Duration),
    NeedsForce(Leader),
}

impl Operator {
    /// Makes the counting go on above `epoch`. `wait` is how long a leader of before may believe.
    pub(crate) async fn restore(
        &mut self,
        epoch: Epoch,
        wait: Duration,
    ) -> Result<Restored, Error> {
        if epoch == Epoch::MAX {
            let why = format!("{epoch} is the last epoch: nothing could be counted above it");
            return Err(Error::new(ErrorKind::EpochsExhausted, why));
        }
        let invalid = |why| Err(Error::new(ErrorKind::InvalidConfig, why));
        if wait > MAX_WAIT {
            return invalid(format!("successors are to wait {wait:?}; at most {MAX_WAIT:?}"));
        }
        if let Some(seen) = self.cx.greatest().filter(|seen| *seen > epoch) {
            return invalid(format!("{epoch} is below {seen}, which this process has seen"));
        }
        match self.cx.config.layout {
            Layout::EpochFiles => self.restore_epoch(epoch, wait).await,
            Layout::SingleObject => self.restore_token(epoch, wait).await,
        }
    }

    async fn restore_epoch(&mut self, epoch: Epoch, wait: Duration) -> Result<Restored, Error> {
        let newest = self.newest().await?;
        if let Some(newest) = newest.filter(|newest| *newest > epoch) {
            return self.exists(newest).await;
        }
        let below = newest.filter(|newest| *newest < epoch);
        // Known before anything is written, as far as it can be.
        if let Some(Below::NeedsForce(leader)) = self.look_below(below).await? {
            return Ok(Restored::NeedsForce(leader));
        }
        let mut absent = newest != Some(epoch);
        let mut sent = Sent::default();
        for _ in 0..=ATTEMPTS {
            let now = match absent {
                true => None,
                false => self.read(Some(epoch)).await.map_err(|error| sent.instead(error))?,
            };
            let Some(now) = now else {
                let hold = self.hold(below).to_bytes().into();
                let wrote = self.create(epoch, hold).await.map_err(|error| sent.instead(error))?;
                absent = false;
                sent.note(wrote, None);
                continue;
            };
            if let Some(wait) = sent.find(&now) {
                return Ok(self.tell_restored(epoch, wait));
            }
            let Some(above) = held_above(&now) else { return Ok(exists(&now, epoch)) };
            let waits = match self.depose_all(above, epoch).await? {
                Below::Wait(waits) => waits.max(wait),
                Below::NeedsForce(leader) => return Ok(Restored::NeedsForce(leader)),
            };
            let body = self.encode(epoch, &self.restored(waits));
            let wrote = self.replace("sealing", epoch, body.clone(), now.etag).await;
            if sent.note(wrote.map_err(|error| sent.instead(error))?, Some((body, waits))) {
                return Ok(self.tell_restored(epoch, waits));
            }
            self.pause().await;
        }
        Err(sent.open.or(sent.turned_away).unwrap_or_else(|| self.too_busy(epoch)))
    }

    /// Deposes whoever holds an epoch below `epoch`, from `above` on: nobody before can hold one.
    async fn depose_all(&mut self, above: Option<Epoch>, epoch: Epoch) -> Result<Below, Error> {
        let keys = self.cx.keys.clone();
        let mut wait = Duration::ZERO;
        let mut next = Some(After::Number(above.map_or(0, |above| above.get() - 1)));
        while let Some(after) = next {
            let store = Arc::clone(&self.cx.store);
            let call = || {
                let (store, keys, after) = (Arc::clone(&store), keys.clone(), after.clone());
                let list = async move {
                    let start = key_of(&keys, &after);
                    let page = store.list(keys.lock_prefix(), &start, PAGE_KEYS).await?;
                    EpochsOfPage::of(&keys, &after, &page)
                };
                list.boxed()
            };
            let page = self.ask("listing the epochs", call).await?;
            for below in page.epochs.iter().map(|listed| listed.epoch).filter(|e| *e < epoch) {
                match self.depose_below(below).await? {
                    Below::Wait(waits) => wait = wait.max(waits),
                    needs_force => return Ok(needs_force),
                }
            }
            let past = page.epochs.last().is_some_and(|listed| listed.epoch >= epoch);
            next = page.rest.filter(|_| !past);
        }
        Ok(Below::Wait(wait))
    }

    async fn depose_below(&mut self, below: Epoch) -> Result<Below, Error> {
        let order = Order { only: Some(below), force: false };
        Ok(match self.depose_at(Some(below), order).await? {
            Deposed::Sealed { leader, .. } => Below::Wait(leader.validity.unwrap_or_default()),
            Deposed::NeedsForce(leader) => Below::NeedsForce(leader),
            Deposed::Renewed(_) => return Err(self.too_busy(below)),
            Deposed::Already { .. } => {
                self.look_below(Some(below)).await?.unwrap_or(Below::Wait(Duration::ZERO))
            }
            // Compacted: superseded for long.
            Deposed::Vacant | Deposed::NotCurrent(_) => Below::Wait(Duration::ZERO),
        })
    }

    /// What this epoch object asks of a successor, without changing it.
    async fn look_below(&mut self, below: Option<Epoch>) -> Result<Option<Below>, Error> {
        let Some(epoch) = below else { return Ok(None) };
        let Some(now) = self.read(below).await? else { return Ok(None) };
        self.refuse_later_format(&now)?;
        let blank = Record::blank();
        Ok(Some(asks(epoch, now.record.as_ref().unwrap_or(&blank))))
    }

    async fn restore_token(&mut self, epoch: Epoch, wait: Duration) -> Result<Restored, Error> {
        let mut sent = Sent::default();
        for _ in 0..=ATTEMPTS {
            let now = self.read(None).await.map_err(|error| sent.instead(error))?;
            let mut waits = wait;
            if let Some(now) = &now {
                if let Some(wait) = sent.find(now) {
                    return Ok(self.tell_restored(epoch, wait));
                }
                self.refuse_later_format(now)?;
                // Of what cannot be read nobody knows the token but the operator.
                if let Ok(record) = &now.record {
                    if now.epoch >= epoch {
                        return Ok(exists(now, epoch));
                    }
                    match asks(now.epoch, record) {
                        Below::Wait(asked) => waits = waits.max(asked),
                        Below::NeedsForce(leader) => return Ok(Restored::NeedsForce(leader)),
                    }
                }
            }
            let body = self.encode(epoch, &self.restored(waits));
            let wrote = match now {
                None => self.create(epoch, body.clone()).await,
                Some(now) => self.replace("restoring", epoch, body.clone(), now.etag).await,
            };
            if sent.note(wrote.map_err(|error| sent.instead(error))?, Some((body, waits))) {
                return Ok(self.tell_restored(epoch, waits));
            }
            self.pause().await;
        }
        Err(sent.open.or(sent.turned_away).unwrap_or_else(|| self.too_busy(epoch)))
    }

    async fn create(&mut self, epoch: Epoch, body: Bytes) -> Result<Wrote, Error> {
        let key = self.key(epoch);
        let store = Arc::clone(&self.cx.store);
        let outcome = self.send(store.create(&key, body)).await;
        self.wrote("creating", &key, outcome)
    }

    /// Held by nobody who could lead, and never lapsing.
    fn hold(&self, above: Option<Epoch>) -> Record {
        let mut hold = Record::blank();
        hold.nonce = Some(self.cx.process.nonce());
        hold.heartbeat = 1;
        hold.ended = Some(Ended::Restored);
        hold.elected_at = Some(self.cx.process.now().time_of_day());
        hold.data = json!({ ABOVE: above.map_or(0, Epoch::get) });
        hold
    }

    /// The nonce is another than that of the held epoch, so that the wait counts from the first sight
    /// of this seal, whoever has watched that one.
    fn restored(&self, wait: Duration) -> Record {
        let mut record = Record::blank();
        record.nonce = Some(self.cx.process.nonce());
        // A validity is positive.
        let ms = wait.as_nanos().div_ceil(1_000_000).max(1);
        record.validity_ms = Validity::Millis(u64::try_from(ms).unwrap_or(u64::MAX));
        let at = self.cx.process.now().time_of_day();
        record.sealed(Ended::Restored, 2, &self.cx.config.name, at)
    }

    fn tell_restored(&self, epoch: Epoch, wait: Duration) -> Restored {
        tracing::warn!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            epoch = epoch.get(),
            outcome = "restored",
            "restored: counting goes on above this epoch"
        );
        Restored::Sealed { epoch, wait: self.cx.config.drift.stretch(wait) }
    }

    async fn exists(&mut self, newest: Epoch) -> Result<Restored, Error> {
        let now = self.read(Some(newest)).await?;
        let record = now.and_then(|now| now.record.ok()).unwrap_or_else(Record::blank);
        Ok(Restored::Exists(Leader::new(newest, &record)))
    }

    fn too_busy(&self, epoch: Epoch) -> Error {
        let (key, store) = (self.key(epoch), self.cx.store.describe());
        let why = format!("{key} in {store} was written by others each time; run it again");
        Error::new(ErrorKind::Unavailable, why)
    }
}

/// The seals that were sent, and why the fate of the last write is unknown.
#[derive(Default)]
struct Sent {
    seals: Vec<(Bytes, Duration)>,
    open: Option<Error>,
    turned_away: Option<Error>,
}

impl Sent {
    /// Whether the write took effect; if nobody knows, it is remembered.
    fn note(&mut self, wrote: Wrote, seal: Option<(Bytes, Duration)>) -> bool {
        match wrote {
            Wrote::Done => (self.open, self.turned_away) = (None, None),
            // By an earlier attempt, perhaps: reading tells.
            Wrote::Refused => {
                self.turned_away = None;
                return false;
            }
            Wrote::TurnedAway(error) => {
                self.turned_away = Some(error);
                return false;
            }
            Wrote::Unknown(error) => {
                self.seals.extend(seal);
                self.open = Some(error);
                return false;
            }
        }
        true
    }

    fn find(&self, now: &Standing) -> Option<Duration> {
        let seal = self.seals.iter().find(|(body, _)| now.body.as_ref() == Some(body));
        seal.map(|(_, wait)| *wait)
    }

    /// What a write may have done is told before why it cannot be found out.
    fn instead(&self, error: Error) -> Error {
        self.open.clone().unwrap_or(error)
    }
}

/// Above which epoch the held one was to be restored; `None` if it is not a held one.
fn held_above(now: &Standing) -> Option<Option<Epoch>> {
    let record = now.record.as_ref().ok()?;
    let held = !record.expired && record.ended == Some(Ended::Restored);
    held.then(|| record.data[ABOVE].as_u64().and_then(Epoch::new))
}

fn exists(now: &Standing, epoch: Epoch) -> Restored {
    let blank = Record::blank();
    let record = now.record.as_ref().unwrap_or(&blank);
    if now.epoch == epoch && record.seen().ended == Some(Ended::Restored) {
        return Restored::Already(epoch);
    }
    Restored::Exists(Leader::new(now.epoch, record))
}

/// How long a successor must wait for the holder of this epoch.
fn asks(epoch: Epoch, record: &Record) -> Below {
    let seen = record.seen();
    if seen.ended.is_some() && !seen.is_waited_for() {
        return Below::Wait(Duration::ZERO);
    }
    match (seen.nonce, record.validity()) {
        (Some(_), Some(validity)) => Below::Wait(validity),
        _ => Below::NeedsForce(Leader::new(epoch, record)),
    }
}
