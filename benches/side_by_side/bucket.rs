//! A bucket on simulated time. It counts requests. Each request takes a random time.

use std::f64::consts::TAU;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, SubsecRound as _, Utc};
use tenure::store::{ETag, GetOutcome, MemoryStore, Page, PutOutcome, Store, StoreError};
use tenure_testkit::time::TestClock;
use tokio::task::spawn;
use tokio::time::{Instant, sleep};

const LONGEST: f64 = 3_600.0;

/// The durations and the prices of the requests to a store.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    pub median: Duration,
    /// Standard deviation of the logarithm of a request's duration.
    pub sigma: f64,
    /// Share of slow requests. Their durations have a Pareto distribution.
    pub slow_share: f64,
    pub slow_least: Duration,
    pub slow_alpha: f64,
    /// Prices of a million requests in us-east-1, in dollars, without free tiers.
    pub list_or_put: f64,
    pub get: f64,
}

impl Service {
    /// S3 Standard. 99 of 100 requests take less than 64 ms.
    pub const STANDARD: Service = Service {
        median: Duration::from_millis(20),
        sigma: 0.5,
        slow_share: 0.0,
        slow_least: Duration::ZERO,
        slow_alpha: 1.0,
        list_or_put: 5.0,
        get: 0.4,
    };
    /// A very slow store. Of all requests, 4 % take more than 6 s. With a validity of 30 s, 6 s is
    /// the timeout of a request. Requests to S3 are rarely this slow.
    pub const LONG_TAIL: Service = Service {
        slow_share: 0.1,
        slow_least: Duration::from_secs(1),
        slow_alpha: 0.5,
        ..Service::STANDARD
    };
}

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

    pub fn dollars(&self, at: Service) -> f64 {
        ((self.list + self.put) as f64 * at.list_or_put + self.get as f64 * at.get) / 1e6
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Counts>>(all: I) -> Counts {
        all.fold(Counts::default(), |sum, one| Counts {
            list: sum.list + one.list,
            get: sum.get + one.get,
            put: sum.put + one.put,
        })
    }
}

/// The simulated bucket. Clones share the objects and the counts.
#[derive(Debug, Clone)]
pub struct Bucket {
    pub objects: MemoryStore,
    service: Service,
    /// Additional time of each request of this client: the round trip between the regions.
    away: Duration,
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
        Bucket::at(Service::STANDARD, clock, seed)
    }

    pub fn at(service: Service, clock: &TestClock, seed: u64) -> Bucket {
        let rng = fastrand::Rng::with_seed(seed);
        let state = State { rng, counts: Counts::default(), written: Instant::now(), writes: 0 };
        let objects = MemoryStore::with_clock(Arc::new(clock.clone()));
        let state = Arc::new(Mutex::new(state));
        Bucket { objects, service, away: Duration::ZERO, state }
    }

    /// Returns this bucket as a client in another region sees it.
    pub fn away(&self, away: Duration) -> Bucket {
        Bucket { away, ..self.clone() }
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
        self.state.lock().expect("no holder of this lock panics")
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
        let Service { median, sigma, slow_share, slow_least, slow_alpha, .. } = self.service;
        if slow_share > 0.0 && rng.f64() < slow_share {
            let seconds = slow_least.as_secs_f64() * (1.0 - rng.f64()).powf(-1.0 / slow_alpha);
            return Duration::from_secs_f64(seconds.min(LONGEST));
        }
        // Draws a normally distributed number by the method of Box and Muller.
        let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
        self.away + median.mul_f64((sigma * radius * (TAU * rng.f64()).cos()).exp())
    }

    /// Sends a write. The store applies the write even if its client no longer waits for the
    /// response.
    async fn write(
        &self,
        call: impl Future<Output = Result<PutOutcome, StoreError>> + Send + 'static,
    ) -> Result<PutOutcome, StoreError> {
        let (bucket, sent) = (self.clone(), Instant::now());
        let write = async move {
            let call = async {
                let outcome = call.await;
                if let Ok(PutOutcome::Done { .. }) = outcome {
                    let mut state = bucket.state();
                    state.written = sent;
                    state.writes += 1;
                }
                outcome
            };
            bucket.request(|counts| counts.put += 1, call).await
        };
        spawn(write).await.expect("no write panics")
    }

    /// Overwrites the object, as a PUT without a condition does. The store in memory needs the
    /// current tag for this, so the function reads the tag first. The read takes no time and is not
    /// counted.
    pub async fn overwrite(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        let (objects, key) = (self.objects.clone(), key.to_owned());
        let call = async move {
            match objects.get(&key, None, usize::MAX).await? {
                GetOutcome::Found(object) => objects.replace(&key, body, object.etag).await,
                _ => objects.create(&key, body).await,
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
        let (objects, key) = (self.objects.clone(), key.to_owned());
        self.write(async move { objects.create(&key, body).await }).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let (objects, key) = (self.objects.clone(), key.to_owned());
        self.write(async move { objects.replace(&key, body, etag).await }).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.request(|_| {}, self.objects.delete(keys)).await
    }

    fn describe(&self) -> String {
        "a simulated bucket".to_owned()
    }
}
