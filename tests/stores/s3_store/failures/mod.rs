//! Tests the errors of failed calls: the kind of each error, and whether the error states that the
//! request may have taken effect.

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use tenure::store::S3Store;
use tenure::store::{Determinacy, ETag, Store, StoreErrorKind};

use super::{KEY, MAX, body, done, eventually, expect, found, start};
use tenure_testkit::closed_port::ClosedPort;
use tenure_testkit::s3_server::*;

mod permanent;

/// Time limit longer than any test.
const LONG: Duration = Duration::from_secs(600);

// In the following tests, the effect of a write is unknown. The store sends the write only once,
// and never reports it as "refused" or "done".

/// Asserts that the store reports an unknown effect if the fault affects a create and a
/// replacement. `applied` is true if the writes take effect despite the fault.
async fn unknown(fault: ServerFault, applied: bool, words: &str) {
    println!("{fault:?}");
    let (server, store) = start().await;
    server.put_raw(KEY, "one");
    let etag = ETag::new(server.object(KEY).unwrap().etag);
    server.fault(fault).on(Op::Put);
    let created = store.create("app/new.json", body("new")).await;
    expect(created, StoreErrorKind::Transient, Determinacy::Indeterminate, &[words]);
    let replaced = store.replace(KEY, body("two"), etag).await;
    expect(replaced, StoreErrorKind::Transient, Determinacy::Indeterminate, &[words]);
    assert_eq!(server.count(Op::Put), 2, "the SDK sent a conditional write again");
    assert_eq!(server.object("app/new.json").is_some(), applied);
    assert_eq!(server.object(KEY).unwrap().body == body("two"), applied);
}

#[tokio::test]
async fn the_effect_of_a_failed_write_is_unknown() {
    for (fault, applied, words) in [
        (ServerFault::Conflict, false, "409 ConditionalRequestConflict"),
        (ServerFault::Answer(409, "OperationAborted"), false, "409"),
        (ServerFault::ErrorBefore, false, "500 InternalError"),
        (ServerFault::ErrorAfter, true, "500 InternalError"),
        (ServerFault::SlowDown, false, "503 SlowDown"),
        (ServerFault::Answer(429, "TooManyRequests"), false, "429"),
        (ServerFault::Answer(400, "RequestTimeout"), false, "RequestTimeout"),
        (ServerFault::CutBefore, false, "connection"),
        (ServerFault::CutAfter, true, "connection"),
        (ServerFault::ErrorBody, false, "200 InternalError"),
        (ServerFault::ErrorBodyAfter, true, "200 InternalError"),
    ] {
        unknown(fault, applied, words).await;
    }
}

#[tokio::test]
async fn an_sdk_timeout_is_unknown_and_not_retried() {
    let server = S3Server::start().await;
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(Duration::from_secs(1));
    let config = config(&server.endpoint(), ACCESS_KEY, SECRET_KEY);
    let client = Client::from_conf(config.timeout_config(timeouts.build()).build());
    let store = S3Store::new(client, BUCKET);
    // The write uses the open connection of this read, so the write arrives before its timeout.
    store.get(KEY, None, MAX).await.expect("a read");
    server.fault(ServerFault::AnswerLate(LONG)).on(Op::Put);
    let late = store.create(KEY, body("one")).await;
    expect(late, StoreErrorKind::Transient, Determinacy::Indeterminate, &["no answer in time"]);
    assert_eq!(server.count(Op::Put), 1);
    assert!(server.object(KEY).is_some());
}

#[tokio::test]
async fn a_dropped_write_may_still_take_effect() {
    let (server, store) = start().await;
    server.fault(ServerFault::Hold).on(Op::Put).times(1);
    let write = tokio::spawn(async move { store.create(KEY, body("one")).await });
    server.until_held(1).await;
    write.abort();
    assert!(write.await.unwrap_err().is_cancelled());
    assert!(server.object(KEY).is_none());
    server.release();
    eventually(|| server.object(KEY).is_some()).await;
}

#[tokio::test]
async fn a_web_page_is_never_a_successful_write() {
    let (server, store) = start().await;
    server.fault(ServerFault::Html).on(Op::Put);
    let page = store.create(KEY, body("one")).await;
    expect(
        page,
        StoreErrorKind::NoSuchStore,
        Determinacy::Indeterminate,
        &["web page", "endpoint"],
    );
    store.list("app/", "", 1).await.unwrap();
    let page = store.create(KEY, body("one")).await;
    expect(page, StoreErrorKind::Transient, Determinacy::Indeterminate, &["web page", "proxy"]);
}

