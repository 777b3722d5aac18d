//! Tests each requirement of Hongli Lai's "A robust distributed locking algorithm based on Google
//! Cloud Storage" (2021), over real HTTP, on a server with the semantics of Cloud Storage.
#![cfg(feature = "gcs")]

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use tenure::store::Store;
use tenure::{CampaignEvent, Election, ElectionBuilder, Leadership, Loss, Process};
use tenure_testkit::gcs_server::*;
use tenure_testkit::time::{millis, secs, timed, wait, within};
use tenure_testkit::world::{elect, held};

const FIRST: &str = "app/lock-0000000001.json";
const VALIDITY: Duration = Duration::from_secs(3);

/// Returns a candidate of a separate process.
fn node(server: &GcsServer, name: &str) -> ElectionBuilder {
    let store: Arc<dyn Store> = Arc::new(server.store());
    Election::builder(store, "app")
        .name(name)
        .process(Process::system().with_seed(fastrand::u64(..)))
        .validity(VALIDITY)
        .poll_interval(millis(200))
}

async fn leader(builder: ElectionBuilder) -> Leadership {
    elect(&builder.build().expect("the settings are valid")).await
}

fn record(server: &GcsServer, key: &str) -> Value {
    let stored = server.object(key).expect("the object exists");
    serde_json::from_slice(&stored.body).expect("a record")
}

/// Returns the key and the precondition of each write to an epoch object.
fn writings(server: &GcsServer) -> Vec<(String, String)> {
    let puts = server.requests().into_iter().filter(|seen| seen.op == Op::Put);
    let epochs = puts.filter(|seen| seen.key.contains("lock-"));
    let condition =
        |seen: &GcsRequest| seen.headers["x-goog-if-generation-match"].to_str().map(str::to_owned);
    epochs.map(|seen| (seen.key.clone(), condition(&seen).expect("ASCII"))).collect()
}

#[tokio::test]
async fn the_ttl_is_in_the_object_so_nodes_with_other_settings_agree() {
    let server = GcsServer::start();
    let lead = leader(node(&server, "a").resign_on_drop(false)).await;
    assert_eq!(record(&server, FIRST)["validity_ms"], 3_000);
    // This node has a far shorter validity in its settings. It must wait for the validity in the
    // object.
    let hasty = node(&server, "hasty").validity(millis(400)).poll_interval(millis(100));
    let hasty = hasty.build().unwrap();
    assert!(within(secs(2), hasty.campaign()).await.is_none(), "the leader is alive");
    // This node has a far longer validity in its settings. It must wait only for the validity in
    // the object.
    drop(lead);
    let slow = node(&server, "slow").validity(secs(300)).build().unwrap();
    let (took, next) = timed(within(secs(30), slow.campaign())).await;
    let next = next.expect("within the validity in the object").expect("elected");
    assert_eq!(next.epoch().get(), 2);
    assert!(took >= secs(2), "{took:?}");
}

#[tokio::test]
async fn the_lease_is_refreshed_in_the_background_despite_transient_failures() {
    let server = GcsServer::start();
    let lead = leader(node(&server, "a")).await;
    let before = server.object(FIRST).unwrap().generation;
    for fault in [
        ServerFault::ErrorBefore,
        ServerFault::ErrorAfter,
        ServerFault::CutAfter,
        ServerFault::SlowDown,
    ] {
        server.fault(fault).on(Op::Put).times(1);
        wait(millis(1_700)).await;
        assert_eq!(lead.check().expect("the leader still leads").get(), 1);
    }
    assert!(server.object(FIRST).unwrap().generation > before);
    assert!(record(&server, FIRST)["heartbeat"].as_u64().unwrap() >= 4);
    lead.resign().await.expect("the leader leads until the deletion");
}

