//! A store that allows one write of each key per second, as R2 and Cloud Storage do.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{Determinacy, ETag, PutOutcome, Store, StoreError, StoreErrorKind};
use tokio::time::Instant;

use super::layer::Layer;

/// A wrapper that makes a write fail if another write of the same key reached the store less than
/// one second ago, in Tokio's time. The error is like a response with status 429. A write whose
/// condition is false also counts as a write.
#[derive(Debug)]
pub struct OneWriteASecond {
    inner: Arc<dyn Store>,
    written: Mutex<HashMap<String, Instant>>,
}

impl OneWriteASecond {
    /// Wraps a store.
    pub fn new(inner: Arc<dyn Store>) -> OneWriteASecond {
        OneWriteASecond { inner, written: Mutex::default() }
    }

    #[allow(clippy::disallowed_methods, reason = "the limit is in Tokio's time")]
    fn allow(&self, key: &str) -> Result<(), StoreError> {
        let now = Instant::now();
        let mut written = self.written.lock().expect("no holder of this lock panics");
        let last = written.get(key).copied();
        if last.is_some_and(|last| now < last + Duration::from_secs(1)) {
            let (kind, why) = (StoreErrorKind::Transient, "429 SlowDown");
            return Err(StoreError::new(kind, Determinacy::Indeterminate, why));
        }
        written.insert(key.to_owned(), now);
        Ok(())
    }
}

#[async_trait]
impl Layer for OneWriteASecond {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.allow(key)?;
        self.inner.create(key, body).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        self.allow(key)?;
        self.inner.replace(key, body, etag).await
    }
}
