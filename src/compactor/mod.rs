//! Deletes superseded epoch objects, never the newest.

use std::fmt;
use std::future;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument as _;

use crate::driver::runtime::require_timers;
use crate::env::process::Process;
use crate::env::timer::pause;
use crate::error::{Error, ErrorKind};
use crate::record::keys::Keys;
use crate::store::Store;
use crate::telemetry::{Counted, Meter};

mod pages;
mod report;
mod requests;
mod run;
#[cfg(test)]
mod tests;

pub use report::Report;
use requests::NewestObject;

const DEFAULT_KEEP_EPOCHS: usize = 10;
// 32 bytes are remembered for each, so this is what bounds a run's memory: some 3 MB.
const MAX_KEEP_EPOCHS: usize = 100_000;
const DEFAULT_MIN_AGE: Duration = Duration::from_secs(3600);
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Deletes the epoch objects of one election that are superseded, beyond the newest few, and old
/// enough. The newest is never deleted (invariant I3).
///
/// Elections do not need it to be correct; without it the objects pile up and cost storage. Any
/// number of compactors may run at once, next to any number of candidates, and a run may be dropped
/// or killed at any point: what it has deleted was superseded, and the next run finds what is left.
/// Keys that are not epoch objects are never deleted.
///
/// It needs to list the prefix, and to read and delete the epoch objects, but not to write any. A
/// run that has something to delete reads the newest epoch before each deletion of up to 1,000, for
/// two reasons. An unfinished [`restore`](crate::Election::restore) may hold it; then the epochs
/// below it stay, as one of them may have a leader. And no object is deleted that is younger than
/// the validity in its record.
///
/// # Examples
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use tenure::{Compactor, Election, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// # let election = Election::builder(store.clone(), "orders/leader").build()?;
/// for _ in 0..5 {
///     election.campaign().await?.resign().await?; // each leaves an object
/// }
/// let compactor = Compactor::builder(store, "orders/leader")
///     .keep_epochs(2)
///     .min_age(Duration::ZERO) // for this example: the default is 1 h
///     .build()?;
/// let report = compactor.run_once().await?;
/// assert_eq!((report.deleted, report.kept), (3, 2));
/// assert_eq!(report.newest, election.newest_epoch().await?); // never deleted
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Compactor {
    store: Arc<Counted>,
    meter: Meter,
    keys: Keys,
    keep_epochs: NonZeroUsize,
    min_age: Duration,
    dry_run: bool,
    request_timeout: Duration,
    /// How the newest object is read.
    newest: NewestObject,
}

impl Compactor {
    /// Returns the settings of a compactor of the election at `prefix`; `app` and `app/` are the
    /// same. No request.
    pub fn builder(store: Arc<dyn Store>, prefix: impl Into<String>) -> CompactorBuilder {
        CompactorBuilder {
            store,
            prefix: prefix.into(),
            keep_epochs: DEFAULT_KEEP_EPOCHS,
            min_age: DEFAULT_MIN_AGE,
            dry_run: false,
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            newest: NewestObject::Epoch,
        }
    }

    /// Lists the epochs once and deletes those that are superseded, beyond the newest few, and old
    /// enough.
    ///
    /// Costs 1 LIST, then 1 LIST for every 1,000 keys listed (at least 1), and 1 GET and 1 DELETE
    /// for every 1,000 epochs deleted. Remembers the epochs that it keeps and those of at most 5
    /// deletions.
    ///
    /// Single epochs that the store did not delete are not an error: they count in
    /// [`Report::failed`]. Dropping the future is safe; deletions already sent may still take
    /// effect.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unavailable`]: a request failed or was not answered in time. What was
    ///   deleted until then is gone; run it again.
    /// - [`ErrorKind::UnsafeStore`]: the listing is out of order or shows keys outside of the
    ///   request; the message names them. Do not use this store for elections.
    /// - [`ErrorKind::CorruptRecord`], [`ErrorKind::RecordTooNew`]: the newest epoch cannot be
    ///   read, so nobody knows what it protects. Campaigns fail on it as well; the message names
    ///   it.
    /// - [`ErrorKind::AccessDenied`], [`ErrorKind::NoSuchStore`]: correct the permissions or the
    ///   address.
    /// - [`ErrorKind::NoRuntime`]: call it in a Tokio runtime with timers. Nothing was sent.
    pub async fn run_once(&self) -> Result<Report, Error> {
        self.run_until(future::pending(), |_| {}).await
    }

    /// As [`run_once`](Self::run_once), but stops once `stop` is ready, and calls `progress` after
    /// each page of the listing and each deletion, so about once for 1,000 epochs.
    ///
    /// Once stopped, the run sends nothing more, waits for the deletions that were sent, for a
    /// request timeout at most, and returns its report with [`Report::interrupted`] set. It deletes
    /// the oldest first, so the next run continues where this one stopped.
    ///
    /// # Errors
    ///
    /// Those of [`run_once`](Self::run_once). A deletion that fails after the stop counts in
    /// [`Report::failed`] instead; it may have taken effect.
    pub async fn run_until(
        &self,
        stop: impl Future<Output = ()>,
        progress: impl FnMut(&Report) + Send,
    ) -> Result<Report, Error> {
        require_timers()?;
        let span = tracing::info_span!("compaction", election = self.keys.prefix());
        run::Run::new(self, progress).run(stop).instrument(span).await
    }

    /// Runs now, and again `interval` after the end of each run, until `shutdown` is ready. A run
    /// in progress is then dropped.
    ///
    /// Each run reports its result as a `tracing` event. Its cost is that of
    /// [`run_once`](Self::run_once).
    ///
    /// # Errors
    ///
    /// Those of [`run_once`](Self::run_once) that are [final](ErrorKind::is_final), but for
    /// [`ErrorKind::InvalidInput`] and [`ErrorKind::UnsafeStore`] once a run has succeeded. After all others it tries again at the
    /// next interval. [`ErrorKind::InvalidInput`] for an interval of 0.
    pub async fn run_every(
        &self,
        interval: Duration,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        if interval.is_zero() {
            let why = "the interval between compactions is 0 s; it must be longer";
            return Err(Error::new(ErrorKind::InvalidInput, why));
        }
        let mut shutdown = pin!(shutdown);
        let mut has_run = false;
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                outcome = self.run_once() => match outcome {
                    Err(error) if error.kind().ends_a_service(has_run) => return Err(error),
                    // The run has logged it.
                    outcome => has_run |= outcome.is_ok(),
                },
            }
            tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                () = pause(interval) => {}
            }
        }
    }
}

