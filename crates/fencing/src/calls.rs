//! Requests to a store, each bounded, with errors that say what was being done.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use tenure::seam::fencing::{self as seam, Nonce, Written, back_off};
use tenure::store::{Determinacy, ETag, GetOutcome, Page, Store, StoreError, StoreErrorKind};
use tenure::{Error, ErrorKind, Process};

/// How often a call is tried before its error is the caller's.
pub(super) const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(1_600);
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A store, and how it is asked.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    pub(super) store: Arc<dyn Store>,
    pub(super) process: Process,
    pub(super) request_timeout: Duration,
}

/// The attempts at one compare-and-swap, and what is known of them: how many are made, after which
/// pauses, and what an answer says. The loops around it stay apart, as they are two proofs:
///
/// - *Raise*: the gate's token, the trim marker, the claim of an object, its reservation. Each
///   attempt reads, decides, and writes on the condition of what it has just read. What others have
///   written is what the next attempt decides on, and its read also finds a write whose answer was
///   lost. So nothing is read back after a write.
/// - *Overwrite*: the write of an object by its writer, the reset of a gate. The condition is what
///   the caller saw before the first attempt, and stays the same. What was refused or has no answer
///   is read back at once, also after the last attempt, and another ETag ends the call: it shows
///   this very write, or another writer's, which must never be overwritten unseen.
///
/// A loop that did both would ask before each of its requests which of the two it is. Within
/// *raise*, a claim counts refusals apart from failures, as each refusal is progress of another
/// writer, and a reservation ends with the first failure, as it is for progress alone. The writer of
/// a log has neither loop: it sends what `protocol::log` decides, which the model explores.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    made: u32,
    pub(super) last: Option<StoreError>,
    /// Whether one of them may have taken effect.
    pub(super) unknown: bool,
}

/// What came of an attempt after which another may be made.
#[derive(Debug)]
pub(super) enum Swap {
    Done(ETag),
    Refused,
    Unknown,
    /// It was not written, and the failure may pass.
    Failed,
}

impl Attempts {
    /// Pauses before all but the first; false once enough were made.
    pub(super) async fn another(&mut self, calls: &Calls) -> bool {
        if self.made == ATTEMPTS {
            return false;
        }
        if let Some(before) = self.made.checked_sub(1) {
            calls.pause(before).await;
        }
        self.made += 1;
        true
    }

    /// What was read; `None` after a failure that may pass. Any other ends the attempts.
    pub(super) fn read<T>(&mut self, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match read {
            Err(error) if passes(&error) => {
                self.last = Some(error);
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// What was written. A failure that cannot pass ends the attempts.
    pub(super) fn swapped(&mut self, written: Written) -> Result<Swap, StoreError> {
        match written {
            Written::Done(etag) => Ok(Swap::Done(etag)),
            Written::Refused | Written::Missing => Ok(Swap::Refused),
            Written::Unknown(error) => {
                self.unknown = true;
                self.last = Some(error);
                Ok(Swap::Unknown)
            }
            Written::Failed(error) => self.read(Err(error)).map(|_: Option<()>| Swap::Failed),
        }
    }

    /// Whether one of them may have taken effect, for a refusal that ends them.
    pub(super) fn determinacy(&self) -> Determinacy {
        if self.unknown { Determinacy::Indeterminate } else { Determinacy::Determinate }
    }

    /// The last failure, or why it was refused each time.
    pub(super) fn last_or(&mut self, refused: &str) -> StoreError {
        self.last.take().unwrap_or_else(|| unanswered(refused))
    }

    /// An error of the whole, which may have happened if an attempt may.
    pub(super) fn error(&self, error: Error) -> Error {
        if self.unknown { error.maybe() } else { error }
    }
}

impl Calls {
    pub(super) fn new(store: Arc<dyn Store>) -> Calls {
        let request_timeout = DEFAULT_REQUEST_TIMEOUT;
        Calls { store, process: Process::system(), request_timeout }
    }

    pub(super) fn nonce(&self) -> Nonce {
        seam::nonce(&self.process)
    }

    /// Before attempt `attempt` + 1.
    pub(super) async fn pause(&self, attempt: u32) {
        back_off(&self.process, FIRST_PAUSE, LONGEST_PAUSE, attempt).await;
    }

    /// What this reads, tried again after failures that may pass, up to so many in all. The outer
    /// error of a read is about what it found.
    pub(super) async fn patiently<T, F>(
        &self,
        failures: &mut u32,
        failed: impl Fn(StoreError) -> Error,
        read: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<Result<T, StoreError>, Error>>,
    {
        loop {
            match read().await? {
                Ok(read) => return Ok(read),
                Err(error) if passes(&error) && *failures + 1 < ATTEMPTS => {
                    self.pause(*failures).await;
                    *failures += 1;
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    pub(super) async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
    ) -> Result<GetOutcome, StoreError> {
        let get = self.store.get(key, unless, usize::MAX);
        seam::read(&self.process, self.request_timeout, get).await
    }

    pub(super) async fn list(&self, prefix: &str, after: &str) -> Result<Page, StoreError> {
        let page = self.store.list(prefix, after, 1_000);
        seam::list(&self.process, self.request_timeout, page).await
    }

    pub(super) async fn delete(
        &self,
        keys: Vec<String>,
    ) -> Result<Vec<(String, StoreError)>, StoreError> {
        seam::delete(&self.process, self.request_timeout, self.store.delete(keys)).await
    }

    /// `etag`: what the object must have; `None`: there must be none.
    pub(super) async fn put(&self, key: &str, body: Bytes, etag: Option<ETag>) -> Written {
        let put = match etag {
            Some(etag) => self.store.replace(key, body, etag),
            None => self.store.create(key, body),
        };
        match seam::write(&self.process, self.request_timeout, put).await {
            Written::Refused | Written::Missing if self.store.capabilities().may_send_twice => {
                let why = "it was refused, perhaps after an earlier attempt took effect";
                Written::Unknown(unanswered(why))
            }
            written => written,
        }
    }

    pub(super) fn failure(&self, doing: &str, error: StoreError) -> Error {
        Error::from_store(doing, &self.store.describe(), error)
    }

    pub(super) fn error(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("{what} (in {})", self.store.describe()))
    }
}

fn unanswered(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Transient, Determinacy::Indeterminate, why)
}

/// Whether trying again may help.
pub(super) fn passes(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Transient
}
