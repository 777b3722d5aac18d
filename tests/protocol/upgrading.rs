//! Tests the statements in docs/how-to/upgrade.md: about records of later versions, and about
//! candidates with different settings.

use serde_json::{Value, json};
use tenure::{ErrorKind, Loss};
use tenure_testkit::time::{secs, timed, wait};
use tenure_testkit::world::{TAKEOVER, VALIDITY, World, elect, held, name};

/// Returns a record that a later version might write in the present format.
fn later() -> Value {
    json!({
        "expired": false, "validity_ms": 10_000, "format": 1, "candidate": "later",
        "nonce": "0123456789abcdef0123456789abcdef", "heartbeat": 3, "data": { "at": "10.0.0.7" },
        "region": "mars", "lease": { "kind": "new" }
    })
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_of_a_later_version_survive_a_seal() {
    let world = World::new();
    world.put(&name(1), later().to_string()).await;
    let election = world.node("now").build().unwrap();
    let leader = held(election.try_campaign().await.unwrap());
    assert_eq!((leader.name(), &leader.data["at"]), ("later", &json!("10.0.0.7")));
    assert_eq!(world.record(1).await, later(), "reading does not change the record");
    let (took, leads) = timed(elect(&election)).await;
    assert_eq!(leads.epoch().get(), 2);
    assert!(took > VALIDITY && took < TAKEOVER, "{took:?}");
    let sealed = world.record(1).await;
    assert_eq!((&sealed["ended"], &sealed["candidate"]), (&json!("lapsed"), &json!("later")));
    assert_eq!(
        (&sealed["region"], &sealed["lease"], &sealed["data"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_end_is_treated_as_a_deposition() {
    let world = World::new();
    let leads = world.leader("a").await;
    let election = world.node("b").build().unwrap();
    held(election.try_campaign().await.unwrap());
    world.seal(1, "handed over").await;
    let (took, next) = timed(elect(&election)).await;
    assert_eq!(next.epoch().get(), 2);
    assert!(took > VALIDITY, "the holder may still act: {took:?}");
    assert!(matches!(leads.lost().await, Loss::Sealed { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_later_format_stops_only_the_older_version() {
    let world = World::new();
    let leads = world.leader("now").await;
    let older = world.node("older").build().unwrap();
    world.edit(1, json!({ "format": 3 })).await;
    assert_eq!(older.campaign().await.unwrap_err().kind(), ErrorKind::RecordTooNew);
    assert_eq!(world.epochs().await, [1], "no epoch is created above it");
    drop(leads);
}

#[tokio::test(start_paused = true)]
async fn followers_use_the_validity_of_the_leader() {
    for (leaders, own) in [(60, 2), (2, 60)] {
        let world = World::new();
        let node = |name, validity| world.node(name).validity(secs(validity)).build().unwrap();
        let leads = elect(&node("a", leaders)).await;
        let follows = node("b", own);
        let follows = tokio::spawn(async move { timed(elect(&follows)).await });
        // During this wait, the follower sees the leader. Then the leader dies.
        wait(secs(1)).await;
        drop(leads);
        let (took, next) = follows.await.unwrap();
        assert_eq!(next.epoch().get(), 2);
        assert!(took > secs(leaders), "the leader's validity of {leaders} s: {took:?}");
        assert!(took < secs(leaders) * 12 / 10 + secs(own) / 6 + secs(2), "{took:?}");
    }
}
