//! Wrappers that change some calls of a store.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{Capabilities, ETag, GetOutcome, Page, PutOutcome, Store, StoreError};

use super::fault_store::Call;

/// The behaviour of a [`Layered`] store. By default the layer passes each call to the wrapped
/// store.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// use tenure::store::{MemoryStore, Store};
/// use tenure_testkit::fault_store::Call;
/// use tenure_testkit::layer::{Layer, Layered};
///
/// #[derive(Debug, Default)]
/// struct Counting {
///     inner: MemoryStore,
///     calls: AtomicUsize,
/// }
///
/// #[async_trait::async_trait]
/// impl Layer for Counting {
///     fn inner(&self) -> &dyn Store {
///         &self.inner
///     }
///
///     async fn before(&self, _: Call) {
///         self.calls.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = Arc::new(Layered(Counting::default()));
/// store.create("a", "{}".into()).await.unwrap();
/// assert_eq!(store.0.calls.load(Ordering::Relaxed), 1);
/// # }
/// ```
#[async_trait]
pub trait Layer: fmt::Debug + Send + Sync + 'static {
    /// Returns the wrapped store.
    fn inner(&self) -> &dyn Store;

    /// Runs before each call. The default does nothing.
    async fn before(&self, call: Call) {
        let _ = call;
    }

    /// Implements [`Store::list`].
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        self.inner().list(prefix, after, limit).await
    }

    /// Implements [`Store::list_last`]. The default returns `None`, so that callers use `list`,
    /// which the layer may change.
    async fn list_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        let _ = (prefix, after, limit);
        Ok(None)
    }

    /// Implements [`Store::get`].
    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        self.inner().get(key, unless, max_len).await
    }

    /// Implements [`Store::create`].
    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.inner().create(key, body).await
    }

    /// Implements [`Store::replace`].
    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        self.inner().replace(key, body, etag).await
    }

    /// Implements [`Store::delete`].
    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.inner().delete(keys).await
    }

    /// Implements [`Store::describe`].
    fn describe(&self) -> String {
        self.inner().describe()
    }

    /// Implements [`Store::capabilities`].
    fn capabilities(&self) -> Capabilities {
        self.inner().capabilities()
    }
}

/// A [`Store`] with the behaviour of a [`Layer`].
#[derive(Debug, Clone)]
pub struct Layered<L>(pub L);

#[async_trait]
impl<L: Layer> Store for Layered<L> {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        self.0.before(Call::List).await;
        self.0.list(prefix, after, limit).await
    }

    async fn list_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        self.0.list_last(prefix, after, limit).await
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        self.0.before(Call::Get).await;
        self.0.get(key, unless, max_len).await
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.0.before(Call::Create).await;
        self.0.create(key, body).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        self.0.before(Call::Replace).await;
        self.0.replace(key, body, etag).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.0.before(Call::Delete).await;
        self.0.delete(keys).await
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
}
