//! Tests that the store creates a table once, checks it once, and refuses it if its keys or
//! settings are wrong.

use super::*;

const KEYS: [(&str, &str, &str); 2] = [("prefix", "HASH", "S"), ("name", "RANGE", "S")];

#[tokio::test]
async fn a_second_creation_of_a_table_has_no_effect() {
    let server = DynamoServer::start_empty();
    server.quirks(|quirks| quirks.slow_tables = 2);
    let store = server.store();
    let early = store.create(KEY, body("one")).await;
    expect(early, StoreErrorKind::NoSuchStore, Determinacy::Determinate, &["tenure table create"]);
    for ready in [false, false, false, true, true] {
        assert_eq!(store.create_table().await.unwrap(), ready);
    }
    assert_eq!(server.count("CreateTable"), 1);
    assert_eq!(server.requests("CreateTable")[0]["BillingMode"], "PAY_PER_REQUEST");
    done(store.create(KEY, body("one")).await);
}

#[tokio::test]
async fn the_caller_waits_for_a_table_in_creation() {
    let server = DynamoServer::start_empty();
    server.quirks(|quirks| quirks.slow_tables = 1);
    server.create_table(TABLE, &KEYS);
    let store = server.store();
    let early = store.get(KEY, None, MAX).await;
    expect(early, StoreErrorKind::Transient, Determinacy::Determinate, &["being created"]);
    assert_eq!(store.get(KEY, None, MAX).await.unwrap(), GetOutcome::NotFound);
}

#[tokio::test]
async fn a_table_with_other_keys_is_refused_and_the_error_names_the_right_keys() {
    for keys in [
        &[("pk", "HASH", "S"), ("sk", "RANGE", "S")][..],
        &[("prefix", "HASH", "S")],
        &[("prefix", "HASH", "S"), ("name", "RANGE", "B")],
        &[("name", "HASH", "S"), ("prefix", "RANGE", "S")],
    ] {
        let server = DynamoServer::start_empty();
        server.create_table(TABLE, keys);
        let store = server.store();
        let words = ["partition key `prefix`", "sort key `name`", keys[0].0, TABLE];
        for _ in 0..2 {
            let outcome = store.create(KEY, body("one")).await;
            expect(outcome, StoreErrorKind::Invalid, Determinacy::Determinate, &words);
        }
        expect(
            store.create_table().await,
            StoreErrorKind::Invalid,
            Determinacy::Determinate,
            &words,
        );
        assert_eq!(server.count("PutItem"), 0);
    }
}

#[tokio::test]
async fn without_describe_permission_a_refused_read_shows_wrong_keys_of_a_table() {
    let server = DynamoServer::start_empty();
    server.create_table(TABLE, &[("id", "HASH", "S")]);
    server.fault(ServerFault::Answer(400, "AccessDeniedException"), "DescribeTable");
    let read = server.store().get(KEY, None, MAX).await;
    expect(read, StoreErrorKind::Invalid, Determinacy::Determinate, &["partition key `prefix`"]);
    let (server, store) = start();
    server.fault(ServerFault::Answer(400, "AccessDeniedException"), "DescribeTable");
    done(store.create(KEY, body("one")).await);
}

#[tokio::test]
async fn without_describe_permission_no_table_is_created() {
    let server = DynamoServer::start_empty();
    server.fault(ServerFault::Answer(400, "AccessDeniedException"), "DescribeTable");
    let made = server.store().create_table().await;
    expect(
        made,
        StoreErrorKind::AccessDenied,
        Determinacy::Determinate,
        &["dynamodb:DescribeTable"],
    );
    assert_eq!(server.count("CreateTable"), 0);
}

#[tokio::test]
async fn a_concurrent_creation_is_accepted_and_another_refusal_is_an_error() {
    for (code, creating) in [("ResourceInUseException", true), ("AccessDeniedException", false)] {
        let server = DynamoServer::start_empty();
        server.fault(ServerFault::Answer(400, code), "CreateTable");
        match server.store().create_table().await {
            Ok(ready) => assert!(creating && !ready, "{code}: {ready}"),
            Err(error) => {
                assert!(!creating, "{code}: {error}");
                assert_eq!(error.kind(), StoreErrorKind::AccessDenied);
                assert!(error.to_string().contains("dynamodb:CreateTable"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_global_table_is_refused() {
    let (server, store) = start();
    server.quirks(|quirks| quirks.global = true);
    let read = store.get(KEY, None, MAX).await;
    expect(
        read,
        StoreErrorKind::Unsupported,
        Determinacy::Determinate,
        &["global table", "one region"],
    );
}

#[tokio::test]
async fn the_table_is_checked_once() {
    let (server, store) = start();
    for _ in 0..3 {
        store.get(KEY, None, MAX).await.unwrap();
    }
    assert_eq!(server.count("DescribeTable"), 1);
}
