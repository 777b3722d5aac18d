//! The stores of epoch objects: the trait [`Store`] and its implementations. A store supports five
//! kinds of requests, and a sixth kind is optional.
//!
//! A refused condition is a value ([`PutOutcome::PreconditionFailed`]), not an error. A
//! [`StoreError`] states whether the failed request may have taken effect ([`Determinacy`]). This
//! module does not depend on elections.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

pub use crate::store::escape::plain;
pub use crate::store::etag::ETag;

#[cfg(feature = "object-store")]
mod any;
#[cfg(any(feature = "s3", feature = "dynamodb"))]
mod aws;
mod capabilities;
#[cfg(unix)]
mod dir;
#[cfg(feature = "dynamodb")]
mod dynamodb;
pub(crate) mod escape;
pub(crate) mod etag;
#[cfg(any(feature = "s3", feature = "object-store"))]
mod etag_form;
#[cfg(any(feature = "s3", feature = "dynamodb", feature = "gcs", feature = "azure"))]
mod fetch;
#[cfg(any(feature = "s3", feature = "dynamodb", feature = "cloud"))]
mod http;
mod memory;
#[cfg(any(feature = "s3", feature = "dynamodb", feature = "cloud"))]
mod metadata_hosts;
mod outcome;
mod page_order;
mod redact;
#[cfg(any(feature = "s3", feature = "dynamodb", feature = "object-store"))]
mod request_context;
#[cfg(feature = "s3")]
mod s3;
mod time_limits;
#[cfg(feature = "s3")]
mod unordered;
mod url;
mod write_answers;

#[cfg(feature = "object-store")]
pub use any::AnyObjectStore;
pub use capabilities::Capabilities;
#[cfg(unix)]
pub use dir::DirStore;
#[cfg(feature = "dynamodb")]
pub use dynamodb::DynamoStore;
pub use memory::MemoryStore;
pub use outcome::{Entry, GetOutcome, Object, Page, PutOutcome};
#[doc(hidden)]
pub use page_order::check_order;
pub(crate) use page_order::{check_any_page, check_ascending, out_of_order};
#[doc(hidden)]
pub use redact::printable;
#[cfg(feature = "s3")]
pub use s3::S3Store;
#[cfg(feature = "s3")]
#[doc(hidden)]
pub use s3::{BucketSettings, LifecycleRule, Versioning};
#[cfg(any(feature = "s3", feature = "object-store"))]
use time_limits::EMPTY_PAGES;
#[cfg(any(feature = "s3", feature = "dynamodb", feature = "object-store"))]
use time_limits::read_past_a_page;
#[cfg(any(feature = "s3", feature = "dynamodb", feature = "gcs", feature = "azure"))]
use time_limits::timed;
pub(crate) use time_limits::{answer_within, listed_within, listing_within, within};
pub use url::open;
#[doc(hidden)]
pub use url::{CloudKind, CloudService, Sse, StoreOptions, StorePlace, StoreUrl};
pub(crate) use write_answers::WriteAnswers;
#[doc(hidden)]
pub use write_answers::Written;

/// Returns an ETag that depends only on the content, as on S3: 128 bits of its SHA-256, in quotes.
pub(crate) fn content_etag(body: &[u8]) -> ETag {
    ETag::new(format!("\"{}\"", content_hash(body)))
}

/// Returns 128 bits of the SHA-256 as 32 hexadecimal digits. Processes of different builds compare
/// these hashes, so the function must not change.
pub(crate) fn content_hash(body: &[u8]) -> String {
    use sha2::Digest as _;
    content_hash_of(sha2::Sha256::new_with_prefix(body))
}

