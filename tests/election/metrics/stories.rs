//! Elections with known numbers of events, and the metrics after each of these elections.

use std::sync::Arc;

use futures::StreamExt as _;
use serde_json::{Value, json};
use tenure::store::{MemoryStore, PutOutcome};
use tenure::{CampaignOutcome, Compactor, Epoch, Layout, Leadership, Observation};
use tenure_fencing::DurableGate;

use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::prometheus::Scrape;
use tenure_testkit::time::{TestClock, millis, secs, wait, within};
use tenure_testkit::world::{VALIDITY, World, elect, held, name};

use super::recorder::{Recorder, counts_all};
use crate::across::scene::Scene;

const APP: (&str, &str) = ("election", "a store with faults/app");

fn total(scrape: &Scrape, metric: &str, label: &str, word: &str) -> f64 {
    scrape.value(&format!("tenure_{metric}_total"), &[APP, (label, word)])
}

fn requests(scrape: &Scrape, kind: &str, outcome: &str) -> f64 {
    scrape.value("tenure_requests_total", &[APP, ("kind", kind), ("outcome", outcome)])
}

/// Returns a leader with a separate connection to the store and a separate clock.
async fn leader_behind(world: &World) -> (Leadership, FaultStore, TestClock) {
    let (way, clock) = (world.another_way(), TestClock::new());
    let lead = elect(&world.node_behind(&way, &clock, "a").build().unwrap()).await;
    (lead, way, clock)
}

/// A leader is elected, renews its lease five times, and resigns. One renewal succeeds only at its
/// second attempt, after a 503.
pub async fn a_good_leader(recorder: &Recorder) {
    let world = World::new();
    let lead = world.leader("a").await;
    let now = recorder.scrape();
    assert_eq!(total(&now, "elections", "outcome", "elected"), 1.0);
    assert_eq!(now.value("tenure_leader", &[APP]), 1.0);
    assert_eq!(now.value("tenure_epoch", &[APP]), 1.0);
    assert_eq!(now.value("tenure_validity_seconds", &[APP]), 10.0);
    assert_eq!(now.value("tenure_candidate_info", &[APP, ("candidate", "a")]), 1.0);
    assert_eq!(now.sum("tenure_losses_total", &[]), 0.0);
    world.store.on(Call::Replace).skip(2).fault(Fault::FailBefore);
    world.store.on(Call::Replace).skip(3).fault(Fault::Slow(millis(400)));
    wait(secs(18)).await;
    let now = recorder.scrape();
    assert_eq!(total(&now, "renewals", "outcome", "done"), 5.0);
    assert_eq!(total(&now, "renewals", "outcome", "failed"), 1.0);
    assert_eq!(now.value("tenure_renewal_seconds_count", &[APP]), 5.0);
    let bucket = |le| now.value("tenure_renewal_seconds_bucket", &[APP, ("le", le)]);
    assert_eq!((bucket("0.25"), bucket("0.5")), (4.0, 5.0), "one request took 400 ms");
    let least = |le| now.value("tenure_lease_least_ratio_bucket", &[APP, ("le", le)]);
    assert_eq!((least("0.5"), least("1"), least("+Inf")), (0.0, 5.0, 5.0));
    let left = now.value("tenure_lease_remaining_seconds", &[APP]);
    assert!((lead.remaining().as_secs_f64() - left).abs() <= 1.0, "{left}");
    lead.resign().await.unwrap();
    let now = recorder.scrape();
    assert_eq!(total(&now, "losses", "reason", "resigned"), 1.0);
    assert_eq!(now.sum("tenure_losses_total", &[]), 1.0);
    assert_eq!(now.value("tenure_leader", &[APP]), 0.0);
    assert_eq!(now.value("tenure_lease_remaining_seconds", &[APP]), 0.0);
    assert_eq!(now.sum("tenure_lease_at_risk_total", &[]), 0.0);
    assert_eq!(requests(&now, "create", "done"), 1.0);
    assert_eq!(
        (requests(&now, "replace", "done"), requests(&now, "replace", "failed")),
        (6.0, 1.0)
    );
    assert_eq!(requests(&now, "get", "missing"), 1.0, "the search for the next epoch");
    counts_all(&now, &world.store);
}