// The following tests cover failed reads.

#[tokio::test]
async fn a_truncated_body_is_a_failure_of_the_transport() {
    let (server, store) = start().await;
    server.put_raw(KEY, "{\"expired\": false, \"validity_ms\": 30000}");
    server.fault(ServerFault::TruncatedBody).on(Op::Get);
    let short = store.get(KEY, None, MAX).await;
    expect(
        short,
        StoreErrorKind::Transient,
        Determinacy::Determinate,
        &["reading", KEY, "broke off"],
    );
    server.fault(ServerFault::TruncatedBody).on(Op::List);
    let short = store.list("app/", "", 1_000).await;
    let words = ["listing", "app/", "broke off or is invalid"];
    expect(short, StoreErrorKind::Transient, Determinacy::Determinate, &words);
}

#[tokio::test]
async fn the_sdk_retries_reads() {
    let (server, store) = start().await;
    server.put_raw(KEY, "one");
    server.fault(ServerFault::SlowDown).on(Op::Get).times(1);
    server.fault(ServerFault::CutBefore).on(Op::List).times(1);
    assert_eq!(found(store.get(KEY, None, MAX).await).body, body("one"));
    assert_eq!(store.list("app/", "", 1).await.unwrap().entries.len(), 1);
    assert_eq!((server.count(Op::Get), server.count(Op::List)), (2, 2));
}

#[tokio::test]
async fn a_web_page_means_a_wrong_endpoint_until_the_store_has_answered() {
    let (server, store) = start().await;
    server.put_raw(KEY, "one");
    server.fault(ServerFault::Html);
    let unknown = StoreErrorKind::NoSuchStore;
    let words = ["web page", "check that the endpoint is an S3 API"];
    expect(store.list("app/", "", 1).await, unknown, Determinacy::Determinate, &words);
    expect(store.get(KEY, None, MAX).await, unknown, Determinacy::Determinate, &words);
    server.clear_faults();
    found(store.get(KEY, None, MAX).await);
    server.fault(ServerFault::Html);
    let words = ["web page", "proxy or a login page"];
    expect(
        store.list("app/", "", 1).await,
        StoreErrorKind::Transient,
        Determinacy::Determinate,
        &words,
    );
    expect(
        store.get(KEY, None, MAX).await,
        StoreErrorKind::Transient,
        Determinacy::Determinate,
        &words,
    );
    let delete = store.delete(vec![KEY.to_owned()]).await;
    expect(delete, StoreErrorKind::Transient, Determinacy::Indeterminate, &words);
}

#[tokio::test]
async fn a_line_of_text_is_not_a_listing_or_a_deletion() {
    let (server, store) = start().await;
    server.put_raw(KEY, "one");
    server.fault(ServerFault::Text);
    let (kind, words) = (StoreErrorKind::NoSuchStore, ["web page", "endpoint"]);
    expect(store.list("app/", "", 1).await, kind, Determinacy::Determinate, &words);
    expect(store.delete(vec![KEY.to_owned()]).await, kind, Determinacy::Indeterminate, &words);
}

/// The body of an object may begin like a web page. The store must not treat this body as the error
/// page of a proxy.
#[tokio::test]
async fn an_object_with_markup_is_an_object() {
    let (server, store) = start().await;
    server.put_raw(KEY, "<one/>");
    assert_eq!(found(store.get(KEY, None, MAX).await).body, body("<one/>"));
}

#[tokio::test]
async fn an_unconditional_read_never_returns_not_modified() {
    let (server, store) = start().await;
    server.fault(ServerFault::Answer(304, "")).on(Op::Get);
    let read = store.get(KEY, None, MAX).await;
    expect(read, StoreErrorKind::Transient, Determinacy::Determinate, &["reading", KEY]);
}

#[tokio::test]
async fn a_missing_key_is_not_an_answer_to_a_create() {
    let (server, store) = start().await;
    server.fault(ServerFault::Answer(404, "NoSuchKey")).on(Op::Put);
    let created = store.create(KEY, body("one")).await;
    expect(created, StoreErrorKind::NoSuchStore, Determinacy::Determinate, &["404 NoSuchKey"]);
}

