//! What [`S3Store`] makes of each answer, and of no answer, over real HTTP.
#![cfg(feature = "s3")]

use std::fmt::Debug;
use std::process::{Command, Output};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use bytes::Bytes;
use support::s3_server::*;
use tenure::store::S3Store;
use tenure::store::{
    DeleteOutcome, ETag, GetOutcome, Happened, Object, PutOutcome, Store, StoreError,
    StoreErrorKind,
};

mod support;

const KEY: &str = "app/lock-0000000001.json";
const MAX: usize = 64 * 1024;
/// Long enough that no test waits for it.
const LONG: Duration = Duration::from_secs(600);

async fn start() -> (S3Server, S3Store) {
    let server = S3Server::start().await;
    let store = server.store(BUCKET);
    (server, store)
}

fn body(text: &str) -> Bytes {
    Bytes::from(text.to_owned())
}

/// The error, if it is of this kind, says this much of what happened, and has these words in it.
#[track_caller]
fn expect<T: Debug>(
    result: Result<T, StoreError>,
    kind: StoreErrorKind,
    happened: Happened,
    words: &[&str],
) {
    let error = result.expect_err("this call fails");
    assert_eq!((error.kind(), error.happened()), (kind, happened), "{error:?}");
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "{word:?} is missing in: {message}");
    }
    assert!(!message.contains(SECRET_KEY), "{message}");
}

#[track_caller]
fn done(outcome: Result<PutOutcome, StoreError>) -> ETag {
    match outcome.expect("the write is answered") {
        PutOutcome::Done { etag: Some(etag) } => etag,
        other => panic!("not done: {other:?}"),
    }
}

#[track_caller]
fn found(outcome: Result<GetOutcome, StoreError>) -> Object {
    match outcome.expect("the read is answered") {
        GetOutcome::Found(object) => object,
        other => panic!("not found: {other:?}"),
    }
}

// What is no failure.

#[tokio::test]
async fn a_create_of_an_existing_key_is_refused() {
    let (server, store) = start().await;
    done(store.create(KEY, body("one")).await);
    assert_eq!(store.create(KEY, body("two")).await.unwrap(), PutOutcome::Refused);
    assert_eq!(server.object(KEY).unwrap().body, body("one"));
}

#[tokio::test]
async fn a_replace_needs_the_current_etag() {
    let (server, store) = start().await;
    let first = done(store.create(KEY, body("one")).await);
    let second = done(store.replace(KEY, body("two"), first.clone()).await);
    assert_ne!(first, second);
    let late = store.replace(KEY, body("three"), first).await;
    assert_eq!(late.unwrap(), PutOutcome::Refused);
    assert_eq!(server.object(KEY).unwrap().body, body("two"));
}

#[tokio::test]
async fn a_replace_of_a_missing_key_is_missing() {
    let (_server, store) = start().await;
    let outcome = store.replace(KEY, body("one"), ETag::new("\"0123\"")).await;
    assert_eq!(outcome.unwrap(), PutOutcome::Missing);
}

#[tokio::test]
async fn etags_go_back_exactly_as_they_came() {
    let (server, store) = start().await;
    let etag = done(store.create(KEY, body("one")).await);
    assert_eq!(etag.as_str(), server.object(KEY).unwrap().etag);
    assert!(etag.as_str().starts_with('"'));
    let unchanged = store.get(KEY, Some(etag.clone()), MAX).await;
    assert_eq!(unchanged.unwrap(), GetOutcome::NotModified);
    assert_eq!(server.last(Op::Get).headers["if-none-match"], etag.as_str());
    done(store.replace(KEY, body("two"), etag.clone()).await);
    assert_eq!(server.last(Op::Put).headers["if-match"], etag.as_str());
}

