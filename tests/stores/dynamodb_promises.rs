//! Tests that elections on a table keep the promises of the DynamoDB lock client (AWS Database
//! Blog, *Building Distributed Locks with the DynamoDB Lock Client*). Each test has the name of a
//! promise.
#![cfg(feature = "dynamodb")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use serde_json::{Value, json};
use tenure::{Clock, Election, ElectionBuilder, Leadership, LeadershipEvent, Moment, Process};
use tenure_testkit::dynamo_server::*;

const LEASE: Duration = Duration::from_secs(2);
const YEARS: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A machine with a wrong wall clock.
#[derive(Debug)]
enum Wrong {
    Early,
    Late,
}

impl Clock for Wrong {
    fn now(&self) -> Moment {
        let Moment { boot, raw, wall, .. } = Process::system().now();
        match self {
            // On the machine whose wall clock is ahead, the boot and raw clocks also differ, as if
            // the machine had started years earlier.
            Wrong::Early => Moment::new(boot, raw, wall - YEARS),
            Wrong::Late => Moment::new(boot + YEARS, raw + YEARS, wall + YEARS),
        }
    }
}

/// Returns a candidate with a separate store and a separate machine.
fn host(server: &DynamoServer, lock: &str, name: &str) -> ElectionBuilder {
    let builder = Election::builder(Arc::new(server.store()), lock).name(name).validity(LEASE);
    builder.check_store(false).process(Process::system())
}

async fn elected(builder: ElectionBuilder) -> Leadership {
    builder.build().expect("the settings are valid").campaign().await.expect("elected")
}

fn now() -> Duration {
    Process::system().now().boot
}

#[allow(clippy::disallowed_methods, reason = "hosts take real time")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Returns the record in the item of the first epoch.
fn record(server: &DynamoServer, lock: &str) -> Value {
    let item =
        server.item("locks", &format!("{lock}/lock-0000000001.json")).expect("the object exists");
    serde_json::from_str(item["body"]["S"].as_str().expect("the value is text"))
        .expect("the text is JSON")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_dependence_on_clocks_the_version_is_the_heartbeat() {
    let server = DynamoServer::start();
    let on = |clock: Wrong| Process::system().with_clock(Arc::new(clock));
    let a = elected(host(&server, "locks/moe", "a").process(on(Wrong::Early))).await;
    let b = host(&server, "locks/moe", "b").process(on(Wrong::Late));
    let b = tokio::spawn(elected(b));
    // The wrong clock of host b has no effect. While host a renews its lease, host b treats host a
    // as alive.
    pause(LEASE * 3).await;
    assert!(!b.is_finished());
    assert!(a.check().is_ok());
    drop(a);
    let b = b.await.expect("b continues");
    assert_eq!(b.epoch().get(), 2);
    // The date in the item comes from the clock of the service, and not from the wrong clocks of
    // the machines.
    let item = server.item("locks", "moe/lock-0000000002.json").expect("the object exists");
    let written = item["written"]["N"].as_str().and_then(|ms| ms.parse::<i64>().ok());
    let truth = Process::system().now().time_of_day().timestamp_millis();
    assert!(written.is_some_and(|written| (truth - written).abs() < 60_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_are_conditional_writes_of_a_new_version() {
    let server = DynamoServer::start();
    let leader = elected(host(&server, "locks/moe", "a")).await;
    let mut events = leader.events();
    for _ in 0..4 {
        assert!(matches!(events.next().await, Some(LeadershipEvent::Renewed { .. })));
    }
    let (mut versions, mut heartbeats) = (BTreeSet::new(), BTreeSet::new());
    for put in server.requests("PutItem") {
        let text =
            |name: &str| put["Item"][name]["S"].as_str().expect("the value is text").to_owned();
        assert!(versions.insert(text("version")), "each heartbeat has another version");
        let record: Value = serde_json::from_str(&text("body")).expect("the text is JSON");
        assert!(heartbeats.insert(record["heartbeat"].as_u64()));
    }
    let renewals = server.requests("PutItem").split_off(1);
    assert!(renewals.iter().all(|put| put["ConditionExpression"] == "#version = :version"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_is_stored_with_the_lock_and_readable_by_others() {
    let server = DynamoServer::start();
    let address = json!({ "address": "10.0.0.7:4000" });
    let leader = elected(host(&server, "locks/moe", "a").data(address.clone())).await;
    let read = || async {
        let other = host(&server, "locks/moe", "b").build().expect("the settings are valid");
        other.leader().await.expect("the read succeeds").expect("a process leads")
    };
    assert_eq!((read().await.name(), &read().await.data), ("a", &address));
    leader.proclaim(json!({ "address": "moved" })).await.expect("renewed");
    assert_eq!(read().await.data, json!({ "address": "moved" }));
    // Other clients of the table can read the data as text.
    assert_eq!(record(&server, "moe")["data"], json!({ "address": "moved" }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_share_a_table_and_a_prefix() {
    let server = DynamoServer::start();
    let store = Arc::new(server.store());
    let leaders = join_all((0..40).map(|lock| {
        let builder = Election::builder(store.clone(), format!("locks/{lock}"));
        elected(builder.name(format!("{lock}")).check_store(false))
    }))
    .await;
    assert!(leaders.iter().all(|leader| leader.epoch().get() == 1 && leader.check().is_ok()));
    let keys = server.keys();
    assert_eq!(keys.len(), 40);
    assert!(keys.iter().all(|key| key.starts_with("locks/")));
    // The release of one lock does not affect the others.
    let mut leaders = leaders.into_iter();
    leaders.next().expect("there are 40 leaders").resign().await.expect("resigned");
    assert!(leaders.all(|leader| leader.check().is_ok()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warning_before_the_lease_ends_the_danger_zone() {
    let server = DynamoServer::start();
    let lease = LEASE * 2;
    let leader = elected(host(&server, "locks/moe", "a").validity(lease)).await;
    let mut events = leader.events();
    server.fault(ServerFault::Answer(500, "InternalServerError"), "PutItem");
    let at_risk = loop {
        match events.next().await {
            Some(LeadershipEvent::AtRisk { remaining, .. }) => break remaining,
            Some(LeadershipEvent::Renewed { .. }) => {}
            other => panic!("no warning: {other:?}"),
        }
    };
    assert!(!at_risk.is_zero() && at_risk <= lease / 4, "{at_risk:?}");
    assert!(leader.check().is_ok(), "there is still time to stop");
    let loss = leader.lost().await;
    assert!(format!("{loss:?}").contains("LeaseEnded"), "{loss:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lock_of_a_dead_host_is_acquired_after_one_lease() {
    let server = DynamoServer::start();
    drop(elected(host(&server, "locks/moe", "dead")).await);
    let start = now();
    let poll = LEASE / 20;
    let heir = elected(host(&server, "locks/moe", "heir").poll_interval(poll)).await;
    let waited = now() - start;
    assert_eq!(heir.epoch().get(), 2);
    assert!(waited >= LEASE, "{waited:?}: the dead host might have been alive");
    // The random delay before a seal is up to a tenth of the lease. The rest of this bound is a
    // tolerance for a busy machine.
    assert!(waited < LEASE * 3, "{waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_released_lock_is_acquired_immediately_and_its_token_never_restarts() {
    let server = DynamoServer::start();
    for epoch in 1..=3 {
        let leader = elected(host(&server, "locks/moe", "a").validity(LEASE * 100)).await;
        assert_eq!(leader.epoch().get(), epoch);
        leader.resign().await.expect("resigned");
    }
}
