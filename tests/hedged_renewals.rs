//! Renewals that are given up for others once half of the lease is gone: how many requests that
//! takes, and that it never loses a lease which patience would have kept.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use support::fault_store::{Call, Fault, FaultStore};
use support::time::{TestClock, millis, process, wait};
use support::world::{VALIDITY, elect};
use tenure::store::{
    DeleteOutcome, ETag, GetOutcome, MemoryStore, Page, PutOutcome, Store, StoreError,
};
use tenure::{Election, Layout, Leadership, LeadershipEvent, Loss};

/// At this validity and the defaults that follow from it a leader gives up at most four requests
/// until its lease is extended: after 50, 100, 200 and 400 ms, as half of the lease less two
/// timeouts is 1 s.
const GIVEN_UP: usize = 4;

/// Answers each kind of request after a time of its own. What was sent takes effect halfway, also
/// if the caller has given it up.
#[derive(Debug, Clone)]
struct SlowStore {
    inner: MemoryStore,
    latency: Arc<Mutex<Latency>>,
}

#[derive(Debug, Clone, Copy)]
struct Latency {
    put: Duration,
    get: Duration,
}

const FAST: Latency = Latency { put: Duration::from_millis(10), get: Duration::from_millis(10) };

impl SlowStore {
    async fn takes<T: Send + 'static>(
        latency: Duration,
        call: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let call = tokio::spawn(async move {
            wait(latency / 2).await;
            let answer = call.await;
            wait(latency / 2).await;
            answer
        });
        call.await.expect("no panic")
    }

    fn latency(&self) -> Latency {
        *self.latency.lock().unwrap()
    }
}

#[async_trait]
impl Store for SlowStore {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        self.inner.list(prefix, after, limit).await
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let (inner, key) = (self.inner.clone(), key.to_owned());
        let call = async move { inner.get(&key, unless, max_len).await };
        SlowStore::takes(self.latency().get, call).await
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.inner.create(key, body).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let (inner, key) = (self.inner.clone(), key.to_owned());
        let call = async move { inner.replace(&key, body, etag).await };
        SlowStore::takes(self.latency().put, call).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<DeleteOutcome, StoreError> {
        self.inner.delete(keys).await
    }

    fn describe(&self) -> String {
        "a slow store".to_owned()
    }
}

/// A leader that has renewed so often on a fast store, whose requests take `latency` from now on.
async fn leader_of_a_fast_store(
    layout: Layout,
    renewals: usize,
    latency: Latency,
) -> (Leadership, FaultStore) {
    let clock = TestClock::new();
    let memory = MemoryStore::with_clock(Arc::new(clock.clone()));
    let slow = SlowStore { inner: memory, latency: Arc::new(Mutex::new(FAST)) };
    let store = FaultStore::new(Arc::new(slow.clone()));
    let election = Election::builder(Arc::new(store.clone()), "app")
        .layout(layout)
        .name("a")
        .validity(VALIDITY)
        .check_store(false)
        .process(process(&clock, 1));
    let lead = elect(&election.build().unwrap()).await;
    store.take_calls();
    let mut renewed = 0;
    while renewed < renewals {
        wait(millis(100)).await;
        renewed += store.take_calls().iter().filter(|call| **call == Call::Replace).count();
    }
    wait(millis(100)).await;
    *slow.latency.lock().unwrap() = latency;
    (lead, store)
}

/// What is sent from now on until the lease is extended.
async fn until_renewed(lead: &Leadership, store: &FaultStore) -> Result<Vec<Call>, Loss> {
    let mut events = lead.events();
    loop {
        match events.next().await {
            Some(LeadershipEvent::Renewed { .. }) => return Ok(store.take_calls()),
            Some(LeadershipEvent::Lost(loss)) => return Err(loss),
            _ => {}
        }
    }
}

/// With less than half of the lease left every attempt was given up after 50 ms, and every refusal
/// made the leader as impatient as before: 77 PUT and 76 GET did not keep a lease that 4 PUT keep.
#[tokio::test(start_paused = true)]
async fn regression_a_store_that_became_slow_keeps_its_leader() {
    // Before it knows how long a GET takes, and after: it sends one in three renewals.
    for (renewals, most) in [(30, 3 + GIVEN_UP), (90, 3 + 2 * GIVEN_UP)] {
        for layout in [Layout::EpochFiles, Layout::SingleObject] {
            for (put, get) in [(10, 60), (80, 200), (500, 300), (900, 900), (1_900, 1_900)] {
                let latency = Latency { put: millis(put), get: millis(get) };
                let what = format!("{layout:?}, {renewals} renewals, {put}/{get} ms");
                let (lead, store) = leader_of_a_fast_store(layout, renewals, latency).await;
                store.on(Call::Replace).fault(Fault::HangAfter);
                let sent = until_renewed(&lead, &store).await;
                let sent = sent.unwrap_or_else(|loss| panic!("{what}: {loss}"));
                // The one that is never answered, and in place of each that is given up a renewal
                // and its read-back.
                assert!(sent.len() <= most, "{what}: {sent:?}");
                wait(VALIDITY * 3).await;
                assert!(lead.check().is_ok(), "{what}");
                let later = store.take_calls().len();
                assert!(later <= 3 * (3 + 1) + most, "{what}: {later}");
            }
        }
    }
}

/// What hedging is for: one request in two hangs, and the leader does not wait for the timeout.
#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_costs_little_once_half_of_the_lease_is_gone() {
    let (lead, store) = leader_of_a_fast_store(Layout::EpochFiles, 90, FAST).await;
    store.on(Call::Replace).fault(Fault::HangAfter);
    store.on(Call::Replace).skip(1).fault(Fault::HangAfter);
    store.on(Call::Get).fault(Fault::Hang);
    let sent = until_renewed(&lead, &store).await.unwrap();
    // Three hang, a PUT and a GET after it are refused and answered.
    assert!(sent.len() <= 6, "{sent:?}");
    // The timeout alone leaves less.
    assert!(lead.remaining() > VALIDITY / 2, "{:?}", lead.remaining());
}
