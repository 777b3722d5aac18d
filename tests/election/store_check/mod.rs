//! Tests the store check. The error of the check names the unsafe behaviour of a store. A safe
//! store is checked only once.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::join_all;
use tenure::store::{Store, StoreError};
use tenure::{CampaignEvent, ErrorKind, Layout};
use tenure_groups::Group;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{millis, process, secs, timed, wait, within};
use tenure_testkit::world::{World, elect, elected, name, ready};
use tenure_testkit::write_faults::WRITE_FAULTS;

mod places;

/// Common prefix of the keys that checks write.
const CHECK: &str = ".tenure-check";

/// Writes an object to each key that a check may choose.
async fn put_checks(world: &World, body: &str) {
    for number in 0..256 {
        world.put(&format!("{CHECK}-{number:02x}"), body).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_names_each_unsafe_behaviour() {
    for (call, fault, words) in [
        (Call::Create, Fault::IgnoreCondition, "it ignores If-None-Match"),
        (Call::Replace, Fault::IgnoreCondition, "it ignores If-Match"),
        (Call::Replace, Fault::Refuse, "refuses to replace an object whose ETag matches"),
        (Call::List, Fault::IgnoreAfter, "start-after"),
        (Call::List, Fault::Reverse, "out of order"),
    ] {
        let world = World::new();
        for epoch in 1..4 {
            world.create(&name(epoch), r#"{"expired":true}"#).await;
        }
        world.store.on(call).always().fault(fault);
        let election = world.node("a").check_store(true).build().unwrap();
        for _ in 0..2 {
            let error = within(secs(60), election.campaign()).await.expect("the call ends");
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
            let text = error.to_string();
            assert!(text.contains(words) && text.contains("a store with faults"), "{text}");
            let error = election.try_campaign().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
        }
        assert_eq!(world.epochs().await, [1, 2, 3], "no epoch was created");
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_check_takes_five_requests_and_can_be_disabled() {
    let world = World::new();
    let check = world.node("a").check_store(true).build().unwrap();
    elect(&check).await.resign().await.unwrap();
    let log = world.store.take_log();
    let of_check = log.iter().filter(|(_, key)| key.contains(CHECK)).count();
    assert_eq!(of_check, 5, "{log:?}");
    elect(&check).await.resign().await.unwrap();
    assert!(world.store.take_log().iter().all(|(_, key)| !key.contains(CHECK)), "only once");
    // The check of another process finds the object that the first check wrote, and writes this
    // object again.
    let second = world.node("b").check_store(true).build().unwrap();
    elected(second.try_campaign().await.unwrap()).resign().await.unwrap();
    let log = world.store.take_log();
    assert_eq!(log.iter().filter(|(_, key)| key.contains(CHECK)).count(), 5, "{log:?}");
    let off = world.node("c").check_store(false).build().unwrap();
    elect(&off).await.resign().await.unwrap();
    assert!(world.store.take_log().iter().all(|(_, key)| !key.contains(CHECK)));
}

#[tokio::test(start_paused = true)]
async fn two_elections_on_one_store_value_check_the_store_once() {
    let world = World::new();
    let store: Arc<dyn Store> = Arc::new(world.store.clone());
    let on = |prefix: &str| tenure::Election::builder(Arc::clone(&store), prefix).build().unwrap();
    let (one, two) = (on("one"), on("two"));
    let (one, two) = tokio::join!(elect(&one), elect(&two));
    let log = world.store.take_log();
    let of_check = |call| log.iter().filter(|(c, key)| *c == call && key.contains(CHECK)).count();
    assert_eq!([Call::Create, Call::Replace].map(of_check), [2, 2], "conditions once: {log:?}");
    assert_eq!(of_check(Call::List), 2, "each prefix is listed: {log:?}");
    drop((one, two));
}

#[tokio::test(start_paused = true)]
async fn concurrent_checks_of_many_processes_pass() {
    let world = World::new();
    for call in [Call::Create, Call::Get, Call::Replace, Call::List] {
        // The requests are slow enough to overlap.
        world.store.on(call).key(CHECK).times(20).fault(Fault::Slow(millis(20)));
    }
    let node = |i: u32| world.node(&format!("c{i}")).check_store(true).build().unwrap();
    let elections: Vec<_> = (0..6).map(node).collect();
    let attempts = join_all(elections.iter().map(|election| election.try_campaign())).await;
    let leaders = attempts
        .into_iter()
        .map(|attempt| attempt.expect("every check passes"))
        .filter(|attempt| matches!(attempt, tenure::CampaignOutcome::Elected(_)));
    assert_eq!(leaders.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn regression_a_campaign_survives_failures_of_the_check() {
    for call in [Call::Create, Call::Get, Call::Replace, Call::List] {
        for fault in WRITE_FAULTS {
            // If one of these faults occurs seven times in a row, the store is unsafe, and the
            // check must refuse it. So the test skips these faults.
            if [Fault::NoEtag, Fault::Swallow, Fault::Refuse].contains(&fault) {
                continue;
            }
            let world = World::new();
            put_checks(&world, "{}").await;
            world.store.on(call).key(CHECK).times(7).fault(fault);
            let election = world.node("a").check_store(true).build().unwrap();
            let mut events = election.events();
            let lead = elect(&election).await;
            assert_eq!(lead.epoch().get(), 1);
            let failed = |e: &CampaignEvent| matches!(e, CampaignEvent::StoreFailed(_));
            let told = ready(&mut events).await;
            let is_write = matches!(call, Call::Create | Call::Replace);
            let expected = is_write || !matches!(fault, Fault::Late(_));
            assert_eq!(told.iter().any(failed), expected, "{call:?} {fault:?}: {told:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn any_object_at_the_key_of_the_check_is_accepted() {
    for body in [String::new(), "<html>".to_owned(), "x".repeat(1 << 20)] {
        let world = World::new();
        put_checks(&world, &body).await;
        elect(&world.node("a").check_store(true).build().unwrap()).await.resign().await.unwrap();
    }
}

/// A LIST has no effect. Before the fix, the error was nevertheless "listing the epochs …: no
/// answer within 6s (it may have taken effect)".
#[tokio::test(start_paused = true)]
async fn regression_a_listing_without_an_answer_has_no_effect() {
    for (check, call) in [(true, Call::List), (false, Call::List), (true, Call::Get)] {
        let world = World::new();
        world.create(&name(1), r#"{"expired":false,"validity_ms":2000}"#).await;
        put_checks(&world, "old").await;
        world.store.on(call).always().fault(Fault::Hang);
        let election = world.node("a").check_store(check).build().unwrap();
        let error = election.try_campaign().await.expect_err("no request is answered");
        let text = error.to_string();
        assert!(text.contains("no answer within") && !text.contains("taken effect"), "{text}");
        assert!(!error.may_have_happened(), "{text}");
    }
}

/// The writes of this store return no ETags, so each renewal costs three requests. Before the fix,
/// the check of a new election accepted this store.
#[tokio::test(start_paused = true)]
async fn regression_a_store_without_etags_in_writes_is_unsafe() {
    let world = World::new();
    world.store.on(Call::Replace).always().fault(Fault::NoEtag);
    let election = world.node("a").check_store(true).build().unwrap();
    let error = within(secs(60), election.campaign()).await.expect("the call ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
    assert!(error.to_string().contains("without an ETag"), "{error}");
    assert_eq!(world.epochs().await, [0; 0], "no epoch was created");
    // The check accepts a store behind a proxy that drops a few ETags.
    world.store.heal();
    world.store.on(Call::Replace).times(2).fault(Fault::NoEtag);
    elect(&election).await.resign().await.unwrap();
}

/// The store answers every write without an ETag, and stores no object. Before the fix, a campaign
/// on this store never ended.
#[tokio::test(start_paused = true)]
async fn regression_lost_writes_without_an_etag_end_a_campaign() {
    let world = World::new();
    for call in [Call::Create, Call::Replace] {
        world.store.on(call).always().fault(Fault::Swallow);
    }
    let election = world.node("a").build().unwrap();
    let error = within(secs(600), election.campaign()).await.expect("the call ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
    assert!(error.to_string().contains("without an ETag"), "{error}");
    assert!(error.may_have_happened());
    let writes = world.store.take_calls().into_iter().filter(|call| *call == Call::Create).count();
    assert_eq!(writes, 5);
}

/// The answers of a proxy may look like the answers of an unsafe store. Before the fix, one of
/// these answers ended a campaign, although the store had worked before.
#[tokio::test(start_paused = true)]
async fn regression_an_unsafe_answer_ends_no_campaign_that_has_worked() {
    for fault in [Fault::Swallow, Fault::Unsupported] {
        let world = World::new();
        let election = world.node("a").build().unwrap();
        elect(&election).await.resign().await.unwrap();
        for call in [Call::Create, Call::Replace] {
            world.store.on(call).always().fault(fault);
        }
        let campaign = election.campaign();
        let heals = async {
            wait(secs(300)).await;
            world.store.heal();
        };
        let elected = async { tokio::join!(campaign, heals).0 };
        let leadership =
            within(secs(400), elected).await.expect("the candidate is elected").unwrap();
        leadership.resign().await.unwrap();
    }
}

/// An attempt ends after three consecutive failures. Before the fix, each successful read between
/// two failed writes reset this count, so a campaign made 25 attempts a second.
#[tokio::test(start_paused = true)]
async fn regression_an_attempt_ends_if_only_writes_fail() {
    for layout in [Layout::EpochFiles, Layout::SingleObject] {
        for fault in [Fault::Swallow, Fault::Unsupported, Fault::FailBefore] {
            let world = World::new();
            let election = world.node("a").layout(layout).build().unwrap();
            elect(&election).await.resign().await.unwrap();
            for call in [Call::Create, Call::Replace] {
                world.store.on(call).always().fault(fault);
            }
            world.store.take_calls();
            let tried = within(secs(60), election.try_campaign()).await;
            tried.unwrap_or_else(|| panic!("{layout:?} {fault:?}")).unwrap_err();
            let tried = within(secs(60), election.campaign()).await;
            assert!(tried.is_none());
            let calls = world.store.take_calls().len();
            assert!(calls < 100, "{layout:?} {fault:?}: {calls}");
        }
    }
}

/// The effect of a write without an ETag is unknown, so the leader sends two additional requests
/// after each renewal. The leader keeps its lease.
#[tokio::test(start_paused = true)]
async fn a_leader_survives_writes_without_an_etag() {
    let world = World::new();
    let lead = world.leader("a").await;
    world.store.on(Call::Replace).always().fault(Fault::NoEtag);
    tenure_testkit::time::wait(secs(300)).await;
    assert!(lead.check().is_ok());
    world.store.heal();
    lead.resign().await.unwrap();
}

/// Before the fix, the check refused a member of a group with "lock.json belongs to an election in
/// the other layout: use Layout::SingleObject", although a group has no layout.
#[tokio::test(start_paused = true)]
async fn regression_a_group_may_share_the_prefix_of_an_election_in_any_layout() {
    for layout in [Layout::EpochFiles, Layout::SingleObject] {
        let world = World::new();
        let lead = elect(&world.node("a").layout(layout).check_store(true).build().unwrap()).await;
        let group = Group::builder(Arc::new(world.store.clone()), "app").name("b");
        let group = group.process(process(&world.clock, 7)).partitions(0..1).check_store(true);
        let group = group.build().unwrap();
        let membership = within(secs(60), group.join()).await.expect("the call ends").unwrap();
        assert!(membership.lease().check().is_ok() && lead.check().is_ok(), "{layout:?}");
        // An election may also start under the prefix of a running group.
        let second = world.node("c").layout(layout).check_store(true).build().unwrap();
        second.try_campaign().await.unwrap();
    }
}
