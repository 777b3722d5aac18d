//! A store over any client of the crate object_store.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use futures::StreamExt as _;
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, GetResult, ObjectStore, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};

use super::etag_form::ETagForm;
use super::redact::{printable, without_secrets};
use super::request_context::{RequestContext, Verb};
use super::{
    Capabilities, Determinacy, ETag, Entry, GetOutcome, Object, Page, PutOutcome, Store,
    StoreError, StoreErrorKind,
};
use crate::env::entropy::{Entropy as _, SystemEntropy};

#[cfg(feature = "azure")]
mod azure;
mod delete;
mod error_response;
mod failure;
#[cfg(feature = "gcs")]
mod gcs;
#[cfg(any(feature = "azure", feature = "gcs"))]
mod http;
mod listing;
mod tag;
#[cfg(any(feature = "azure", feature = "gcs"))]
mod token;

/// A store over any client of the crate object_store 0.14: Cloud Storage, Azure, S3, memory, or
/// your own. Users of SlateDB, Delta or DataFusion already have an object_store client.
///
/// **Requirements.** The client must be strongly consistent, implement `PutMode::Create` and
/// `PutMode::Update` atomically, and list keys in order. A listing with keys out of order is an
/// error. The check before the first campaign verifies that the store supports conditions.
///
/// **The client's retries** may stay enabled, for example in a client that other code shares. But
/// the client reports only the response to its last attempt. So every failed write may have taken
/// effect, even after a 403 or a refused connection. Candidates read the object back after a failed
/// write. They also retry after errors that usually end a campaign. If a retry is refused because
/// the first attempt took effect, the candidate recognises its nonce with one read. Keep the
/// client's timeouts below the renewal interval.
///
/// **Cost.** Each call is one request, with three exceptions. A deletion sends one request for each
/// key on Cloud Storage, and one for each 250 keys elsewhere. A listing reads pages of the client
/// until it has up to 1,000 keys. Until your own client has made one replacement, each refused
/// replacement may cost one more read and then one more write. Cloud Storage limits the writes of
/// one object to about one a second, so use a validity of at least 5 s.
///
/// **The store's clock.** The interface of object_store omits the dates of responses, so this store
/// uses the newest `last_modified` that it has seen. This time is never ahead of the store's clock.
/// So an object can seem younger than it is, but never older. In a process that only runs a
/// compactor, this time stops at the date of the newest object if no leader renews. The compactor
/// then also keeps each object that was written less than `min_age` before the newest object.
///
/// **Keys** follow the rules of object_store: no part between slashes is empty, `.` or `..`. If the
/// key of another object under the election's prefix violates these rules, every listing fails.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// use object_store::{ObjectStore, ObjectStoreExt as _, memory::InMemory};
/// use tenure::{Election, store::AnyObjectStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let objects: Arc<dyn ObjectStore> = Arc::new(InMemory::new()); // shared with the database
/// let store = AnyObjectStore::new(objects.clone()).await?;
/// let election = Election::builder(Arc::new(store), "orders/leader").build()?;
/// let leadership = election.campaign().await?;
/// assert!(objects.head(&"orders/leader/lock-0000000001.json".into()).await.is_ok());
/// # Ok(())
/// # }
/// ```
pub struct AnyObjectStore {
    store: Arc<dyn ObjectStore>,
    /// The client's interface for listings with any prefix, or `None` if the caller created the
    /// client.
    pages: Option<Arc<dyn PaginatedListStore>>,
    name: String,
    /// True if the client sends each write only once, so a response belongs to the only attempt.
    /// This holds for clients that tenure created.
    sent_once: bool,
    etag_form: ETagForm,
    #[cfg(any(feature = "azure", feature = "gcs"))]
    tokens: Option<Arc<dyn token::ForgetToken>>,
    /// Date of the newest object that this store has seen, in microseconds since 1970.
    newest: AtomicI64,
}

/// The date of a response. Clients that tenure created add it to the response's extensions.
#[derive(Debug, Clone, Copy)]
struct ServedAt(DateTime<Utc>);

