//! Tests the results of [`DynamoStore`] for each answer and for missing answers, over real HTTP.
//! The tests use a test server that behaves like DynamoDB.
#![cfg(feature = "dynamodb")]

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Region};
use bytes::Bytes;
use chrono::DurationRound as _;
use serde_json::{Value, json};
use tenure::Process;
use tenure::store::{
    Determinacy, DynamoStore, ETag, GetOutcome, PutOutcome, Store, StoreErrorKind,
};
use tenure_testkit::closed_port::ClosedPort;
use tenure_testkit::dynamo_server::*;
use tenure_testkit::outcomes::{done, expect, found};

pub mod environment;
mod table;

const KEY: &str = "app/lock-0000000001.json";
const MAX: usize = 64 * 1024;

fn start() -> (DynamoServer, DynamoStore) {
    let server = DynamoServer::start();
    let store = server.store();
    (server, store)
}

fn body(text: &str) -> Bytes {
    Bytes::from(text.to_owned())
}

/// Asserts the results of a create and of a replacement if the fault affects both requests.
/// `applied` is true if the write takes effect despite the fault.
async fn writes_meet(fault: ServerFault, determinacy: Determinacy, applied: bool, words: &[&str]) {
    let (server, store) = start();
    let etag = done(store.create(KEY, body("one")).await);
    server.forget_requests();
    server.fault(fault, "PutItem");
    let created = store.create("app/new.json", body("new")).await;
    expect(created, StoreErrorKind::Transient, determinacy, words);
    let replaced = store.replace(KEY, body("two"), etag).await;
    expect(replaced, StoreErrorKind::Transient, determinacy, words);
    assert_eq!(server.count("PutItem"), 2, "the SDK sent a conditional write again");
    assert_eq!(server.item("app", "new.json").is_some(), applied);
    let now = if applied { "two" } else { "one" };
    assert_eq!(found(store.get(KEY, None, MAX).await).body, body(now));
}

#[tokio::test]
async fn a_write_with_an_unknown_effect_is_unknown_and_never_repeated() {
    let maybe = Determinacy::Indeterminate;
    writes_meet(ServerFault::ErrorAfter, maybe, true, &["500 InternalServerError"]).await;
    writes_meet(ServerFault::CutAfter, maybe, true, &["connection"]).await;
    writes_meet(ServerFault::CutBefore, maybe, false, &["connection"]).await;
    for (status, code) in [
        (500, "InternalServerError"),
        (503, "ServiceUnavailable"),
        (400, "TransactionConflictException"),
        (400, "ReplicatedWriteConflictException"),
    ] {
        writes_meet(ServerFault::Answer(status, code), maybe, false, &[code]).await;
    }
}

#[tokio::test]
async fn a_refused_write_has_no_effect() {
    for code in ["ProvisionedThroughputExceededException", "ThrottlingException"] {
        writes_meet(ServerFault::Answer(400, code), Determinacy::Determinate, false, &[code]).await;
    }
}

#[tokio::test]
async fn the_sdk_retries_reads() {
    let (server, store) = start();
    done(store.create(KEY, body("one")).await);
    server.fault(ServerFault::Answer(400, "ProvisionedThroughputExceededException"), "GetItem");
    let read = store.get(KEY, None, MAX).await;
    expect(read, StoreErrorKind::Transient, Determinacy::Determinate, &["reading", KEY]);
    assert_eq!(server.count("GetItem"), 3);
}

#[tokio::test]
async fn a_permanent_error_has_its_remedy() {
    use StoreErrorKind::{AccessDenied, NoSuchStore, Unsupported};
    for (fault, kind, words) in [
        (
            ServerFault::Answer(400, "AccessDeniedException"),
            AccessDenied,
            ["dynamodb:PutItem", "creating"],
        ),
        (
            ServerFault::Answer(400, "UnrecognizedClientException"),
            AccessDenied,
            ["check the credentials", KEY],
        ),
        (
            ServerFault::Answer(400, "ResourceNotFoundException"),
            NoSuchStore,
            ["the table does not exist", "tenure table create"],
        ),
        (
            ServerFault::Answer(400, "UnknownOperationException"),
            Unsupported,
            ["check that the endpoint is DynamoDB", TABLE],
        ),
    ] {
        let (server, store) = start();
        server.fault(fault, "PutItem");
        expect(store.create(KEY, body("one")).await, kind, Determinacy::Determinate, &words);
    }
    let (server, store) = start();
    server.fault(ServerFault::Html, "DescribeTable");
    let read = store.get(KEY, None, MAX).await;
    expect(
        read,
        NoSuchStore,
        Determinacy::Determinate,
        &["a web page", "check that the endpoint is DynamoDB"],
    );
}