#[tokio::test]
async fn the_work_is_cancelled_well_before_the_end_of_the_ttl() {
    let server = GcsServer::start();
    let lead = leader(node(&server, "a")).await;
    server.fault(ServerFault::CutBefore).on(Op::Put);
    let run = lead.run(|_, cancelled| async move {
        cancelled.cancelled().await;
        Process::system().now().wall
    });
    let aborted = run.await.into_value();
    let written = server.object(FIRST).unwrap().last_modified;
    let written = written.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let age = aborted - written;
    assert!(age < VALIDITY - millis(300), "reported {age:?} after the last write");
    assert!(age > VALIDITY / 3, "no retries: {age:?}");
}

#[tokio::test]
async fn the_work_has_a_health_check_without_requests() {
    let server = GcsServer::start();
    let lead = leader(node(&server, "a").renew_interval(millis(900))).await;
    server.forget_requests();
    for _ in 0..10_000 {
        assert_eq!(lead.check().expect("healthy").get(), 1);
    }
    assert!(server.requests().len() < 5, "the checks sent requests");
    server.remove_raw(FIRST);
    assert!(within(secs(10), lead.lost()).await.is_some());
    assert!(matches!(lead.check(), Err(Loss::Vanished)), "the leader is unhealthy from now on");
    assert_eq!(lead.token(), None);
}

#[tokio::test]
async fn every_refresh_and_release_has_a_precondition() {
    let server = GcsServer::start();
    let lead = leader(node(&server, "a")).await;
    lead.proclaim("here").await.unwrap();
    wait(millis(1_500)).await;
    lead.resign().await.unwrap();
    let writings = writings(&server);
    assert!(writings.len() >= 4, "{writings:?}");
    assert_eq!(writings[0], (FIRST.to_owned(), "0".to_owned()), "the object did not exist");
    for (key, generation) in &writings[1..] {
        assert_eq!(key, FIRST);
        assert!(generation.parse::<u64>().unwrap() > 0, "the condition is the known version");
    }
    assert!(server.requests().iter().all(|seen| seen.op != Op::Delete), "no object is deleted");
}

#[tokio::test]
async fn a_delayed_refresh_does_not_affect_the_successor() {
    let server = GcsServer::start();
    let lead = leader(node(&server, "a")).await;
    server.fault(ServerFault::Hold).on(Op::Put).key_contains("0001").times(100);
    server.until_held(1).await;
    let loss = within(secs(30), lead.lost()).await.expect("the lease ends");
    assert!(matches!(loss, Loss::LeaseEnded { .. }), "{loss}");
    // The server holds back the renewals of the old leader while the successor seals the epoch and
    // leads.
    server.clear_faults();
    let next = leader(node(&server, "b")).await;
    assert_eq!(next.epoch().get(), 2);
    let sealed = server.object(FIRST).unwrap();
    server.release();
    wait(millis(500)).await;
    assert_eq!(server.object(FIRST).unwrap().generation, sealed.generation, "refused");
    assert_eq!(record(&server, FIRST)["expired"], true);
    next.check().expect("the successor leads");
}

#[tokio::test]
async fn a_delayed_release_does_not_affect_the_successor() {
    let server = GcsServer::start();
    let lead = leader(node(&server, "a")).await;
    server.fault(ServerFault::Hold).on(Op::Put).key_contains("0001");
    assert!(lead.resign().await.is_err(), "the server does not answer before the lease ends");
    server.clear_faults();
    let next = leader(node(&server, "b")).await;
    let (first, second) = (server.object(FIRST).unwrap(), writings(&server).len());
    server.release();
    wait(millis(500)).await;
    assert_eq!(server.object(FIRST).unwrap().generation, first.generation, "refused");
    assert_eq!(record(&server, FIRST)["ended"], "lapsed", "sealed by the successor");
    assert!(writings(&server).len() >= second);
    assert_eq!(next.check().expect("the successor leads").get(), 2);
}

#[tokio::test]
async fn an_unexpected_deletion_is_detected() {
    let server = GcsServer::start();
    let lead = leader(node(&server, "a")).await;
    server.remove_raw(FIRST);
    let loss = within(VALIDITY, lead.lost()).await.expect("at the next refresh");
    assert!(matches!(loss, Loss::Vanished), "{loss}");
    assert_eq!(
        server.object(FIRST).map(|stored| stored.generation),
        None,
        "the object is not created again"
    );
}

