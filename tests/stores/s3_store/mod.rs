//! Tests the results of [`S3Store`] for each answer and for missing answers, over real HTTP.
#![cfg(feature = "s3")]

use std::time::Duration;

use aws_sdk_s3::config::RequestChecksumCalculation;
use bytes::Bytes;
use tenure::store::S3Store;
use tenure::store::{Determinacy, ETag, GetOutcome, PutOutcome, Store, StoreErrorKind};
use tenure_testkit::outcomes::{done, expect, found};
use tenure_testkit::s3_server::*;

mod encryption;
pub mod environment;
mod failures;
mod settings;

const KEY: &str = "app/lock-0000000001.json";
const MAX: usize = 64 * 1024;

async fn start() -> (S3Server, S3Store) {
    let server = S3Server::start().await;
    let store = server.store(BUCKET);
    (server, store)
}

fn body(text: &str) -> Bytes {
    Bytes::from(text.to_owned())
}

/// Waits until the condition is true, for at most ten seconds.
#[allow(clippy::disallowed_methods, reason = "polling with a deadline")]
async fn eventually(condition: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the condition did not hold within ten seconds");
}

#[tokio::test]
async fn etags_are_sent_exactly_as_received() {
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
async fn a_server_that_compares_unquoted_etags_is_recognised_and_served() {
    let (server, store) = start().await;
    server.quirks(|quirks| quirks.unquoted_etags = true);
    let first = done(store.create(KEY, body("one")).await);
    let stale = store.replace(KEY, body("x"), ETag::new("\"0123\"")).await;
    assert_eq!(stale.unwrap(), PutOutcome::PreconditionFailed);
    let etag = done(store.replace(KEY, body("two"), first.clone()).await);
    assert!(etag.as_str().starts_with('"'), "the tag has its quotes");
    let sent = server.count(Op::Put);
    let stale = store.replace(KEY, body("x"), first).await;
    assert_eq!(stale.unwrap(), PutOutcome::PreconditionFailed);
    assert_eq!(server.count(Op::Put), sent + 1, "the store remembers the comparison");
    let unchanged = store.get(KEY, Some(etag.clone()), MAX).await;
    assert_eq!(unchanged.unwrap(), GetOutcome::NotModified);
    let store = server.store(BUCKET).with_unquoted_etags();
    done(store.replace(KEY, body("three"), etag).await);
}

#[tokio::test]
async fn a_read_returns_the_dates_of_the_object_and_of_the_store() {
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
async fn the_outcome_of_a_write_has_no_etag_if_the_answer_has_none() {
    let (server, store) = start().await;
    server.fault(ServerFault::NoEtag).on(Op::Put);
    let outcome = store.create(KEY, body("one")).await;
    assert_eq!(outcome.unwrap(), PutOutcome::Done { etag: None });
}

#[tokio::test]
async fn a_short_page_is_truncated_and_pages_without_keys_are_skipped() {
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
    expect(
        endless,
        StoreErrorKind::Unsupported,
        Determinacy::Determinate,
        &["without a key", "versioned"],
    );
}

#[tokio::test]
async fn foreign_keys_in_a_listing_are_unchanged() {
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
    // Each of the listed keys can be read, too.
    for key in keys.into_iter().filter(|key| !key.ends_with('/')) {
        assert_eq!(found(store.get(key, None, MAX).await).body, body(""), "{key}");
    }
}

#[tokio::test]
async fn missing_keys_count_as_deleted_and_the_remaining_keys_are_named() {
    let (server, store) = start().await;
    for key in ["app/1", "app/2", "app/kept <&>"] {
        server.put_raw(key, "");
    }
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    assert!(store.delete(keys(&["app/1", "app/none"])).await.unwrap().is_empty());
    assert_eq!(server.keys(), ["app/2", "app/kept <&>"]);
    server.quirks(|quirks| quirks.undeletable = Some("kept".to_owned()));
    let failed = store.delete(keys(&["app/2", "app/kept <&>"])).await.unwrap();
    let [(key, error)] = failed.as_slice() else { panic!("{failed:?}") };
    assert_eq!((key.as_str(), error.kind()), ("app/kept <&>", StoreErrorKind::AccessDenied));
    let why = error.to_string();
    assert!(why.starts_with("AccessDenied: ") && why.contains("s3:DeleteObject"), "{why}");
    assert_eq!(server.keys(), ["app/kept <&>"]);
    assert_eq!(server.count(Op::Delete), 2);
    assert!(store.delete(vec![]).await.unwrap().is_empty());
    assert_eq!(server.count(Op::Delete), 2);
}

fn keys(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn regression_keys_are_deleted_one_by_one_on_a_server_that_requires_content_md5() {
    let (server, store) = start().await;
    server.quirks(|quirks| quirks.deletes_want_md5 = true);
    for key in ["app/1", "app/2", "app/3"] {
        done(store.create(key, body("x")).await);
    }
    let deleted = store.delete(keys(&["app/1", "app/2", "app/none"])).await;
    assert!(deleted.unwrap().is_empty());
    assert_eq!(server.keys(), ["app/3"]);
    assert_eq!(server.count(Op::Delete), 4, "a request with several keys is tried first");
    assert!(store.delete(keys(&["app/3"])).await.unwrap().is_empty());
    assert_eq!(server.count(Op::Delete), 5, "a request with several keys is not tried again");
}

#[tokio::test]
async fn a_key_that_cannot_be_deleted_is_returned_with_its_reason() {
    let (server, store) = start().await;
    server.quirks(|quirks| quirks.deletes_want_md5 = true);
    for key in ["app/1", "app/kept"] {
        done(store.create(key, body("x")).await);
    }
    server.fault(ServerFault::AccessDenied).on(Op::Delete).key_contains("kept");
    let failed = store.delete(keys(&["app/1", "app/kept"])).await.unwrap();
    assert_eq!(failed.len(), 1, "{failed:?}");
    let (key, error) = &failed[0];
    assert_eq!((key.as_str(), error.kind()), ("app/kept", StoreErrorKind::AccessDenied));
    assert!(error.to_string().contains("s3:DeleteObject"), "{error}");
    let all = store.delete(keys(&["app/kept"])).await;
    expect(all, StoreErrorKind::AccessDenied, Determinacy::Determinate, &["s3:DeleteObject"]);
}

#[tokio::test]
async fn regression_writes_have_a_checksum_if_object_lock_requires_one() {
    let server = S3Server::start().await;
    server.quirks(|quirks| quirks.writes_want_checksums = true);
    // The test uses the same settings that tenure uses for a custom endpoint.
    let config = config(&server.endpoint(), ACCESS_KEY, SECRET_KEY)
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired);
    let store = S3Store::new(aws_sdk_s3::Client::from_conf(config.build()), BUCKET);
    let first = done(store.create(KEY, body("one")).await);
    assert_eq!(server.count(Op::Put), 2, "the first write is refused without an effect");
    assert_eq!(store.create(KEY, body("two")).await.unwrap(), PutOutcome::PreconditionFailed);
    done(store.replace(KEY, body("two"), first.clone()).await);
    let late = store.replace(KEY, body("three"), first).await;
    assert_eq!(late.unwrap(), PutOutcome::PreconditionFailed);
    assert_eq!(server.count(Op::Put), 5, "later writes are sent once");
}
