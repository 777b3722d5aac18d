//! Tests the order and the speed of takeovers: with a named successor, with priorities, with polls
//! that the application requests, and with candidates that poll only at the lapse. Also tests
//! renewals that do not wait for a slow answer.

use std::time::Duration;

use futures::StreamExt as _;
use tenure::{Election, ErrorKind, Layout, Leadership, Observation};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, timed, wait, within};
use tenure_testkit::world::{TAKEOVER, VALIDITY, World, elect};
use tokio::task::JoinHandle;

const LAYOUTS: [Layout; 2] = [Layout::EpochFiles, Layout::SingleObject];
/// The default poll interval, a sixth of the validity.
const POLL: Duration = Duration::from_millis(1_667);

fn follow(election: &Election) -> JoinHandle<(Duration, Leadership)> {
    let election = election.clone();
    tokio::spawn(async move { timed(elect(&election)).await })
}

/// Returns the leadership of the follower that is elected first.
async fn first_of(
    b: JoinHandle<(Duration, Leadership)>,
    c: JoinHandle<(Duration, Leadership)>,
) -> Leadership {
    tokio::select! {
        b = b => b.unwrap().1,
        c = c => c.unwrap().1,
    }
}

#[tokio::test(start_paused = true)]
async fn a_named_successor_is_elected_first() {
    for layout in LAYOUTS {
        let mut without_a_name = [0; 2];
        for seed in 0..20 {
            for named in [true, false] {
                let world = World::new();
                let node = |name| world.node(name).layout(layout).build().unwrap();
                let a = elect(&node("a")).await;
                let (b, c) = (follow(&node("b")), follow(&node("c")));
                wait(millis(300 + seed * 271)).await;
                let (took, winner) = timed(async {
                    if named { a.resign_to("c").await } else { a.resign().await }.unwrap();
                    first_of(b, c).await
                })
                .await;
                assert_eq!(winner.epoch().get(), 2);
                assert!(took <= POLL + millis(10), "{took:?}");
                match named {
                    true => assert_eq!(winner.candidate(), "c", "seed {seed}, {layout:?}"),
                    false => without_a_name[usize::from(winner.candidate() == "c")] += 1,
                }
            }
        }
        assert!(without_a_name[0] > 3, "b also wins without a name: {without_a_name:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn candidates_wait_one_poll_interval_for_a_missing_successor() {
    for layout in LAYOUTS {
        let world = World::new();
        let node = |name| world.node(name).layout(layout).build().unwrap();
        let a = elect(&node("a")).await;
        let b = follow(&node("b"));
        wait(millis(100)).await;
        let (took, b) = timed(async {
            a.resign_to("nobody").await.unwrap();
            b.await.unwrap().1
        })
        .await;
        assert_eq!(b.epoch().get(), 2);
        assert!(took > POLL && took < POLL * 2 + millis(100), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_named_a_successor_also_waits_for_the_successor() {
    let world = World::new();
    let election = world.node("a").build().unwrap();
    let a = elect(&election).await;
    let c = follow(&world.node("c").build().unwrap());
    wait(millis(100)).await;
    a.resign_to("c").await.unwrap();
    assert_eq!(world.record(1).await["successor"], "c");
    let again = follow(&election);
    assert_eq!(first_of(again, c).await.candidate(), "c");
    // The record of the next epoch does not name a successor.
    assert!(world.record(2).await.get("successor").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_invalid_name_is_refused_before_any_request() {
    let world = World::new();
    let a = world.leader("a").await;
    world.store.take_log();
    let error = a.resign_to("c\n").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(world.store.take_log(), []);
}

#[tokio::test(start_paused = true)]
async fn a_single_attempt_leaves_a_sealed_epoch_to_the_named_successor() {
    let world = World::new();
    let a = world.leader("a").await;
    let b = world.node("b").build().unwrap();
    a.resign_to("c").await.unwrap();
    let held = tenure_testkit::world::held(b.try_campaign().await.unwrap());
    assert_eq!(held.name(), "a");
    wait(POLL + millis(10)).await;
    let b = tenure_testkit::world::elected(b.try_campaign().await.unwrap());
    assert_eq!(b.epoch().get(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lower_priority_only_makes_a_candidate_wait_longer() {
    let delay = POLL + millis(500);
    for layout in LAYOUTS {
        for resigns in [true, false] {
            for seed in 0..10 {
                let world = World::new();
                let node = |name| world.node(name).layout(layout);
                let a = elect(&node("a").build().unwrap()).await;
                let low = node("low").priority_delay(delay).build().unwrap();
                let (low, high) = (follow(&low), follow(&node("high").build().unwrap()));
                wait(millis(300 + seed * 271)).await;
                if resigns {
                    a.resign().await.unwrap()
                } else {
                    drop(a)
                }
                let winner = first_of(low, high).await;
                assert_eq!(winner.candidate(), "high", "seed {seed}, {layout:?}");
            }
        }
        let world = World::new();
        let node = |name| world.node(name).layout(layout);
        drop(elect(&node("a").build().unwrap()).await);
        let low = node("low").priority_delay(delay).build().unwrap();
        let (took, low) = timed(elect(&low)).await;
        assert_eq!(low.epoch().get(), 2);
        // The priority delay precedes the seal, and does not apply a second time between the seal
        // and the create.
        let most = VALIDITY.mul_f64(1.01 + 0.1) + delay + millis(100);
        assert!(took > VALIDITY + delay && took < most, "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_requested_poll_happens_immediately() {
    for layout in LAYOUTS {
        let world = World::new();
        // If `poll_interval` is `None`, candidates poll only when the lease lapses.
        let node = |name| world.node(name).layout(layout).poll_interval(None).build().unwrap();
        let a = elect(&node("a")).await;
        let (b, observer) = (node("b"), node("observer"));
        let follow = follow(&b);
        let mut observations = observer.observe();
        assert!(matches!(observations.next().await, Some(Ok(Observation::Leader(_)))));
        wait(millis(500)).await;
        a.resign().await.unwrap();
        let nothing_yet = within(secs(2), observations.next()).await;
        assert!(nothing_yet.is_none() && !follow.is_finished());
        let ((took, ()), observed) = tokio::join!(
            timed(async {
                b.refresh();
                observer.refresh();
                while !follow.is_finished() {
                    wait(millis(1)).await;
                }
            }),
            observations.next()
        );
        assert!(matches!(observed, Some(Ok(Observation::NoLeader | Observation::Leader(_)))));
        assert!(took < millis(10), "{took:?}");
        assert_eq!(follow.await.unwrap().1.epoch().get(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn many_requests_to_poll_cause_one_poll() {
    let world = World::new();
    let _a = world.leader("a").await;
    let b = world.node("b").build().unwrap();
    let _following = follow(&b);
    wait(millis(100)).await;
    world.store.take_log();
    for _ in 0..1_000 {
        b.refresh();
    }
    wait(millis(100)).await;
    assert_eq!(world.store.take_calls(), [Call::Get]);
}

/// Returns a leader and a follower that polls only at the lapse. The leader has a separate
/// connection to the store. The follower uses `world.store`, whose log and faults concern only the
/// follower.
async fn followed_at_the_lapse(
    layout: Layout,
) -> (World, Leadership, JoinHandle<(Duration, Leadership)>) {
    let world = World::new();
    let way = world.another_way();
    let a = world.node_behind(&way, &world.clock, "a").layout(layout).build().unwrap();
    let a = elect(&a).await;
    let b = world.node("b").layout(layout).poll_interval(None).build().unwrap();
    let follow = follow(&b);
    wait(millis(100)).await;
    world.store.take_log();
    (world, a, follow)
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_polls_only_at_the_lapse_sends_one_get_per_validity() {
    for layout in LAYOUTS {
        let (world, a, follow) = followed_at_the_lapse(layout).await;
        wait(VALIDITY * 20).await;
        let calls = world.store.take_calls();
        assert!(calls.iter().all(|call| *call == Call::Get), "{calls:?}");
        assert!((16..=20).contains(&calls.len()), "{} GETs in 20 validities", calls.len());
        drop(a);
        let (took, (_, b)) = timed(async { follow.await.unwrap() }).await;
        assert_eq!(b.epoch().get(), 2);
        // If the follower polls just before the leader's last renewal, it sees this renewal only at
        // its next poll, a validity later. Then it waits for another validity.
        assert!(took < TAKEOVER + VALIDITY, "{took:?}");
        let calls = world.store.take_calls();
        let writes = calls.iter().filter(|call| matches!(call, Call::Create | Call::Replace));
        let needed = if layout == Layout::EpochFiles { 2 } else { 1 };
        assert_eq!(writes.count(), needed, "the leader sends no write without need: {calls:?}");
    }
}

/// Before the fix, a poll without an answer counted as a poll that shows no renewal. So the
/// follower tried to seal the epoch of a live leader. The leader kept its epoch only because the
/// store refused this seal.
#[tokio::test(start_paused = true)]
async fn regression_a_failed_poll_at_the_lapse_is_not_an_observation() {
    for layout in LAYOUTS {
        for fault in [Fault::FailBefore, Fault::Hang] {
            let (world, a, _follow) = followed_at_the_lapse(layout).await;
            world.store.on(Call::Get).times(3).fault(fault);
            wait(VALIDITY * 5).await;
            let calls = world.store.take_calls();
            assert!(
                calls.iter().all(|call| *call == Call::Get),
                "{layout:?}, {fault:?}: {calls:?}"
            );
            assert!(
                (7..12).contains(&calls.len()),
                "three polls fail, one per validity: {calls:?}"
            );
            assert!(a.check().is_ok());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_polls_only_at_the_lapse_detects_a_dead_leader() {
    let world = World::new();
    let a = world.leader("a").await;
    let observer = world.node("o").poll_interval(None).build().unwrap();
    let mut observations = observer.observe();
    assert!(matches!(observations.next().await, Some(Ok(Observation::Leader(_)))));
    assert!(within(VALIDITY * 5, observations.next()).await.is_none(), "the process is alive");
    drop(a);
    let (took, next) = timed(observations.next()).await;
    assert!(matches!(next, Some(Ok(Observation::NoLeader))), "{next:?}");
    assert!(took < VALIDITY * 2 + secs(1), "{took:?}");
}

/// Returns whether the leader keeps its lease if `unanswered` consecutive renewals get no answer.
async fn survives(unanswered: usize) -> bool {
    let world = World::new();
    let a = world.leader("a").await;
    wait(VALIDITY / 3 * 30 + secs(1)).await;
    world.store.on(Call::Replace).times(unanswered).fault(Fault::Hang);
    wait(VALIDITY * 2).await;
    a.check().is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_leader_at_risk_does_not_wait_for_slow_answers() {
    assert!(
        survives(4).await,
        "the time limit of each of the first three requests is a third of the timeout"
    );
    assert!(!survives(6).await);
}

#[tokio::test(start_paused = true)]
async fn a_slower_store_has_time_to_answer() {
    let world = World::new();
    let a = world.leader("a").await;
    wait(VALIDITY / 3 * 30 + secs(1)).await;
    world.store.on(Call::Replace).times(2).fault(Fault::Hang);
    world.store.on(Call::Replace).always().fault(Fault::Slow(millis(700)));
    wait(VALIDITY * 4).await;
    assert!(a.check().is_ok());
}

/// Other candidates wait for the named successor, even if the application requests a poll.
#[tokio::test(start_paused = true)]
async fn a_requested_poll_does_not_shorten_the_wait_for_a_successor() {
    for layout in LAYOUTS {
        let world = World::new();
        let a = elect(&world.node("a").layout(layout).build().unwrap()).await;
        let election = world.node("b").layout(layout).build().unwrap();
        let b = follow(&election);
        wait(millis(100)).await;
        let (took, _) = timed(async {
            a.resign_to("nobody-of-that-name").await.unwrap();
            for _ in 0..3 {
                election.refresh();
                wait(millis(100)).await;
            }
            b.await.unwrap()
        })
        .await;
        assert!(took >= POLL, "{layout:?}: {took:?}");
    }
}
