//! Tests the results of the store for Google Cloud Storage for each answer, over real HTTP.
#![cfg(feature = "gcs")]

use std::sync::Arc;

use tenure::store::{
    AnyObjectStore, Determinacy, ETag, GetOutcome, PutOutcome, Store, StoreError, StoreErrorKind,
};
use tenure::{Election, ErrorKind};
use tenure_testkit::conformance::{self, Capabilities};
use tenure_testkit::gcs_server::*;
use tenure_testkit::proxy::Proxy;

const KEY: &str = "app/lock-0000000001.json";

/// Returns the capabilities of Cloud Storage, for the conformance suite. The service answers
/// "precondition failed" even for a missing object.
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
async fn the_store_passes_the_suite_over_http() {
    let server = GcsServer::start();
    conformance::run_with(Arc::new(server.store()), "app/", &can()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_passes_the_suite_with_short_pages() {
    let server = GcsServer::start();
    server.quirks(|quirks| quirks.page_cap = Some(2));
    let can = Capabilities { race_rounds: 2, ..can() };
    conformance::run_with(Arc::new(server.store()), "app/", &can).await;
}

/// A client that the caller has built retries requests, and does not report the dates of answers. A
/// store with such a client also passes the suite.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_of_the_caller_passes_the_suite() {
    let server = GcsServer::start();
    // The client cannot be built until a TLS provider is installed.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = Arc::new(server.builder().build().expect("a client"));
    let store = AnyObjectStore::new(client).await.expect("the store is accepted");
    conformance::run_with(Arc::new(store), "app/", &can()).await;
}

/// Before the fix, a web page counted as an empty listing, because object_store ignores the name of
/// the root element. A candidate could then be granted an epoch below a greater one.
#[tokio::test]
async fn regression_a_web_page_is_no_listing() {
    let server = GcsServer::start();
    let store = server.store();
    done(store.create(KEY, "one".into()).await);
    server.fault(ServerFault::Html);
    let unknown = |error: StoreError, determinacy| {
        assert_eq!(
            (error.kind(), error.determinacy()),
            (StoreErrorKind::Transient, determinacy),
            "{error}"
        );
    };
    let page = store.list("app/", "", 9).await.expect_err("no listing");
    assert!(page.to_string().contains("the response is a web page"), "{page}");
    unknown(page, Determinacy::Determinate);
    unknown(store.get(KEY, None, 9).await.expect_err("no object"), Determinacy::Determinate);
    let written = store.create("app/new", "two".into()).await;
    unknown(written.expect_err("a lost response"), Determinacy::Indeterminate);
}

/// Before the fix, a 404 page of a proxy counted as a missing object, so a leader lost its lease.
#[tokio::test]
async fn regression_a_404_page_is_no_missing_object() {
    let page = "<html><body>Not here</body></html>";
    let proxy = Proxy::start_with_body("404 Not Found", &[("Content-Type", "text/html")], page);
    let builder = GcsServer::start().builder().with_base_url(&proxy.url());
    let store = AnyObjectStore::gcs(builder).expect("the settings are valid");
    let of_a_proxy = |error: StoreError, determinacy| {
        let kind = (error.kind(), error.determinacy());
        assert_eq!(kind, (StoreErrorKind::NoSuchStore, determinacy), "{error}");
        assert!(error.to_string().contains("any proxy"), "{error}");
    };
    of_a_proxy(store.get(KEY, None, 9).await.expect_err("unknown"), Determinacy::Determinate);
    let replaced = store.replace(KEY, "x".into(), ETag::new("\"1\"|1")).await;
    of_a_proxy(replaced.expect_err("unknown"), Determinacy::Indeterminate);
}

/// Uses a real bucket, which costs money, with the credentials of `AnyObjectStore::gcs_from_env`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs credentials: TENURE_TEST_GCS_BUCKET=NAME cargo test --test stores real -- --ignored"]
async fn the_store_passes_the_suite_on_a_real_bucket() {
    let bucket = std::env::var("TENURE_TEST_GCS_BUCKET").expect("TENURE_TEST_GCS_BUCKET is set");
    let unique = fastrand::u128(..);
    let store = Arc::new(AnyObjectStore::gcs_from_env(bucket).expect("the settings are valid"));
    let report = conformance::report(store, &format!("test-{unique:032x}/"), &can()).await;
    for (name, result) in &report {
        println!("{name}: {result:?}");
    }
    let failed = failures(report);
    assert!(failed.is_empty(), "{failed:?}");
}

/// Returns the failed checks in the report of a bucket. A bucket allows about one write per second
/// to each object. So the result omits each check that has failed with 429, except races. A race
/// must pass despite any number of 429 answers.
fn failures(report: Vec<(&'static str, Result<(), String>)>) -> Vec<String> {
    let exempt = |name: &str, words: &str| !name.ends_with("-race") && words.contains(": 429 ");
    let failed = report.into_iter().filter_map(|(name, result)| Some((name, result.err()?)));
    let failed = failed.filter(|(name, words)| !exempt(name, words));
    failed.map(|(name, words)| format!("{name}: {words}")).collect()
}

/// Before the fix, the report ignored every transient failure, so a server that always answers 503
/// passed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn regression_a_failing_bucket_does_not_pass() {
    let can = Capabilities { race_rounds: 2, ..can() };
    let judged = async |fault: ServerFault| {
        let server = GcsServer::start();
        server.fault(fault);
        failures(conformance::report(Arc::new(server.store()), "app/", &can).await)
    };
    let failed = judged(ServerFault::ErrorBefore).await;
    assert!(failed.len() >= conformance::CHECKS - 1, "{failed:?}");
    // If the server refuses every write with 429, no race can take place. So the result contains
    // the two races, and no other check.
    let failed = judged(ServerFault::SlowDown).await;
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(failed.iter().all(|words| words.contains("-race: ")), "{failed:?}");
}

/// The server answers some writes with 429, because they come too early. The test ignores a check
/// that gets a 429, unless the check is a race. All other checks must pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_bucket_with_some_429_answers_passes() {
    let server = GcsServer::start();
    server.fault(ServerFault::SlowDown).on(Op::Put).key_contains("etag/").after(3);
    server.fault(ServerFault::SlowDown).on(Op::Put).key_contains("create-race/").times(40);
    let can = Capabilities { race_rounds: 3, ..can() };
    let report = conformance::report(Arc::new(server.store()), "app/", &can).await;
    assert_eq!(report.iter().filter(|(_, result)| result.is_err()).count(), 1, "{report:?}");
    assert_eq!(failures(report), [""; 0]);
}