impl AnyObjectStore {
    /// Wraps an object store for elections.
    ///
    /// This function tests whether the client can replace an object conditionally. It requests to
    /// replace a missing object, and names no version to compare. The clients of the crate
    /// object_store refuse this replacement, and send no request. A client without conditional
    /// replacement reports that it lacks this feature.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::Unsupported`], with one of these reasons:
    ///
    /// - The client cannot replace conditionally. Examples are HTTP, an S3 client with conditional
    ///   puts disabled, and `LocalFileSystem` (use [`DirStore`](super::DirStore)).
    /// - The client replaces an object and does not compare its version.
    /// - The store is a directory bucket (S3 Express One Zone), which lists keys in no order: use
    ///   `S3Store`.
    pub async fn new(store: Arc<dyn ObjectStore>) -> Result<AnyObjectStore, StoreError> {
        let name = printable(&store.to_string());
        let store = AnyObjectStore { sent_once: false, ..AnyObjectStore::of(store, None, name) };
        store.refuse_clients_without_replace().await?;
        Ok(store)
    }

    /// Wraps a client that sends each write once.
    fn of(
        store: Arc<dyn ObjectStore>,
        pages: Option<Arc<dyn PaginatedListStore>>,
        name: String,
    ) -> AnyObjectStore {
        AnyObjectStore {
            store,
            pages,
            name,
            sent_once: true,
            etag_form: ETagForm::default(),
            #[cfg(any(feature = "azure", feature = "gcs"))]
            tokens: None,
            newest: AtomicI64::new(i64::MIN),
        }
    }

    /// Discards the access token after the store has refused it.
    fn forget_token(&self) {
        #[cfg(any(feature = "azure", feature = "gcs"))]
        self.tokens.iter().for_each(|tokens| tokens.forget());
    }

    async fn refuse_clients_without_replace(&self) -> Result<(), StoreError> {
        let refuse = |why: &str| {
            let message = format!("{} cannot be used for elections: {why}", self.name);
            Err(StoreError::new(StoreErrorKind::Unsupported, Determinacy::Determinate, message))
        };
        if self.name.contains("--x-s3") {
            return refuse(
                "it is a directory bucket (S3 Express One Zone): its listings have no order; use \
                 S3Store",
            );
        }
        // Before the first request, only the client's `Debug` output shows whether conditional puts
        // are disabled.
        if self.name.contains("AmazonS3(")
            && format!("{:?}", self.store).contains("conditional_put: Disabled")
        {
            return refuse("its conditional puts are disabled (S3ConditionalPut)");
        }
        // The key is unique, because a store that ignores the condition would overwrite an object.
        let probe = Path::from(format!("tenure-probe-{:032x}", SystemEntropy.unique()));
        let nothing = UpdateVersion { e_tag: None, version: None };
        let options = PutOptions::from(PutMode::Update(nothing));
        match self.store.put_opts(&probe, PutPayload::new(), options).await {
            Ok(_) => {
                // Ignore an error of the deletion, because the caller gets the more important error
                // below.
                let _ = self.delete(vec![probe.into()]).await;
                refuse("it replaces an object without comparing its version")
            }
            Err(error @ object_store::Error::NotImplemented { .. })
            | Err(error @ object_store::Error::NotSupported { .. }) => {
                refuse(&format!("it cannot replace an object conditionally ({error})"))
            }
            Err(_) => Ok(()),
        }
    }

    fn request<'a>(&'a self, verb: Verb, key: &'a str) -> RequestContext<'a, AnyObjectStore> {
        RequestContext::new(self, verb, key)
    }

    /// Returns the key as a path of object_store, or an error if object_store does not allow the
    /// key.
    fn path(
        &self,
        request: RequestContext<'_, AnyObjectStore>,
        key: &str,
    ) -> Result<Path, StoreError> {
        match Path::parse(key) {
            Ok(path) if path.as_ref() == key => Ok(path),
            Ok(_) => Err(request.invalid("a key must not start or end with a slash")),
            Err(error) => Err(request.invalid(&error.to_string())),
        }
    }

    /// Converts an ETag to the version that the store compares.
    fn sent(&self, etag: &ETag) -> UpdateVersion {
        let mut version = tag::decode(etag);
        version.e_tag = version.e_tag.map(|e_tag| self.etag_form.of(&e_tag).to_owned());
        version
    }

    fn page(&self, entries: Vec<Entry>, truncated: bool, date: Option<DateTime<Utc>>) -> Page {
        let newest = entries.iter().filter_map(|entry| entry.last_modified).max();
        Page::new(entries, truncated).with_served_at(date.or_else(|| self.clock(newest)))
    }

    /// Returns a lower bound of the store's clock.
    fn clock(&self, date: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
        let micros = date.map_or(i64::MIN, |date| date.timestamp_micros());
        let newest = self.newest.fetch_max(micros, Ordering::Relaxed).max(micros);
        DateTime::from_timestamp_micros(newest)
    }