#[tokio::test]
async fn a_change_of_owner_is_detected_without_effect_on_the_new_owner() {
    let server = GcsServer::start();
    let lead = leader(node(&server, "a")).await;
    let mut other = record(&server, FIRST);
    other["candidate"] = "b".into();
    other["nonce"] = "0123456789abcdef0123456789abcdef".into();
    server.put_raw(FIRST, other.to_string());
    let loss = within(VALIDITY, lead.lost()).await.expect("at the next refresh");
    assert!(matches!(loss, Loss::Tampered), "{loss}");
    wait(millis(500)).await;
    assert_eq!(record(&server, FIRST), other, "not released");
}

#[tokio::test]
async fn operators_see_the_owner() {
    let server = GcsServer::start();
    let lead = leader(node(&server, "worker-7")).await;
    lead.proclaim(serde_json::json!({ "address": "10.0.0.7:80" })).await.unwrap();
    let seen = node(&server, "x").build().unwrap().leader().await.unwrap().expect("a leader");
    assert_eq!(seen.name(), "worker-7");
    assert_eq!(seen.data["address"], "10.0.0.7:80");
    assert!(seen.elected_at.is_some() && seen.renewed_at.is_some());
    assert_eq!(record(&server, FIRST)["candidate"], "worker-7", "any tool can read the owner");
}

#[tokio::test]
async fn an_abandoned_lock_is_retaken_by_its_owner_with_a_new_token() {
    let server = GcsServer::start();
    let long = |name| node(&server, name).validity(secs(300));
    drop(leader(long("a").resign_on_drop(false)).await);
    // Without `name_is_unique`, a candidate with the same name may be another process, so it waits
    // for the lease.
    let same_name = long("a").build().unwrap();
    assert_eq!(held(same_name.try_campaign().await.unwrap()).epoch.get(), 1);
    let vouched = long("a").name_is_unique(true).build().unwrap();
    let (took, again) = timed(elect(&vouched)).await;
    assert_eq!(again.epoch().get(), 2, "the old token is never reused");
    assert!(took < secs(20), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_backoff_is_exponential_capped_and_jittered() {
    use tenure_testkit::fault_store::{Call, Fault};
    let world = tenure_testkit::world::World::new();
    world.store.on(Call::List).always().fault(Fault::FailBefore);
    let mut gaps = Vec::new();
    for name in ["a", "b"] {
        let poll = secs(1);
        let election = world.node(name).poll_interval(poll).build().unwrap();
        let mut events = election.events();
        let campaign = tokio::spawn(async move { election.campaign().await });
        let mut between = Vec::new();
        for _ in 0..12 {
            let (gap, event) = timed(events.next()).await;
            assert!(matches!(event, Some(CampaignEvent::StoreFailed(_))), "{event:?}");
            between.push(gap);
        }
        campaign.abort();
        // The first interval ends with the first failure, so it contains no back-off.
        let between = between.split_off(1);
        for (failures, gap) in (1..).zip(&between) {
            let whole = (millis(100) * (1 << failures)).min(poll);
            assert!((whole / 2..=whole + millis(2)).contains(gap), "{failures}: {gap:?}");
        }
        gaps.push(between);
    }
    assert_ne!(gaps[0], gaps[1], "the candidates have different jitter");
}

/// Caches keep an object of a public bucket for an hour, unless the headers of the object forbid
/// caching.
#[tokio::test]
async fn caches_do_not_store_objects_for_readers() {
    let server = GcsServer::start();
    server.quirks(|quirks| quirks.public = true);
    let lead = leader(node(&server, "a")).await;
    let watcher = node(&server, "b").build().unwrap();
    for news in ["one", "two"] {
        lead.proclaim(news).await.unwrap();
        assert_eq!(watcher.leader().await.unwrap().expect("a leader").data, news);
    }
    let control = server.object(FIRST).unwrap().cache_control;
    assert_eq!(control.as_deref(), Some("no-store"));
    lead.resign().await.unwrap();
    assert_eq!(watcher.leader().await.unwrap(), None);
}
