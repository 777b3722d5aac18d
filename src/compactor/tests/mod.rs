//! Tests of compactor runs on prepared pages, and on a slow store in memory. This store panics at a
//! violation of I3.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use tokio::sync::oneshot;

use super::*;
use crate::env::clock::Clock;
use crate::env::moment::Moment;
use crate::epoch::Epoch;
use crate::store::MemoryStore;
use crate::store::{
    Determinacy, ETag, Entry, GetOutcome, MockStore, Object, Page, PutOutcome, StoreError,
    StoreErrorKind,
};

mod faults;
mod pages;
mod runs;

const HOUR: Duration = Duration::from_secs(3600);
/// Body of each epoch object in these tests.
const BODY: &[u8] = br#"{"expired":true}"#;
/// Body of an epoch object that an unfinished restore holds (RS3).
const HELD: &[u8] = br#"{"expired":false,"nonce":"00000000000000000000000000000001",
    "heartbeat":1,"ended":"restored"}"#;

/// A clock that the test advances.
#[derive(Debug, Default)]
struct TestClock(AtomicU64);

impl TestClock {
    fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_secs(), Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        let since = Duration::from_secs(1_000_000_000 + self.0.load(Ordering::SeqCst));
        Moment { boot: since, raw: since, wall: since }
    }
}

/// A store in memory with slow requests. A DELETE removes the first half of its keys after a third
/// of its duration, and the other keys after two thirds. The store panics at the deletion of the
/// newest epoch object or of an object that is not an epoch.
#[derive(Debug)]
struct Watched {
    inner: MemoryStore,
    clock: Arc<TestClock>,
    list_takes: Duration,
    delete_takes: Duration,
    deleting: AtomicUsize,
    most_deleting: AtomicUsize,
    lists_while_deleting: AtomicUsize,
    requests: AtomicUsize,
}

impl Watched {
    fn new(list_takes: Duration, delete_takes: Duration) -> Watched {
        let clock = Arc::new(TestClock::default());
        Watched {
            inner: MemoryStore::with_clock(Arc::clone(&clock) as Arc<dyn Clock>),
            clock,
            list_takes,
            delete_takes,
            deleting: AtomicUsize::new(0),
            most_deleting: AtomicUsize::new(0),
            lists_while_deleting: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
        }
    }

    /// Makes a store with epochs `1..=epochs` under `app/`, each 2 h old.
    async fn with_epochs(epochs: u64, request_takes: Duration) -> Arc<Watched> {
        let store = Watched::new(request_takes, request_takes);
        for number in 1..=epochs {
            store.put(&lock(number)).await;
        }
        store.clock.advance(2 * HOUR);
        Arc::new(store)
    }

    async fn put(&self, key: &str) {
        self.inner.create(key, Bytes::from_static(BODY)).await.unwrap();
    }

    async fn keys(&self) -> Vec<String> {
        let page = self.inner.list("", "", usize::MAX).await.unwrap();
        page.entries.into_iter().map(|entry| entry.key).collect()
    }

    async fn delete_checked(&self, keys: &[String]) {
        let newest = self.keys().await.into_iter().rfind(|key| app().parse(key).is_some());
        for key in keys {
            assert!(app().parse(key).is_some(), "{key} is foreign");
            assert!(Some(key) < newest.as_ref(), "I3: {key} is the newest");
        }
        self.inner.delete(keys.to_vec()).await.unwrap();
    }
}

/// Counts a deletion in progress, until its request ends or is dropped.
struct Deleting<'a>(&'a AtomicUsize);

impl Drop for Deleting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Store for Watched {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        if self.deleting.load(Ordering::SeqCst) > 0 {
            self.lists_while_deleting.fetch_add(1, Ordering::SeqCst);
        }
        pause(self.list_takes).await;
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let now_deleting = self.deleting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_deleting.fetch_max(now_deleting, Ordering::SeqCst);
        let _deleting = Deleting(&self.deleting);
        let (first, second) = keys.split_at(keys.len() / 2);
        pause(self.delete_takes / 3).await;
        self.delete_checked(first).await;
        pause(self.delete_takes / 3).await;
        self.delete_checked(second).await;
        pause(self.delete_takes / 3).await;
        Ok(Vec::new())
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        pause(self.list_takes).await;
        self.inner.get(key, unless, max_len).await
    }

    async fn create(&self, _: &str, _: Bytes) -> Result<PutOutcome, StoreError> {
        unreachable!("a compactor writes nothing")
    }

    async fn replace(&self, _: &str, _: Bytes, _: ETag) -> Result<PutOutcome, StoreError> {
        unreachable!("a compactor writes nothing")
    }

    fn describe(&self) -> String {
        "watched".to_owned()
    }
}

/// Answers each read with [`BODY`].
fn answers_reads(store: &mut MockStore) {
    let (body, etag) = (Bytes::from_static(BODY), ETag::new("\"e\""));
    let object = Object { body, etag, last_modified: None, served_at: None };
    store.expect_get().returning(move |_, _, _| Ok(GetOutcome::Found(object.clone())));
}

fn app() -> Keys {
    Keys::new("app").unwrap()
}

fn lock(number: u64) -> String {
    app().numbered(number)
}

fn locks(numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    numbers.into_iter().map(lock).collect()
}

/// Makes a compactor of `app` that keeps `keep_epochs` epochs and has no minimum age.
fn compactor(store: Arc<dyn Store>, keep_epochs: usize) -> Compactor {
    let builder = Compactor::builder(store, "app").keep_epochs(keep_epochs);
    builder.min_age(Duration::ZERO).build().unwrap()
}

#[allow(clippy::disallowed_methods, reason = "the test reads Tokio's paused clock")]
fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

fn busy(why: &str) -> StoreError {
    StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why)
}
