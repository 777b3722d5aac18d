//! Reading the log: its newest entry, and its entries in order.
//!
//! An object below the floor of the trim marker may have been deleted and created again. So a
//! reader reads the marker after each batch of objects, and returns no object below the floor.

use std::collections::VecDeque;

use futures::stream::{self, Stream, StreamExt as _, TryStreamExt as _};

use tenure::Error;
use tenure::internals::fencing::{After, require_timers};

use super::{FencedLog, LogEntry, Read};
use crate::calls::Attempts;
use crate::error::FencingError;
use crate::protocol::Kind;
#[cfg(doc)]
use tenure::ErrorKind;

/// Number of objects between two reads of the marker.
const BATCH: usize = 32;
/// Number of concurrent reads.
const AT_ONCE: usize = 8;

impl FencedLog {
    /// Reads the newest entry; `None` if the log has no entry. This method is for readers: it needs
    /// no token.
    ///
    /// Cost: 1 LIST and 2 GET, and 1 GET more if the newest writer has not appended an entry. A log
    /// of a million objects costs about 25 LIST more, unless this `FencedLog` has seen the end
    /// before. A log that ends with fences costs 1 GET more for each number from the last fence
    /// down to the newest entry or claim. The log ends with fences while a writer opens it and a
    /// busy older writer appends.
    ///
    /// # Errors
    ///
    /// [`FencingError::Failed`]: a request failed at every attempt. [`ErrorKind::CorruptRecord`]:
    /// an object does not belong to the log, or an object that was not trimmed is missing.
    pub async fn latest(&self) -> Result<Option<LogEntry>, FencingError> {
        require_timers()?;
        let mut missing = None;
        let mut attempts = Attempts::default();
        while attempts.another(&self.calls).await {
            let Some(end) = self.end().await? else { return Ok(None) };
            // An `Err` means that an object is missing. If a trim deleted the object after the
            // listing, the log has a newer object, and the next attempt finds it.
            let (end, newest) = match self.below_fences(end).await? {
                Ok(newest) => newest,
                Err(number) => {
                    missing = Some(number);
                    continue;
                }
            };
            let number = newest.header.last_entry(end);
            let read = match newest.header.kind {
                Kind::Entry => Some(newest),
                _ if number == 0 => None,
                _ => match self.object(number).await? {
                    Some(read) => Some(read),
                    None => {
                        missing = Some(number);
                        continue;
                    }
                },
            };
            // Only a marker that is read after the objects shows that the objects were not trimmed.
            if self.marker_patiently().await?.floor > number.max(1) {
                missing = None;
                continue;
            }
            return Ok(read.map(|read| read.into_entry(number)));
        }
        Err(self.no_newest("reading", missing).await.into())
    }

    /// Returns the error for a search in which no attempt has found the newest entry. `missing` is
    /// the number at which the last attempt found no object.
    pub(super) async fn no_newest(&self, doing: &str, missing: Option<u64>) -> Error {
        match missing {
            Some(number) => self.missing(doing, number).await,
            None => self.restless(doing),
        }
    }

    /// Reads the entries from this number on, in order, up to the present end of the log. A reader
    /// that follows the log calls this method again, with the number after the last entry.
    ///
    /// Cost: 1 LIST for every 1,000 objects, 1 GET for each object, and 1 GET of the trim marker
    /// for every 32 objects.
    ///
    /// # Errors
    ///
    /// The stream ends with the first error.
    ///
    /// - [`FencingError::Trimmed`]: entries from this number on were trimmed, before or during the
    ///   read.
    /// - [`FencingError::Failed`]: a request failed at every attempt, an object does not belong to
    ///   the log, or an object that was not trimmed is missing.
    pub fn read_from(
        &self,
        number: u64,
    ) -> impl Stream<Item = Result<LogEntry, FencingError>> + Send + Unpin + use<> {
        let next = number.max(1);
        let reading = Reading {
            log: self.clone(),
            next,
            list: Some(After::Number(next - 1)),
            listed: VecDeque::new(),
        };
        let batches = stream::try_unfold(reading, |mut reading| async move {
            require_timers()?;
            let batch = reading.batch().await?;
            Ok::<_, FencingError>(batch.map(|batch| (stream::iter(batch).map(Ok), reading)))
        });
        Box::pin(batches.try_flatten())
    }

