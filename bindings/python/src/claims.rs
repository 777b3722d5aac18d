//! Counts the writes of a campaign, so that its cancellation leaves no epoch behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{Capabilities, ETag, GetOutcome, Page, PutOutcome, Store, StoreError};

tokio::task_local! {
    /// The writes of the campaign that runs in this task.
    static WRITES: Arc<Writes>;
}

/// The writes of one campaign.
#[derive(Debug, Default)]
pub struct Writes {
    started: AtomicUsize,
    ended: AtomicUsize,
}

impl Writes {
    /// Runs a campaign, and counts its writes.
    pub async fn of<F: Future>(self: Arc<Self>, campaign: F) -> F::Output {
        WRITES.scope(self, campaign).await
    }

    pub fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    pub fn are_pending(&self) -> bool {
        self.ended.load(Ordering::SeqCst) != self.started()
    }
}

/// Counts a write in progress, until this value is dropped.
struct Write(Option<Arc<Writes>>);

impl Write {
    fn start() -> Write {
        let writes = WRITES.try_with(Arc::clone).ok();
        if let Some(writes) = &writes {
            writes.started.fetch_add(1, Ordering::SeqCst);
        }
        Write(writes)
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        if let Some(writes) = &self.0 {
            writes.ended.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A store that counts the writes of campaigns.
#[derive(Debug)]
pub struct CountedStore(pub Arc<dyn Store>);

#[async_trait]
impl Store for CountedStore {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
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
        self.0.get(key, unless, max_len).await
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        let _write = Write::start();
        self.0.create(key, body).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let _write = Write::start();
        self.0.replace(key, body, etag).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.0.delete(keys).await
    }

    fn describe(&self) -> String {
        self.0.describe()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }
}
