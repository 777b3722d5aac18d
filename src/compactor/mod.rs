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

/// Default number of epochs that a compaction keeps.
pub const DEFAULT_KEEP_EPOCHS: usize = 10;
// A run holds 32 bytes in memory for each epoch that it keeps, so this limit bounds the memory to
// about 3 MB.
const MAX_KEEP_EPOCHS: usize = 100_000;
/// Default minimum age of a deleted epoch.
pub const DEFAULT_MIN_AGE: Duration = Duration::from_secs(3600);
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Deletes superseded epoch objects of one election. A compactor keeps the newest few epochs and
/// all young epochs. It never deletes the newest epoch (I3) or a key that is not an epoch object.
///
/// Elections are correct without a compactor, but the objects accumulate and cost storage. Any
/// number of compactors may run concurrently with any number of candidates. A run may be dropped or
/// killed at any point (C6), and the next run deletes the rest.
///
/// A compactor needs the permissions to list the prefix and to read and delete the epoch objects.
/// It writes nothing. A run reads the newest epoch before each deletion of up to 1,000 objects
/// (C3), for two reasons:
///
/// - The newest epoch may belong to an unfinished [`restore`](crate::Election::restore). In this
///   case the run deletes no epoch below it, because a lower epoch may have a leader (C4).
/// - The newest record contains a validity. The run deletes no object that is younger than this
///   validity (C5).
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
    /// The kind of the newest object. The kind determines how a run reads the validity in the
    /// object.
    newest: NewestObject,
}

impl Compactor {
    /// Returns a builder for a compactor of the election at `prefix`. `app` and `app/` are the same
    /// prefix. Sends no request.
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

    /// Lists the epochs once, and deletes the superseded epochs that are old enough, except for the
    /// newest few.
    ///
    /// A run sends 1 LIST for the last possible epoch, and then 1 LIST for every 1,000 keys, but at
    /// least 1. A run also sends 1 GET and 1 DELETE for every 1,000 deleted epochs. Memory holds
    /// the epochs to keep and at most 6,000 other epochs.
    ///
    /// A refused deletion of an epoch is not an error, and counts in [`Report::failed`].
    /// Cancel-safe: deletions that were sent before the future is dropped may still take effect.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unavailable`]: a request failed or was not answered in time. Earlier
    ///   deletions have taken effect. Run the compactor again.
    /// - [`ErrorKind::UnsafeStore`]: the listing is out of order or shows keys outside of the
    ///   request. The message names the keys. Do not use this store for elections.
    /// - [`ErrorKind::CorruptRecord`], [`ErrorKind::RecordTooNew`]: the record of the newest epoch
    ///   cannot be read. The record may protect the epochs below it, so the run deletes no further
    ///   epochs. Campaigns also fail. The message names the key.
    /// - [`ErrorKind::AccessDenied`], [`ErrorKind::NoSuchStore`]: correct the permissions or the
    ///   address.
    /// - [`ErrorKind::NoRuntime`]: call this method in a Tokio runtime with timers. Nothing was
    ///   sent.
    pub async fn run_once(&self) -> Result<Report, Error> {
        self.run_until(future::pending(), |_| {}).await
    }

    /// Runs as [`run_once`](Self::run_once) does until `stop` is ready. Calls `progress` after each
    /// page of the listing and after each deletion, about once per 1,000 epochs.
    ///
    /// Once `stop` is ready, the run sends no further request. The run waits for the deletions
    /// under way, at most one request timeout, and returns its report with [`Report::interrupted`]
    /// set. A run deletes the oldest epochs first, so the next run continues where this run
    /// stopped.
    ///
    /// # Errors
    ///
    /// The errors of [`run_once`](Self::run_once). A deletion that fails after the stop is not an
    /// error: its epochs count in [`Report::failed`], although the deletion may have taken effect.
    pub async fn run_until(
        &self,
        stop: impl Future<Output = ()>,
        progress: impl FnMut(&Report) + Send,
    ) -> Result<Report, Error> {
        require_timers()?;
        let span = tracing::info_span!("compaction", election = self.keys.prefix());
        run::Run::new(self, progress).run(stop).instrument(span).await
    }

    /// Runs immediately, and again `interval` after the end of each run, until `shutdown` is ready.
    /// The shutdown drops a run under way.
    ///
    /// Each run reports its result as a `tracing` event, and costs as much as
    /// [`run_once`](Self::run_once).
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::InvalidInput`] for an interval of 0.
    /// - [Final](ErrorKind::is_final) errors of [`run_once`](Self::run_once). Once a run has
    ///   succeeded, [`ErrorKind::InvalidInput`] and [`ErrorKind::UnsafeStore`] no longer end the
    ///   loop.
    ///
    /// After any other error, the next run starts after `interval`.
    pub async fn run_every(
        &self,
        interval: Duration,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        if interval.is_zero() {
            let why = "the interval between compactions must be more than 0 s";
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
                    // The loop ignores this error, because the run has logged it.
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

/// Settings of a [`Compactor`]. [`build`](CompactorBuilder::build) checks the settings.
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
/// // There are five epochs. A dry run counts them, and deletes nothing:
/// let builder = Compactor::builder(store, "orders/leader").keep_epochs(1).dry_run(true);
/// let report = builder.clone().min_age(Duration::ZERO).build()?.run_once().await?;
/// assert_eq!((report.deleted, report.kept), (4, 1));
/// let report = builder.build()?.run_once().await?; // with the default `min_age`, 1 h
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
    /// Sets how many of the newest epochs to keep as history, from 1 to 100,000. The current epoch
    /// counts as one of them. Default: 10. A run holds 32 bytes in memory for each kept epoch.
    pub fn keep_epochs(mut self, keep_epochs: usize) -> Self {
        self.keep_epochs = keep_epochs;
        self
    }

    /// Sets the least age at which a run may delete an epoch object. The age is the time since the
    /// last write of the object, by the store's clock. Default: 1 h.
    ///
    /// A run raises a `min_age` other than 0 to at least 1 s more than the validity in the newest
    /// epoch (C5). So a run keeps each epoch that a leader renewed within this validity.
    ///
    /// An age of at least 1 h keeps the promise that at most one process leads (P2), even if
    /// requests arrive late or twice. Use a lower age only in tests. With 0, objects of any age and
    /// objects without a date may be deleted. With a greater age, a run keeps objects without a
    /// date.
    pub fn min_age(mut self, min_age: Duration) -> Self {
        self.min_age = min_age;
        self
    }

    /// Sets whether a run only lists and counts the epochs, and deletes nothing. Default: false.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets the longest duration of one request. The duration must be more than 0. Default: 30 s.
    pub fn request_timeout(mut self, request_timeout: Duration) -> Self {
        self.request_timeout = request_timeout;
        self
    }

    /// Checks the settings and returns the compactor. Sends no request.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`], with the values, if a setting is out of bounds or the prefix is
    /// invalid.
    pub fn build(self) -> Result<Compactor, Error> {
        let invalid = |why: String| Error::new(ErrorKind::InvalidInput, why);
        let keep_epochs = NonZeroUsize::new(self.keep_epochs)
            .filter(|keep| keep.get() <= MAX_KEEP_EPOCHS)
            .ok_or_else(|| {
                let given = self.keep_epochs;
                invalid(format!("keep_epochs must be between 1 and {MAX_KEEP_EPOCHS}, got {given}"))
            })?;
        if self.request_timeout.is_zero() {
            return Err(invalid("request_timeout must be more than 0 s".to_owned()));
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
