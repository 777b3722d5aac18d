//! A store that remembers when each request was sent.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{ETag, GetOutcome, Page, PutOutcome, S3Store, Store, StoreError};
use tokio::time::Instant;

/// Clones share what is remembered.
#[derive(Debug, Clone)]
pub struct Recorded {
    store: Arc<S3Store>,
    sent: Arc<Mutex<Vec<(&'static str, Instant)>>>,
}

impl Recorded {
    pub fn new(store: S3Store) -> Recorded {
        Recorded { store: Arc::new(store), sent: Arc::default() }
    }

    /// Another candidate's, through the same client.
    pub fn another(&self) -> Recorded {
        Recorded { store: self.store.clone(), sent: Arc::default() }
    }

    /// What was sent since the last call.
    pub fn sent(&self) -> Vec<(&'static str, Instant)> {
        std::mem::take(&mut self.sent.lock().expect("no step under the lock panics"))
    }

    fn note(&self, what: &'static str) {
        let now = Instant::now();
        self.sent.lock().expect("no step under the lock panics").push((what, now));
    }
}

#[async_trait]
impl Store for Recorded {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        self.note("list");
        self.store.list(prefix, after, limit).await
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        self.note("get");
        self.store.get(key, unless, max_len).await
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.note("create");
        self.store.create(key, body).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        self.note("replace");
        self.store.replace(key, body, etag).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, String)>, StoreError> {
        self.note("delete");
        self.store.delete(keys).await
    }

    fn describe(&self) -> String {
        self.store.describe()
    }
}
