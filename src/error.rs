//! The errors of an election. The kind of an error determines the remedy.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use crate::store::escape::plain;
use crate::store::{Determinacy, StoreError, StoreErrorKind};

/// An error of an election. The kind of the error determines the remedy, and the message describes
/// the failure.
///
/// A lost race is a value, not an error ([`CampaignOutcome::Held`](crate::CampaignOutcome::Held),
/// [`Loss`](crate::Loss)).
///
/// # Examples
///
/// ```
/// # use std::{sync::Arc, time::Duration};
/// # use tenure::{Election, ErrorKind, store::MemoryStore};
/// # let store = Arc::new(MemoryStore::new());
/// let builder = Election::builder(store, "orders/leader").validity(Duration::from_secs(10));
/// let error = builder.request_timeout(Duration::from_secs(6)).build().unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidInput); // decide by the kind …
/// assert!(!error.may_have_happened());
/// assert!(error.to_string().contains("10s")); // … and show the message: it has the numbers
/// ```
#[derive(Clone)]
pub struct Error {
    kind: ErrorKind,
    determinacy: Determinacy,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    /// True if the machine's metadata service refused the credentials.
    of_the_machine: bool,
}

/// The kind of an error, which determines the remedy.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, ErrorKind, store::{MemoryStore, Store}};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = Arc::new(MemoryStore::new());
/// # let election = Election::builder(store.clone(), "orders/leader").build()?;
/// store.create("orders/leader/lock-0000000001.json", "not a record".into()).await?;
/// let error = election.campaign().await.unwrap_err();
/// let advice = match error.kind() {
///     ErrorKind::Unavailable => "try again",
///     ErrorKind::CorruptRecord | ErrorKind::NewestDeleted => "call the operator",
///     _ => "stop: the docs of each kind have the remedy",
/// };
/// assert_eq!(advice, "call the operator");
/// assert!(error.to_string().contains("orders/leader/lock-0000000001.json"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting, an epoch or a path is out of bounds, or settings contradict each other. The
    /// message has the values to correct. Nothing was written, unless
    /// [`may_have_happened`](Error::may_have_happened) returns `true`.
    InvalidInput,
    /// The store refused the credentials, the credentials lack the permission that the message
    /// names, or the clock of this machine is wrong by minutes.
    AccessDenied,
    /// The bucket or the directory does not exist, or is in another region. Correct the address.
    NoSuchStore,
    /// The store does not give the guarantees that the protocol needs. Do not use the store for
    /// elections.
    UnsafeStore,
    /// The body of an epoch object cannot be read as a record. The epoch never counts as vacant.
    /// Inspect the key that the message names, then depose the epoch or restore the object.
    ///
    /// From a fenced resource, this error means that a key of the resource has an object of another
    /// kind. The call leaves that object unchanged. From a fenced log, this error means that an
    /// object is missing although no trim has deleted it.
    CorruptRecord,
    /// The record is of a later format than this version of tenure knows. Upgrade.
    RecordTooNew,
    /// Epoch 9,999,999,999 has ended. Start a new prefix, and reset the tokens that guarded
    /// resources remember.
    EpochsExhausted,
    /// The newest epoch object that this process has seen was deleted, by a person or a lifecycle
    /// rule, and no greater epoch exists. Call [`restore`](crate::Election::restore) with at least
    /// the greatest token that any process received.
    ///
    /// From a fenced resource, this error means that the object with the guard's token was deleted.
    NewestDeleted,
    /// The store cannot be reached or fails. [`may_have_happened`](Error::may_have_happened)
    /// returns whether the request may have taken effect. A call that waits, such as
    /// [`campaign`](crate::Election::campaign), retries the request instead.
    Unavailable,
    /// The leadership ended before the call was complete.
    /// [`may_have_happened`](Error::may_have_happened) returns whether the write of the call may
    /// have taken effect.
    LeadershipLost,
    /// The call does not run in a Tokio runtime with timers. Nothing was sent. Build the runtime
    /// with `enable_all`, or use `#[tokio::main]`.
    ///
    /// Tokio has no method that reports whether timers are enabled. So tenure starts a timer, and
    /// catches the panic of a runtime without timers. A panic hook sees that panic. With `panic =
    /// "abort"` the panic ends the process.
    NoRuntime,
}