#[tokio::test]
async fn conditions_use_the_generation() {
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
    assert_eq!(
        store.replace(KEY, "x".into(), first).await.unwrap(),
        PutOutcome::PreconditionFailed
    );
    assert_eq!(store.get(KEY, Some(second), 9).await.unwrap(), GetOutcome::NotModified);
}

#[tokio::test]
async fn no_request_is_sent_twice() {
    let server = GcsServer::start();
    let store = server.store();
    assert!(!store.capabilities().may_send_twice);
    for fault in [
        ServerFault::ErrorAfter,
        ServerFault::CutAfter,
        ServerFault::SlowDown,
        ServerFault::ErrorBefore,
    ] {
        for op in [Op::Put, Op::Get, Op::List, Op::Delete] {
            server.clear_faults();
            server.forget_requests();
            server.fault(fault).on(op);
            let (error, maybe) = match op {
                Op::Put => (store.create(KEY, "x".into()).await.err(), Determinacy::Indeterminate),
                Op::Get => (store.get(KEY, None, 9).await.err(), Determinacy::Determinate),
                Op::List => (store.list("app/", "", 9).await.err(), Determinacy::Determinate),
                _ => (store.delete(vec![KEY.to_owned()]).await.err(), Determinacy::Indeterminate),
            };
            let error = error.unwrap_or_else(|| panic!("{fault:?} on {op:?} must be an error"));
            let what = (error.kind(), error.determinacy());
            assert_eq!(what, (StoreErrorKind::Transient, maybe), "{fault:?} on {op:?}: {error}");
            assert_eq!(server.requests().len(), 1, "{fault:?} on {op:?}");
        }
    }
}

#[tokio::test]
async fn each_failure_has_its_remedy() {
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
            assert_eq!(
                (error.kind(), error.determinacy()),
                (kind, Determinacy::Determinate),
                "{error}"
            );
            assert!(error.to_string().contains(words), "{error}");
            assert!(error.to_string().contains("gs://"), "{error}");
        }
    }
    // No process listens on this port.
    let nowhere = server.builder().with_base_url("http://127.0.0.1:9");
    let error = AnyObjectStore::gcs(nowhere).unwrap().create(KEY, "x".into()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.determinacy()),
        (Transient, Determinacy::Determinate),
        "{error}"
    );
}