/// Returns the [`content_hash`] of the bytes that the hasher has received.
pub(crate) fn content_hash_of(hasher: sha2::Sha256) -> String {
    use sha2::Digest as _;
    hasher.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The operations of an object store.
///
/// An implementation must keep these promises. Every read and listing that starts after the
/// response to a write sees that write. Exactly one of several concurrent `create` calls for one
/// key returns [`PutOutcome::Done`]. The same rule holds for concurrent `replace` calls with the
/// same key and ETag. An implementation never sends a `create` or `replace` twice. If the first
/// request took effect, the store would refuse the second request.
///
/// Callers drop a call after a timeout. A dropped write may still take effect.
/// `tenure_testkit::conformance` is a suite that tests an implementation.
///
/// # Examples
///
/// A store that counts the requests to another store. This example uses the crate `async-trait`. A
/// wrapper for production also forwards the methods that have a default.
/// ```
/// # use std::sync::{Arc, atomic::{AtomicU32, Ordering::SeqCst}};
/// # use bytes::Bytes;
/// # use tenure::{Election, store::*};
/// #[derive(Debug, Default)]
/// struct Counting(MemoryStore, AtomicU32);
///
/// #[async_trait::async_trait]
/// impl Store for Counting {
///     async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
///         self.1.fetch_add(1, SeqCst);
///         self.0.list(prefix, after, limit).await
///     }
///     // … and `get`, `create`, `replace`, `delete`.
/// #   async fn get(&self, k: &str, e: Option<ETag>, l: usize) -> Result<GetOutcome, StoreError> {
/// #       self.1.fetch_add(1, SeqCst);
/// #       self.0.get(k, e, l).await
/// #   }
/// #   async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
/// #       self.1.fetch_add(1, SeqCst);
/// #       self.0.create(key, body).await
/// #   }
/// #   async fn replace(&self, k: &str, b: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
/// #       self.1.fetch_add(1, SeqCst);
/// #       self.0.replace(k, b, etag).await
/// #   }
/// #   async fn delete(&self, k: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
/// #       self.1.fetch_add(1, SeqCst);
/// #       self.0.delete(k).await
/// #   }
///     fn describe(&self) -> String {
///         format!("counted {}", self.0.describe())
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// let store = Arc::new(Counting::default());
/// let election = Election::builder(store.clone(), "app").check_store(false).build()?;
/// election.campaign().await?.resign().await?;
/// assert_eq!(store.1.load(SeqCst), 4); // LIST, PUT, LIST to be elected; PUT to resign
/// # Ok(())
/// # }
/// ```
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Lists the keys that start with `prefix` and are greater than `after`, in ascending order of
    /// their bytes.
    ///
    /// A page with fewer keys than `limit` (1 to 1,000) is not always the last page. If more pages
    /// follow, [`Page::truncated`] is true. This method sends one request, unless the store lists
    /// keys in no order. In that case the method reads all keys under the prefix and sorts them. If
    /// this takes more than one request, it sets [`Page::torn`].
    ///
    /// An entry may contain the ETag of the listed version ([`Entry::etag`]). A store lists either
    /// the tags of all objects that it wrote, or no tags at all. [`list_last`](Store::list_last)
    /// follows the same rule. Without listed tags, callers detect changes with [`get`](Store::get).
    /// A caller uses a listed tag only to choose the objects that it reads, so no promise depends
    /// on listed tags.
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError>;

    /// Lists the last keys that start with `prefix` and are greater than `after`: at most `limit`,
    /// in ascending order. The page is empty only if no key with this prefix is greater than
    /// `after`. Returns `None` if the store cannot read a listing from its end.
    ///
    /// [`Page::truncated`] is true if the page omits smaller keys. With this method, a campaign
    /// finds the newest epoch without reading a long listing. No promise of an election depends on
    /// this method. This method sends one request, or no request if it returns `None`.
    async fn list_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        let _ = (prefix, after, limit);
        Ok(None)
    }

    /// Reads the object at `key`. Returns [`GetOutcome::NotModified`] without a body if the object
    /// still has the ETag in `unless`.
    ///
    /// Returns [`GetOutcome::TooLarge`] for a body longer than `max_len` bytes. Sends one request.
    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError>;

    /// Writes `key` only if no object exists there (`If-None-Match: *`). Sends one request, and
    /// never repeats it.
    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError>;

    /// Writes `key` only if its ETag is still `etag` (`If-Match`). Sends one request, and never
    /// repeats it.
    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError>;

    /// Deletes up to 1,000 keys. A missing key counts as deleted. Sends one request, or several
    /// requests if the store cannot delete all keys in one request.
    ///
    /// Returns the keys that the store did not delete, each with its error. The store has reported
    /// all other keys as deleted. No promise of an election depends on deletions, and the next run
    /// of a compactor finds the remaining objects.
    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError>;

    /// Returns the name of this store for messages and logs: a URL without secrets.
    fn describe(&self) -> String;

    /// Returns the limits of this store and its client. Sends no request.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }
}

/// States whether a failed request may have taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Determinacy {
    /// The request did not take effect and will not.
    Determinate,
    /// The request may have taken effect, or may still take effect.
    Indeterminate,
}

/// The kind of a store's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// A network failure, a timeout, an overloaded or failing store, or a concurrent writer (409).
    /// Try again.
    Transient,
    /// The credentials are refused or lack a permission, or the clock of this machine is wrong.
    AccessDenied,
    /// The bucket or directory does not exist, or the bucket is in another region.
    NoSuchStore,
    /// The store does not support the request. For example, it answers 501, supports no conditional
    /// writes, or lists keys out of order.
    Unsupported,
    /// The request is invalid. For example, the store does not allow the key, or a setting is
    /// missing.
    Invalid,
}

/// A failed request: its kind, its determinacy and the store's message.
#[derive(Clone)]
pub struct StoreError {
    kind: StoreErrorKind,
    determinacy: Determinacy,
    message: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    /// True if the machine's metadata service has refused to issue credentials.
    of_the_machine: bool,
}

impl StoreError {
    /// Creates an error of this kind. The message names the request and the response, without
    /// secrets or bodies. This function escapes the control characters, line ends and direction
    /// marks in the message.
    pub fn new(
        kind: StoreErrorKind,
        determinacy: Determinacy,
        message: impl Into<String>,
    ) -> StoreError {
        let message = plain(&message.into());
        StoreError { kind, determinacy, message, source: None, of_the_machine: false }
    }

    /// Returns this error with the given cause.
    #[must_use]
    pub fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> StoreError {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the message without the determinacy.
    #[cfg(unix)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Creates the error of a request whose response did not arrive in time. The request may have
    /// taken effect.
    pub(crate) fn timed_out(message: impl Into<String>) -> StoreError {
        StoreError::new(StoreErrorKind::Transient, Determinacy::Indeterminate, message)
    }

    /// Marks this error as a refusal by the machine's metadata service. After a refusal by the
    /// metadata service, callers retry for a longer time.
    #[cfg(any(feature = "s3", feature = "dynamodb", feature = "gcs", feature = "azure"))]
    pub(crate) fn of_the_machine(mut self) -> StoreError {
        self.of_the_machine = true;
        self
    }

    pub(crate) fn is_of_the_machine(&self) -> bool {
        self.of_the_machine
    }

    /// Returns this error with the determinacy of a read, which has no effect.
    pub(crate) fn of_a_read(mut self) -> StoreError {
        self.determinacy = Determinacy::Determinate;
        self
    }

    /// Returns the kind of the failure.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns whether the request may have taken effect.
    #[must_use]
    pub fn determinacy(&self) -> Determinacy {
        self.determinacy
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.determinacy {
            Determinacy::Determinate => Ok(()),
            Determinacy::Indeterminate => f.write_str(" (it may have taken effect)"),
        }
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {:?}: {}", self.kind, self.determinacy, self.message)
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests;