#[tokio::test]
async fn a_store_that_compares_unquoted_etags_is_served_once_told() {
    let (server, store) = start().await;
    server.quirks(|quirks| quirks.unquoted_etags = true);
    let etag = done(store.create(KEY, body("one")).await);
    let quoted = store.replace(KEY, body("two"), etag.clone()).await;
    assert_eq!(quoted.unwrap(), PutOutcome::Refused);
    assert!(store.send_unquoted_etags());
    let etag = done(store.replace(KEY, body("two"), etag).await);
    assert!(etag.as_str().starts_with('"'), "the tag itself stays as received");
    let unchanged = store.get(KEY, Some(etag.clone()), MAX).await;
    assert_eq!(unchanged.unwrap(), GetOutcome::NotModified);
    let store = server.store(BUCKET).with_unquoted_etags();
    done(store.replace(KEY, body("three"), etag).await);
}

#[tokio::test]
async fn an_object_comes_with_its_dates_and_the_stores() {
    let (server, store) = start().await;
    server.quirks(|quirks| quirks.clock_skew = -3_600);
    done(store.create(KEY, body("one")).await);
    server.quirks(|quirks| quirks.clock_skew = 0);
    let object = found(store.get(KEY, None, MAX).await);
    assert_eq!(object.body, body("one"));
    let age = object.served_at.unwrap() - object.last_modified.unwrap();
    assert!(age.num_seconds() >= 3_600, "{age}");
    let page = store.list("app/", "", 1_000).await.unwrap();
    assert_eq!(page.entries[0].last_modified, object.last_modified);
    assert!(page.served_at >= object.served_at);
}

#[tokio::test]
async fn a_missing_key_is_missing() {
    let (_server, store) = start().await;
    assert_eq!(store.get(KEY, None, MAX).await.unwrap(), GetOutcome::Missing);
    let unless = Some(ETag::new("\"0123\""));
    assert_eq!(store.get(KEY, unless, MAX).await.unwrap(), GetOutcome::Missing);
}

#[tokio::test]
async fn a_body_of_a_mebibyte_is_not_read() {
    let (server, store) = start().await;
    server.put_raw(KEY, vec![b'x'; 1 << 20]);
    let etag = ETag::new(server.object(KEY).unwrap().etag);
    let outcome = store.get(KEY, None, MAX).await;
    assert_eq!(outcome.unwrap(), GetOutcome::TooLarge { etag, len: 1 << 20 });
    // What fits is read to the last byte, and an empty object is one, too.
    server.put_raw(KEY, vec![b'x'; MAX]);
    assert_eq!(found(store.get(KEY, None, MAX).await).body.len(), MAX);
    server.put_raw(KEY, "");
    assert_eq!(found(store.get(KEY, None, MAX).await).body, body(""));
}

#[tokio::test]
async fn a_write_answered_without_an_etag_is_done_without_one() {
    let (server, store) = start().await;
    server.fault(Fault::NoEtag).on(Op::Put);
    let outcome = store.create(KEY, body("one")).await;
    assert_eq!(outcome.unwrap(), PutOutcome::Done { etag: None });
}

#[tokio::test]
async fn a_listing_starts_after_a_key_and_ends_with_the_prefix() {
    let (server, store) = start().await;
    for key in ["a", "app/1", "app/2", "app/3", "app0"] {
        server.put_raw(key, "four");
    }
    let page = store.list("app/", "app/1", 1_000).await.unwrap();
    let keys: Vec<_> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!((keys, page.truncated), (vec!["app/2", "app/3"], false));
    assert_eq!(page.entries[0].size, 4);
    let page = store.list("app/", "", 2).await.unwrap();
    assert_eq!((page.entries.len(), page.truncated), (2, true));
}

#[tokio::test]
async fn a_short_page_is_truncated_and_pages_without_keys_are_read_past() {
    let (server, store) = start().await;
    for key in ["app/1", "app/2", "app/3"] {
        server.put_raw(key, "");
    }
    server.quirks(|quirks| (quirks.page_cap, quirks.empty_pages) = (Some(1), 3));
    let page = store.list("app/", "app/1", 1_000).await.unwrap();
    assert_eq!((page.entries.len(), page.truncated), (1, true));
    assert_eq!(page.entries[0].key, "app/2");
    assert_eq!(server.count(Op::List), 4);
    server.quirks(|quirks| quirks.empty_pages = 1_000_000);
    let endless = store.list("app/", "", 1_000).await;
    expect(endless, StoreErrorKind::Unsupported, Happened::No, &["without a key", "versioned"]);
}

