//! The trim of the log, and the marker that records its progress.

use serde::{Deserialize, Serialize};

use tenure::internals::fencing::{After, require_timers};
use tenure::store::{ETag, GetOutcome, StoreError};
use tenure::{Error, ErrorKind};

use super::FencedLog;
use crate::calls::{Attempts, Swap};
use crate::envelope::{self, Line};
use crate::error::FencingError;
use crate::protocol::{Floor, Sweep};

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TrimLine {
    tenure_log_trim: u64,
    /// All entries below this number are trimmed: readers no longer return them.
    floor: u64,
    /// All entries below this number are also deleted.
    swept: u64,
}

impl Line for TrimLine {
    const TAG: &'static str = "tenure_log_trim";
    const WHAT: &'static str = "a log's trim marker";
}

impl FencedLog {
    /// Deletes the entries before this number, and returns the number of the oldest entry that may
    /// remain. The newest entry is never deleted. Claims and the fences below them are never
    /// deleted either. So 1 small object remains for each call of [`open`](FencedLog::open), and a
    /// few more objects if an older writer was busy during the call.
    ///
    /// A trim needs no token. Several callers may trim concurrently. If a trim is interrupted at
    /// any point, the next trim deletes the rest.
    ///
    /// Cost: 1 GET, the cost of [`latest`](FencedLog::latest), 2 PUT, and 1 GET for each claim
    /// since the last trim. Every 1,000 entries cost 2 LIST and 1 DELETE more.
    ///
    /// # Errors
    ///
    /// [`FencingError::Failed`]: a request failed at every attempt, the store did not delete some
    /// entries, or it still lists an entry after its deletion. Readers may nevertheless treat the
    /// entries as trimmed. Trim again. [`ErrorKind::CorruptRecord`]: an object does not belong to
    /// the log, or an object that was not trimmed is missing.
    pub async fn trim(&self, before: u64) -> Result<u64, FencingError> {
        require_timers()?;
        let Some(mut sweep) = self.sweep(before).await? else { return Ok(self.oldest().await?) };
        while let Some(claim) = sweep.next_claim() {
            let header = self.object(claim).await?.map(|read| read.header);
            if !header.is_some_and(|header| sweep.handle_claim(&header)) {
                return Err(self.gone_within(claim).into());
            }
        }
        // The marker is raised before the first deletion, so that no reader looks for a deleted
        // entry.
        self.mark(|marker| marker.raised(sweep.cut())).await?;
        if !sweep.is_empty() {
            self.delete(&sweep).await?;
            self.mark(|marker| marker.swept(sweep.cut())).await?;
        }
        Ok(sweep.cut().max(1))
    }

    async fn sweep(&self, before: u64) -> Result<Option<Sweep>, FencingError> {
        let mut missing = None;
        let mut attempts = Attempts::default();
        while attempts.another(&self.calls).await {
            // The trim reads the marker before it searches for the end. If it read the marker after
            // the search, a concurrent trim could have raised the floor above this end.
            let marker = self.marker_patiently().await?;
            let Some(end) = self.end().await? else { return Ok(None) };
            missing = match self.below_fences(end).await? {
                Ok((end, newest)) => match Sweep::new(before, end, &newest.header, marker) {
                    Some(sweep) => return Ok(Some(sweep)),
                    None => None,
                },
                Err(number) => Some(number),
            };
        }
        Err(self.no_newest("trimming", missing).await.into())
    }

