//! The reset with which an operator repairs a gate.

use tenure::internals::fencing::require_timers;
use tenure::store::StoreError;

use super::{DurableGate, Epoch, Error, ErrorKind, GateLine, Seen, envelope};
use crate::calls::{Attempts, Swap};

/// The state of a [`DurableGate`]'s object, for the repair of the gate by an operator.
///
/// After a gate has admitted a token that was never granted, it refuses all leaders. If the object
/// was deleted, the instances that have seen the object admit no token. In both cases, repair the
/// gate in this order:
///
/// 1. Block the sender of the wrong token.
/// 2. [`inspect`](DurableGate::inspect) the gate.
/// 3. Find the greatest token that was granted, with
///    [`Election::newest_epoch`](tenure::Election::newest_epoch).
/// 4. [`reset`](GateState::reset) the gate to that token.
///
/// The order matters: an election grants each token before a gate can admit it. So the token of
/// step 3 is at least as great as each granted token that the gate admitted before step 2. The
/// reset therefore discards no granted token.
#[derive(Debug, Clone)]
pub struct GateState {
    gate: DurableGate,
    seen: Option<Seen>,
}

impl DurableGate {
    /// Reads the object, as the first step of a [`reset`](GateState::reset). Cost: 1 GET.
    ///
    /// # Errors
    ///
    /// The errors of [`newest`](DurableGate::newest). A deleted object, or an object with a lower
    /// token than before, is not an error.
    pub async fn inspect(&self) -> Result<GateState, Error> {
        require_timers()?;
        let failed = |error| self.reading(error);
        let found = self.calls.patiently(&mut 0, failed, || self.find(None)).await?;
        Ok(GateState { gate: self.clone(), seen: found.flatten() })
    }

    /// Returns a number for the next reset. This number is greater than the reset number of the
    /// present object. If the object was deleted, the returned number is greater than the last
    /// reset number that this process has seen.
    fn next_reset(&self, seen: Option<&Seen>) -> Result<u64, Error> {
        let known = self.seen().map_or(0, |seen| seen.resets);
        let known = known.max(seen.map_or(0, |seen| seen.resets));
        let wall = self.calls.process.now().wall.as_millis();
        let now = u64::try_from(wall).unwrap_or(u64::MAX);
        let next = known.checked_add(1).map(|next| next.max(now));
        next.ok_or_else(|| {
            envelope::corrupt::<GateLine>(&self.key, "its reset number cannot be raised further")
        })
    }

    fn resetting(&self, error: StoreError, attempts: &Attempts) -> Error {
        attempts.error(self.calls.failure(&format!("resetting the gate {}", self.key), error))
    }
}

impl GateState {
    /// Returns the greatest token that the object showed; `None` if the object did not exist.
    #[must_use]
    pub fn newest(&self) -> Option<Epoch> {
        self.seen.as_ref().map(|seen| seen.newest)
    }

    /// Sets the greatest token that the gate has seen. The new value may be lower than the old one.
    /// Returns the token that the gate shows after the reset. Cost: 1 PUT, and 1 GET more if the
    /// PUT is refused or its response is lost.
    ///
    /// `newest` must be at least the greatest token that the election has granted, because the gate
    /// refuses lower tokens from then on.
    ///
    /// The reset takes effect only while the object has the inspected version. So it never discards
    /// a token that the inspection did not show. If the gate was reset since the inspection, by an
    /// earlier call or by another operator, the call succeeds without a change. It then returns the
    /// token that the gate shows after that reset and later admissions. So the call may be
    /// repeated.
    ///
    /// After `Ok`, the next call of [`admit`](DurableGate::admit) at each running instance admits
    /// real tokens again. Restart each instance that uses
    /// [`sole_instance`](DurableGate::sole_instance), or a [`Gate`](crate::Gate), for example
    /// behind a `FenceLayer`: its memory still has the wrong token. Also restart all instances if
    /// both conditions are met: the object was deleted after an earlier reset, and the clock of
    /// this process is behind the clock of the process that made that reset.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unavailable`]: the store failed at every attempt, or the object changed since
    ///   the inspection, but not by a reset. After such a change, this call wrote nothing: inspect
    ///   the gate again. After failures of the store, repeat the call. If
    ///   [`may_have_happened`](Error::may_have_happened) returns `true`, the reset may have taken
    ///   effect.
    /// - The errors of [`inspect`](DurableGate::inspect).
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
        let last =
            attempts.last_or("the store refuses the write although the object did not change");
        Err(gate.resetting(last, &attempts))
    }

    /// Returns the token that the gate shows if another reset took effect since the inspection.
    /// Returns `None` if the object still has the inspected version.
    fn reset_since(
        &self,
        found: Option<Seen>,
        attempts: &Attempts,
    ) -> Result<Option<Epoch>, Error> {
        let (count, etag) = self.seen.as_ref().map_or((0, None), |it| (it.resets, Some(&it.etag)));
        if found.as_ref().map(|found| &found.etag) == etag {
            return Ok(None);
        }
        // The new object has a pair of a reset number and a token. A running instance accepts the
        // object only if this pair is not below the greatest pair that the instance has seen.
        let known = self.gate.seen().map(|known| known.order());
        let reset = |found: &Seen| found.resets > count && Some(found.order()) >= known;
        if let Some(found) = found.clone().filter(reset) {
            let newest = found.newest;
            self.gate.see(found);
            return Ok(Some(newest));
        }
        let state =
            found.map_or("was deleted".to_owned(), |it| format!("shows epoch {}", it.newest));
        let key = &self.gate.key;
        let why = format!("{key} changed since the inspection and {state}: inspect it again");
        Err(attempts.error(self.gate.calls.error(ErrorKind::Unavailable, &why)))
    }
}
