//! A store that counts requests and refuses writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{
    Capabilities, Determinacy, ETag, GetOutcome, Page, PutOutcome, Store, StoreError,
    StoreErrorKind,
};

/// Numbers of LISTs and GETs that a store has received since the start.
#[derive(Debug, Default)]
pub struct ReadCounts {
    lists: AtomicU64,
    reads: AtomicU64,
}

impl ReadCounts {
    /// Returns the numbers of LISTs and of GETs.
    pub fn counts(&self) -> (u64, u64) {
        (self.lists.load(Ordering::Relaxed), self.reads.load(Ordering::Relaxed))
    }
}

/// Forwards and counts the reads of a store. Refuses writes.
#[derive(Debug)]
pub struct CountedStore {
    pub store: Arc<dyn Store>,
    pub requests: Arc<ReadCounts>,
}

fn refused() -> StoreError {
    let why = "the page only reads; the request was not sent";
    StoreError::new(StoreErrorKind::Unsupported, Determinacy::Determinate, why)
}

#[async_trait]
impl Store for CountedStore {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        self.requests.lists.fetch_add(1, Ordering::Relaxed);
        self.store.list(prefix, after, limit).await
    }

    async fn list_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        let page = self.store.list_last(prefix, after, limit).await?;
        // A store that does not support this call sends no request and returns `None`, so no
        // request is counted.
        if page.is_some() {
            self.requests.lists.fetch_add(1, Ordering::Relaxed);
        }
        Ok(page)
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        self.requests.reads.fetch_add(1, Ordering::Relaxed);
        self.store.get(key, unless, max_len).await
    }

    async fn create(&self, _key: &str, _body: Bytes) -> Result<PutOutcome, StoreError> {
        Err(refused())
    }

    async fn replace(
        &self,
        _key: &str,
        _body: Bytes,
        _etag: ETag,
    ) -> Result<PutOutcome, StoreError> {
        Err(refused())
    }

    async fn delete(&self, _keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        Err(refused())
    }

    fn describe(&self) -> String {
        self.store.describe()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
}

#[cfg(test)]
mod tests {
    use tenure::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn reads_are_counted_and_writes_are_refused() {
        let requests = Arc::new(ReadCounts::default());
        let store = Arc::new(MemoryStore::new());
        let counted = CountedStore { store: store.clone(), requests: Arc::clone(&requests) };
        counted.list("", "", 10).await.expect("a page");
        counted.get("a", None, 10).await.expect("an answer");
        assert_eq!(requests.counts(), (1, 1));
        let created = counted.create("a", Bytes::new()).await;
        assert!(created.is_err());
        assert!(counted.replace("a", Bytes::new(), ETag::new("e")).await.is_err());
        assert!(counted.delete(vec!["a".to_owned()]).await.is_err());
        assert!(store.list("", "", 10).await.expect("a page").entries.is_empty());
    }
}
