//! Leaders abandon a slow renewal early and send a new attempt. The tests count the requests, and
//! show that a leader never loses its lease on a store that answers within the timeout.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use tenure::store::{ETag, GetOutcome, MemoryStore, Page, PutOutcome, Store, StoreError};
use tenure::{Election, ElectionBuilder, Layout, Leadership, LeadershipEvent, Loss};
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{TestClock, millis, process, wait};
use tenure_testkit::world::{VALIDITY, elect};
use tokio::time::Instant;

/// Maximum number of requests that a leader abandons early before the next extension of its lease.
const GIVEN_UP: usize = 3;

/// A store on which each kind of request takes a given time. A request takes effect after half of
/// its duration, even if the caller has abandoned the request.
#[derive(Debug, Clone)]
struct SlowStore {
    inner: MemoryStore,
    times: Arc<Mutex<Times>>,
}

/// Durations of requests. A duration depends on the time since `changed`.
#[derive(Debug, Clone)]
struct Times {
    changed: Instant,
    put: Phases,
    /// Durations of GETs, and also of LISTs.
    get: Phases,
}

/// Each pair is the start of a phase, and the duration of requests in this phase, in milliseconds.
/// The starts ascend.
type Phases = Vec<(u64, u64)>;

#[allow(clippy::disallowed_methods, reason = "paused time")]
impl Times {
    fn new(put: Phases, get: Phases) -> Times {
        Times { changed: Instant::now(), put, get }
    }

    fn of(&self, phases: &Phases) -> Duration {
        let now = self.changed.elapsed().as_millis();
        let phase = phases.iter().rev().find(|(from, _)| u128::from(*from) <= now);
        millis(phase.expect("the first phase begins at 0").1)
    }
}

impl SlowStore {
    fn fast(clock: &TestClock) -> Layered<SlowStore> {
        let times = Times::new(vec![(0, 10)], vec![(0, 10)]);
        Layered(SlowStore {
            inner: MemoryStore::with_clock(Arc::new(clock.clone())),
            times: Arc::new(Mutex::new(times)),
        })
    }

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

    fn put(&self) -> Duration {
        let times = self.times.lock().unwrap();
        times.of(&times.put)
    }

    fn get(&self) -> Duration {
        let times = self.times.lock().unwrap();
        times.of(&times.get)
    }
}

#[async_trait]
impl Layer for SlowStore {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let inner = self.inner.clone();
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        let call = async move { inner.list(&prefix, &after, limit).await };
        SlowStore::takes(SlowStore::get(self), call).await
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let (inner, key) = (self.inner.clone(), key.to_owned());
        let call = async move { inner.get(&key, unless, max_len).await };
        SlowStore::takes(SlowStore::get(self), call).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let (inner, key) = (self.inner.clone(), key.to_owned());
        let call = async move { inner.replace(&key, body, etag).await };
        SlowStore::takes(SlowStore::put(self), call).await
    }
}

/// Returns a leader that has renewed its lease `renewals` times on a fast store. Then the store
/// becomes slow: a PUT takes `put` ms, and a GET takes `get` ms.
async fn leader_of_a_fast_store(
    layout: Layout,
    renewals: usize,
    (put, get): (u64, u64),
) -> (Leadership, FaultStore) {
    let clock = TestClock::new();
    let slow = SlowStore::fast(&clock);
    let store = FaultStore::new(Arc::new(slow.clone()));
    let election = candidate(Arc::new(store.clone()), &clock).layout(layout);
    let lead = elect(&election.build().unwrap()).await;
    store.take_calls();
    let mut renewed = 0;
    while renewed < renewals {
        wait(millis(100)).await;
        renewed += store.take_calls().iter().filter(|call| **call == Call::Replace).count();
    }
    wait(millis(100)).await;
    *slow.0.times.lock().unwrap() = Times::new(vec![(0, put)], vec![(0, get)]);
    (lead, store)
}

fn candidate(store: Arc<dyn Store>, clock: &TestClock) -> ElectionBuilder {
    Election::builder(store, "app")
        .name("a")
        .validity(VALIDITY)
        .check_store(false)
        .process(process(clock, 1))
}