#[tokio::test]
async fn an_error_in_a_listing_is_never_an_empty_listing() {
    let (server, store) = start().await;
    server.fault(ServerFault::ErrorBody).on(Op::List);
    let error = store.list("app/", "", 1).await;
    expect(error, StoreErrorKind::Transient, Determinacy::Determinate, &["200 InternalError"]);
}

#[tokio::test]
async fn a_redirect_for_a_new_bucket_is_transient() {
    let (server, store) = start().await;
    server.fault(ServerFault::Answer(307, "TemporaryRedirect"));
    let redirected = store.list("app/", "", 1).await;
    expect(redirected, StoreErrorKind::Transient, Determinacy::Determinate, &["307", "endpoint"]);
}

// The following tests cover requests that never reach the store.

#[tokio::test]
async fn a_request_to_an_unreachable_endpoint_has_no_effect() {
    let closed = ClosedPort::start();
    let client = Client::from_conf(config(&closed.endpoint(), ACCESS_KEY, SECRET_KEY).build());
    let store = S3Store::new(client, BUCKET);
    let kind = StoreErrorKind::Transient;
    let words = ["no connection", "refused"];
    expect(store.create(KEY, body("one")).await, kind, Determinacy::Determinate, &words);
    expect(store.list("app/", "", 1).await, kind, Determinacy::Determinate, &words);
    let client = Client::from_conf(config("http://no.such.host.invalid", "a", "b").build());
    let nowhere = S3Store::new(client, BUCKET).create(KEY, body("one")).await;
    expect(nowhere, kind, Determinacy::Determinate, &["no connection"]);
}

#[tokio::test]
async fn a_request_after_a_failed_tls_handshake_has_no_effect() {
    let server = S3Server::start().await;
    let endpoint = server.endpoint().replace("http:", "https:");
    let client = Client::from_conf(config(&endpoint, ACCESS_KEY, SECRET_KEY).build());
    let write = S3Store::new(client, BUCKET).create(KEY, body("one")).await;
    expect(write, StoreErrorKind::Transient, Determinacy::Determinate, &["no connection"]);
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn the_bucket_is_in_the_path_and_secrets_are_hidden() {
    let (server, store) = start().await;
    done(store.create(KEY, body("one")).await);
    assert_eq!(server.last(Op::Put).uri.path(), format!("/{BUCKET}/{KEY}"));
    assert_eq!(store.describe(), format!("s3://{BUCKET}"));
    let debug = format!("{store:?}");
    assert!(debug.contains(BUCKET) && !debug.contains(ACCESS_KEY) && !debug.contains(SECRET_KEY));
}

#[tokio::test]
async fn an_expired_session_is_transient_after_the_store_accepted_it() {
    let (server, store) = start().await;
    done(store.create(KEY, body("one")).await);
    let etag = ETag::new(server.object(KEY).unwrap().etag);
    server.fault(ServerFault::Answer(400, "ExpiredToken"));
    let (kind, no) = (StoreErrorKind::Transient, Determinacy::Determinate);
    expect(store.replace(KEY, body("two"), etag).await, kind, no, &["400 ExpiredToken"]);
    expect(store.get(KEY, None, MAX).await, kind, no, &["400 ExpiredToken"]);
}

/// A dropped test server must accept no connection, even while the test starts processes. A forked
/// child inherits the server's listening socket, and keeps the socket open until the child executes
/// its program.
#[test]
fn regression_a_dropped_server_accepts_no_connection_while_processes_start() {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = std::process::Command::new("/bin/true").status();
                }
            });
        }
        let taken = (0..300).filter(|_| {
            let server = S3Server::start_blocking();
            let endpoint = server.endpoint();
            drop(server);
            TcpStream::connect(endpoint.trim_start_matches("http://")).is_ok()
        });
        let taken = taken.count();
        over.store(true, Ordering::Relaxed);
        assert_eq!(taken, 0, "servers accepted a connection after their end");
    });
}

/// Before the fix, a read of an archived object failed with an error that recommended "check the
/// credentials".
#[tokio::test]
async fn regression_the_error_names_an_archived_object() {
    let (server, store) = start().await;
    done(store.create(KEY, body("one")).await);
    server.fault(ServerFault::Answer(403, "InvalidObjectState")).on(Op::Get);
    let words = ["moved to an archive", "lifecycle rule"];
    expect(
        store.get(KEY, None, MAX).await,
        StoreErrorKind::Invalid,
        Determinacy::Determinate,
        &words,
    );
}
