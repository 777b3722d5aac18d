//! Restoring: after an accident counting goes on above an epoch that an operator names.
//!
//! With epoch objects, a candidate that campaigns meanwhile continues above the newest epoch that
//! is left. So the restored epoch is first *held*: an unsealed object that never lapses, which no
//! candidate succeeds, and beside which no lower epoch is confirmed any more. Then holders of lower
//! epochs are deposed. Only after that the held epoch is sealed, and successors wait for the leases
//! of those that were deposed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::outcomes::Restored;
use super::sent_seals::SentSeals;
use super::{ATTEMPTS, Operator, Standing, Wrote};
use crate::driver::leader::Leader;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::layout::Layout;
use crate::protocol::message::EpochEnd;
use crate::record::{Record, Validity};

mod held;
mod sweep;

use held::held;
use sweep::{Below, asks};

/// As long as the longest validity.
const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

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
        let invalid = |why| Err(Error::new(ErrorKind::InvalidInput, why));
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
            return self.superseded_by(newest, epoch, wait).await;
        }
        let below = newest.filter(|newest| *newest < epoch);
        // Known before anything is written, as far as it can be.
        let (above, known) = match self.look_below(below).await? {
            Some(Below::NeedsForce(leader)) => return Ok(Restored::NeedsForce(leader)),
            Some(Below::Wait(asked)) => (below, asked),
            // It goes on to hold everybody back until this one does.
            Some(Below::Held(held)) => (held.above, held.longest()),
            None => (below, Duration::ZERO),
        };
        let hold = self.hold(above, known.max(wait)).to_bytes().into();
        let done = self.seal_held(epoch, wait, newest != Some(epoch), Some(hold)).await?;
        if matches!(done.restored, Restored::Sealed { .. }) && !done.superseded {
            return Ok(done.restored);
        }
        // Another operator's greater epoch may have been created since the first listing.
        // Successors count on above that one, and wait for what it says.
        match self.newest().await?.filter(|newest| *newest > epoch) {
            Some(newest) => self.superseded_by(newest, epoch, wait).await,
            None => Ok(done.restored),
        }
    }

    /// Sweeps below a held epoch and seals it. `hold` is what to create where it is absent.
    async fn seal_held(
        &mut self,
        epoch: Epoch,
        wait: Duration,
        mut absent: bool,
        hold: Option<Bytes>,
    ) -> Result<Done, Error> {
        let mut sent = SentSeals::default();
        let mut superseded = false;
        for _ in 0..=ATTEMPTS {
            let now = match absent {
                true => None,
                false => self.read(Some(epoch)).await.map_err(|error| sent.instead(error))?,
            };
            let Some(now) = now else {
                let Some(hold) = hold.clone() else { return Err(self.too_busy(epoch)) };
                let wrote = self.create(epoch, hold).await.map_err(|error| sent.instead(error))?;
                absent = false;
                sent.note(None, wrote, None);
                continue;
            };
            if let Some(wait) = sent.find(&now) {
                return Ok(Done { restored: self.tell_restored(epoch, wait), superseded });
            }
            let Some(held) = held(&now) else {
                return Ok(Done { restored: exists(&now, epoch, wait), superseded });
            };
            let listed = self.list_below(&held, epoch).await?;
            superseded |= listed.greater;
            let longest = match self.look_all(&listed.below).await? {
                Ok(asked) => asked.max(wait).max(held.longest()),
                Err(leader) => return Ok(Done::needs_force(leader, superseded)),
            };
            if held.wait.is_none_or(|known| known < longest) {
                // Before the first seal: a kill after it, and a deletion, must not forget the wait.
                let hold = self.hold(held.above, longest).to_bytes().into();
                let wrote = self.replace("holding", epoch, hold, now.etag.clone()).await;
                sent.note(Some(now.etag), wrote.map_err(|error| sent.instead(error))?, None);
                self.pause().await;
                continue;
            }
            let waits = match self.depose_all(&listed.below).await? {
                Ok(asked) => asked.max(longest),
                Err(leader) => return Ok(Done::needs_force(leader, superseded)),
            };
            let seal = self.restored(waits);
            if self.write_seal(&mut sent, now, &seal, waits).await? {
                return Ok(Done { restored: self.tell_restored(epoch, waits), superseded });
            }
            self.pause().await;
        }
        Err(sent.failure().unwrap_or_else(|| self.too_busy(epoch)))
    }

    async fn restore_token(&mut self, epoch: Epoch, wait: Duration) -> Result<Restored, Error> {
        let mut sent = SentSeals::default();
        for _ in 0..=ATTEMPTS {
            let now = self.read(None).await.map_err(|error| sent.instead(error))?;
            let mut waits = wait;
            if let Some(now) = &now {
                if let Some(wait) = sent.find(now) {
                    return Ok(self.tell_restored(epoch, wait));
                }
                self.refuse_later_format(now)?;
                match &now.record {
                    Ok(_) if now.epoch >= epoch => return Ok(exists(now, epoch, wait)),
                    Ok(record) => match asks(now.epoch, record) {
                        Below::NeedsForce(leader) => return Ok(Restored::NeedsForce(leader)),
                        Below::Wait(asked) => waits = waits.max(asked),
                        // A single object is never held.
                        Below::Held(_) => {}
                    },
                    // Nobody but the operator knows its token, and how long its holder may believe.
                    Err(_) if wait.is_zero() => return Ok(Restored::NeedsWait),
                    Err(_) => {}
                }
            }
            let body = self.encode(epoch, &self.restored(waits));
            let over = now.map(|now| now.etag);
            let wrote = match over.clone() {
                None => self.create(epoch, body.clone()).await,
                Some(etag) => self.replace("restoring", epoch, body.clone(), etag).await,
            };
            let wrote = wrote.map_err(|error| sent.instead(error))?;
            if sent.note(over, wrote, Some((body, waits))) {
                return Ok(self.tell_restored(epoch, waits));
            }
            self.pause().await;
        }
        Err(sent.failure().unwrap_or_else(|| self.too_busy(epoch)))
    }

    async fn create(&mut self, epoch: Epoch, body: Bytes) -> Result<Wrote, Error> {
        let key = self.key(epoch);
        let store = Arc::clone(&self.cx.store);
        let outcome = self.send(store.create(&key, body)).await;
        self.wrote("creating", &key, outcome)
    }

    /// The nonce differs from that of the held epoch, so that the wait counts from the first sight
    /// of this seal, also for candidates that have watched the held epoch.
    fn restored(&self, wait: Duration) -> Record {
        let mut record = Record::blank();
        record.nonce = Some(self.cx.process.nonce());
        // A validity is positive.
        record.validity_ms = Validity::Millis(millis(wait).max(1));
        let at = self.cx.process.now().time_of_day();
        record.sealed(EpochEnd::Restored, 2, &self.cx.config.name, at)
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

    /// The answer where a greater epoch exists.
    async fn superseded_by(
        &mut self,
        newest: Epoch,
        epoch: Epoch,
        wait: Duration,
    ) -> Result<Restored, Error> {
        let Some(now) = self.read(Some(newest)).await? else {
            // Compacted, so there is an even greater one.
            return Ok(Restored::Exists(Leader::new(newest, &Record::blank())));
        };
        Ok(match held(&now) {
            Some(_) => Restored::Held(newest),
            None => exists(&now, epoch, wait),
        })
    }

    fn too_busy(&self, epoch: Epoch) -> Error {
        let (key, store) = (self.key(epoch), self.cx.store.describe());
        let why = format!("{key} in {store} was written by others each time; run it again");
        Error::new(ErrorKind::Unavailable, why)
    }
}

/// What became of one held epoch.
struct Done {
    restored: Restored,
    /// The sweep listed a greater epoch.
    superseded: bool,
}

impl Done {
    fn needs_force(leader: Leader, superseded: bool) -> Done {
        Done { restored: Restored::NeedsForce(leader), superseded }
    }
}

/// Rounded up.
fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// The answer where this epoch, at or above the one to restore, is not held.
fn exists(now: &Standing, epoch: Epoch, asked: Duration) -> Restored {
    let blank = Record::blank();
    let record = now.record.as_ref().unwrap_or(&blank);
    if record.seen().ended == Some(EpochEnd::Restored) {
        // Candidates may be on their way already, so it is too late to have them wait longer.
        let wait = record.validity().unwrap_or_default();
        if wait < asked {
            return Restored::WaitsLess { epoch: now.epoch, wait };
        }
        if now.epoch == epoch {
            return Restored::Already(epoch);
        }
    }
    Restored::Exists(Leader::new(now.epoch, record))
}
