//! Counts the writes of a campaign. The counts show whether a write of a cancelled campaign may
//! still take effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{
    Capabilities, Determinacy, ETag, GetOutcome, Page, PutOutcome, Store, StoreError,
};

use crate::runtime::pause;

tokio::task_local! {
    /// The writes of the campaign that runs in this task.
    static WRITES: Arc<Writes>;
}

/// The writes of one campaign.
#[derive(Debug, Default)]
pub struct Writes {
    started: AtomicUsize,
    settled: AtomicUsize,
}

impl Writes {
    /// Runs a campaign, and counts its writes.
    pub async fn of<F: Future>(self: Arc<Self>, campaign: F) -> F::Output {
        WRITES.scope(self, campaign).await
    }

    pub fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    /// Returns the number of writes, or `None` while one of them may still take effect.
    pub fn settled(&self) -> Option<usize> {
        let settled = self.settled.load(Ordering::SeqCst);
        (settled == self.started()).then_some(settled)
    }
}

/// Counts a write. A write that was dropped or timed out may still take effect, so it is never
/// counted as settled.
async fn counted(
    write: impl Future<Output = Result<PutOutcome, StoreError>>,
) -> Result<PutOutcome, StoreError> {
    let Ok(writes) = WRITES.try_with(Arc::clone) else { return write.await };
    writes.started.fetch_add(1, Ordering::SeqCst);
    let put = write.await;
    if put.as_ref().err().is_none_or(|error| error.determinacy() == Determinacy::Determinate) {
        writes.settled.fetch_add(1, Ordering::SeqCst);
    }
    put
}

/// A store that counts the writes of campaigns. A test can add a delay to each request: a write
/// takes effect at the end of the delay, and a read returns the state at its start.
#[derive(Debug)]
pub struct CountedStore(pub Arc<dyn Store>, pub Duration);

impl CountedStore {
    async fn delay(&self) {
        if !self.1.is_zero() {
            pause(self.1).await;
        }
    }
}

#[async_trait]
impl Store for CountedStore {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let page = self.0.list(prefix, after, limit).await;
        self.delay().await;
        page
    }

    async fn list_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        let page = self.0.list_last(prefix, after, limit).await;
        self.delay().await;
        page
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let got = self.0.get(key, unless, max_len).await;
        self.delay().await;
        got
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        counted(async {
            self.delay().await;
            self.0.create(key, body).await
        })
        .await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        counted(async {
            self.delay().await;
            self.0.replace(key, body, etag).await
        })
        .await
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