    /// Deletes the objects and lists them again. An object that is still listed was not deleted,
    /// even if the store reported its deletion.
    async fn delete(&self, sweep: &Sweep) -> Result<(), Error> {
        let start = After::Number(sweep.from().saturating_sub(1));
        let mut next = Some(start.clone());
        while let Some(after) = next.take() {
            let (keys, rest) = self.doomed(sweep, &after).await?;
            next = rest;
            if keys.is_empty() {
                continue;
            }
            let failed = self.calls.delete(keys).await;
            let failed = failed.map_err(|error| self.failure("deleting from", error))?;
            if let Some((key, why)) = failed.first() {
                return Err(self.undeleted(&format!("{key} was not deleted: {why}")));
            }
        }
        next = Some(start);
        while let Some(after) = next.take() {
            let (keys, rest) = self.doomed(sweep, &after).await?;
            next = rest;
            if let Some(key) = keys.first() {
                return Err(self.undeleted(&format!("{key} is still listed after it was deleted")));
            }
        }
        Ok(())
    }

    fn undeleted(&self, why: &str) -> Error {
        self.calls.error(ErrorKind::Unavailable, why).maybe()
    }

    /// Returns the keys to delete on the page after this position, and the start of the next page.
    async fn doomed(
        &self,
        sweep: &Sweep,
        after: &After,
    ) -> Result<(Vec<String>, Option<After>), Error> {
        let (numbers, rest) = self.page_patiently(after).await?;
        let past = numbers.last().is_some_and(|last| last.get() >= sweep.cut());
        let doomed = numbers.iter().filter(|number| sweep.deletes(number.get()));
        let keys = doomed.map(|number| self.keys.numbered(number.get())).collect();
        Ok((keys, rest.filter(|_| !past)))
    }

    /// Reads the marker, and its ETag if it exists.
    pub(super) async fn marker(&self) -> Result<Result<(Floor, Option<ETag>), StoreError>, Error> {
        let key = self.keys.marker();
        match self.calls.get(&key, None).await {
            Ok(GetOutcome::Found(object)) => {
                let (line, rest) = envelope::unwrap::<TrimLine>(&key, &object.body)?;
                let TrimLine { floor, swept, .. } = line;
                if !rest.is_empty() || swept > floor {
                    return Err(envelope::corrupt::<TrimLine>(
                        &key,
                        "its numbers are inconsistent",
                    ));
                }
                Ok(Ok((Floor { floor, swept }, Some(object.etag))))
            }
            Ok(GetOutcome::NotFound | GetOutcome::NotModified) => Ok(Ok((Floor::default(), None))),
            Ok(_) => Err(envelope::corrupt::<TrimLine>(&key, "it is too large")),
            Err(error) => Ok(Err(error)),
        }
    }

    pub(super) async fn marker_patiently(&self) -> Result<Floor, Error> {
        let failed = |error| self.failure("reading the trim marker of", error);
        Ok(self.calls.patiently(&mut 0, failed, || self.marker()).await?.0)
    }

    /// Raises the marker. The marker is never lowered. So after a lost response, the numbers in the
    /// marker show whether the write took effect.
    async fn mark(&self, raise: impl Fn(Floor) -> Floor) -> Result<(), Error> {
        let raising = |error| self.failure("raising the trim marker of", error).maybe();
        let mut attempts = Attempts::default();
        while attempts.another(&self.calls).await {
            let found = attempts.read(self.marker().await?);
            let found = found.map_err(|error| self.failure("reading the trim marker of", error))?;
            let Some((marker, etag)) = found else { continue };
            let Floor { floor, swept } = raise(marker);
            if marker == (Floor { floor, swept }) {
                return Ok(());
            }
            let line = TrimLine { tenure_log_trim: envelope::FORMAT, floor, swept };
            let put = self.calls.put(&self.keys.marker(), envelope::wrap(&line, b""), etag).await;
            if let Swap::Done(_) = attempts.swapped(put).map_err(raising)? {
                return Ok(());
            }
        }
        Err(raising(attempts.last_or("other trims changed the marker during each attempt")))
    }

    /// The error for an object that must exist, but is missing or has changed.
    pub(super) fn gone_within(&self, number: u64) -> Error {
        let key = self.keys.numbered(number);
        let why = format!("{key} is missing or has changed, and was not trimmed");
        self.calls.error(ErrorKind::CorruptRecord, &why)
    }
}
