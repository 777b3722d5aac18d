//! Requests to a store, each bounded, with errors that say what was being done.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::backoff::Backoff;
use crate::error::{Error, ErrorKind};
use crate::process::Process;
use crate::protocol::message::Nonce;
use crate::store::{
    DeleteOutcome, ETag, GetOutcome, Happened, Page, PutOutcome, Store, StoreError, StoreErrorKind,
};
use crate::timer::{bounded, sleep};

/// How often a call is tried before its error is the caller's.
pub(super) const ATTEMPTS: u32 = 6;
const PAUSES: Backoff =
    Backoff { first: Duration::from_millis(50), longest: Duration::from_millis(1_600) };
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A store, and how it is asked.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    pub(super) store: Arc<dyn Store>,
    pub(super) process: Process,
    pub(super) request_timeout: Duration,
}

/// What is known of a conditional write.
#[derive(Debug)]
pub(super) enum Put {
    /// Written, with this ETag.
    Done(ETag),
    /// The condition does not hold.
    Refused,
    /// It may have been written, or may yet be.
    Unknown(StoreError),
    /// It was not written.
    Failed(StoreError),
}

impl Calls {
    pub(super) fn new(store: Arc<dyn Store>) -> Calls {
        let request_timeout = DEFAULT_REQUEST_TIMEOUT;
        Calls { store, process: Process::system(), request_timeout }
    }

    pub(super) fn nonce(&self) -> Nonce {
        Nonce::from_bits(self.process.unique())
    }

    /// Before attempt `attempt` + 1.
    pub(super) async fn pause(&self, attempt: u32) {
        sleep(&self.process, PAUSES.jittered(attempt, &self.process)).await;
    }

    async fn bounded<T>(
        &self,
        happened: Happened,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.request_timeout;
        bounded(&self.process, limit, call).await.unwrap_or_else(|| {
            let why = format!("no answer within {limit:?}");
            Err(StoreError::new(StoreErrorKind::Transient, happened, why))
        })
    }

    pub(super) async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
    ) -> Result<GetOutcome, StoreError> {
        self.bounded(Happened::No, self.store.get(key, unless, usize::MAX)).await
    }

    pub(super) async fn list(&self, prefix: &str, after: &str) -> Result<Page, StoreError> {
        self.bounded(Happened::No, self.store.list(prefix, after, 1_000)).await
    }

    pub(super) async fn delete(&self, keys: Vec<String>) -> Result<DeleteOutcome, StoreError> {
        self.bounded(Happened::Maybe, self.store.delete(keys)).await
    }

    /// `etag`: what the object must have; `None`: there must be none.
    pub(super) async fn put(&self, key: &str, body: Bytes, etag: Option<ETag>) -> Put {
        let outcome = match etag {
            Some(etag) => self.bounded(Happened::Maybe, self.store.replace(key, body, etag)).await,
            None => self.bounded(Happened::Maybe, self.store.create(key, body)).await,
        };
        match outcome {
            Ok(PutOutcome::Done { etag: Some(etag) }) => Put::Done(etag),
            Ok(PutOutcome::Done { etag: None }) => {
                Put::Unknown(StoreError::timed_out("the answer has no ETag"))
            }
            Ok(PutOutcome::Refused | PutOutcome::Missing) if self.store.may_send_twice() => {
                let why = "it was refused, perhaps after an earlier attempt took effect";
                Put::Unknown(StoreError::timed_out(why))
            }
            Ok(PutOutcome::Refused | PutOutcome::Missing) => Put::Refused,
            Err(error) if error.happened() == Happened::Maybe => Put::Unknown(error),
            Err(error) => Put::Failed(error),
        }
    }

    pub(super) fn failure(&self, doing: &str, error: StoreError) -> Error {
        Error::from_store(doing, &self.store.describe(), error)
    }

    pub(super) fn error(&self, kind: ErrorKind, what: &str) -> Error {
        Error::new(kind, format!("{what} (in {})", self.store.describe()))
    }
}

/// Whether trying again may help.
pub(super) fn passes(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Transient
}