/// A leader is deposed while its successor polls.
pub async fn a_deposition(recorder: &Recorder) {
    let world = World::new();
    let a = world.leader("a").await;
    let b = world.node("b").build().unwrap();
    assert_eq!(held(b.try_campaign().await.unwrap()).name(), "a");
    assert_eq!(total(&recorder.scrape(), "elections", "outcome", "held"), 1.0);
    let b = tokio::spawn(async move { elect(&b).await });
    wait(secs(4)).await;
    let polls = recorder.scrape().value("tenure_polls_total", &[APP]);
    assert!((1.0..=3.0).contains(&polls), "one poll every 1.7 s: {polls}");
    world.seal(1, "deposed").await;
    assert_eq!(a.lost().await.outcome(), "sealed");
    assert_eq!(recorder.scrape().value("tenure_leader", &[APP]), 0.0);
    let b = b.await.unwrap();
    let now = recorder.scrape();
    assert_eq!(total(&now, "losses", "reason", "sealed"), 1.0);
    assert_eq!(now.sum("tenure_losses_total", &[]), 1.0);
    assert_eq!(total(&now, "elections", "outcome", "elected"), 2.0);
    assert_eq!(now.value("tenure_leader", &[APP]), 1.0);
    assert_eq!(now.value("tenure_epoch", &[APP]), 2.0);
    assert_eq!(now.sum("tenure_candidate_info", &[]), 2.0);
    assert!(requests(&now, "replace", "refused") >= 1.0, "the renewal of the deposed leader");
    assert!(requests(&now, "get", "not_modified") >= 1.0, "a poll");
    drop(b);
    wait(millis(1)).await;
    let now = recorder.scrape();
    assert_eq!(now.value("tenure_leader", &[APP]), 0.0, "dropped");
    assert_eq!(total(&now, "losses", "reason", "resigned"), 1.0);
    counts_all(&now, &world.store);
}

/// The store does not answer a leader until its lease has ended.
pub async fn a_store_that_hangs(recorder: &Recorder) {
    let world = World::new();
    let (lead, way, _) = leader_behind(&world).await;
    way.always(Fault::Hang);
    assert_eq!(lead.lost().await.outcome(), "lease_ended");
    wait(secs(5)).await;
    let now = recorder.scrape();
    assert_eq!(total(&now, "losses", "reason", "lease_ended"), 1.0);
    assert_eq!(now.value("tenure_lease_at_risk_total", &[APP]), 1.0);
    assert_eq!(now.value("tenure_leader", &[APP]), 0.0);
    assert_eq!(now.value("tenure_lease_remaining_seconds", &[APP]), 0.0);
    let unknown = requests(&now, "replace", "unknown");
    assert!(unknown >= 3.0, "each request times out after 2 s: {unknown}");
    assert_eq!(total(&now, "renewals", "outcome", "done"), 0.0);
    let took = now.sum("tenure_request_seconds_sum", &[("kind", "replace")]);
    assert!(took > 5.0 && took < 7.0, "the times include requests that hang: {took}");
    counts_all(&now, &way);
}

/// The LIST that confirms a new epoch is late, so the candidate must renew its lease before it
/// reports its election. The renewal fails, because an operator has sealed the epoch.
pub async fn an_abandoned_grant(recorder: &Recorder) {
    let world = World::new();
    let election = world.node("a").build().unwrap();
    world.store.on(Call::List).skip(1).times(4).fault(Fault::Hang);
    let campaign = tokio::spawn(async move { elect(&election).await });
    wait(secs(7)).await;
    world.seal(1, "lapsed").await;
    let lead = campaign.await.unwrap();
    let now = recorder.scrape();
    assert_eq!(total(&now, "elections", "outcome", "abandoned"), 1.0);
    assert_eq!(total(&now, "elections", "outcome", "elected"), 1.0);
    assert_eq!(now.sum("tenure_losses_total", &[]), 0.0, "no leadership was reported");
    assert_eq!(lead.epoch().get(), 2);
}

/// An error ends two campaigns: one during its store check, and one that has no store check.
pub async fn campaigns_that_fail(recorder: &Recorder) {
    for check in [true, false] {
        let world = World::new();
        world.store.always(Fault::Denied);
        let election = world.node("a").check_store(check).build().unwrap();
        assert!(election.campaign().await.is_err());
    }
    let now = recorder.scrape();
    assert_eq!(total(&now, "elections", "outcome", "failed"), 2.0);
    assert_eq!(now.sum("tenure_elections_total", &[]), 2.0);
}

