//! A store on which somebody else acts just before a certain request.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{DeleteOutcome, ETag, GetOutcome, Page, PutOutcome, Store, StoreError};

type Deed = Pin<Box<dyn Future<Output = ()> + Send>>;

pub struct Interposed {
    inner: Arc<dyn Store>,
    /// How many requests to let pass, and what happens then.
    deed: Mutex<Option<(usize, Deed)>>,
}

impl Interposed {
    pub fn new(inner: Arc<dyn Store>, before: usize, deed: Deed) -> Interposed {
        Interposed { inner, deed: Mutex::new(Some((before, deed))) }
    }

    /// Whether it never came to it.
    pub fn is_left(&self) -> bool {
        self.deed.lock().unwrap().is_some()
    }

    async fn before(&self) {
        let due = {
            let mut deed = self.deed.lock().unwrap();
            match deed.as_mut() {
                Some((0, _)) => deed.take().map(|(_, deed)| deed),
                Some((left, _)) => {
                    *left -= 1;
                    None
                }
                None => None,
            }
        };
        if let Some(deed) = due {
            deed.await;
        }
    }
}

impl fmt::Debug for Interposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Interposed")
    }
}

#[async_trait]
impl Store for Interposed {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        self.before().await;
        self.inner.list(prefix, after, limit).await
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        self.before().await;
        self.inner.get(key, unless, max_len).await
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.before().await;
        self.inner.create(key, body).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        self.before().await;
        self.inner.replace(key, body, etag).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<DeleteOutcome, StoreError> {
        self.before().await;
        self.inner.delete(keys).await
    }

    fn describe(&self) -> String {
        "a store with a rival".to_owned()
    }
}
