//! The reservation: an object with which a writer asks faster writers of older epochs to stop.
//!
//! A claim takes a GET and a PUT, and a write takes one PUT. So a busy older writer could change
//! the object between the GET and the PUT of each claim. A writer reads the reservation before
//! every 16th write. A program that opens the object before every write may never reach the 16th
//! write. So an opening also reads the reservation if the object already has the epoch of the
//! opening writer.

use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use tenure::internals::fencing::{Nonce, Written};
use tenure::store::{Determinacy, ETag, GetOutcome};
use tenure::{Epoch, Error};

use super::FencedObject;
use crate::calls::Attempts;
use crate::envelope::{self, Line};
use crate::error::{FencingError, Stale};

/// Number of writes of one [`FencedObject`] and its clones between two reads of the reservation.
pub(super) const CHECK_EVERY: u32 = 16;
/// Number of refused attempts after which `open` writes the reservation.
pub(super) const RESERVE_AFTER: u32 = 2;
/// Number of refused attempts after which `open` fails. Each refusal means that another writer has
/// written. An older writer makes at most `CHECK_EVERY` writes before it reads the reservation and
/// stops. So after the reservation, the remaining refusals are enough for three older writers.
pub(super) const REFUSALS: u32 = 4 * CHECK_EVERY;

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReservationLine {
    tenure_reservation: u64,
    epoch: Epoch,
    nonce: Nonce,
}

impl Line for ReservationLine {
    const TAG: &'static str = "tenure_reservation";
    const WHAT: &'static str = "a fenced object's reservation";
}

/// Counts the writes of one [`FencedObject`] and its clones.
#[derive(Debug, Default)]
pub(super) struct Operations(AtomicU32);

impl Operations {
    fn next_checks(&self) -> bool {
        // The number at which the counter wraps around is a multiple of 16, so an overflow does not
        // disturb the sequence.
        self.0.fetch_add(1, Ordering::Relaxed) % CHECK_EVERY == CHECK_EVERY - 1
    }
}

impl FencedObject {
    /// Checks the reservation before each 16th write, with 1 GET. Sends nothing before the other
    /// writes.
    pub(super) async fn require_unreserved_at_times(
        &self,
        token: Epoch,
    ) -> Result<(), FencingError> {
        if self.operations.next_checks() { self.require_unreserved(token).await } else { Ok(()) }
    }

    /// Reads the reservation. Cost: 1 GET. Safety does not depend on the reservation, so a writer
    /// continues if this read fails.
    pub(super) async fn require_unreserved(&self, token: Epoch) -> Result<(), FencingError> {
        match self.reservation().await {
            Ok(Some((newest, _))) if newest > token => Err(reserved(token, newest)),
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::debug!(%error, "the reservation of a fenced object could not be read");
                Ok(())
            }
        }
    }

    /// Asks writers of older epochs to stop.
    pub(super) async fn reserve(&self, token: Epoch) -> Result<(), FencingError> {
        let nonce = self.calls.nonce();
        let line = ReservationLine { tenure_reservation: envelope::FORMAT, epoch: token, nonce };
        let key = self.reservation_key();
        let mut attempts = Attempts::default();
        while attempts.another(&self.calls).await {
            let etag = match self.reservation().await {
                Ok(Some((newest, _))) if newest > token => return Err(reserved(token, newest)),
                Ok(Some((newest, _))) if newest == token => return Ok(()),
                Ok(older) => older.map(|(_, etag)| etag),
                Err(error) => {
                    tracing::warn!(%error, "a fenced object could not be reserved");
                    return Ok(());
                }
            };
            match self.calls.put(&key, envelope::wrap(&line, b""), etag).await {
                Written::Done(_) => return Ok(()),
                Written::Refused | Written::Missing | Written::Unknown(_) => {}
                Written::Failed(error) => {
                    let error = self.calls.failure(&format!("writing {key}"), error);
                    tracing::warn!(%error, "a fenced object could not be reserved");
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn reservation(&self) -> Result<Option<(Epoch, ETag)>, Error> {
        let key = self.reservation_key();
        match self.calls.get(&key, None).await {
            Ok(GetOutcome::Found(object)) => {
                let (line, _) = envelope::unwrap::<ReservationLine>(&key, &object.body)?;
                Ok(Some((line.epoch, object.etag)))
            }
            Ok(GetOutcome::NotFound | GetOutcome::NotModified) => Ok(None),
            Ok(_) => Err(envelope::corrupt::<ReservationLine>(&key, "it is too large")),
            Err(error) => Err(self.calls.failure(&format!("reading {key}"), error)),
        }
    }

    fn reservation_key(&self) -> String {
        format!("{}.reservation", self.key)
    }
}

fn reserved(offered: Epoch, newest: Epoch) -> FencingError {
    FencingError::Stale { stale: Stale { offered, newest }, determinacy: Determinacy::Determinate }
}