/// The metric must also show an epoch that a process learns only by a read, and not by a LIST or a
/// create.
pub async fn regression_an_epoch_that_was_read_is_known(recorder: &Recorder) {
    let epoch = || recorder.scrape().value("tenure_epoch", &[APP]);
    let written = |more: Value| {
        let mut record = json!({ "expired": false, "validity_ms": 30_000 });
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        record.to_string()
    };
    let nonce = |digit: &str| json!({ "format": 1, "nonce": digit.repeat(32), "heartbeat": 1 });
    // Another candidate creates epoch 2 before this candidate sends its own create.
    let world = World::new();
    world.put(&name(1), written(nonce("a"))).await;
    let b = world.node("b").build().unwrap();
    let following = tokio::spawn(async move { b.campaign().await });
    wait(secs(1)).await;
    assert_eq!(epoch(), 1.0);
    world.put(&name(2), written(nonce("b"))).await;
    world.seal(1, "resigned").await;
    wait(secs(3)).await;
    assert_eq!(epoch(), 2.0);
    following.abort();
    // With `Layout::SingleObject`, a process reads the object and never lists it.
    let world = World::new();
    let body = written(json!({ "token": 7, "epoch": 7, "expires_at": 9e9 }));
    world.put("lock.json", body).await;
    let observer = world.node("o").layout(Layout::SingleObject).build().unwrap();
    assert!(matches!(observer.observe().next().await, Some(Ok(Observation::Leader(_)))));
    assert_eq!(epoch(), 7.0);
}

/// An observer watches an election. The election is vacant, then it has a leader, and at last its
/// store does not answer.
pub async fn an_observer(recorder: &Recorder) {
    let world = World::new();
    let way = world.another_way();
    let observer = world.node_behind(&way, &world.clock, "o").build().unwrap();
    let states = || {
        let now = recorder.scrape();
        ["held", "vacant", "unknown"].map(|s| now.value("tenure_observed", &[APP, ("state", s)]))
    };
    let mut seen = observer.observe();
    assert_eq!(states(), [0.0, 0.0, 1.0]);
    assert_eq!(seen.next().await.unwrap().unwrap(), Observation::NoLeader);
    assert_eq!(states(), [0.0, 1.0, 0.0]);
    let lead = world.leader("a").await;
    assert!(matches!(seen.next().await, Some(Ok(Observation::Leader(_)))));
    assert_eq!(states(), [1.0, 0.0, 0.0]);
    let before = recorder.scrape().value("tenure_polls_total", &[APP]);
    assert!(within(VALIDITY, seen.next()).await.is_none());
    let polls = recorder.scrape().value("tenure_polls_total", &[APP]) - before;
    assert!((5.0..=6.0).contains(&polls), "{polls} polls in a validity");
    way.always(Fault::Hang);
    assert_eq!(seen.next().await.unwrap().unwrap(), Observation::Unknown);
    assert_eq!(states(), [0.0, 0.0, 1.0]);
    drop(seen);
    assert_eq!(states(), [0.0; 3], "a dropped observer reports no state");
    drop(lead);
}