    async fn put(
        &self,
        request: RequestContext<'_, AnyObjectStore>,
        body: Bytes,
        mode: PutMode,
    ) -> Result<PutOutcome, StoreError> {
        let path = self.path(request, request.key)?;
        // Without this attribute, Cloud Storage lets caches keep public objects for an hour.
        let mut attributes = Attributes::from_iter([(Attribute::CacheControl, "no-store")]);
        if request.key.ends_with(".json") {
            attributes.insert(Attribute::ContentType, "application/json".into());
        }
        let options = PutOptions { mode, attributes, ..PutOptions::default() };
        match self.store.put_opts(&path, body.into(), options).await {
            Ok(put) => Ok(PutOutcome::Done {
                etag: tag::encode(put.e_tag.as_deref(), put.version.as_deref()),
            }),
            Err(error) => request.write_failed(error),
        }
    }

    async fn read(
        &self,
        request: RequestContext<'_, AnyObjectStore>,
        result: GetResult,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let (meta, served_at) = (&result.meta, result.extensions.get::<ServedAt>());
        let Some(etag) = tag::encode(meta.e_tag.as_deref(), meta.version.as_deref()) else {
            return Err(request.unsupported("the response has no ETag and no version"));
        };
        if unless.as_ref() == Some(&etag) {
            return Ok(GetOutcome::NotModified);
        }
        let len = meta.size;
        if len > max_len as u64 {
            return Ok(GetOutcome::TooLarge { etag, len });
        }
        let last_modified = Some(meta.last_modified);
        let served_at = served_at.map(|date| date.0).or_else(|| self.clock(last_modified));
        let mut stream = result.into_stream();
        let mut body = BytesMut::new();
        while let Some(chunk) = stream.next().await {
            body.extend_from_slice(&chunk.map_err(|error| request.failed(&error))?);
            if body.len() as u64 > len {
                break;
            }
        }
        if body.len() as u64 != len {
            return Err(
                request.transient("the length of the response differs from the announced length")
            );
        }
        Ok(GetOutcome::Found(Object { body: body.freeze(), etag, last_modified, served_at }))
    }
}

#[async_trait]
impl Store for AnyObjectStore {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let request = self.request(Verb::List, prefix);
        let limit = limit.clamp(1, 1_000);
        match &self.pages {
            Some(pages) => listing::pages(self, &**pages, request, after, limit).await,
            None => listing::stream(self, request, after, limit).await,
        }
    }

    /// Sends one GET. With `unless`, the GET compares only the ETag, which on Cloud Storage depends
    /// only on the content. So this method returns `NotModified` even if the object was deleted and
    /// created again with the same body.
    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let request = self.request(Verb::Get, key);
        let path = self.path(request, key)?;
        let if_none_match = unless.as_ref().and_then(|etag| self.sent(etag).e_tag);
        let options = GetOptions { if_none_match, ..GetOptions::default() };
        match self.store.get_opts(&path, options).await {
            Ok(result) => self.read(request, result, unless, max_len).await,
            Err(error) => request.read_failed(error),
        }
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.put(self.request(Verb::Create, key), body, PutMode::Create).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let request = self.request(Verb::Replace, key);
        let put = |version| self.put(request, body.clone(), PutMode::Update(version));
        // Only servers with the S3 API may require ETags without quotes. Clients that tenure
        // created do not use this API.
        if self.sent_once {
            return put(self.sent(&etag)).await;
        }
        let UpdateVersion { e_tag, version } = tag::decode(&etag);
        let Some(e_tag) = e_tag else { return put(self.sent(&etag)).await };
        let put = |e_tag| put(UpdateVersion { e_tag: Some(e_tag), version: version.clone() });
        self.etag_form.replace(self, key, &etag, &e_tag, put).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        delete::all(self, keys).await
    }

    fn describe(&self) -> String {
        without_secrets(&self.name)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_may_send_twice(!self.sent_once)
    }
}

impl fmt::Debug for AnyObjectStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyObjectStore({})", self.name)
    }
}

/// Returns the error for a client with invalid settings.
#[cfg(any(feature = "azure", feature = "gcs"))]
fn unbuilt(kind: StoreErrorKind, name: &str, error: &object_store::Error) -> StoreError {
    let message = format!("{name}: {}", printable(&error.to_string()));
    StoreError::new(kind, Determinacy::Determinate, message)
}
