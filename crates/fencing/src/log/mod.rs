//! A log of numbered objects that carry the epoch of their writer.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use tenure::internals::fencing::{After, Listing, Progress, Search, folder};
use tenure::store::{Determinacy, GetOutcome, Store, StoreError, StoreErrorKind};
use tenure::{Epoch, Error, ErrorKind, Process};

use super::calls::Calls;
use super::envelope;
use crate::protocol::{Header, Kind};
use keys::LogKeys;
use line::LogLine;

mod keys;
mod line;
mod read;
mod trim;
mod writer;

pub use writer::LogWriter;

/// A log on a store. Only the newest leader can append to the log. Each object has a number, is
/// created with `If-None-Match`, and carries the epoch of its writer, like the manifests of
/// SlateDB. Clones share the log.
///
/// **Guarantees.**
/// - After [`open`](FencedLog::open) has returned, no older writer appends. An older writer has an
///   older epoch, or is an earlier writer of the same epoch. This guarantee holds however long the
///   older writer pauses, and also if the log is trimmed during the pause. Epochs never decrease
///   along the log.
/// - An append that returned `Ok` is in the log at its number. The log has no entry of another
///   writer between this entry and the newest entry that the writer knew before the append.
/// - For each number, a read returns the first object that was created at that number, or no
///   object.
///
/// **Limits.** The data of a reader may be outdated when the reader uses them. A trim needs no
/// token. So the caller must know that no leader, present or future, needs the trimmed entries. If
/// objects are deleted by other means, a paused writer may create them again. So delete only with
/// [`trim`](FencedLog::trim), and configure no lifecycle rules.
///
/// **The objects.** The keys are `<prefix>/%020d`, from 1 on without gaps. An object is a line of
/// JSON followed by the body. The first object of a writer is its claim. A claim is not an entry,
/// so the numbers of the entries have gaps. If an older writer was busy during the claim, there are
/// *fences* below the claim: objects that stop the older writer and are not entries.
/// `<prefix>/trim` records the trimmed numbers. Claims and the fences below them are never deleted,
/// because they refuse the next append of a paused older writer. So each call of `open` leaves a
/// claim of 150 bytes, and one object of the same size for each fence.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Epoch, store::MemoryStore};
/// # use tenure_fencing::FencedLog;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (old, new) = (Epoch::FIRST, Epoch::new(2).unwrap());
/// let log = FencedLog::new(Arc::new(MemoryStore::new()), "orders/manifest")?;
/// let mut writer = log.open(old).await?; // claims it: older epochs cannot append
/// let number = writer.append("a.sst").await?;
///
/// log.open(new).await?;
/// assert!(writer.append("b.sst").await.unwrap_err().stale().is_some());
/// let latest = log.latest().await?.unwrap();
/// assert_eq!((latest.number, &latest.body[..]), (number, &b"a.sst"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FencedLog {
    calls: Calls,
    keys: LogKeys,
    /// Greatest number that this value and its clones have seen in the log; 0 if they have seen
    /// none. The next search for the end of the log starts at this number.
    known: Arc<AtomicU64>,
}

/// One entry of a [`FencedLog`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogEntry {
    /// Number of the entry in the log.
    pub number: u64,
    /// Epoch of the writer.
    pub epoch: Epoch,
    /// Appended bytes.
    pub body: Bytes,
}

impl LogEntry {
    /// Creates an entry, for tests of code that reads a log.
    pub fn new(number: u64, epoch: Epoch, body: impl Into<Bytes>) -> LogEntry {
        LogEntry { number, epoch, body: body.into() }
    }
}

/// An object of the log, as a read returned it.
struct Read {
    header: Header,
    body: Bytes,
}