#[tokio::test]
async fn foreign_keys_in_a_listing_come_back_as_they_are() {
    let (server, store) = start().await;
    let mut keys = vec![
        "app/a b",
        "app/a+b",
        "app/a%20b",
        "app/<&>\"'",
        "app/ключ",
        "app/🔑",
        "app/a\nb",
        "app/\u{1}",
        "app/*~()",
        "app/lock-0000000002.json.bak",
        "app//",
        "app/100%",
    ];
    for key in &keys {
        server.put_raw(key, "");
    }
    keys.sort_unstable();
    let page = store.list("app/", "", 1_000).await.unwrap();
    let listed: Vec<_> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(listed, keys);
    let page = store.list("app/", "app/a b", 1_000).await.unwrap();
    assert!(page.entries.iter().all(|entry| entry.key.as_str() > "app/a b"));
    // The same keys work in the other calls.
    for key in keys.into_iter().filter(|key| !key.ends_with('/')) {
        assert_eq!(found(store.get(key, None, MAX).await).body, body(""), "{key}");
    }
}

#[tokio::test]
async fn deleting_counts_missing_keys_and_names_those_that_stay() {
    let (server, store) = start().await;
    for key in ["app/1", "app/2", "app/kept <&>"] {
        server.put_raw(key, "");
    }
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let outcome = store.delete(keys(&["app/1", "app/none"])).await.unwrap();
    assert_eq!(outcome, DeleteOutcome { deleted: 2, failed: vec![] });
    server.quirks(|quirks| quirks.undeletable = Some("kept".to_owned()));
    let outcome = store.delete(keys(&["app/2", "app/kept <&>"])).await.unwrap();
    assert_eq!((outcome.deleted, outcome.failed.len()), (1, 1));
    assert_eq!(outcome.failed[0].0, "app/kept <&>");
    assert!(outcome.failed[0].1.contains("s3:DeleteObject"), "{:?}", outcome.failed);
    assert_eq!(server.keys(), ["app/kept <&>"]);
    assert_eq!(server.count(Op::Delete), 2);
    assert_eq!(store.delete(vec![]).await.unwrap(), DeleteOutcome::default());
    assert_eq!(server.count(Op::Delete), 2);
}

// Writes whose fate is unknown: one request each, and never taken for refused or done.

/// Both kinds of write meet the fault; afterwards the object is there or not.
async fn unknown(fault: Fault, applied: bool, words: &[&str]) {
    let (server, store) = start().await;
    server.put_raw(KEY, "one");
    let etag = ETag::new(server.object(KEY).unwrap().etag);
    server.fault(fault).on(Op::Put);
    let created = store.create("app/new.json", body("new")).await;
    expect(created, StoreErrorKind::Transient, Happened::Maybe, words);
    let replaced = store.replace(KEY, body("two"), etag).await;
    expect(replaced, StoreErrorKind::Transient, Happened::Maybe, words);
    assert_eq!(server.count(Op::Put), 2, "the SDK sent a conditional write again");
    assert_eq!(server.object("app/new.json").is_some(), applied);
    assert_eq!(server.object(KEY).unwrap().body == body("two"), applied);
}

#[tokio::test]
async fn a_409_is_unknown_never_refused() {
    unknown(Fault::Conflict, false, &["409 ConditionalRequestConflict"]).await;
    unknown(Fault::Answer(409, "OperationAborted"), false, &["409"]).await;
}

#[tokio::test]
async fn a_500_before_the_write_took_effect_is_unknown() {
    unknown(Fault::ErrorBefore, false, &["500 InternalError"]).await;
}

#[tokio::test]
async fn a_500_after_the_write_took_effect_is_unknown() {
    unknown(Fault::ErrorAfter, true, &["500 InternalError"]).await;
}