impl ErrorKind {
    /// Returns whether only another configuration or another version of tenure corrects the error:
    /// [`InvalidInput`](ErrorKind::InvalidInput), [`UnsafeStore`](ErrorKind::UnsafeStore),
    /// [`RecordTooNew`](ErrorKind::RecordTooNew),
    /// [`EpochsExhausted`](ErrorKind::EpochsExhausted) and [`NoRuntime`](ErrorKind::NoRuntime).
    ///
    /// All other errors can disappear while a process runs: credentials are renewed, policies and
    /// clocks are corrected, an operator repairs an object. A service retries these errors.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            ErrorKind::InvalidInput
            | ErrorKind::UnsafeStore
            | ErrorKind::RecordTooNew
            | ErrorKind::EpochsExhausted
            | ErrorKind::NoRuntime => true,
            ErrorKind::AccessDenied
            | ErrorKind::NoSuchStore
            | ErrorKind::CorruptRecord
            | ErrorKind::NewestDeleted
            | ErrorKind::Unavailable
            | ErrorKind::LeadershipLost => false,
        }
    }

    /// Returns whether an error of this kind ends a service. If `has_worked` is true, an earlier
    /// success has shown that the settings are correct and the store is safe.
    #[doc(hidden)]
    #[must_use]
    pub const fn ends_a_service(self, has_worked: bool) -> bool {
        let may_pass = matches!(self, ErrorKind::InvalidInput | ErrorKind::UnsafeStore);
        self.is_final() && !(has_worked && may_pass)
    }

    /// All kinds, for the tests of the documentation.
    #[doc(hidden)]
    pub const ALL: [ErrorKind; 11] = [
        ErrorKind::InvalidInput,
        ErrorKind::AccessDenied,
        ErrorKind::NoSuchStore,
        ErrorKind::UnsafeStore,
        ErrorKind::CorruptRecord,
        ErrorKind::RecordTooNew,
        ErrorKind::EpochsExhausted,
        ErrorKind::NewestDeleted,
        ErrorKind::Unavailable,
        ErrorKind::LeadershipLost,
        ErrorKind::NoRuntime,
    ];
}

impl Error {
    /// Returns an error without a source. This function escapes control characters in the message,
    /// because the message may contain text from stores and peers.
    #[doc(hidden)]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        let message = plain(&message.into());
        Error {
            kind,
            determinacy: Determinacy::Determinate,
            message,
            source: None,
            of_the_machine: false,
        }
    }

    /// Returns the error of a failed request. The message of this error contains the operation and
    /// then the store's message.
    #[doc(hidden)]
    pub fn from_store(doing: &str, store: &str, error: StoreError) -> Error {
        Error {
            kind: error.kind().into(),
            determinacy: error.determinacy(),
            message: plain(&in_context(doing, store, &error.to_string())),
            of_the_machine: error.is_of_the_machine(),
            source: Some(Arc::new(error)),
        }
    }

    /// Returns this error, marked as the error of a write that may have taken effect.
    #[doc(hidden)]
    #[must_use]
    pub fn maybe(mut self) -> Error {
        self.determinacy = Determinacy::Indeterminate;
        self
    }

    /// Returns whether the machine's metadata service refused the credentials. After the start of a
    /// machine this service may need a minute, so callers retry such an error for longer than other
    /// errors.
    #[doc(hidden)]
    pub fn is_of_the_machine(&self) -> bool {
        self.of_the_machine
    }

    /// Returns true if the requested write may have taken effect, or may still take effect. If this
    /// method returns `false`, the write has no effect, now or later.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        self.determinacy == Determinacy::Indeterminate
    }

    /// Returns the kind of the error, which determines the remedy.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl From<StoreErrorKind> for ErrorKind {
    fn from(kind: StoreErrorKind) -> ErrorKind {
        match kind {
            StoreErrorKind::Transient => ErrorKind::Unavailable,
            StoreErrorKind::AccessDenied => ErrorKind::AccessDenied,
            StoreErrorKind::NoSuchStore => ErrorKind::NoSuchStore,
            StoreErrorKind::Unsupported => ErrorKind::UnsafeStore,
            StoreErrorKind::Invalid => ErrorKind::InvalidInput,
        }
    }
}

/// Adds the request and the store to a message, unless the message already contains both.
fn in_context(doing: &str, store: &str, words: &str) -> String {
    let verb = doing.split(' ').next().unwrap_or_default();
    match (words.contains(store), words.starts_with(&format!("{verb} "))) {
        (true, true) => words.to_owned(),
        (true, false) => format!("{doing}: {words}"),
        (false, _) => format!("{doing} in {store}: {words}"),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_contains_each_kind_in_order() {
        let place = |kind| match kind {
            ErrorKind::InvalidInput => 0,
            ErrorKind::AccessDenied => 1,
            ErrorKind::NoSuchStore => 2,
            ErrorKind::UnsafeStore => 3,
            ErrorKind::CorruptRecord => 4,
            ErrorKind::RecordTooNew => 5,
            ErrorKind::EpochsExhausted => 6,
            ErrorKind::NewestDeleted => 7,
            ErrorKind::Unavailable => 8,
            ErrorKind::LeadershipLost => 9,
            // If you add a kind, extend this match and `ALL`.
            ErrorKind::NoRuntime => 10,
        };
        assert!(ErrorKind::ALL.iter().enumerate().all(|(at, kind)| place(*kind) == at));
    }

    /// Before the fix, an error message repeated the request and the store: `listing the epochs in
    /// s3://b: listing "app/lock-" in s3://b: 403`.
    #[test]
    fn regression_an_error_names_the_store_and_the_request_once() {
        let message = |words| in_context("listing the epochs", "s3://b", words);
        assert_eq!(message("listing \"app/\" in s3://b: 403"), "listing \"app/\" in s3://b: 403");
        assert_eq!(
            message("no answer within 6s"),
            "listing the epochs in s3://b: no answer within 6s"
        );
        let sealing = in_context("sealing epoch 3", "s3://b", "replacing \"a\" in s3://b: 500");
        assert_eq!(sealing, "sealing epoch 3: replacing \"a\" in s3://b: 500");
    }
}