/// The emulator ignores preconditions and supports only a part of the XML API.
#[tokio::test]
#[ignore = "scripts/servers/gcs-emulator.sh -- cargo test --test stores emulator -- --ignored"]
async fn an_emulator_without_preconditions_is_refused() {
    let bucket =
        std::env::var("TENURE_TEST_GCS_BUCKET").expect("set by scripts/servers/gcs-emulator.sh");
    let store = AnyObjectStore::gcs_from_env(bucket).expect("the settings are valid");
    let election = Election::builder(Arc::new(store), "app").build().unwrap();
    let error = election.try_campaign().await.expect_err("refused");
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
}

/// The service account key of an emulator may contain the address of a server. The client uses this
/// server, so messages must name it.
#[tokio::test]
async fn regression_the_server_in_the_key_is_named_and_used() {
    use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
    let server = GcsServer::start();
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("key.json");
    let key = serde_json::json!({
        "type": "service_account", "private_key": "none", "private_key_id": "none",
        "client_email": "nobody@example.com", "disable_oauth": true,
        "gcs_base_url": format!("{}/", server.endpoint()),
    });
    std::fs::write(&path, key.to_string()).expect("a file");
    let bucket = || GoogleCloudStorageBuilder::new().with_bucket_name(BUCKET);
    for builder in [
        bucket().with_service_account_path(path.to_str().expect("UTF-8")),
        bucket().with_service_account_key(key.to_string()),
        bucket()
            .with_base_url(&format!("{}/", server.endpoint()))
            .with_config(GoogleConfigKey::SkipSignature, "true"),
    ] {
        server.forget_requests();
        let store = AnyObjectStore::gcs(builder).expect("the settings are valid");
        let at = format!("gs://{BUCKET} at {}", server.endpoint());
        assert_eq!(store.describe(), at);
        let error = store.get(KEY, None, 9).await.expect_err("the token is missing");
        assert!(error.to_string().contains(&at), "{error}");
        assert_eq!(server.requests()[0].key, KEY);
    }
}

/// If an answer has no ETag, object_store returns an error that has no status. Before the fix, this
/// error was retried forever.
#[tokio::test]
async fn regression_a_bucket_without_etags_is_refused() {
    let server = GcsServer::start();
    let store = server.store();
    server.fault(ServerFault::NoEtag);
    let written = store.create(KEY, "one".into()).await.unwrap();
    assert_eq!(written, PutOutcome::Done { etag: None });
    let error = store.get(KEY, None, 9).await.expect_err("the version is unknown");
    assert_eq!(
        (error.kind(), error.determinacy()),
        (StoreErrorKind::Unsupported, Determinacy::Determinate)
    );
    let election = Election::builder(Arc::new(store), "other").build().unwrap();
    let error = election.campaign().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
}

// In the following tests, this server also sends error responses that only Azure sends. The client
// for Cloud Storage converts these responses to errors in the same way as the client for Azure.

/// Another program may hold a lease of Azure on a blob. Azure then refuses the writes of all other
/// programs. Before the fix, the store treated this refusal as a lost race, so the candidate always
/// reported "waiting: A leads".
#[tokio::test]
async fn regression_a_foreign_lease_on_a_blob_is_not_a_lost_race() {
    let server = GcsServer::start();
    let store = server.store();
    let etag = done(store.create(KEY, "one".into()).await);
    server.fault(ServerFault::Answer(412, "LeaseIdMissing")).on(Op::Put);
    let error = store.replace(KEY, "two".into(), etag).await.expect_err("not a lost race");
    assert_eq!(
        (error.kind(), error.determinacy()),
        (StoreErrorKind::Transient, Determinacy::Determinate)
    );
    assert!(error.to_string().contains("az storage blob lease break"), "{error}");
    let error = store.create(KEY, "two".into()).await.expect_err("not a lost race");
    assert!(error.to_string().contains("LeaseIdMissing"), "{error}");
}

#[tokio::test]
async fn regression_an_immutable_container_is_a_permanent_error() {
    let server = GcsServer::start();
    let store = server.store();
    let etag = done(store.create(KEY, "one".into()).await);
    server.fault(ServerFault::Answer(409, "BlobImmutableDueToPolicy")).on(Op::Put);
    let error = store.replace(KEY, "two".into(), etag).await.expect_err("refused");
    assert_eq!(
        (error.kind(), error.determinacy()),
        (StoreErrorKind::Invalid, Determinacy::Determinate)
    );
    assert!(error.to_string().contains("immutability policy"), "{error}");
}

#[tokio::test]
async fn regression_the_error_names_an_archived_blob() {
    let server = GcsServer::start();
    let store = server.store();
    done(store.create(KEY, "one".into()).await);
    server.fault(ServerFault::Answer(409, "BlobArchived")).on(Op::Get);
    let error = store.get(KEY, None, 99).await.expect_err("archived");
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(error.to_string().contains("rehydrate"), "{error}");
}