    /// Returns a lower bound of the number of the oldest entry. The bound is 1 if the log was never
    /// trimmed. Cost: 1 GET.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unavailable`](tenure::ErrorKind::Unavailable) and other store errors: the
    /// request failed at every attempt.
    pub async fn oldest(&self) -> Result<u64, Error> {
        require_timers()?;
        Ok(self.marker_patiently().await?.floor.max(1))
    }
}

impl Read {
    fn into_entry(self, number: u64) -> LogEntry {
        LogEntry { number, epoch: self.header.epoch, body: self.body }
    }
}

/// The position of a stream of entries.
struct Reading {
    log: FencedLog,
    /// Number of the next object. The log has no gaps below its newest entry.
    next: u64,
    /// Start of the next page of the listing; `None` after the last page.
    list: Option<After>,
    listed: VecDeque<u64>,
}

impl Reading {
    /// Returns the entries among the next objects; `None` at the end of the log. If all next
    /// objects are claims and fences, the batch is empty.
    async fn batch(&mut self) -> Result<Option<Vec<LogEntry>>, FencingError> {
        if self.listed.is_empty() {
            let Some(after) = self.list.take() else { return Ok(None) };
            self.page(&after).await?;
        }
        let batch: Vec<u64> = self.listed.drain(..self.listed.len().min(BATCH)).collect();
        let Some(first) = batch.first().copied() else { return Ok(Some(Vec::new())) };
        let log = &self.log;
        let reads = batch
            .into_iter()
            .map(|number| async move { Ok::<_, Error>((number, log.object(number).await?)) });
        let reads: Vec<_> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
        self.require_untrimmed(first).await?;
        let mut entries = Vec::new();
        for (number, read) in reads {
            match read {
                Some(read) if read.header.kind == Kind::Entry => {
                    entries.push(read.into_entry(number));
                }
                Some(_) => {}
                None => return Err(self.log.gone_within(number).into()),
            }
        }
        Ok(Some(entries))
    }

    async fn page(&mut self, after: &After) -> Result<(), FencingError> {
        let (numbers, rest) = self.log.page_patiently(after).await?;
        for number in numbers {
            let number = number.get();
            if number != self.next {
                // A listing without order may omit an object that was created meanwhile, and show a
                // later one. The next listing shows both.
                let unordered = self.log.calls.store.capabilities().lists_without_order;
                if unordered && self.log.object(self.next).await?.is_some() {
                    self.list = Some(After::Number(self.next - 1));
                    return Ok(());
                }
                self.require_end(number).await?;
                self.list = None;
                return Ok(());
            }
            self.listed.push_back(number);
            self.next = number.saturating_add(1);
        }
        self.list = rest;
        Ok(())
    }

    /// Checks that the log ends before the number `next`. The listing has no object at this number,
    /// but it has an object at the number `above`. The log ends before `next` if all objects from
    /// `above` on are fences of a writer that is opening the log.
    async fn require_end(&self, above: u64) -> Result<(), FencingError> {
        let fenced = self.log.object(above).await?.is_some_and(|it| it.header.is_fence());
        let newest = match self.log.end().await? {
            Some(end) => self.log.below_fences(end).await?.ok().map(|(newest, _)| newest),
            None => None,
        };
        // If the newest entry is below `next`, the log ends before `next`. Otherwise the object at
        // `next` was created since the listing, or a trim has deleted it.
        let is_end = newest.is_some_and(|newest| newest < self.next);
        let whole = is_end || self.log.object(self.next).await?.is_some();
        self.require_untrimmed(self.next).await?;
        if fenced && whole { Ok(()) } else { Err(self.log.gone_within(self.next).into()) }
    }

    async fn require_untrimmed(&self, number: u64) -> Result<(), FencingError> {
        let oldest = self.log.marker_patiently().await?.floor;
        if oldest > number { Err(FencingError::Trimmed { oldest }) } else { Ok(()) }
    }
}