/// The first run of a compactor keeps ten of a hundred epochs. The epochs that are created later
/// are too young to delete.
pub async fn a_compaction(recorder: &Recorder) {
    let clock = TestClock::new();
    let store = FaultStore::new(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    let fill = async |epochs: std::ops::RangeInclusive<u64>| {
        for epoch in epochs {
            let key = format!("app/lock-{epoch:010}.json");
            store.inner().create(&key, r#"{"expired":true}"#.into()).await.unwrap();
        }
    };
    fill(1..=100).await;
    clock.set_wall_by(2 * 3_600_000);
    let compactor = Compactor::builder(Arc::new(store.clone()), "app").build().unwrap();
    let epochs = |now: &Scrape| now.value("tenure_epochs_compacted_total", &[APP]);
    assert_eq!(epochs(&recorder.scrape()), 0.0);
    compactor.run_once().await.unwrap();
    let now = recorder.scrape();
    assert_eq!(epochs(&now), 90.0);
    assert_eq!(now.value("tenure_epochs_backlog", &[APP]), 0.0);
    assert_eq!(total(&now, "compactions", "outcome", "compacted"), 1.0);
    fill(101..=130).await;
    compactor.run_once().await.unwrap();
    let now = recorder.scrape();
    assert_eq!((epochs(&now), now.value("tenure_epochs_backlog", &[APP])), (100.0, 20.0));
    compactor.run_once().await.unwrap();
    assert_eq!(total(&recorder.scrape(), "compactions", "outcome", "nothing"), 1.0);
    store.on(Call::List).fault(Fault::FailBefore);
    compactor.run_once().await.unwrap_err();
    let now = recorder.scrape();
    assert_eq!(total(&now, "compactions", "outcome", "error"), 1.0);
    assert_eq!(now.value("tenure_epochs_backlog", &[APP]), 20.0, "the backlog is kept");
    assert_eq!(requests(&now, "list", "failed"), 1.0);
    assert_eq!(requests(&now, "delete", "done"), 2.0);
    counts_all(&now, &store);
}

/// A restore is unfinished, so a compactor deletes nothing. The metrics must count this run, and
/// must show the unfinished restore until it is finished.
pub async fn regression_a_restore_that_stops_a_compaction_is_counted(recorder: &Recorder) {
    let clock = TestClock::new();
    let store = FaultStore::new(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    for epoch in 1..=20 {
        let key = format!("app/lock-{epoch:010}.json");
        store.inner().create(&key, r#"{"expired":true}"#.into()).await.unwrap();
    }
    let restored = |expired: bool| {
        let nonce = "00000000000000000000000000000001";
        json!({"expired": expired, "nonce": nonce, "heartbeat": 1, "ended": "restored"}).to_string()
    };
    let newest = "app/lock-0000000040.json";
    let held = store.inner().create(newest, restored(false).into()).await.unwrap();
    let PutOutcome::Done { etag: Some(etag) } = held else { panic!("{held:?}") };
    clock.set_wall_by(2 * 3_600_000);
    let compactor = Compactor::builder(Arc::new(store.clone()), "app").build().unwrap();
    let unfinished = |now: &Scrape| now.value("tenure_restore_unfinished", &[APP]);
    assert_eq!(total(&recorder.scrape(), "compactions", "outcome", "held"), 0.0);
    assert!(compactor.run_once().await.unwrap().held);
    let now = recorder.scrape();
    assert_eq!(total(&now, "compactions", "outcome", "held"), 1.0);
    assert_eq!(unfinished(&now), 1.0);
    store.inner().replace(newest, restored(true).into(), etag).await.unwrap();
    assert!(!compactor.run_once().await.unwrap().held);
    let now = recorder.scrape();
    assert_eq!((total(&now, "compactions", "outcome", "held"), unfinished(&now)), (1.0, 0.0));
}

/// One machine has a clock 90 s ahead of the store's clock, and another machine has a correct
/// clock.
pub async fn a_skewed_clock(recorder: &Recorder) {
    let world = World::new();
    let skew = || recorder.scrape().value("tenure_store_clock_skew_seconds", &[APP]);
    let Ok(CampaignOutcome::Elected(lead)) = world.node("a").build().unwrap().try_campaign().await
    else {
        panic!("no other candidate campaigns");
    };
    assert_eq!(skew(), 0.0);
    let clock = TestClock::new();
    clock.set_wall_by(90_000);
    held(world.node_on(&clock, "b").build().unwrap().try_campaign().await.unwrap());
    assert!((-90.0..=-89.0).contains(&skew()), "{}", skew());
    drop(lead);
}

/// A gate admits a token and refuses an older token. Then its store fails, and at last loses the
/// gate's object.
pub async fn a_durable_gate(recorder: &Recorder) {
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    let process = tenure_testkit::time::process(&TestClock::new(), 1);
    let gate = DurableGate::new(Arc::new(store.clone()), "gates/board").process(process);
    let checks = |outcome| {
        let labels = [("gate", "a store with faults/gates/board"), ("outcome", outcome)];
        recorder.scrape().value("tenure_gate_checks_total", &labels)
    };
    assert_eq!(checks("failed"), 0.0);
    let (old, new) = (Epoch::FIRST, Epoch::new(2).unwrap());
    gate.admit(new).await.unwrap();
    gate.admit(old).await.unwrap_err();
    store.on(Call::Get).always().fault(Fault::FailBefore);
    gate.admit(new).await.unwrap_err();
    store.heal();
    store.inner().delete(vec!["gates/board".into()]).await.unwrap();
    gate.admit(new).await.unwrap_err();
    assert_eq!(["admitted", "stale", "unavailable", "failed"].map(checks), [1.0; 4]);
}

/// A leader across stores loses contact with one store, and later resigns.
pub async fn a_leader_across_stores(recorder: &Recorder) {
    let scene = Scene::new(3).await;
    let leadership = scene.node(1).campaign().await.unwrap();
    let stores = |state| recorder.scrape().value("tenure_stores", &[APP, ("state", state)]);
    wait(secs(1)).await;
    assert_eq!((stores("held"), stores("down"), stores("lost")), (3.0, 0.0, 0.0));
    scene.down(2);
    wait(secs(60)).await;
    assert_eq!((stores("held"), stores("down"), stores("lost")), (2.0, 1.0, 0.0));
    leadership.resign().await.unwrap();
    wait(secs(1)).await;
    assert_eq!((stores("held"), stores("down"), stores("lost")), (0.0, 0.0, 0.0));
}