/// Returns the requests that the leader sends until its lease is extended.
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

/// Before the fix, the leader abandoned every attempt after 50 ms, and did not raise this limit
/// after a refusal. The leader sent 77 PUTs and 76 GETs and lost its lease, although 4 PUTs are
/// sufficient to keep the lease.
#[tokio::test(start_paused = true)]
async fn regression_a_leader_survives_a_store_that_became_slow() {
    // The bound counts one request for the renewal without an answer, and two requests for the last
    // renewal and its read-back. It also counts a renewal and a read-back for each abandoned
    // request.
    let most = 3 + 2 * GIVEN_UP;
    for layout in [Layout::EpochFiles, Layout::SingleObject] {
        for (put, get) in [(10, 60), (80, 200), (500, 300), (900, 900), (1_900, 1_900)] {
            let setting = format!("{layout:?}, {put}/{get} ms");
            let (lead, store) = leader_of_a_fast_store(layout, 5, (put, get)).await;
            store.on(Call::Replace).fault(Fault::HangAfter);
            let sent = until_renewed(&lead, &store).await;
            let sent = sent.unwrap_or_else(|loss| panic!("{setting}: {loss}"));
            assert!(sent.len() <= most, "{setting}: {sent:?}");
            wait(VALIDITY * 3).await;
            assert!(lead.check().is_ok(), "{setting}");
            let later = store.take_calls().len();
            assert!(later <= 3 * (3 + 1) + most, "{setting}: {later}");
        }
    }
}

/// Two renewals and a read-back hang. The leader must not wait for the whole request timeout each
/// time.
#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_costs_a_third_of_the_timeout() {
    let (lead, store) = leader_of_a_fast_store(Layout::EpochFiles, 5, (10, 10)).await;
    store.on(Call::Replace).fault(Fault::HangAfter);
    store.on(Call::Replace).skip(1).fault(Fault::HangAfter);
    store.on(Call::Get).fault(Fault::Hang);
    let sent = until_renewed(&lead, &store).await.unwrap();
    // Three requests hang. After each of these requests, the leader sends at most a renewal and its
    // read-back.
    assert!(sent.len() <= 2 + 2 * GIVEN_UP, "{sent:?}");
    // If the leader had waited for the request timeout, less of the lease would remain.
    assert!(lead.remaining() > VALIDITY / 2, "{:?}", lead.remaining());
}

/// Returns whether a leader keeps its lease if its store becomes slow. On the slow store, writes
/// take the times in `put`, and reads and listings take the times in `get`.
async fn is_kept(verify: bool, put: &Phases, get: &Phases) -> bool {
    let clock = TestClock::new();
    let store = SlowStore::fast(&clock);
    let election = candidate(Arc::new(store.clone()), &clock).verify_renewals(verify).build();
    let lead = elect(&election.unwrap()).await;
    wait(VALIDITY * 4).await;
    *store.0.times.lock().unwrap() = Times::new(put.clone(), get.clone());
    wait(VALIDITY * 3).await;
    lead.check().is_ok()
}

/// With `verify_renewals`, a LIST follows each read-back. Before the fix, the leader did not
/// include the time of this LIST. So it lost its lease on a store that answered each request within
/// the timeout.
#[tokio::test(start_paused = true)]
async fn regression_short_attempts_lose_no_lease_on_a_store_that_answers_in_time() {
    let (put, get) = (vec![(0, 1_203)], vec![(0, 1_773)]);
    assert!(is_kept(true, &put, &get).await);
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut phases = || {
            let later = |rng: &mut fastrand::Rng| (rng.u64(0..15_000), rng.u64(10..=1_950));
            let mut phases = vec![(0, rng.u64(10..=1_950))];
            phases.extend((0..rng.usize(0..3)).map(|_| later(&mut rng)));
            phases.sort_unstable();
            phases
        };
        let (put, get) = (phases(), phases());
        for verify in [false, true] {
            let kept = is_kept(verify, &put, &get).await;
            assert!(kept, "seed {seed}, verify {verify}: PUT {put:?}, GET {get:?}");
        }
    }
}
