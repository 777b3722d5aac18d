//! The restore after an accident: the epochs continue above an epoch that an operator names (RS1 to
//! RS10).
//!
//! With epoch objects, a concurrent campaign would continue above the newest epoch in the store. So
//! a restore has three steps:
//!
//! 1. It *holds* the restored epoch (RS3): it creates an unsealed object that never lapses. While
//!    this object exists, the held epoch gets no successor, and no campaign confirms a lower epoch.
//! 2. It deposes the holders of lower epochs (RS4).
//! 3. It seals the held epoch (RS5). Successors wait for the leases of the deposed holders.

use std::time::Duration;

use bytes::Bytes;

use super::outcomes::Restored;
use super::sent_seals::SentSeals;
use super::{ATTEMPTS, Operator, Standing};
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

/// Maximum `wait` of a restore, equal to the maximum validity.
pub(in crate::driver) const MAX_WAIT: Duration = Duration::from_secs(24 * 3600);

/// Refuses the last possible epoch, and a wait above the maximum validity.
pub(in crate::driver) fn check_floor(epoch: Epoch, wait: Duration) -> Result<(), Error> {
    if epoch == Epoch::MAX {
        let why = format!("{epoch} is the last epoch, so no epoch can follow it");
        return Err(Error::new(ErrorKind::EpochsExhausted, why));
    }
    if wait > MAX_WAIT {
        let why = format!("wait must be at most {MAX_WAIT:?}, got {wait:?}");
        return Err(Error::new(ErrorKind::InvalidInput, why));
    }
    Ok(())
}

impl Operator {
    /// Makes the epochs continue above `epoch`. `wait` is the time for which an earlier leader may
    /// believe that it leads.
    pub(crate) async fn restore(
        &mut self,
        epoch: Epoch,
        wait: Duration,
    ) -> Result<Restored, Error> {
        check_floor(epoch, wait)?;
        if let Some(seen) = self.cx.greatest().filter(|seen| *seen > epoch) {
            let why = format!(
                "the epoch must be at least {seen}, which this process has seen, got {epoch}"
            );
            return Err(Error::new(ErrorKind::InvalidInput, why));
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
        // The first write must already contain the wait that the known records require (RS6).
        let (above, known) = match self.look_below(below).await? {
            Some(Below::NeedsForce(leader)) => return Ok(Restored::NeedsForce(leader)),
            Some(Below::Wait(asked)) => (below, asked),
            // An earlier restore holds the newest epoch, and so stops all candidates. It may not
            // have deposed every holder. So this restore uses the least epoch and the wait in the
            // object of the earlier restore (RS4).
            Some(Below::Held(held)) => (held.above, held.longest()),
            None => (below, Duration::ZERO),
        };
        let hold = self.hold(above, known.max(wait)).to_bytes().into();
        let done = self.seal_held(epoch, wait, newest != Some(epoch), Some(hold)).await?;
        if matches!(done.restored, Restored::Sealed { .. }) && !done.superseded {
            return Ok(done.restored);
        }
        // Another operator may have created a greater epoch since the first listing. Successors
        // continue above that epoch, and wait for the time in its record (RS7).
        match self.newest().await?.filter(|newest| *newest > epoch) {
            Some(newest) => self.superseded_by(newest, epoch, wait).await,
            None => Ok(done.restored),
        }
    }

    /// Deposes the holders below a held epoch, and seals the held epoch. If the object of the held
    /// epoch is missing, this function creates it with the body `hold`.
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
                let wrote = self.create(&self.key(epoch), hold).await;
                let wrote = wrote.map_err(|error| sent.instead(error))?;
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
                // The held object must contain the wait before the first seal of a lower epoch.
                // Otherwise the wait would be lost if this process were killed and the sealed
                // object were deleted (RS4).
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
                        // A restore never holds an epoch of `Layout::SingleObject`.
                        Below::Held(_) => {}
                    },
                    // This record is unreadable, so only the operator knows its token and its
                    // validity (RS2).
                    Err(_) if wait.is_zero() => return Ok(Restored::NeedsWait),
                    Err(_) => {}
                }
            }
            let body = self.encode(epoch, &self.restored(waits));
            let over = now.map(|now| now.etag);
            let wrote = match over.clone() {
                None => self.create(&self.key(epoch), body.clone()).await,
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

    /// Returns the seal of the restored epoch. Its nonce differs from the nonce of the held epoch.
    /// So the wait of each candidate starts when it first sees this seal, even if it has watched
    /// the held epoch (RS8).
    pub(in crate::driver) fn restored(&self, wait: Duration) -> Record {
        let mut record = self.cx.config.blank();
        record.nonce = Some(self.cx.process.nonce());
        // A validity in a record must be at least 1 ms, so a wait of 0 becomes 1 ms.
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
            "restored: the next epoch is above this one"
        );
        Restored::Sealed { epoch, wait: self.cx.config.drift.stretch(wait) }
    }

    /// Returns the outcome of a restore of `epoch` if the greater epoch `newest` exists.
    async fn superseded_by(
        &mut self,
        newest: Epoch,
        epoch: Epoch,
        wait: Duration,
    ) -> Result<Restored, Error> {
        let Some(now) = self.read(Some(newest)).await? else {
            // The object was compacted, so an even greater epoch exists.
            return Ok(Restored::Exists(Leader::new(newest, &Record::blank())));
        };
        Ok(match held(&now) {
            Some(_) => Restored::Held(newest),
            None => exists(&now, epoch, wait),
        })
    }

    fn too_busy(&self, epoch: Epoch) -> Error {
        let (key, store) = (self.key(epoch), self.cx.store.describe());
        let why =
            format!("other processes wrote {key} in {store} before each attempt; restore again");
        Error::new(ErrorKind::Unavailable, why)
    }
}

/// The result of `seal_held` for one held epoch.
struct Done {
    restored: Restored,
    /// True if a listing showed an epoch above the held epoch.
    superseded: bool,
}

impl Done {
    fn needs_force(leader: Leader, superseded: bool) -> Done {
        Done { restored: Restored::NeedsForce(leader), superseded }
    }
}

/// Returns the wait in milliseconds, rounded up.
fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Returns the outcome for an existing epoch that is at or above the restored epoch and is not
/// held.
fn exists(now: &Standing, epoch: Epoch, asked: Duration) -> Restored {
    let blank = Record::blank();
    let record = now.record.as_ref().unwrap_or(&blank);
    if record.seen().ended == Some(EpochEnd::Restored) {
        // Candidates may already be waiting, so a shorter wait cannot be extended.
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