#[tokio::test]
async fn a_busy_store_is_unknown() {
    unknown(Fault::SlowDown, false, &["503 SlowDown"]).await;
    unknown(Fault::Answer(429, "TooManyRequests"), false, &["429"]).await;
    unknown(Fault::Answer(400, "RequestTimeout"), false, &["RequestTimeout"]).await;
}

#[tokio::test]
async fn a_connection_cut_before_the_write_took_effect_is_unknown() {
    unknown(Fault::CutBefore, false, &["connection"]).await;
}

#[tokio::test]
async fn a_connection_cut_after_the_write_took_effect_is_unknown() {
    unknown(Fault::CutAfter, true, &["connection"]).await;
}

#[tokio::test]
async fn a_200_with_an_error_in_its_body_is_unknown() {
    unknown(Fault::ErrorBody, false, &["200 InternalError"]).await;
    unknown(Fault::ErrorBodyAfter, true, &["200 InternalError"]).await;
}

#[tokio::test]
async fn an_sdk_timeout_is_unknown_and_not_sent_again() {
    let server = S3Server::start().await;
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(Duration::from_millis(300));
    let config = config(&server.endpoint(), ACCESS_KEY, SECRET_KEY);
    let client = Client::from_conf(config.timeout_config(timeouts.build()).build());
    let store = S3Store::new(client, BUCKET);
    server.fault(Fault::AnswerLate(LONG)).on(Op::Put);
    let late = store.create(KEY, body("one")).await;
    expect(late, StoreErrorKind::Transient, Happened::Maybe, &["no answer in time"]);
    assert_eq!(server.count(Op::Put), 1);
    assert!(server.object(KEY).is_some());
}

#[tokio::test]
async fn a_dropped_write_may_still_take_effect() {
    let (server, store) = start().await;
    server.fault(Fault::Hold).on(Op::Put).times(1);
    let write = tokio::spawn(async move { store.create(KEY, body("one")).await });
    server.until_held(1).await;
    write.abort();
    assert!(write.await.unwrap_err().is_cancelled());
    assert!(server.object(KEY).is_none());
    server.release();
    eventually(|| server.object(KEY).is_some()).await;
}

#[tokio::test]
async fn a_write_can_take_effect_long_after_its_answer_and_twice() {
    let (server, store) = start().await;
    let soon = Duration::from_millis(50);
    server.fault(Fault::ApplyLate(soon)).on(Op::Put).times(1);
    let late = store.create(KEY, body("one")).await;
    expect(late, StoreErrorKind::Transient, Happened::Maybe, &[]);
    eventually(|| server.object(KEY).is_some()).await;
    server.fault(Fault::ApplyAgain(soon)).on(Op::Put).times(1);
    done(store.create("app/twice.json", body("one")).await);
    server.remove_raw("app/twice.json");
    eventually(|| server.object("app/twice.json").is_some()).await;
}

#[tokio::test]
async fn a_web_page_never_passes_for_a_write() {
    let (server, store) = start().await;
    server.fault(Fault::Html).on(Op::Put);
    let page = store.create(KEY, body("one")).await;
    expect(page, StoreErrorKind::Unsupported, Happened::Maybe, &["web page", "endpoint"]);
    store.list("app/", "", 1).await.unwrap();
    let page = store.create(KEY, body("one")).await;
    expect(page, StoreErrorKind::Transient, Happened::Maybe, &["web page", "proxy"]);
}

// Failures of reads.

#[tokio::test]
async fn a_truncated_body_is_a_failure_of_the_transport() {
    let (server, store) = start().await;
    server.put_raw(KEY, "{\"expired\": false, \"validity_ms\": 30000}");
    server.fault(Fault::TruncatedBody).on(Op::Get);
    let short = store.get(KEY, None, MAX).await;
    expect(short, StoreErrorKind::Transient, Happened::No, &["reading", KEY, "broke off"]);
    server.fault(Fault::TruncatedBody).on(Op::List);
    let short = store.list("app/", "", 1_000).await;
    expect(short, StoreErrorKind::Transient, Happened::No, &["listing", "app/"]);
}

