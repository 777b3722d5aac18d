//! Google Cloud Storage, over real HTTP: what is made of each answer, and the server of the tests
//! itself.
#![cfg(feature = "gcs")]

use std::sync::Arc;

use support::conformance::{self, Capabilities};
use support::gcs_server::*;
use tenure::store::{
    AnyObjectStore, ETag, GetOutcome, Happened, PutOutcome, Store, StoreError, StoreErrorKind,
};
use tenure::{Attempt, Compactor, Election, ErrorKind};

mod support;

#[path = "gcs/server.rs"]
mod server;

const KEY: &str = "app/lock-0000000001.json";

/// A missing object is "precondition failed", too.
fn can() -> Capabilities {
    Capabilities { missing_is_refused: true, ..Capabilities::default() }
}

fn done(outcome: Result<PutOutcome, StoreError>) -> ETag {
    match outcome.expect("the write is answered") {
        PutOutcome::Done { etag: Some(etag) } => etag,
        other => panic!("not done: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_suite_holds_over_http() {
    let server = GcsServer::start();
    conformance::run_with(Arc::new(server.store()), "app/", &can()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_suite_holds_with_short_pages() {
    let server = GcsServer::start();
    server.quirks(|quirks| quirks.page_cap = Some(2));
    let can = Capabilities { race_rounds: 2, ..can() };
    conformance::run_with(Arc::new(server.store()), "app/", &can).await;
}

/// As a client that others share, with its own retries, and without the answers' dates.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_suite_holds_for_a_client_of_somebody_elses() {
    let server = GcsServer::start();
    // Without a provider of TLS the client cannot be built at all.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Arc::new(server.builder().build().expect("a client"));
    let store = AnyObjectStore::new(client).await.expect("a store to use");
    conformance::run_with(Arc::new(store), "app/", &can()).await;
}

/// A real bucket, which is billed: `TENURE_TEST_GCS_BUCKET=NAME cargo test --features gcs --test
/// gcs -- --ignored real`, with credentials as `AnyObjectStore::gcs_from_env` reads them.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a bucket and credentials, as docs/stores.md says"]
async fn the_suite_holds_on_a_real_bucket() {
    let bucket = std::env::var("TENURE_TEST_GCS_BUCKET").expect("TENURE_TEST_GCS_BUCKET is set");
    let unique = tenure::Entropy::unique(&tenure::SystemEntropy);
    let store = Arc::new(AnyObjectStore::gcs_from_env(bucket).expect("the settings are right"));
    let mut failed = Vec::new();
    // An object may be written about once a second, and 429 is an error of a check that writes one
    // more often.
    for (name, result) in conformance::report(store, &format!("test-{unique:032x}/"), &can()).await
    {
        println!("{name}: {result:?}");
        failed.extend(result.err().filter(|words| !words.contains("Transient, happened")));
    }
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test]
async fn conditions_go_by_the_generation() {
    let server = GcsServer::start();
    let store = server.store();
    let put = |n: usize| {
        let puts = server.requests().into_iter().filter(|seen| seen.op == Op::Put);
        puts.map(|seen| seen.headers["x-goog-if-generation-match"].clone()).nth(n).unwrap()
    };
    let first = done(store.create(KEY, "one".into()).await);
    assert_eq!(put(0), "0");
    let generation = server.object(KEY).unwrap().generation;
    assert!(first.as_str().ends_with(&format!("\"|{generation}")), "{first}");
    let second = done(store.replace(KEY, "two".into(), first.clone()).await);
    assert_eq!(put(1), &*generation.to_string());
    assert_eq!(store.replace(KEY, "x".into(), first).await.unwrap(), PutOutcome::Refused);
    assert_eq!(store.get(KEY, Some(second), 9).await.unwrap(), GetOutcome::NotModified);
}

/// The ETag is made of the content alone; the generation tells the two apart.
#[tokio::test]
async fn the_same_body_again_is_another_version() {
    let server = GcsServer::start();
    let store = server.store();
    let first = done(store.create(KEY, "same".into()).await);
    server.remove_raw(KEY);
    let second = done(store.create(KEY, "same".into()).await);
    assert_ne!(first, second);
    assert_eq!(store.replace(KEY, "x".into(), first).await.unwrap(), PutOutcome::Refused);
    done(store.replace(KEY, "x".into(), second).await);
}

#[tokio::test]
async fn nothing_is_sent_twice() {
    let server = GcsServer::start();
    let store = server.store();
    assert!(!store.may_send_twice());
    for fault in [Fault::ErrorAfter, Fault::CutAfter, Fault::SlowDown, Fault::ErrorBefore] {
        for op in [Op::Put, Op::Get, Op::List, Op::Delete] {
            server.clear_faults();
            server.forget_requests();
            server.fault(fault.clone()).on(op);
            let (error, maybe) = match op {
                Op::Put => (store.create(KEY, "x".into()).await.err(), Happened::Maybe),
                Op::Get => (store.get(KEY, None, 9).await.err(), Happened::No),
                Op::List => (store.list("app/", "", 9).await.err(), Happened::No),
                _ => (store.delete(vec![KEY.to_owned()]).await.err(), Happened::Maybe),
            };
            let error = error.unwrap_or_else(|| panic!("{fault:?} on {op:?} is an error"));
            let what = (error.kind(), error.happened());
            assert_eq!(what, (StoreErrorKind::Transient, maybe), "{fault:?} on {op:?}: {error}");
            assert_eq!(server.requests().len(), 1, "{fault:?} on {op:?}");
        }
    }
}

#[tokio::test]
async fn each_failure_says_what_to_do() {
    use StoreErrorKind::{AccessDenied, NoSuchStore, Transient};
    let server = GcsServer::start();
    let in_bucket = |bucket: &str, token: &str| {
        let key = object_store::gcp::GoogleConfigKey::BearerToken;
        let builder = server.builder().with_bucket_name(bucket).with_config(key, token);
        AnyObjectStore::gcs(builder).unwrap()
    };
    for (store, kind, words) in [
        (in_bucket("another", TOKEN), NoSuchStore, "404 NoSuchBucket"),
        (in_bucket(BUCKET, "wrong"), AccessDenied, "401 AuthenticationRequired"),
    ] {
        let etag = ETag::new("\"x\"|7");
        for error in [
            store.list("app/", "", 9).await.err(),
            store.get(KEY, None, 9).await.err(),
            store.create(KEY, "x".into()).await.err(),
            store.replace(KEY, "x".into(), etag).await.err(),
            store.delete(vec![KEY.to_owned()]).await.err(),
        ] {
            let error = error.expect("an error");
            assert_eq!((error.kind(), error.happened()), (kind, Happened::No), "{error}");
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.to_string().contains("gs://"), "{error}");
        }
    }
    // Nobody listens there.
    let nowhere = server.builder().with_base_url("http://127.0.0.1:9");
    let error = AnyObjectStore::gcs(nowhere).unwrap().create(KEY, "x".into()).await.unwrap_err();
    assert_eq!((error.kind(), error.happened()), (Transient, Happened::No), "{error}");
}

#[tokio::test]
async fn a_bucket_that_ignores_preconditions_is_refused_by_the_check() {
    let server = GcsServer::start();
    server.quirks(|quirks| quirks.ignore_preconditions = true);
    let election = Election::builder(Arc::new(server.store()), "app").build().unwrap();
    let error = election.try_campaign().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
    assert!(error.to_string().contains("gs://tenure-test at http://127.0.0.1"), "{error}");
}

/// An emulator that ignores preconditions, and does not speak all of the XML API either.
#[tokio::test]
#[ignore = "scripts/gcs-emulator.sh -- cargo test --features gcs --test gcs emulator -- --ignored"]
async fn an_emulator_without_preconditions_is_refused() {
    let bucket = std::env::var("TENURE_TEST_GCS_BUCKET").expect("set by scripts/gcs-emulator.sh");
    let store = AnyObjectStore::gcs_from_env(bucket).expect("the settings are right");
    let election = Election::builder(Arc::new(store), "app").build().unwrap();
    let error = election.try_campaign().await.expect_err("refused");
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
}

#[tokio::test]
async fn a_compactor_deletes_what_is_superseded() {
    let server = GcsServer::start();
    let store: Arc<dyn Store> = Arc::new(server.store());
    let election = Election::builder(Arc::clone(&store), "app").build().unwrap();
    for _ in 0..5 {
        let Attempt::Elected(leadership) = election.try_campaign().await.unwrap() else {
            panic!("nobody else campaigns")
        };
        leadership.resign().await.unwrap();
    }
    let compactor = Compactor::builder(store, "app").min_age(std::time::Duration::ZERO);
    let report = compactor.keep_epochs(2).build().unwrap().run_once().await.unwrap();
    assert_eq!((report.deleted, report.failed), (3, 0), "{report:?}");
    let left: Vec<_> = server.keys().into_iter().filter(|key| key.contains("lock-")).collect();
    assert_eq!(left, ["app/lock-0000000004.json", "app/lock-0000000005.json"]);
}
