//! A bucket on simulated time: it counts requests, and each takes as long as was drawn.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, SubsecRound as _, Utc};
use tenure::store::{ETag, GetOutcome, MemoryStore, Page, PutOutcome, Store, StoreError};
use tokio::time::Instant;

use super::counts::Counts;
use super::latency::Latency;
use super::requests::{Condition, Failed, Requests};
use tenure_testkit::time::TestClock;

/// Clones share the objects and the counts.
#[derive(Debug, Clone)]
pub struct Bucket {
    objects: MemoryStore,
    latency: Latency,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    rng: fastrand::Rng,
    counts: Counts,
    /// When the last PUT was sent that was carried out, and how many were.
    written: Instant,
    writes: u64,
}

impl Bucket {
    pub fn new(clock: &TestClock, latency: Latency, seed: u64) -> Bucket {
        let rng = fastrand::Rng::with_seed(seed);
        let state = State { rng, counts: Counts::default(), written: Instant::now(), writes: 0 };
        let objects = MemoryStore::with_clock(Arc::new(clock.clone()));
        Bucket { objects, latency, state: Arc::new(Mutex::new(state)) }
    }

    /// The requests since the last call.
    pub fn counts(&self) -> Counts {
        std::mem::take(&mut self.state().counts)
    }

    pub fn written(&self) -> Instant {
        self.state().written
    }

    /// The PUTs that were carried out since the last call.
    pub fn writes(&self) -> u64 {
        std::mem::take(&mut self.state().writes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no step under the lock panics")
    }

    /// Half of a request's time passes before it takes effect, half after it.
    async fn request<T>(
        &self,
        count: impl FnOnce(&mut Counts),
        call: impl Future<Output = T>,
    ) -> T {
        let half = {
            let mut state = self.state();
            count(&mut state.counts);
            self.latency.draw(&mut state.rng) / 2
        };
        pause(half).await;
        let outcome = call.await;
        pause(half).await;
        outcome
    }

    async fn write(
        &self,
        call: impl Future<Output = Result<PutOutcome, StoreError>>,
    ) -> Result<PutOutcome, StoreError> {
        let sent = Instant::now();
        self.request(|counts| counts.put += 1, async {
            let outcome = call.await;
            if let Ok(PutOutcome::Done { .. }) = outcome {
                let mut state = self.state();
                state.written = sent;
                state.writes += 1;
            }
            outcome
        })
        .await
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// S3's dates have whole seconds.
fn whole(date: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    date.map(|date| date.trunc_subsecs(0))
}

#[async_trait]
impl Store for Bucket {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let call = self.objects.list(prefix, after, limit);
        let mut page = self.request(|counts| counts.list += 1, call).await?;
        for entry in &mut page.entries {
            entry.last_modified = whole(entry.last_modified);
        }
        page.served_at = whole(page.served_at);
        Ok(page)
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let call = self.objects.get(key, unless, max_len);
        let mut outcome = self.request(|counts| counts.get += 1, call).await?;
        if let GetOutcome::Found(object) = &mut outcome {
            object.last_modified = whole(object.last_modified);
            object.served_at = whole(object.served_at);
        }
        Ok(outcome)
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.write(self.objects.create(key, body)).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        self.write(self.objects.replace(key, body, etag)).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.request(|counts| counts.delete += 1, self.objects.delete(keys)).await
    }

    fn describe(&self) -> String {
        "a simulated bucket".to_owned()
    }
}

#[async_trait]
impl Requests for Bucket {
    async fn list(&self, prefix: &str, after: &str) -> Result<Page, Failed> {
        Store::list(self, prefix, after, 1_000).await.map_err(|_| Failed)
    }

    async fn get(&self, key: &str, unless: Option<ETag>) -> Result<GetOutcome, Failed> {
        Store::get(self, key, unless, usize::MAX).await.map_err(|_| Failed)
    }

    async fn put(&self, key: &str, body: Bytes, on: Condition) -> Result<PutOutcome, Failed> {
        let outcome = match on {
            Condition::Absent => self.create(key, body).await,
            Condition::Match(etag) => self.replace(key, body, etag).await,
            Condition::Nothing => self.write(self.overwrite(key, body)).await,
        };
        outcome.map_err(|_| Failed)
    }
}

impl Bucket {
    /// No time passes between its calls, so it is one step.
    async fn overwrite(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        match self.objects.get(key, None, usize::MAX).await? {
            GetOutcome::Found(object) => self.objects.replace(key, body, object.etag).await,
            _ => self.objects.create(key, body).await,
        }
    }
}
