//! A store that refuses a create and whose reads lag behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use tenure::fencing::FencingError;
use tenure::store::{
    DeleteOutcome, ETag, GetOutcome, MemoryStore, Page, PutOutcome, Store, StoreError,
};
use tenure::{Epoch, ErrorKind};

use tenure_testkit::time::{millis, secs, timed, within};

#[derive(Debug)]
struct Stale {
    inner: MemoryStore,
    calls: AtomicUsize,
}

const ENOUGH: usize = 10_000;

impl Stale {
    async fn call(&self) {
        if self.calls.fetch_add(1, Ordering::SeqCst) >= ENOUGH {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Store for Stale {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        self.call().await;
        self.inner.list(prefix, after, limit).await
    }
    async fn get(&self, _: &str, _: Option<ETag>, _: usize) -> Result<GetOutcome, StoreError> {
        self.call().await;
        Ok(GetOutcome::NotFound)
    }
    async fn create(&self, _: &str, _: Bytes) -> Result<PutOutcome, StoreError> {
        self.call().await;
        Ok(PutOutcome::PreconditionFailed)
    }
    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        self.inner.replace(key, body, etag).await
    }
    async fn delete(&self, keys: Vec<String>) -> Result<DeleteOutcome, StoreError> {
        self.inner.delete(keys).await
    }
    fn describe(&self) -> String {
        "stale".to_owned()
    }
}

/// It asked 10,000 times in no time, and would have gone on.
#[tokio::test(start_paused = true)]
async fn regression_reads_that_lag_behind_end_in_an_error() {
    let store = Arc::new(Stale { inner: MemoryStore::new(), calls: AtomicUsize::new(0) });
    let log = super::log_of(&(store.clone() as Arc<dyn Store>));
    let (took, opened) = timed(within(secs(60), log.open(Epoch::FIRST))).await;
    let opened = opened.expect("it ends");
    // Six attempts, as after failures.
    assert!(took >= millis(775) && took < millis(1_550 + 5), "{took:?}");
    let Err(FencingError::Failed(error)) = opened else { panic!("nothing can be known") };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("lag behind"), "{error}");
    let calls = store.calls.load(Ordering::SeqCst);
    assert!(calls < 50, "{calls} requests");
}