#[tokio::test]
async fn an_expired_session_is_denied_unless_it_was_accepted_before() {
    let (server, store) = start();
    server.fault(ServerFault::Answer(400, "ExpiredTokenException"), "DescribeTable");
    server.fault(ServerFault::Answer(400, "ExpiredTokenException"), "PutItem");
    let denied = StoreErrorKind::AccessDenied;
    expect(
        store.create(KEY, body("one")).await,
        denied,
        Determinacy::Determinate,
        &["the credentials"],
    );
    let (server, store) = start();
    done(store.create(KEY, body("one")).await);
    server.fault(ServerFault::Answer(400, "ExpiredTokenException"), "PutItem");
    let passing = store.create("app/lock-0000000002.json", body("two")).await;
    expect(
        passing,
        StoreErrorKind::Transient,
        Determinacy::Determinate,
        &["ExpiredTokenException"],
    );
}

#[tokio::test]
async fn a_write_that_is_answered_with_a_web_page_has_an_unknown_effect() {
    writes_meet(ServerFault::Html, Determinacy::Indeterminate, false, &["a web page", "proxy"])
        .await;
}

/// Before the fix, a response without a body counted as a success: a write seemed to take effect,
/// an item seemed to be missing, and a listing seemed to be empty. A leader could then keep a lease
/// that it had not renewed, and a candidate could be granted an epoch below a greater one.
#[tokio::test]
async fn regression_an_empty_response_proves_nothing() {
    let words = "the response broke off or is invalid";
    writes_meet(ServerFault::Empty, Determinacy::Indeterminate, false, &[words]).await;
    let (server, store) = start();
    done(store.create(KEY, body("one")).await);
    for operation in ["GetItem", "Query", "BatchWriteItem"] {
        server.fault(ServerFault::Empty, operation);
    }
    let (kind, no) = (StoreErrorKind::Transient, Determinacy::Determinate);
    expect(store.get(KEY, None, MAX).await, kind, no, &[words]);
    expect(store.list("app/", "", 9).await, kind, no, &[words]);
    expect(store.list_last("app/", "", 9).await, kind, no, &[words]);
    let deleted = store.delete(vec![KEY.to_owned()]).await;
    expect(deleted, kind, Determinacy::Indeterminate, &[words]);
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused_before_any_request() {
    let (server, store) = start();
    let long = Bytes::from(vec![b'x'; 400 * 1_024]);
    let outcome = store.create(KEY, long.clone()).await;
    expect(
        outcome,
        StoreErrorKind::Invalid,
        Determinacy::Determinate,
        &["409600 bytes", "exceeds the item size limit"],
    );
    let outcome = store.replace(KEY, long.clone(), ETag::new("0")).await;
    expect(
        outcome,
        StoreErrorKind::Invalid,
        Determinacy::Determinate,
        &["exceeds the item size limit"],
    );
    assert_eq!(server.count("PutItem"), 0);
    // The store accepts a body of the maximum length.
    done(store.create(KEY, long.slice(..400 * 1_024 - 256 - KEY.len())).await);
}

#[tokio::test]
async fn keys_and_listings_without_a_partition_are_refused() {
    let (server, store) = start();
    let refused = (StoreErrorKind::Invalid, Determinacy::Determinate);
    for key in ["lock-0000000001.json", "/a", "app/", ""] {
        expect(store.create(key, body("x")).await, refused.0, refused.1, &["cannot hold the key"]);
        expect(store.get(key, None, MAX).await, refused.0, refused.1, &["give the election"]);
        expect(store.delete(vec![key.to_owned()]).await, refused.0, refused.1, &[]);
    }
    for prefix in ["", "lock-", "app"] {
        let page = store.list(prefix, "", 10).await;
        expect(page, refused.0, refused.1, &["covers one partition"]);
    }
    assert_eq!(server.operations(), [""; 0]);
}

#[tokio::test]
async fn the_description_is_the_url_of_the_table() {
    let (_server, store) = start();
    assert_eq!(store.describe(), format!("dynamodb://{TABLE}"));
}

#[tokio::test]
async fn a_request_that_never_reached_the_table_has_no_effect() {
    let (server, store) = start();
    done(store.create(KEY, body("one")).await);
    let address = server.endpoint().trim_start_matches("http://").parse().unwrap();
    drop(server);
    let _closed = ClosedPort::after_listener(address);
    // The first request after the server was dropped uses the old connection, so the test ignores
    // the result of this request. The second request must open a new connection.
    let _ = store.create("app/lock-0000000002.json", body("two")).await;
    let (kind, no) = (StoreErrorKind::Transient, Determinacy::Determinate);
    let unsent = store.create("app/lock-0000000002.json", body("two")).await;
    expect(unsent, kind, no, &["creating", "no connection"]);
    let settings = aws_sdk_dynamodb::Config::builder().region(Region::from_static("us-east-1"));
    let settings = settings.behavior_version(BehaviorVersion::latest()).build();
    let store = DynamoStore::new(aws_sdk_dynamodb::Client::from_conf(settings), TABLE);
    let unsigned = store.create(KEY, body("one")).await.expect_err("the credentials are missing");
    assert_ne!(unsigned.kind(), StoreErrorKind::Transient, "{unsigned}");
    assert_eq!(unsigned.determinacy(), no, "{unsigned}");
}

#[tokio::test]
async fn an_sdk_timeout_is_reported_as_a_timeout() {
    // The kernel accepts connections, but no process answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let limit = std::time::Duration::from_millis(100);
    let limit = TimeoutConfig::builder().operation_attempt_timeout(limit).build();
    let store =
        DynamoStore::new(Client::from_conf(config(&endpoint).timeout_config(limit).build()), TABLE);
    let late = store.get(KEY, None, MAX).await;
    expect(late, StoreErrorKind::Transient, Determinacy::Determinate, &["no answer in time"]);
}

/// Other writers may store a body as bytes.
#[tokio::test]
async fn a_body_of_bytes_is_read() {
    let (server, store) = start();
    let item = json!({
        "prefix": { "S": "app" }, "name": { "S": "a" }, "version": { "S": "7" },
        "body": { "B": "b25l" },
    });
    server
        .in_table(|table| table.put_raw(item.as_object().expect("the JSON is an object").clone()));
    assert_eq!(found(store.get("app/a", None, MAX).await).body, body("one"));
}

#[tokio::test]
async fn the_error_of_an_invalid_request_contains_the_answer_of_the_table() {
    let (server, store) = start();
    server.fault(ServerFault::Answer(400, "ValidationException"), "PutItem");
    let error = store.create(KEY, body("one")).await.expect_err("refused").to_string();
    assert!(error.ends_with("400 ValidationException: ordered by the test"), "{error}");
}

#[tokio::test]
async fn every_read_is_one_consistent_request() {
    let (server, store) = start();
    done(store.create(KEY, body("one")).await);
    server.forget_requests();
    found(store.get(KEY, None, MAX).await);
    store.list("app/lock-", "", 1_000).await.unwrap();
    assert_eq!(server.operations(), ["GetItem", "Query"]);
    for operation in ["GetItem", "Query"] {
        assert_eq!(server.requests(operation)[0]["ConsistentRead"], json!(true), "{operation}");
    }
}

#[tokio::test]
async fn a_refused_replacement_reads_the_item_unless_the_refusal_contains_it() {
    let (server, store) = start();
    let etag = done(store.create(KEY, body("one")).await);
    let now = done(store.replace(KEY, body("two"), etag.clone()).await);
    for hidden in [false, true] {
        server.quirks(|quirks| quirks.hides_old_items = hidden);
        server.forget_requests();
        let outcome = store.replace(KEY, body("three"), etag.clone()).await;
        assert_eq!(outcome.unwrap(), PutOutcome::PreconditionFailed);
        assert_eq!(server.count("GetItem"), usize::from(hidden));
        let outcome = store.replace("app/none", body("three"), now.clone()).await;
        assert_eq!(outcome.unwrap(), PutOutcome::NotFound);
    }
}

#[tokio::test]
async fn deletions_have_25_keys_and_name_the_remaining_keys() {
    let (server, store) = start();
    for key in ["app/a", "app/kept"] {
        done(store.create(key, body("x")).await);
    }
    let mut keys: Vec<_> = (0..58).map(|i| format!("app/none-{i}")).collect();
    keys.extend(["app/a", "app/kept", "app/kept"].map(str::to_owned));
    server.quirks(|quirks| quirks.undeletable = Some("kept".to_owned()));
    let failed = store.delete(keys).await.unwrap();
    assert_eq!(failed.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["app/kept"]);
    // Three requests delete 25, 25 and 10 keys. Two more requests retry the one key that was not
    // deleted.
    assert_eq!(server.count("BatchWriteItem"), 5);
    assert_eq!(server.keys(), ["app/kept"]);
    assert!(store.delete(vec![]).await.unwrap().is_empty());
}

/// Dates of answers have whole seconds. Before the fix, the client added the elapsed time to the
/// date of an older answer, and treated the sum as the exact date of the new answer. So `probe`
/// reported a difference of half a second between equal clocks.
#[tokio::test]
async fn regression_an_answer_has_its_own_date_in_whole_seconds() {
    let (_server, store) = start();
    done(store.create(KEY, body("one")).await);
    let second = chrono::Duration::seconds(1);
    for _ in 0..20 {
        let sent = Process::system().now().time_of_day();
        let object = found(store.get(KEY, None, MAX).await).served_at.expect("a date");
        let page = store.list("app/", "", 9).await.unwrap().served_at.expect("a date");
        let received = Process::system().now().time_of_day();
        for date in [object, page] {
            assert_eq!(date.duration_trunc(second), Ok(date), "the date has whole seconds");
            assert!(date <= received && sent < date + second, "{sent} {date} {received}");
        }
    }
}

#[tokio::test]
async fn a_listing_may_start_before_its_prefix_or_after_it() {
    let (server, store) = start();
    done(store.create("app/lock-1", body("")).await);
    server.forget_requests();
    for (prefix, after, keys) in [
        ("app/lock-", "app/a", 1),
        ("app/lock-", "app/lock-", 1),
        ("app/", "app/", 1),
        ("app/lock-", "app/lock-1", 0),
        ("app/lock-", "app/z", 0),
    ] {
        let page = store.list(prefix, after, 9).await.unwrap();
        assert_eq!((page.entries.len(), page.truncated), (keys, false), "{prefix} {after}");
    }
    assert_eq!(server.count("Query"), 4, "no query for a start after the prefix");
}

#[tokio::test]
async fn the_newest_of_a_thousand_epochs_costs_one_query() {
    let (server, store) = start();
    server.in_table(|table| {
        for number in 1..=1_000 {
            let name = format!("lock-{number:010}.json");
            let item = json!({
                "prefix": { "S": "app" }, "name": { "S": name }, "version": { "S": "0" },
                "body": { "S": "{\"expired\":true,\"validity_ms\":1,\"ended\":\"resigned\"}" },
            });
            table.put_raw(item.as_object().expect("the JSON is an object").clone());
        }
    });
    let election = tenure::Election::builder(std::sync::Arc::new(store), "app").check_store(false);
    let leadership = election.build().unwrap().campaign().await.unwrap();
    assert_eq!(leadership.epoch().get(), 1_001);
    let asked = ["DescribeTable", "Query", "GetItem", "PutItem", "Query"];
    assert_eq!(server.operations()[..5], asked);
    let queries = server.requests("Query");
    assert_eq!((&queries[0]["ScanIndexForward"], &queries[0]["Limit"]), (&json!(false), &json!(4)));
    assert_eq!(
        queries[1]["ScanIndexForward"],
        Value::Null,
        "the confirming query reads from the start"
    );
    leadership.resign().await.unwrap();
}
