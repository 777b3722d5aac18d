//! Requests to a store, each with a time limit, and errors that name the operation.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use tenure::internals::fencing::{self as internals, Nonce, Written, back_off};
use tenure::store::{Determinacy, ETag, GetOutcome, Page, Store, StoreError, StoreErrorKind};
use tenure::{Error, ErrorKind, Process};

/// Number of attempts after which a call returns the error to its caller.
pub(super) const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(1_600);
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A store and the settings of its requests.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    pub(super) store: Arc<dyn Store>,
    pub(super) process: Process,
    pub(super) request_timeout: Duration,
}

/// The attempts at one compare-and-swap: their number, the pauses between them, and whether one of
/// them may have taken effect. Two kinds of loops use this type. Each kind has a different proof
/// that its write took effect:
///
/// - *Raise* writes the token of a gate, a trim marker, the claim of an object, or a reservation.
///   Each attempt reads the object, decides, and writes on the condition of the ETag that it just
///   read. The read of the next attempt finds the writes of other processes. It also finds an
///   earlier write of this process, even if the response was lost. So this loop does not read the
///   object back after a write.
/// - *Overwrite* writes a new body of a fenced object, or resets a gate. The condition of all
///   attempts is the ETag that the caller saw before the first attempt. After a refusal or a lost
///   response, the loop reads the object back immediately, even after the last attempt. A changed
///   ETag ends the call: either this write has taken effect, or another writer has changed the
///   object. The loop must never overwrite an object of another writer that the caller has not
///   read.
///
/// A single loop for both kinds would have to check before each request whether it raises or
/// overwrites. The claim of an object is a *raise* loop that limits refusals and failures
/// separately, because each refusal means that another writer made progress. The *raise* loop of a
/// reservation stops at the first failure, because safety does not depend on the reservation. The
/// writer of a log uses neither loop: it sends the requests of [`protocol`](crate::protocol), which
/// the model explores.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    made: u32,
    pub(super) last: Option<StoreError>,
    /// True if an attempt may have taken effect.
    pub(super) unknown: bool,
}

/// The result of an attempt that the caller may repeat.
#[derive(Debug)]
pub(super) enum Swap {
    Done(ETag),
    Refused,
    Unknown,
    /// The object was not written; a later attempt may succeed.
    Failed,
}

impl Attempts {
    /// Pauses before each attempt except the first. Returns false after the last attempt.
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

    /// Returns the result of the read, or `None` after a transient failure. Returns an error after
    /// a permanent failure: the caller makes no further attempt.
    pub(super) fn read<T>(&mut self, read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match read {
            Err(error) if passes(&error) => {
                self.last = Some(error);
                Ok(None)
            }
            read => read.map(Some),
        }
    }

    /// Returns the result of the write. Returns an error after a permanent failure: the caller
    /// makes no further attempt.
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

    /// Returns [`Determinacy::Indeterminate`] if an attempt may have taken effect. Used for the
    /// field `determinacy` of [`FencingError::Stale`](super::FencingError::Stale).
    pub(super) fn determinacy(&self) -> Determinacy {
        if self.unknown { Determinacy::Indeterminate } else { Determinacy::Determinate }
    }

    /// Returns the error of the last failed attempt. If the store refused every attempt, returns an
    /// error with the text `refused`.
    pub(super) fn last_or(&mut self, refused: &str) -> StoreError {
        self.last.take().unwrap_or_else(|| unanswered(refused))
    }

    /// Marks the error as indeterminate if an attempt may have taken effect.
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
        internals::nonce(&self.process)
    }

    /// Pauses after the attempt with the number `attempt`, before the next one.
    pub(super) async fn pause(&self, attempt: u32) {
        back_off(&self.process, FIRST_PAUSE, LONGEST_PAUSE, attempt).await;
    }

    /// Repeats this read after transient failures. If the caller passes the same `failures` to
    /// several reads, the limit of attempts applies to all these reads together. The outer error of
    /// a read means that the object has unexpected content, so this function does not repeat the
    /// read.
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
        internals::read(&self.process, self.request_timeout, get).await
    }

    pub(super) async fn list(&self, prefix: &str, after: &str) -> Result<Page, StoreError> {
        let page = self.store.list(prefix, after, 1_000);
        internals::list(&self.process, self.request_timeout, page).await
    }

    pub(super) async fn delete(
        &self,
        keys: Vec<String>,
    ) -> Result<Vec<(String, StoreError)>, StoreError> {
        internals::delete(&self.process, self.request_timeout, self.store.delete(keys)).await
    }

    /// Writes the object. If `etag` is set, the object must have this ETag. If `etag` is `None`,
    /// the object must not exist, and this function creates it.
    pub(super) async fn put(&self, key: &str, body: Bytes, etag: Option<ETag>) -> Written {
        let put = match etag {
            Some(etag) => self.store.replace(key, body, etag),
            None => self.store.create(key, body),
        };
        match internals::write(&self.process, self.request_timeout, put).await {
            Written::Refused | Written::Missing if self.store.capabilities().may_send_twice => {
                let why =
                    "the store refused the write, perhaps after an earlier attempt took effect";
                Written::Unknown(unanswered(why))
            }
            written => written,
        }
    }

    pub(super) fn failure(&self, doing: &str, error: StoreError) -> Error {
        Error::from_store(doing, &self.store.describe(), error)
    }

    pub(super) fn error(&self, kind: ErrorKind, problem: &str) -> Error {
        Error::new(kind, format!("{problem} (in {})", self.store.describe()))
    }
}

fn unanswered(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Transient, Determinacy::Indeterminate, why)
}

/// Returns true if a retry may succeed.
pub(super) fn passes(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Transient
}
