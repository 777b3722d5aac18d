//! Observers and snapshots report the leader, a vacant election, or an unknown state.

use std::time::Duration;

use futures::{Stream, StreamExt as _};
use tenure::{EpochEnd, Error, ErrorKind, Layout, Observation};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, timed, wait, within};
use tenure_testkit::world::{TAKEOVER, VALIDITY, World, elect, name, ready};

async fn next(
    seen: &mut (impl Stream<Item = Result<Observation, Error>> + Unpin),
) -> (Duration, String) {
    let (took, item) = timed(within(secs(600), seen.next())).await;
    let item = item.expect("an item within ten minutes").expect("the stream continues");
    (took, words(&item.expect("no error")))
}

fn words(observation: &Observation) -> String {
    match observation {
        Observation::Leader(leader) => format!("{} {}", leader.name(), leader.epoch),
        other => format!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_reports_every_change() {
    let world = World::new();
    let mut seen = world.node("o").build().unwrap().observe();
    assert_eq!(next(&mut seen).await.1, "NoLeader");
    let a = world.leader("a").await;
    let (took, told) = next(&mut seen).await;
    assert_eq!(told, "a 1");
    assert!(took < secs(2), "within a poll: {took:?}");
    assert!(within(VALIDITY * 3, seen.next()).await.is_none(), "renewals are not a change");
    a.proclaim("here").await.unwrap();
    let Some(Ok(Observation::Leader(leader))) = seen.next().await else { panic!() };
    assert_eq!(leader.data, "here");
    a.resign().await.unwrap();
    assert_eq!(next(&mut seen).await.1, "NoLeader");
    let _b = world.leader("b").await;
    assert_eq!(next(&mut seen).await.1, "b 2");
}

/// Before the fix, an observer that read a seal reported a vacant election immediately, and
/// searched for the next epoch only at its next poll.
#[tokio::test(start_paused = true)]
async fn regression_an_observer_searches_for_the_next_epoch_before_it_reports_a_vacancy() {
    for layout in [Layout::EpochFiles, Layout::SingleObject] {
        let world = World::new();
        let a = world.node("a").layout(layout).build().unwrap();
        let a = elect(&a).await;
        let observer = world.node("o").layout(layout).poll_interval(secs(5)).build().unwrap();
        let mut seen = observer.observe();
        assert_eq!(next(&mut seen).await.1, "a 1");
        // A successor is elected before the observer's next poll.
        a.resign().await.unwrap();
        let _b = elect(&world.node("b").layout(layout).build().unwrap()).await;
        assert_eq!(next(&mut seen).await.1, "b 2", "{layout:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn regression_a_successor_is_reported_soon_after_the_end() {
    let world = World::new();
    let a = world.leader("a").await;
    let observer = world.node("o").poll_interval(secs(5)).build().unwrap();
    let mut seen = observer.observe();
    assert_eq!(next(&mut seen).await.1, "a 1");
    a.resign().await.unwrap();
    assert_eq!(next(&mut seen).await.1, "NoLeader");
    let last = observer.last_seen().unwrap();
    assert_eq!((last.end, last.leader.name()), (Some(EpochEnd::Resigned), "a"));
    assert_eq!(last.sealed_by.as_deref(), Some("a"));
    wait(secs(1)).await;
    let _b = world.leader("b").await;
    let (took, told) = next(&mut seen).await;
    assert_eq!(told, "b 2");
    assert!(took < millis(1_500), "{took:?}");
    // If no successor is elected, the observer returns to its usual poll interval.
    drop(seen);
    drop(_b);
    wait(secs(60)).await;
    let mut seen = observer.observe();
    assert_eq!(next(&mut seen).await.1, "NoLeader");
    assert!(within(secs(60), seen.next()).await.is_none());
    world.store.take_calls();
    assert!(within(secs(60), seen.next()).await.is_none());
    assert!(world.store.take_calls().len() <= 26, "a LIST and a GET in 5 s");
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_reported_vacant_after_its_lapse() {
    let world = World::new();
    let a = world.leader("a").await;
    let mut seen = world.node("o").build().unwrap().observe();
    assert_eq!(next(&mut seen).await.1, "a 1");
    drop(a);
    let (took, told) = next(&mut seen).await;
    assert_eq!(told, "NoLeader");
    assert!(took >= secs(10) && took < millis(10_300), "{took:?}");
    // The observer has reported that no process leads. Now the test writes a renewal, as if the
    // leader were still alive.
    world.edit(1, serde_json::json!({ "heartbeat": 99 })).await;
    assert_eq!(next(&mut seen).await.1, "a 1");
    assert_eq!(next(&mut seen).await.1, "NoLeader");
    let _b = world.leader("b").await;
    assert_eq!(next(&mut seen).await.1, "b 2");
}

#[tokio::test(start_paused = true)]
async fn an_observer_keeps_the_leader_while_polls_fail_and_then_reports_unknown() {
    for fault in [Fault::FailBefore, Fault::Hang] {
        let world = World::new();
        let a = world.leader("a").await;
        let way = world.another_way();
        let observer = world.node_behind(&way, &world.clock, "o").build().unwrap();
        let mut seen = observer.observe();
        assert_eq!(next(&mut seen).await.1, "a 1");
        way.always(fault);
        let (took, told) = next(&mut seen).await;
        assert_eq!(told, "Unknown");
        assert!(took > secs(10) && took < secs(14), "{took:?}");
        assert!(within(secs(120), seen.next()).await.is_none(), "said once");
        way.heal();
        let (took, told) = next(&mut seen).await;
        assert_eq!(told, "a 1", "back again");
        assert!(took < secs(4), "{took:?}");
        way.always(fault);
        assert_eq!(next(&mut seen).await.1, "Unknown");
        drop(a);
        wait(VALIDITY * 2).await;
        way.heal();
        // The record shows a later renewal, so the observer waits for a full validity again.
        assert_eq!(next(&mut seen).await.1, "a 1");
        assert_eq!(next(&mut seen).await.1, "NoLeader");
    }
}

/// If the application does not poll the stream for longer than a validity, the observer's timer for
/// the lapse ends, although the observer has not read the record again. The leader may have renewed
/// its lease in the meantime. So the observer must read the record before it reports that no
/// process leads.
#[tokio::test(start_paused = true)]
async fn regression_after_a_pause_an_observer_polls_before_it_reports_a_dead_leader() {
    let world = World::new();
    let _a = world.leader("a").await;
    let mut seen = world.node("o").build().unwrap().observe();
    assert_eq!(next(&mut seen).await.1, "a 1");
    wait(VALIDITY * 3).await;
    let told = within(VALIDITY, seen.next()).await;
    assert!(told.is_none(), "{told:?}");
}

/// The observer waits for the validity of the last leader, and not for its own setting.
#[tokio::test(start_paused = true)]
async fn a_leader_is_reported_until_its_lapse_while_the_store_is_silent() {
    let world = World::new();
    let long = world.node("a").validity(secs(60)).build().unwrap();
    let _a = elect(&long).await;
    let way = world.another_way();
    let mut seen = world.node_behind(&way, &world.clock, "o").build().unwrap().observe();
    assert_eq!(next(&mut seen).await.1, "a 1");
    way.always(Fault::FailBefore);
    let (took, told) = next(&mut seen).await;
    assert_eq!(told, "Unknown");
    assert!(took > secs(50) && took < secs(70), "{took:?}");

    let world = World::new();
    world.put("lock-0000000001.json", r#"{"expired":false}"#).await;
    let mut seen = world.node("o").build().unwrap().observe();
    assert_eq!(next(&mut seen).await.1, "- 1");
    world.store.always(Fault::FailBefore);
    let told = within(VALIDITY * 10, seen.next()).await;
    assert!(told.is_none(), "the lease of a leader without a validity never lapses: {told:?}");
}

#[tokio::test(start_paused = true)]
async fn an_observer_reports_unknown_at_the_start_and_after_vacancy() {
    let world = World::new();
    world.store.always(Fault::FailBefore);
    let mut seen = world.node("o").build().unwrap().observe();
    let (took, told) = next(&mut seen).await;
    assert_eq!(told, "Unknown");
    assert!(took >= VALIDITY && took < VALIDITY + secs(2), "{took:?}");
    world.store.heal();
    assert_eq!(next(&mut seen).await.1, "NoLeader");
    world.store.always(Fault::FailBefore);
    assert_eq!(next(&mut seen).await.1, "Unknown");
    world.store.heal();
    assert_eq!(next(&mut seen).await.1, "NoLeader");
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_is_the_last_item() {
    for (fault, kind) in
        [(Fault::Denied, ErrorKind::AccessDenied), (Fault::NoSuchStore, ErrorKind::NoSuchStore)]
    {
        let world = World::new();
        let _a = world.leader("a").await;
        let way = world.another_way();
        let node = world.node_behind(&way, &world.clock, "o").retry_denied(secs(5));
        let mut seen = node.build().unwrap().observe();
        assert_eq!(next(&mut seen).await.1, "a 1");
        way.always(fault);
        let error = seen.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(seen.next().await.is_none());
    }
    let world = World::new();
    let _a = world.leader("a").await;
    let mut seen = world.node("o").build().unwrap().observe();
    assert_eq!(next(&mut seen).await.1, "a 1");
    world.delete(&name(1)).await;
    assert_eq!(seen.next().await.unwrap().unwrap_err().kind(), ErrorKind::NewestDeleted);
    assert!(seen.next().await.is_none());
}

/// The leader and the observer may have different settings for the validity.
#[tokio::test(start_paused = true)]
async fn an_observer_polls_at_the_default_interval_of_the_leader() {
    for (leader, own, polls) in [
        (secs(12), secs(30), 300),
        (secs(120), secs(30), 30),
        (secs(3), secs(30), 600),
        (secs(3600), secs(30), 10),
        (secs(3600), secs(720), 5),
        (secs(3), secs(3), 1200),
    ] {
        let world = World::new();
        let a = world.node("a").validity(leader).build().unwrap();
        let _a = elect(&a).await;
        let way = world.another_way();
        let observer = world.node_behind(&way, &world.clock, "o").validity(own).build().unwrap();
        let mut seen = observer.observe();
        assert_eq!(next(&mut seen).await.1, "a 1");
        way.take_log();
        assert!(within(secs(600), seen.next()).await.is_none(), "the leader lives");
        let counted = way.take_calls();
        assert!(counted.iter().all(|call| *call == Call::Get), "{counted:?}");
        assert!(counted.len().abs_diff(polls) <= 1, "{leader:?}: {} of {polls}", counted.len());
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_is_polled_rarely_loses_no_change() {
    let world = World::new();
    let mut seen = world.node("o").build().unwrap().observe();
    assert_eq!(next(&mut seen).await.1, "NoLeader");
    let a = world.leader("a").await;
    let mut told = Vec::new();
    for _ in 0..100 {
        // The future of `next` is dropped after 50 ms, and created again in the next round.
        if let Some(item) = within(millis(50), seen.next()).await {
            told.push(words(&item.unwrap().unwrap()));
        }
    }
    assert_eq!(told, ["a 1"]);
    assert!(ready(&mut seen).await.is_empty());
    drop(a);
    let b = world.node("b").build().unwrap();
    let (lead, _) = tokio::join!(elect(&b), wait(TAKEOVER));
    let mut told = Vec::new();
    while let Some(item) = within(secs(5), seen.next()).await {
        told.push(words(&item.unwrap().unwrap()));
    }
    assert_eq!(told, ["b 2"]);
    drop(lead);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_shows_each_state() {
    let world = World::new();
    let o = world.node("o").build().unwrap();
    let vacant = o.snapshot().await.unwrap();
    assert_eq!((vacant.leader, vacant.end, vacant.sealed_by), (None, None, None));
    assert_eq!(o.leader().await.unwrap(), None);
    let a = world.leader("a").await;
    wait(secs(2)).await;
    let snapshot = o.snapshot().await.unwrap();
    assert_eq!((snapshot.age, snapshot.lapsed), (Some(secs(2)), false));
    assert_eq!((snapshot.end, snapshot.sealed_by), (None, None));
    let leader = snapshot.leader.unwrap();
    assert_eq!((leader.name(), leader.epoch.get(), leader.heartbeat), ("a", 1, 1));
    assert_eq!(o.leader().await.unwrap().unwrap(), leader);
    drop(a);
    wait(secs(9)).await;
    let snapshot = o.snapshot().await.unwrap();
    assert!(snapshot.lapsed && snapshot.leader.is_some() && snapshot.end.is_none());
    world.seal(1, "deposed").await;
    let sealed = o.snapshot().await.unwrap();
    assert_eq!((sealed.end, sealed.sealed_by.as_deref()), (Some(EpochEnd::Deposed), Some("x")));
    assert_eq!((sealed.leader.unwrap().name(), sealed.lapsed), ("a", false));
    assert_eq!(o.leader().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_costs_a_list_and_a_get_and_does_not_retry_a_fault() {
    let world = World::new();
    let _a = world.leader("a").await;
    let o = world.node("o").build().unwrap();
    world.store.take_log();
    o.leader().await.unwrap();
    assert_eq!(world.store.take_calls(), [Call::List, Call::Get]);
    for (fault, kind) in [
        (Fault::FailBefore, ErrorKind::Unavailable),
        (Fault::Hang, ErrorKind::Unavailable),
        (Fault::Denied, ErrorKind::AccessDenied),
        (Fault::NoSuchStore, ErrorKind::NoSuchStore),
        (Fault::Reverse, ErrorKind::UnsafeStore),
        (Fault::IgnoreAfter, ErrorKind::UnsafeStore),
    ] {
        world.put(&name(2), r#"{"expired":true}"#).await;
        world.put("lock-0000000002.json.bak", "").await;
        o.leader().await.unwrap();
        world.store.on(Call::List).always().fault(fault);
        let (took, result) = timed(o.leader()).await;
        let error = result.expect_err(&format!("{fault:?}"));
        assert_eq!(error.kind(), kind, "{fault:?}");
        assert!(took <= secs(2), "{fault:?}: {took:?}");
        world.store.heal();
    }
}