#[tokio::test]
async fn reads_are_sent_again_by_the_sdk() {
    let (server, store) = start().await;
    server.put_raw(KEY, "one");
    server.fault(Fault::SlowDown).on(Op::Get).times(1);
    server.fault(Fault::CutBefore).on(Op::List).times(1);
    assert_eq!(found(store.get(KEY, None, MAX).await).body, body("one"));
    assert_eq!(store.list("app/", "", 1).await.unwrap().entries.len(), 1);
    assert_eq!((server.count(Op::Get), server.count(Op::List)), (2, 2));
}

#[tokio::test]
async fn a_web_page_is_a_wrong_endpoint_until_the_store_has_answered() {
    let (server, store) = start().await;
    server.put_raw(KEY, "one");
    server.fault(Fault::Html);
    let unsupported = StoreErrorKind::Unsupported;
    let words = ["web page", "is the endpoint that of an S3 API"];
    expect(store.list("app/", "", 1).await, unsupported, Happened::No, &words);
    expect(store.get(KEY, None, MAX).await, unsupported, Happened::No, &words);
    server.clear_faults();
    found(store.get(KEY, None, MAX).await);
    server.fault(Fault::Html);
    let words = ["web page", "proxy or a login page"];
    expect(store.list("app/", "", 1).await, StoreErrorKind::Transient, Happened::No, &words);
    expect(store.get(KEY, None, MAX).await, StoreErrorKind::Transient, Happened::No, &words);
    let delete = store.delete(vec![KEY.to_owned()]).await;
    expect(delete, StoreErrorKind::Transient, Happened::Maybe, &words);
}

#[tokio::test]
async fn an_error_in_a_listing_never_passes_for_an_empty_one() {
    let (server, store) = start().await;
    server.fault(Fault::ErrorBody).on(Op::List);
    let error = store.list("app/", "", 1).await;
    expect(error, StoreErrorKind::Transient, Happened::No, &["200 InternalError"]);
}

// Failures that do not go away by themselves.

/// Every call meets the fault and fails with this kind; none took effect.
async fn every_call_fails(fault: Fault, kind: StoreErrorKind, words: &[&str]) {
    let (server, store) = start().await;
    server.put_raw(KEY, "one");
    let etag = ETag::new(server.object(KEY).unwrap().etag);
    server.fault(fault);
    expect(store.list("app/", "", 1).await, kind, Happened::No, words);
    expect(store.get(KEY, Some(etag.clone()), MAX).await, kind, Happened::No, words);
    expect(store.create(KEY, body("two")).await, kind, Happened::No, words);
    expect(store.replace(KEY, body("two"), etag).await, kind, Happened::No, words);
    expect(store.delete(vec![KEY.to_owned()]).await, kind, Happened::No, words);
    assert_eq!(server.object(KEY).unwrap().body, body("one"));
}

#[tokio::test]
async fn a_missing_bucket_is_no_such_store() {
    let (server, _) = start().await;
    let store = server.store("no-such-bucket");
    let (kind, no) = (StoreErrorKind::NoSuchStore, Happened::No);
    let words = ["NoSuchBucket", "s3://no-such-bucket"];
    expect(store.list("app/", "", 1).await, kind, no, &words);
    expect(store.get(KEY, None, MAX).await, kind, no, &words);
    expect(store.create(KEY, body("one")).await, kind, no, &words);
    expect(store.replace(KEY, body("one"), ETag::new("\"0\"")).await, kind, no, &words);
    expect(store.delete(vec![KEY.to_owned()]).await, kind, no, &words);
    every_call_fails(Fault::NoSuchBucket, kind, &["NoSuchBucket"]).await;
}

#[tokio::test]
async fn a_404_that_is_not_s3s_is_no_such_store_and_never_a_missing_key() {
    every_call_fails(Fault::Answer(404, "404 page not found"), StoreErrorKind::NoSuchStore, &[])
        .await;
}