impl FencedLog {
    /// Creates the log under this prefix. `app/log` and `app/log/` are the same prefix. Sends
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] if the prefix is not valid.
    pub fn new(store: Arc<dyn Store>, prefix: impl AsRef<str>) -> Result<FencedLog, Error> {
        let keys = LogKeys(folder(prefix.as_ref())?.into());
        Ok(FencedLog { calls: Calls::new(store), keys, known: Arc::default() })
    }

    /// Sets the time limit of a single request. Default: 30 s.
    #[must_use]
    pub fn request_timeout(mut self, request_timeout: Duration) -> FencedLog {
        self.calls.request_timeout = request_timeout;
        self
    }

    /// Sets the source of the clock and of random numbers. Default: [`Process::system`].
    #[must_use]
    pub fn process(mut self, process: Process) -> FencedLog {
        self.calls.process = process;
        self
    }

    fn known(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.known.load(Ordering::Relaxed))
    }

    fn saw(&self, number: u64) {
        self.known.fetch_max(number, Ordering::Relaxed);
    }

    /// Lists one page, in order. A torn page may miss the newest object: a trim may have deleted
    /// it, and newer objects may have been created meanwhile. A trim raises the floor before its
    /// first deletion, and deletes nothing at or above the floor. So a torn page is valid if the
    /// floor is the same before and after the listing (N8).
    async fn page(&self, after: &After) -> Result<(Vec<NonZeroU64>, Option<After>), StoreError> {
        let start = self.keys.start(after);
        let mut page = self.calls.list(&self.keys.0, &start).await?;
        if page.torn {
            let floor = self.floor().await?;
            page = self.calls.list(&self.keys.0, &start).await?;
            if page.torn && self.floor().await? != floor {
                let why = "a trim ran during the listing";
                let kind = StoreErrorKind::Transient;
                return Err(StoreError::new(kind, Determinacy::Determinate, why));
            }
            page.torn = false;
        }
        self.keys.check(&start, &page)
    }

    async fn floor(&self) -> Result<u64, StoreError> {
        let marker = self.marker().await.map_err(|error| {
            let kind = StoreErrorKind::Invalid;
            StoreError::new(kind, Determinacy::Determinate, error.to_string())
        });
        Ok(marker??.0.floor)
    }

    async fn page_patiently(
        &self,
        after: &After,
    ) -> Result<(Vec<NonZeroU64>, Option<After>), Error> {
        let failed = |error| self.failure("listing", error);
        let page = || async { Ok(self.page(after).await) };
        self.calls.patiently(&mut 0, failed, page).await
    }

    async fn list(&self, after: &After) -> Result<Listing<NonZeroU64>, StoreError> {
        let (numbers, rest) = self.page(after).await?;
        let ends = numbers.first().copied().zip(numbers.last().copied());
        Ok(Listing { epochs: ends, rest })
    }

    /// Finds the number of the newest object.
    async fn end(&self) -> Result<Option<NonZeroU64>, Error> {
        let mut search = Search::new(self.known());
        let mut failures = 0;
        loop {
            let failed = |error| self.failure("searching for the end of", error);
            let list = || async { Ok(self.list(search.next_page()).await) };
            let page = self.calls.patiently(&mut failures, failed, list).await?;
            match search.handle(page) {
                Progress::More => {}
                Progress::Newest(end) => {
                    self.saw(end.map_or(0, NonZeroU64::get));
                    return Ok(end);
                }
                Progress::KnownIsGone(number) => return Err(self.gone(number.get())),
            }
        }
    }

    /// Reads the object of this number; `None` if it does not exist.
    async fn object(&self, number: u64) -> Result<Option<Read>, Error> {
        let failed = |error| self.failure("reading", error);
        self.calls.patiently(&mut 0, failed, || self.read(number)).await
    }

    /// Returns the newest entry or claim of the log that ends at `end`, and its number. The inner
    /// `Err` contains a number that has no object: the object was trimmed meanwhile or deleted by
    /// other means.
    ///
    /// Costs 1 GET. If the log ends with fences, each number from the last fence down to the newest
    /// entry or claim costs 1 GET more. Fences at the end belong to a writer that is opening the
    /// log or has failed to open it.
    async fn below_fences(&self, end: NonZeroU64) -> Result<Result<(u64, Read), u64>, Error> {
        let (mut number, mut base) = (end.get(), end.get());
        loop {
            match self.object(number).await? {
                // Above `base`, a missing object is no error: a fence may be created there later.
                // A fence at `base` or below sets a new `base`.
                Some(Read { header: Header { kind: Kind::Fence { base: next }, .. }, .. }) => {
                    base = if number <= base { next } else { base };
                }
                Some(read) => return Ok(Ok((number, read))),
                None if number > base => {}
                None => return Ok(Err(number)),
            }
            // The number stays at 1 or above: every base is at least 1, and number 1 is never a
            // fence.
            number -= 1;
        }
    }

    /// Makes one attempt of [`object`](Self::object). The outer error means that the object has
    /// unexpected content.
    async fn read(&self, number: u64) -> Result<Result<Option<Read>, StoreError>, Error> {
        let key = self.keys.numbered(number);
        let object = match self.calls.get(&key, None).await {
            Ok(GetOutcome::Found(object)) => object,
            Ok(GetOutcome::NotFound | GetOutcome::NotModified) => return Ok(Ok(None)),
            Ok(_) => {
                return Err(envelope::corrupt::<LogLine>(&key, "it does not fit into memory"));
            }
            Err(error) => return Ok(Err(error)),
        };
        let (line, body) = envelope::unwrap::<LogLine>(&key, &object.body)?;
        let header = line.header(number).ok_or_else(|| {
            envelope::corrupt::<LogLine>(&key, "its first line refers to greater numbers")
        })?;
        Ok(Ok(Some(Read { header, body })))
    }

    fn failure(&self, doing: &str, error: StoreError) -> Error {
        self.calls.failure(&format!("{doing} the log {}", self.keys.0), error)
    }

    fn gone(&self, number: u64) -> Error {
        let key = self.keys.numbered(number);
        let why = format!("{key} was deleted, and no greater number exists");
        self.calls.error(ErrorKind::NewestDeleted, &why)
    }

    /// The error for a log that changed during each attempt. Either other writers append too often,
    /// or responses of the store contradict each other.
    fn restless(&self, doing: &str) -> Error {
        let why = format!("{doing} the log {}: it changed during each attempt", self.keys.0);
        self.calls.error(ErrorKind::Unavailable, &why)
    }

    /// Returns the error for an entry that several reads did not find. `number` is its number.
    async fn missing(&self, doing: &str, number: u64) -> Error {
        match self.marker_patiently().await {
            Ok(marker) if marker.floor > number => self.restless(doing),
            Ok(_) => {
                let key = self.keys.numbered(number);
                let why = format!(
                    "{key} is missing and was not trimmed: it was deleted by other means, or reads \
                     of this store lag behind its listings"
                );
                self.calls.error(ErrorKind::CorruptRecord, &why)
            }
            Err(error) => error,
        }
    }
}
