//! Candidates of this library share one lock with nodes that follow a blog post about `If-Match`.
//! Candidates and nodes wait for each other, and the tokens only increase.

use std::sync::Arc;

use tenure::store::GetOutcome;
use tenure::{Election, Layout, Loss};
use tenure_testkit::if_match::IfMatchNode;
use tenure_testkit::time::{TestClock, millis, secs, timed, wait};
use tenure_testkit::world::{VALIDITY, World};

const KEY: &str = "app/lock.json";

fn node(world: &World, clock: &TestClock) -> IfMatchNode {
    let store = Arc::clone(world.store.inner());
    IfMatchNode { store, key: KEY, expires_in: secs(60), clock: Arc::new(clock.clone()) }
}

fn election(world: &World) -> Election {
    world.node("ours").layout(Layout::SingleObject).build().unwrap()
}

async fn body(world: &World) -> String {
    let found = world.store.inner().get(KEY, None, 1 << 16).await.unwrap();
    let GetOutcome::Found(object) = found else { panic!("{KEY} does not exist") };
    String::from_utf8(object.body.to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_waits_for_a_leader_and_continues_its_tokens() {
    let world = World::new();
    let node = node(&world, &world.clock);
    let leadership = election(&world).campaign().await.unwrap();
    // The node waits while the leader renews the lock.
    for _ in 0..100 {
        assert!(node.acquire().await.is_none());
        assert!(leadership.check().is_ok());
        wait(millis(500)).await;
    }
    // The leader is dropped, and does not release the lock. The node must not treat the lease as
    // ended before the lease ends by the clock of the leader.
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
async fn a_node_takes_a_released_lock_immediately() {
    let world = World::new();
    election(&world).campaign().await.unwrap().resign().await.unwrap();
    let held = node(&world, &world.clock).acquire().await.expect("released");
    assert_eq!(held.data.token, 2);
    assert!(!body(&world).await.contains("nonce"), "the node removes the fields of the library");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_waits_until_the_lock_of_a_node_expires_and_for_the_margin() {
    let world = World::new();
    let node = node(&world, &world.clock);
    let held = node.acquire().await.unwrap();
    assert_eq!(held.data.token, 0, "the first token is zero");
    wait(secs(20)).await;
    let (took, leadership) = timed(election(&world).campaign()).await;
    assert_eq!(leadership.unwrap().epoch().get(), 1);
    assert!(!node.believes(&held));
    // The lock expires after 40 s. Then the candidate waits for a margin of one validity (10 s).
    // The jitter before its seal is at most a tenth of these 50 s.
    assert!(took >= secs(50) && took < secs(56), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_margin_covers_a_slow_clock_of_a_node() {
    let world = World::new();
    let behind = TestClock::new();
    behind.set_wall_by(-9_000);
    let node = node(&world, &behind);
    let held = node.acquire().await.unwrap();
    let leadership = election(&world).campaign().await.unwrap();
    assert!(!node.believes(&held), "two processes would lead");
    assert_eq!(leadership.epoch().get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_a_node_extends_its_lock() {
    let world = World::new();
    let node = node(&world, &world.clock);
    let mut held = node.acquire().await.unwrap();
    let election = election(&world);
    let follow = tokio::spawn(async move { election.campaign().await.unwrap() });
    for _ in 0..10 {
        wait(secs(30)).await;
        held = node.renew(held).await.expect("no other process took the lock");
        assert!(!follow.is_finished());
    }
    assert!(node.release(held).await);
    let (took, leadership) = timed(follow).await;
    assert!(
        took <= VALIDITY / 6 + millis(1),
        "the candidate leads at the next poll, not after {took:?}"
    );
    assert_eq!(leadership.unwrap().epoch().get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_fast_clock_supersedes_a_leader() {
    let world = World::new();
    let ahead = TestClock::new();
    ahead.set_wall_by(3_600_000);
    let leadership = election(&world).campaign().await.unwrap();
    let held =
        node(&world, &ahead).acquire().await.expect("the lock has expired by the node's clock");
    assert_eq!(held.data.token, 2);
    wait(secs(4)).await;
    let Err(Loss::Superseded { by }) = leadership.check() else { panic!("superseded") };
    assert_eq!(by.get(), 2, "the greater token wins at the guarded resource");
}

#[tokio::test(start_paused = true)]
async fn store_dates_do_not_shorten_a_lock_of_a_node() {
    let world = World::new();
    let node = node(&world, &world.clock);
    let held = node.acquire().await.unwrap();
    // By the dates of the store, the lock was last written long ago. But the time in its
    // `expires_at` has not passed.
    wait(secs(55)).await;
    let ours = world.node("ours").layout(Layout::SingleObject).store_clock_margin(secs(2));
    let _leadership = ours.build().unwrap().campaign().await.unwrap();
    assert!(!node.believes(&held));
}

#[tokio::test(start_paused = true)]
async fn tokens_increase_across_implementations() {
    let world = World::new();
    let node = node(&world, &world.clock);
    for turn in 0..10 {
        let held = node.acquire().await.expect("released");
        assert_eq!(held.data.token, 2 * turn);
        assert!(node.release(held).await);
        let leadership = election(&world).campaign().await.unwrap();
        assert_eq!(leadership.epoch().get(), 2 * turn + 1);
        leadership.resign().await.unwrap();
    }
}

/// In the first version of the blog post, locks have no token. If a candidate overwrote such a
/// lock, the tokens would start again at 1.
#[tokio::test(start_paused = true)]
async fn a_lock_without_a_token_is_an_error() {
    let world = World::new();
    world.put("lock.json", r#"{"expires_at": 1740151473.206179}"#).await;
    let error = election(&world).campaign().await.unwrap_err();
    assert_eq!(error.kind(), tenure::ErrorKind::CorruptRecord);
    assert!(error.to_string().contains("`token` is missing"), "{error}");
}