#[tokio::test]
async fn a_wrong_region_names_the_right_one() {
    let words = ["301 PermanentRedirect", "region eu-central-1", "AWS_REGION=eu-central-1"];
    every_call_fails(Fault::WrongRegion("eu-central-1"), StoreErrorKind::NoSuchStore, &words).await;
}

#[tokio::test]
async fn a_redirect_while_a_new_buckets_name_spreads_passes() {
    let (server, store) = start().await;
    server.fault(Fault::Answer(307, "TemporaryRedirect"));
    let redirected = store.list("app/", "", 1).await;
    expect(redirected, StoreErrorKind::Transient, Happened::No, &["307", "endpoint"]);
}

#[tokio::test]
async fn a_wrong_clock_is_named() {
    let fault = Fault::Answer(403, "RequestTimeTooSkewed");
    every_call_fails(fault, StoreErrorKind::Invalid, &["clock", "15 minutes"]).await;
}

#[tokio::test]
async fn refused_credentials_are_access_denied() {
    let kind = StoreErrorKind::AccessDenied;
    every_call_fails(Fault::AccessDenied, kind, &["403 AccessDenied", "needs s3:"]).await;
    for code in ["InvalidAccessKeyId", "SignatureDoesNotMatch"] {
        every_call_fails(Fault::Answer(403, code), kind, &[code, "credentials"]).await;
    }
    every_call_fails(Fault::Answer(400, "ExpiredToken"), kind, &["ExpiredToken"]).await;
    let server = S3Server::start().await;
    for client in
        [server.client_as("AKIANOBODY", SECRET_KEY), server.client_as(ACCESS_KEY, "another")]
    {
        let denied = S3Store::new(client, BUCKET).create(KEY, body("one")).await;
        expect(denied, kind, Happened::No, &["check the credentials"]);
    }
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn a_missing_permission_is_named() {
    let server = S3Server::start().await;
    server.put_raw(KEY, "one");
    let etag = || ETag::new("\"0123\"");
    let kind = StoreErrorKind::AccessDenied;
    let denied = |op: Op| {
        let name = format!("AKIANO{op:?}");
        server.add_user(&name, "secret", &[op]);
        S3Store::new(server.client_as(&name, "secret"), BUCKET)
    };
    let list = denied(Op::List);
    expect(list.list("app/", "", 1).await, kind, Happened::No, &["s3:ListBucket"]);
    found(list.get(KEY, None, MAX).await);
    let get = denied(Op::Get).get(KEY, None, MAX).await;
    expect(get, kind, Happened::No, &["s3:GetObject", "without s3:ListBucket a key that does"]);
    let put = denied(Op::Put);
    expect(put.create(KEY, body("two")).await, kind, Happened::No, &["s3:PutObject"]);
    expect(put.replace(KEY, body("two"), etag()).await, kind, Happened::No, &["s3:PutObject"]);
    let delete = denied(Op::Delete).delete(vec![KEY.to_owned()]).await;
    expect(delete, kind, Happened::No, &["s3:DeleteObject"]);
}

#[tokio::test]
async fn another_owner_than_expected_is_access_denied() {
    let server = S3Server::start().await;
    let store = server.store(BUCKET).with_expected_bucket_owner(OWNER);
    done(store.create(KEY, body("one")).await);
    let store = server.store(BUCKET).with_expected_bucket_owner("999999999999");
    let (kind, words) = (StoreErrorKind::AccessDenied, ["expected owner"]);
    expect(store.list("app/", "", 1).await, kind, Happened::No, &words);
    expect(store.get(KEY, None, MAX).await, kind, Happened::No, &words);
    expect(store.create("new", body("")).await, kind, Happened::No, &words);
    expect(store.delete(vec![KEY.to_owned()]).await, kind, Happened::No, &words);
}

#[tokio::test]
async fn what_a_store_has_not_implemented_is_unsupported() {
    let fault = Fault::Answer(501, "NotImplemented");
    every_call_fails(fault, StoreErrorKind::Unsupported, &["501", "conditional writes"]).await;
}

#[tokio::test]
async fn a_request_that_cannot_be_right_is_invalid() {
    let fault = Fault::Answer(400, "KeyTooLongError");
    every_call_fails(fault, StoreErrorKind::Invalid, &["400 KeyTooLongError"]).await;
}

#[tokio::test]
async fn a_directory_bucket_is_refused_before_anything_is_sent() {
    let server = S3Server::start().await;
    for bucket in ["tenure--use1-az4--x-s3", "point.mrap", "app--use1-az4--xa-s3"] {
        let store = server.store(bucket);
        let (kind, words) = (StoreErrorKind::Unsupported, [bucket, "general purpose"]);
        expect(store.list("app/", "", 1).await, kind, Happened::No, &words);
        expect(store.create(KEY, body("one")).await, kind, Happened::No, &words);
    }
    assert!(server.requests().is_empty());
}

// Requests that never reach a store.

#[tokio::test]
async fn an_unreachable_endpoint_means_that_nothing_happened() {
    let server = S3Server::start().await;
    let client = server.client();
    drop(server);
    let store = S3Store::new(client, BUCKET);
    let kind = StoreErrorKind::Transient;
    let words = ["no connection", "refused"];
    expect(store.create(KEY, body("one")).await, kind, Happened::No, &words);
    expect(store.list("app/", "", 1).await, kind, Happened::No, &words);
    let client = Client::from_conf(config("http://no.such.host.invalid", "a", "b").build());
    let nowhere = S3Store::new(client, BUCKET).create(KEY, body("one")).await;
    expect(nowhere, kind, Happened::No, &["no connection"]);
}

#[tokio::test]
async fn buckets_are_addressed_in_the_path_and_nothing_secret_is_shown() {
    let (server, store) = start().await;
    done(store.create(KEY, body("one")).await);
    assert_eq!(server.last(Op::Put).uri.path(), format!("/{BUCKET}/{KEY}"));
    assert_eq!(store.describe(), format!("s3://{BUCKET}"));
    let debug = format!("{store:?}");
    assert!(debug.contains(BUCKET) && !debug.contains(ACCESS_KEY) && !debug.contains(SECRET_KEY));
}

// The environment. Each of these runs one of the tests at the end in another process.

#[tokio::test]
async fn the_environment_makes_a_store() {
    let server = S3Server::start().await;
    let output = child("basic_calls_in_a_bucket_of_the_environment", &server.env());
    assert!(output.status.success(), "{output:?}");
    assert!(server.requests().iter().all(|seen| seen.uri.path().starts_with("/tenure-test")));
    assert!(server.count(Op::Put) > 0);
    // Other stores need not know the newer checksums.
    assert!(server.last(Op::Put).headers.keys().all(|name| !name.as_str().contains("checksum")));
    assert!(server.last(Op::Get).headers.get("x-amz-checksum-mode").is_none());
}

#[tokio::test]
async fn checksums_are_there_when_the_environment_asks_for_them() {
    let server = S3Server::start().await;
    let mut env = server.env();
    env.push(("AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_SUPPORTED".to_owned()));
    let output = child("basic_calls_in_a_bucket_of_the_environment", &env);
    assert!(output.status.success(), "{output:?}");
    let headers = server.last(Op::Put).headers;
    assert!(headers.keys().any(|name| name.as_str().contains("checksum")), "{headers:?}");
}

#[tokio::test]
async fn missing_settings_are_named() {
    let server = S3Server::start().await;
    let without = |name: &str| {
        let env = server.env().into_iter().filter(|(key, _)| !key.starts_with(name));
        env.collect::<Vec<_>>()
    };
    let error = |env: &[(&'static str, String)]| {
        let output = child("the_error_of_the_environment", env);
        String::from_utf8(output.stdout).unwrap()
    };
    let no_credentials = error(&without("AWS_ACCESS_KEY_ID"));
    for word in ["AccessDenied, happened No", "no credentials: set AWS_ACCESS_KEY_ID"] {
        assert!(no_credentials.contains(word), "{no_credentials}");
    }
    let env = without("AWS_REGION");
    assert!(error(&env).contains("no error"), "a custom endpoint needs no region");
    let env: Vec<_> = env.into_iter().filter(|(key, _)| *key != "AWS_ENDPOINT_URL").collect();
    let no_region = error(&env);
    for word in ["Invalid, happened No", "no region: set AWS_REGION"] {
        assert!(no_region.contains(word), "{no_region}");
    }
    let mut env = server.env();
    env[0].1 = format!("http://user:{SECRET_KEY}@127.0.0.1:1/path?token={SECRET_KEY}");
    let unreachable = error(&env);
    assert!(unreachable.contains("s3://tenure-test at http://127.0.0.1:1/path"), "{unreachable}");
    assert!(!unreachable.contains(SECRET_KEY), "{unreachable}");
}

/// Runs one test of this file in a process with this environment and nothing else.
fn child(test: &str, env: &[(&'static str, String)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env_clear();
    command.envs(env.iter().map(|(name, value)| (name, value)));
    command.env("TENURE_TEST_S3_BUCKET", BUCKET).output().unwrap()
}

/// Runs where `TENURE_TEST_S3_BUCKET` names a bucket, which scripts/moto.sh and its like provide.
#[tokio::test]
async fn basic_calls_in_a_bucket_of_the_environment() {
    let Ok(bucket) = std::env::var("TENURE_TEST_S3_BUCKET") else { return };
    let store = S3Store::from_env(bucket).await;
    let prefix = format!("tenure-test-{}/", std::process::id());
    let key = format!("{prefix}a +<&>%.json");
    assert_eq!(store.get(&key, None, MAX).await.unwrap(), GetOutcome::Missing);
    let first = done(store.create(&key, body("one")).await);
    assert_eq!(store.create(&key, body("two")).await.unwrap(), PutOutcome::Refused);
    let unchanged = store.get(&key, Some(first.clone()), MAX).await;
    assert_eq!(unchanged.unwrap(), GetOutcome::NotModified);
    let second = done(store.replace(&key, body("two"), first.clone()).await);
    assert_eq!(store.replace(&key, body("x"), first.clone()).await.unwrap(), PutOutcome::Refused);
    let other = format!("{prefix}none.json");
    assert_eq!(store.replace(&other, body("x"), first).await.unwrap(), PutOutcome::Missing);
    let object = found(store.get(&key, None, MAX).await);
    assert_eq!((&object.body, &object.etag), (&body("two"), &second));
    assert!(object.served_at.is_some() && object.last_modified.is_some());
    let too_large = store.get(&key, None, 2).await.unwrap();
    assert_eq!(too_large, GetOutcome::TooLarge { etag: second, len: 3 });
    let page = store.list(&prefix, "", 10).await.unwrap();
    assert_eq!((page.entries.len(), page.truncated), (1, false));
    assert_eq!(page.entries[0].key, key);
    assert!(store.list(&prefix, &key, 10).await.unwrap().entries.is_empty());
    let outcome = store.delete(vec![key.clone(), other]).await.unwrap();
    assert_eq!(outcome, DeleteOutcome { deleted: 2, failed: vec![] });
    assert_eq!(store.get(&key, None, MAX).await.unwrap(), GetOutcome::Missing);
}

/// Prints what a listing meets.
#[tokio::test]
async fn the_error_of_the_environment() {
    let Ok(bucket) = std::env::var("TENURE_TEST_S3_BUCKET") else { return };
    match S3Store::from_env(bucket).await.list("", "", 1).await {
        Ok(_) => println!("no error"),
        Err(error) => println!("{error:?}"),
    }
}

/// Waits until the condition holds, for ten seconds at most.
#[allow(clippy::disallowed_methods, reason = "polling with a deadline")]
async fn eventually(condition: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it did not happen within ten seconds");
}
