//! Candidates and nodes of the If-Match post on one lock: they wait for each other, and the tokens
//! only grow.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure::store::{GetOutcome, MemoryStore, Store as _};
use tenure::{Election, Layout, Loss};
use tenure_testkit::if_match::IfMatchNode;
use tenure_testkit::time::{TestClock, millis, process, secs, timed, wait};

const KEY: &str = "app/lock.json";
const VALIDITY: Duration = Duration::from_secs(10);

struct World {
    store: MemoryStore,
    clock: TestClock,
}

impl World {
    fn new() -> World {
        let clock = TestClock::new();
        World { store: MemoryStore::with_clock(Arc::new(clock.clone())), clock }
    }

    fn node(&self, clock: &TestClock) -> IfMatchNode {
        let store = Arc::new(self.store.clone());
        IfMatchNode { store, key: KEY, expires_in: secs(60), clock: Arc::new(clock.clone()) }
    }

    fn election(&self, seed: u64) -> Election {
        Election::builder(Arc::new(self.store.clone()), "app")
            .layout(Layout::SingleObject)
            .validity(VALIDITY)
            .process(process(&self.clock, seed))
            .build()
            .unwrap()
    }

    async fn body(&self) -> String {
        let GetOutcome::Found(object) = self.store.get(KEY, None, 1 << 16).await.unwrap() else {
            panic!("there is no {KEY}");
        };
        String::from_utf8(object.body.to_vec()).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn they_wait_for_us_and_go_on_counting() {
    let world = World::new();
    let node = world.node(&world.clock);
    let leadership = world.election(1).campaign().await.unwrap();
    // As long as it is renewed.
    for _ in 0..100 {
        assert!(node.acquire().await.is_none());
        assert!(leadership.check().is_ok());
        wait(millis(500)).await;
    }
    // Dropped without a word: its last lease runs out for them no earlier than for us.
    let end = leadership.ends_at();
    drop(leadership);
    wait(millis(1)).await;
    let held = loop {
        match node.acquire().await {
            Some(held) => break held,
            None => wait(millis(1)).await,
        }
    };
    assert!(tenure::Clock::now(&world.clock).wall >= end.wall);
    assert_eq!(held.data.token, 2);
}

#[tokio::test(start_paused = true)]
async fn they_take_a_lock_that_we_released_at_once() {
    let world = World::new();
    world.election(1).campaign().await.unwrap().resign().await.unwrap();
    let held = world.node(&world.clock).acquire().await.expect("released");
    assert_eq!(held.data.token, 2);
    assert!(!world.body().await.contains("nonce"), "nothing of ours is left");
}

#[tokio::test(start_paused = true)]
async fn we_wait_for_them_until_their_expiry_and_the_margin() {
    let world = World::new();
    let node = world.node(&world.clock);
    let held = node.acquire().await.unwrap();
    assert_eq!(held.data.token, 0, "starting at zero");
    wait(secs(20)).await;
    let (took, leadership) = timed(world.election(1).campaign()).await;
    assert_eq!(leadership.unwrap().epoch().get(), 1);
    assert!(!node.believes(&held));
    // 40 s were left, the margin is our validity, and the jitter a tenth of both.
    assert!(took >= secs(50) && took < secs(56), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_margin_bears_a_clock_of_theirs_that_is_behind() {
    let world = World::new();
    let behind = TestClock::new();
    behind.set_wall_by(-9_000);
    let node = world.node(&behind);
    let held = node.acquire().await.unwrap();
    let leadership = world.election(1).campaign().await.unwrap();
    assert!(!node.believes(&held), "two would lead");
    assert_eq!(leadership.epoch().get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_theirs_is_a_sign_of_life() {
    let world = World::new();
    let node = world.node(&world.clock);
    let mut held = node.acquire().await.unwrap();
    let election = world.election(1);
    let follow = tokio::spawn(async move { election.campaign().await.unwrap() });
    for _ in 0..10 {
        wait(secs(30)).await;
        held = node.renew(held).await.expect("nobody took it");
        assert!(!follow.is_finished());
    }
    assert!(node.release(held).await);
    let (took, leadership) = timed(follow).await;
    assert!(took <= VALIDITY / 6 + millis(1), "at the next poll, not after {took:?}");
    assert_eq!(leadership.unwrap().epoch().get(), 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_trusts_a_clock_that_runs_ahead_takes_the_lock_and_we_say_so() {
    let world = World::new();
    let ahead = TestClock::new();
    ahead.set_wall_by(3_600_000);
    let leadership = world.election(1).campaign().await.unwrap();
    let held = world.node(&ahead).acquire().await.expect("expired by its clock");
    assert_eq!(held.data.token, 2);
    wait(secs(4)).await;
    let Err(Loss::Superseded { by }) = leadership.check() else { panic!("superseded") };
    assert_eq!(by.get(), 2, "the greater token wins at the guarded resource");
}

#[tokio::test(start_paused = true)]
async fn dates_of_the_store_do_not_shorten_a_lock_of_theirs() {
    let world = World::new();
    let node = world.node(&world.clock);
    let held = node.acquire().await.unwrap();
    // Old by the store's dates, with some of it left.
    wait(secs(55)).await;
    let election = Election::builder(Arc::new(world.store.clone()), "app")
        .layout(Layout::SingleObject)
        .validity(VALIDITY)
        .store_clock_margin(secs(2))
        .process(process(&world.clock, 1))
        .build()
        .unwrap();
    let _leadership = election.campaign().await.unwrap();
    assert!(!node.believes(&held));
}

#[tokio::test(start_paused = true)]
async fn tokens_only_grow_in_turns() {
    let world = World::new();
    let node = world.node(&world.clock);
    for turn in 0..10 {
        let held = node.acquire().await.expect("released");
        assert_eq!(held.data.token, 2 * turn);
        assert!(node.release(held).await);
        let leadership = world.election(turn).campaign().await.unwrap();
        assert_eq!(leadership.epoch().get(), 2 * turn + 1);
        leadership.resign().await.unwrap();
    }
}

/// The post's first version has no token; whoever writes that would make the tokens start again.
#[tokio::test(start_paused = true)]
async fn a_lock_without_a_token_is_an_error_and_not_free() {
    let world = World::new();
    let body = Bytes::from_static(br#"{"expires_at": 1740151473.206179}"#);
    world.store.create(KEY, body).await.unwrap();
    let error = world.election(1).campaign().await.unwrap_err();
    assert_eq!(error.kind(), tenure::ErrorKind::CorruptRecord);
    assert!(error.to_string().contains("`token` is missing"), "{error}");
}
