//! A bucket on simulated time. It counts requests. Each request takes a random time.

use std::f64::consts::TAU;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, SubsecRound as _, Utc};
use tenure::store::{ETag, GetOutcome, MemoryStore, Page, PutOutcome, Store, StoreError};
use tenure_testkit::time::TestClock;
use tokio::time::{Instant, sleep};

const MEDIAN: Duration = Duration::from_millis(20);
/// Standard deviation of the logarithm of a request's duration. With this value, 99 of 100 requests
/// take less than 64 ms in a bucket without a long tail.
const SIGMA: f64 = 0.5;
/// Share of slow requests in a bucket with a long tail. Their durations have a Pareto distribution
/// with a minimum of 1 s. Of all requests, 4 % take more than 6 s. With a validity of 30 s, 6 s is
/// the timeout of a request. Requests to S3 are rarely this slow.
const TAIL_SHARE: f64 = 0.1;
const TAIL_ALPHA: f64 = 0.5;
const LONGEST: f64 = 3_600.0;
/// Price of a million requests to S3 Standard in us-east-1, in dollars, without free tiers.
const LIST_OR_PUT: f64 = 5.0;
const GET: f64 = 0.4;

/// Number of requests of each kind. Deletions are not counted, because they are free.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub list: u64,
    pub get: u64,
    pub put: u64,
}

impl Counts {
    pub fn total(&self) -> u64 {
        self.list + self.get + self.put
    }

    pub fn dollars(&self) -> f64 {
        ((self.list + self.put) as f64 * LIST_OR_PUT + self.get as f64 * GET) / 1e6
    }
}

/// The simulated bucket. Clones share the objects and the counts.
#[derive(Debug, Clone)]
pub struct Bucket {
    pub objects: MemoryStore,
    has_long_tail: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    rng: fastrand::Rng,
    counts: Counts,
    /// Time at which the client sent the last successful PUT.
    written: Instant,
    /// Number of successful PUTs.
    writes: u64,
}

impl Bucket {
    pub fn new(clock: &TestClock, seed: u64) -> Bucket {
        let rng = fastrand::Rng::with_seed(seed);
        let state = State { rng, counts: Counts::default(), written: Instant::now(), writes: 0 };
        let objects = MemoryStore::with_clock(Arc::new(clock.clone()));
        Bucket { objects, has_long_tail: false, state: Arc::new(Mutex::new(state)) }
    }

    pub fn with_long_tail(self) -> Bucket {
        Bucket { has_long_tail: true, ..self }
    }

    /// Returns the number of requests since the last call.
    pub fn counts(&self) -> Counts {
        std::mem::take(&mut self.state().counts)
    }

    pub fn written(&self) -> Instant {
        self.state().written
    }

    /// Returns the number of successful PUTs since the last call.
    pub fn writes(&self) -> u64 {
        std::mem::take(&mut self.state().writes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no step under the lock panics")
    }

    /// Counts a request. Draws a random time, runs `call` after half of this time, and returns its
    /// result after the other half.
    async fn request<T>(
        &self,
        count: impl FnOnce(&mut Counts),
        call: impl Future<Output = T>,
    ) -> T {
        let half = {
            let mut state = self.state();
            count(&mut state.counts);
            self.draw(&mut state.rng) / 2
        };
        sleep(half).await;
        let outcome = call.await;
        sleep(half).await;
        outcome
    }

    fn draw(&self, rng: &mut fastrand::Rng) -> Duration {
        if self.has_long_tail && rng.f64() < TAIL_SHARE {
            let seconds = (1.0 - rng.f64()).powf(-1.0 / TAIL_ALPHA);
            return Duration::from_secs_f64(seconds.min(LONGEST));
        }
        // Draws a normally distributed number by the method of Box and Muller.
        let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
        MEDIAN.mul_f64((SIGMA * radius * (TAU * rng.f64()).cos()).exp())
    }

    async fn write(
        &self,
        call: impl Future<Output = Result<PutOutcome, StoreError>>,
    ) -> Result<PutOutcome, StoreError> {
        let sent = Instant::now();
        let call = async {
            let outcome = call.await;
            if let Ok(PutOutcome::Done { .. }) = outcome {
                let mut state = self.state();
                state.written = sent;
                state.writes += 1;
            }
            outcome
        };
        self.request(|counts| counts.put += 1, call).await
    }

    /// Overwrites the object, as a PUT without a condition does. The store in memory needs the
    /// current tag for this, so the function reads the tag first. The read takes no time and is not
    /// counted.
    pub async fn overwrite(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        let call = async {
            match self.objects.get(key, None, usize::MAX).await? {
                GetOutcome::Found(object) => self.objects.replace(key, body, object.etag).await,
                _ => self.objects.create(key, body).await,
            }
        };
        self.write(call).await
    }
}

/// Rounds a date down to whole seconds, as S3 does.
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
        self.request(|_| {}, self.objects.delete(keys)).await
    }

    fn describe(&self) -> String {
        "a simulated bucket".to_owned()
    }
}
