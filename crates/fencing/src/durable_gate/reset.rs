//! Resetting the gate: an operator's repair.

use tenure::seam::fencing::require_timers;
use tenure::store::StoreError;

use super::{DurableGate, Epoch, Error, ErrorKind, GateLine, Seen, envelope};
use crate::calls::{Attempts, Swap};

/// What the object of a [`DurableGate`] showed: the start of a repair.
///
/// A gate that has seen a token that nobody was granted refuses all leaders, and one whose object
/// was deleted admits no token in the instances that knew it. Repair both in this order:
///
/// 1. Block the sender of the wrong token.
/// 2. [`inspect`](DurableGate::inspect) the gate.
/// 3. Find the greatest token that was granted, with
///    [`Election::newest_epoch`](tenure::Election::newest_epoch).
/// 4. [`reset`](GateState::reset) the gate to that token.
///
/// The order matters: each real token that the gate has admitted by step 2 was granted by step 3.
#[derive(Debug, Clone)]
pub struct GateState {
    gate: DurableGate,
    seen: Option<Seen>,
}

impl DurableGate {
    /// Reads the object, to [`reset`](GateState::reset) the gate from what it shows. 1 GET.
    ///
    /// # Errors
    ///
    /// Those of [`newest`](DurableGate::newest), but an object that is gone or was lowered is no
    /// error here.
    pub async fn inspect(&self) -> Result<GateState, Error> {
        require_timers()?;
        let failed = |error| self.reading(error);
        let found = self.calls.patiently(&mut 0, failed, || self.find(None)).await?;
        Ok(GateState { gate: self.clone(), seen: found.flatten() })
    }

    /// Above all counts that are known: that of the object, and those of an object that is gone.
    fn next_reset(&self, seen: Option<&Seen>) -> Result<u64, Error> {
        let known = self.seen().map_or(0, |seen| seen.resets);
        let known = known.max(seen.map_or(0, |seen| seen.resets));
        let wall = self.calls.process.now().wall.as_millis();
        let now = u64::try_from(wall).unwrap_or(u64::MAX);
        let next = known.checked_add(1).map(|next| next.max(now));
        next.ok_or_else(|| envelope::corrupt::<GateLine>(&self.key, "its resets are used up"))
    }

    fn resetting(&self, error: StoreError, attempts: &Attempts) -> Error {
        attempts.error(self.calls.failure(&format!("resetting the gate {}", self.key), error))
    }
}

impl GateState {
    /// The greatest token that the object showed; `None` if there was none.
    #[must_use]
    pub fn newest(&self) -> Option<Epoch> {
        self.seen.as_ref().map(|seen| seen.newest)
    }

    /// Sets the greatest token seen, also to a lower one, and returns the one that the gate shows
    /// then. 1 PUT; 1 GET more if the PUT is refused or its answer is lost.
    ///
    /// `newest` must be at least the greatest token that a real leader was granted: lower ones are
    /// refused again from then on.
    ///
    /// The reset takes effect only while the object is as it was inspected. So it lowers no token
    /// that was admitted after another reset, and none that it did not show. It succeeds without a
    /// change if the gate was reset since, by this call or by another operator: the token
    /// returned is then what that reset and later leaders have left. Calling it again does no harm.
    ///
    /// After `Ok` running instances admit real tokens again, from the next one that they check.
    /// Restart instances with [`sole_instance`](DurableGate::sole_instance), and those that have
    /// a [`Gate`](crate::Gate), such as behind a `FenceLayer`: their memory still has the
    /// wrong token. Restart all of them if the object was deleted after an earlier reset and this
    /// clock is behind the one of that reset.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unavailable`]: the object changed since without a reset, and is left as it
    ///   is: inspect it again. Or the store failed, several times: call it again. If
    ///   [`may_have_happened`](Error::may_have_happened), the gate may have been reset.
    /// - Those of [`inspect`](DurableGate::inspect).
    pub async fn reset(&self, newest: Epoch) -> Result<Epoch, Error> {
        require_timers()?;
        let gate = &self.gate;
        let resets = gate.next_reset(self.seen.as_ref())?;
        let mut attempts = Attempts::default();
        while attempts.another(&gate.calls).await {
            let etag = self.seen.as_ref().map(|seen| seen.etag.clone());
            let swapped = attempts.swapped(gate.write(newest, resets, etag).await);
            match swapped.map_err(|error| gate.resetting(error, &attempts))? {
                Swap::Done(_) => return Ok(newest),
                Swap::Failed => continue,
                Swap::Refused | Swap::Unknown => {}
            }
            let found = gate.find(None).await.map_err(|error| attempts.error(error))?;
            let found = attempts.read(found);
            if let Some(found) = found.map_err(|error| gate.resetting(error, &attempts))?
                && let Some(newest) = self.reset_since(found.flatten(), &attempts)?
            {
                return Ok(newest);
            }
        }
        let last = attempts.last_or("the store refuses for no reason");
        Err(gate.resetting(last, &attempts))
    }

    /// The token that the gate shows if it was reset since; `None` if it is as it was inspected.
    fn reset_since(
        &self,
        found: Option<Seen>,
        attempts: &Attempts,
    ) -> Result<Option<Epoch>, Error> {
        let (count, etag) = self.seen.as_ref().map_or((0, None), |it| (it.resets, Some(&it.etag)));
        if found.as_ref().map(|found| &found.etag) == etag {
            return Ok(None);
        }
        // Behind what this process knows, it is no reset that running instances believe.
        let known = self.gate.seen().map(|known| known.order());
        let reset = |found: &Seen| found.resets > count && Some(found.order()) >= known;
        if let Some(found) = found.clone().filter(reset) {
            let newest = found.newest;
            self.gate.see(found);
            return Ok(Some(newest));
        }
        let now = found.map_or("is gone".to_owned(), |it| format!("shows epoch {}", it.newest));
        let key = &self.gate.key;
        let why = format!("{key} changed since it was inspected and {now}: inspect it again");
        Err(attempts.error(self.gate.calls.error(ErrorKind::Unavailable, &why)))
    }
}