/// Settings of a [`Compactor`]. [`build`](CompactorBuilder::build) checks them.
///
/// # Examples
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use tenure::{Compactor, Election, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// # let election = Election::builder(store.clone(), "orders/leader").build()?;
/// # for _ in 0..5 { election.campaign().await?.resign().await?; }
/// // What would be deleted? A dry run counts, and deletes nothing. There are five epochs:
/// let builder = Compactor::builder(store, "orders/leader").keep_epochs(1).dry_run(true);
/// let report = builder.clone().min_age(Duration::ZERO).build()?.run_once().await?;
/// assert_eq!((report.deleted, report.kept), (4, 1));
/// let report = builder.build()?.run_once().await?; // by the default, 1 h
/// assert_eq!((report.deleted, report.too_young), (0, 4));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct CompactorBuilder {
    store: Arc<dyn Store>,
    prefix: String,
    keep_epochs: usize,
    min_age: Duration,
    dry_run: bool,
    request_timeout: Duration,
    newest: NewestObject,
}

impl CompactorBuilder {
    /// Sets how many of the newest epochs to keep as history, the current one included: 1 to
    /// 100,000, default 10. A run remembers 32 bytes for each.
    pub fn keep_epochs(mut self, keep_epochs: usize) -> Self {
        self.keep_epochs = keep_epochs;
        self
    }

    /// Sets the least age of an epoch object to be deleted: the time since its last write, by the
    /// store's clock. Default: 1 h.
    ///
    /// If the validity in the newest epoch is not shorter than this, the least age is that validity
    /// plus 1 s: a leader renews at least once in its validity.
    ///
    /// At least 1 h keeps the timed promise where requests may arrive late or twice; less is for
    /// tests. With 0 any age is enough, whatever the validity, and objects without a date are
    /// deleted too; with more than 0 those stay.
    pub fn min_age(mut self, min_age: Duration) -> Self {
        self.min_age = min_age;
        self
    }

    /// Sets whether to only list and count, without deleting: default false.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets how long a single request may take, more than 0: default 30 s.
    pub fn request_timeout(mut self, request_timeout: Duration) -> Self {
        self.request_timeout = request_timeout;
        self
    }

    /// Checks the settings and returns the compactor. Sends nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`], with the numbers, if a setting lies outside its bounds or the
    /// prefix cannot be one.
    pub fn build(self) -> Result<Compactor, Error> {
        let invalid = |why: String| Error::new(ErrorKind::InvalidInput, why);
        let keep_epochs = NonZeroUsize::new(self.keep_epochs)
            .filter(|keep| keep.get() <= MAX_KEEP_EPOCHS)
            .ok_or_else(|| {
                let given = self.keep_epochs;
                invalid(format!("keep_epochs is {given}; it lies between 1 and {MAX_KEEP_EPOCHS}"))
            })?;
        if self.request_timeout.is_zero() {
            return Err(invalid("request_timeout is 0 s; it must be longer".to_owned()));
        }
        let keys = match self.newest {
            NewestObject::Numbered { stem, .. } => Keys::numbered_with(&self.prefix, stem)?,
            NewestObject::Epoch => Keys::new(&self.prefix)?,
        };
        let meter = Meter::new(&*self.store, &keys);
        meter.compactor();
        Ok(Compactor {
            store: meter.counted(&self.store, &Process::system()),
            meter,
            keys,
            keep_epochs,
            min_age: self.min_age,
            dry_run: self.dry_run,
            request_timeout: self.request_timeout,
            newest: self.newest,
        })
    }
}

impl fmt::Debug for CompactorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactorBuilder")
            .field("store", &self.store.describe())
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
