//! Tests that no candidate becomes the leader because of an invalid record or a foreign key under
//! the prefix.

use futures::StreamExt as _;
use tenure::{ErrorKind, Observation};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{secs, timed, within};
use tenure_testkit::world::{VALIDITY, World, elect, elected, held, name};

/// Asserts that each call of the election ends with this error and writes no object.
async fn refused_by_all(body: impl Into<Vec<u8>>, kind: ErrorKind) {
    let (body, excerpt) = {
        let body = body.into();
        let excerpt = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        (body, excerpt)
    };
    let world = World::new();
    world.put(&name(1), r#"{"expired":true}"#).await;
    world.put(&name(7), body.clone()).await;
    let election = world.node("a").build().unwrap();
    let error = within(secs(60), election.campaign()).await.expect("the call ends").unwrap_err();
    assert_eq!(error.kind(), kind, "{excerpt}: {error}");
    let text = error.to_string();
    assert!(text.contains("app/lock-0000000007.json"), "{excerpt}: {text}");
    assert!(!text.contains("hunter2"), "{excerpt}: {text}");
    let repairable = kind == ErrorKind::CorruptRecord;
    assert_eq!(
        text.contains("until the record is repaired, or deposed"),
        repairable,
        "{excerpt}: {text}"
    );
    assert_eq!(election.try_campaign().await.unwrap_err().kind(), kind, "{excerpt}");
    assert_eq!(election.leader().await.unwrap_err().kind(), kind, "{excerpt}");
    assert_eq!(election.snapshot().await.unwrap_err().kind(), kind, "{excerpt}");
    let told = election.observe().collect::<Vec<_>>().await;
    assert!(matches!(&told[..], [Err(error)] if error.kind() == kind), "{excerpt}: {told:?}");
    assert_eq!(world.epochs().await, [1, 7], "{excerpt}");
    // A candidate that declares a unique name gets the same error.
    let unique = world.node("a").name_is_unique(true).build().unwrap();
    assert_eq!(unique.campaign().await.unwrap_err().kind(), kind, "{excerpt}");
    let page = world.store.inner().list("app/lock-0000000007", "", 1).await.unwrap();
    assert_eq!(page.entries[0].size, body.len() as u64, "{excerpt}: the object is unchanged");
    // After an operator has written a sealed record by hand, a candidate is elected for the next
    // epoch.
    world.put(&name(7), r#"{"expired":true}"#).await;
    assert_eq!(elect(&election).await.epoch().get(), 8, "{excerpt}");
}

#[tokio::test(start_paused = true)]
async fn invalid_bodies_are_errors_and_never_count_as_vacant() {
    for body in [
        "",
        " ",
        "not JSON hunter2",
        "null",
        "[]",
        "{}",
        "{\"expired\":true",
        "\u{feff}{\"expired\":true}",
        r#"{"expired":"true"}"#,
        r#"{"expired":true,"nonce":"hunter2"}"#,
        r#"{"expired":true,"format":0}"#,
        r#"{"expired":true,"format":-1}"#,
        "<html><body>hunter2</body></html>",
    ] {
        refused_by_all(body, ErrorKind::CorruptRecord).await;
    }
    refused_by_all(vec![0xff, 0xfe, 0x00], ErrorKind::CorruptRecord).await;
    refused_by_all(vec![b' '; 1 << 20], ErrorKind::CorruptRecord).await;
    let mut long = br#"{"expired":true}"#.to_vec();
    long.resize(64 * 1024 + 1, b' ');
    refused_by_all(long, ErrorKind::CorruptRecord).await;
}

#[tokio::test(start_paused = true)]
async fn impossible_validities_are_errors() {
    for validity in ["0", "-1", "-30000", "1.5", "0.0", "-1e300", "\"30000\"", "[]", "{}", "true"] {
        let body = format!(r#"{{"expired":false,"validity_ms":{validity}}}"#);
        refused_by_all(body, ErrorKind::CorruptRecord).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_format_is_a_separate_error() {
    for body in [
        r#"{"format":3,"expired":true}"#,
        r#"{"format":3,"expired":{"at":"later"},"validity_ms":-1}"#,
        r#"{"format":18446744073709551615}"#,
    ] {
        refused_by_all(body, ErrorKind::RecordTooNew).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_never_lapses_is_held_until_it_is_sealed() {
    for validity in ["", r#","validity_ms":null"#, r#","validity_ms":99999999999999999999999"#] {
        let world = World::new();
        world.put(&name(1), format!(r#"{{"expired":false{validity}}}"#)).await;
        let election = world.node("a").build().unwrap();
        assert!(within(secs(5 * 3_600), election.campaign()).await.is_none());
        let leader = held(election.try_campaign().await.unwrap());
        assert_eq!((leader.validity, leader.name()), (None, "-"));
        let mut seen = election.observe();
        assert!(matches!(seen.next().await, Some(Ok(Observation::Leader(_)))));
        assert!(within(secs(5 * 3_600), seen.next()).await.is_none());
        world.put(&name(1), r#"{"expired":true}"#).await;
        assert_eq!(elected(election.try_campaign().await.unwrap()).epoch().get(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_of_morlings_peer_is_held_for_its_validity() {
    let world = World::new();
    world.put(&name(3), r#"{ "validity_ms" : 60000, "expired" : false }"#).await;
    let election = world.node("a").build().unwrap();
    let (took, lead) = timed(elect(&election)).await;
    assert_eq!(lead.epoch().get(), 4);
    assert!(took > secs(60) && took < secs(68), "the record's own validity: {took:?}");
    assert_eq!(world.record(3).await["expired"], true);
    assert_eq!(world.record(3).await["validity_ms"], 60_000);
}

#[tokio::test(start_paused = true)]
async fn foreign_keys_are_ignored_and_unchanged() {
    let foreign = [
        "lock-0000000000.json",
        "lock-00000000005.json",
        "lock-99999999999.json",
        "lock-000000005.json",
        "lock-0000000005.json.bak",
        "lock-0000000005.JSON",
        "lock-0000000005",
        "lock-0000000005.json/",
        "lock-0000000005.json/lock-0000000009.json",
        "lock-000000000a.json",
        "lock-+000000005.json",
        "lock-",
        "lock-/",
        "lock-zzz.json",
        "lock-~",
        "lock",
        "Lock-0000000005.json",
        "lock_0000000005.json",
        "other/lock-0000000005.json",
        ".tenure-check",
        "",
    ];
    let world = World::new();
    for key in foreign {
        world.create(key, "foreign").await;
    }
    // The prefixes of these keys are similar to the prefix of the election.
    for key in ["app2/lock-0000000050.json", "ap/lock-0000000050.json", "lock-0000000050.json"] {
        world.store.inner().create(key, "foreign".into()).await.unwrap();
    }
    for epoch in 1..=3 {
        let lead = world.leader("a").await;
        assert_eq!(lead.epoch().get(), epoch);
        tenure_testkit::time::wait(VALIDITY * 2).await;
        lead.resign().await.unwrap();
    }
    // Each page has two keys, so some pages end at a foreign key.
    world.store.on(Call::List).always().fault(Fault::Pages(2));
    let election = world.node("b").build().unwrap();
    let lead = elect(&election).await;
    assert_eq!(lead.epoch().get(), 4);
    assert_eq!(world.node("c").build().unwrap().leader().await.unwrap().unwrap().name(), "b");
    for key in foreign {
        let found = world.store.inner().get(&format!("app/{key}"), None, 100).await.unwrap();
        let tenure::store::GetOutcome::Found(object) = found else {
            panic!("{key} does not exist")
        };
        assert_eq!(object.body, "foreign", "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_epoch_has_no_successor() {
    let world = World::new();
    world.put("lock-9999999998.json", r#"{"expired":true}"#).await;
    let election = world.node("a").build().unwrap();
    let lead = elect(&election).await;
    assert_eq!(lead.epoch().get(), 9_999_999_999);
    tenure_testkit::time::wait(VALIDITY * 5).await;
    assert!(lead.check().is_ok(), "the leader does not search for a greater epoch");
    let other = world.node("b").build().unwrap();
    assert_eq!(held(other.try_campaign().await.unwrap()).name(), "a");
    lead.resign().await.unwrap();
    for election in [&election, &other] {
        let error =
            within(secs(60), election.campaign()).await.expect("the call ends").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EpochsExhausted);
        assert!(error.to_string().contains("9999999999"), "{error}");
        let error = election.try_campaign().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EpochsExhausted);
        assert_eq!(election.leader().await.unwrap(), None);
    }
}
