//! Tests of a directory bucket of S3 (S3 Express One Zone). It lists keys in no order, and its
//! requests need a session.
#![cfg(feature = "s3")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use futures::TryStreamExt as _;
use tenure::store::{Determinacy, PutOutcome, S3Store, StoreErrorKind, Versioning};
use tenure::{CampaignOutcome, Compactor, Election, Epoch, ErrorKind, Store};
use tenure_fencing::{DurableGate, FencedLog, FencedObject, Generations};
use tenure_history::Reader;
use tenure_testkit::conformance;
use tenure_testkit::s3_server::{BUCKET, DIRECTORY_BUCKET, Op, S3Server, SECRET_KEY, ServerFault};
use tenure_testkit::time::within;

const DEADLINE: Duration = Duration::from_secs(60);

fn start() -> (S3Server, Arc<S3Store>) {
    let server = S3Server::start_directory_bucket();
    let store = Arc::new(server.store(DIRECTORY_BUCKET));
    (server, store)
}

/// Returns an election whose requests may be slow.
fn election(store: &Arc<S3Store>, prefix: &str, name: &str) -> Election {
    election_with(store, prefix, (name, Duration::from_secs(60)))
}

fn election_with(store: &Arc<S3Store>, prefix: &str, of: (&str, Duration)) -> Election {
    let election = Election::builder(store.clone(), prefix).name(of.0).validity(of.1);
    election.poll_interval(Duration::from_millis(200)).build().expect("the settings are valid")
}

/// Puts this number of ended epochs directly into the server.
fn epochs(server: &S3Server, prefix: &str, count: u64) {
    for epoch in 1..=count {
        server.put_raw(&format!("{prefix}lock-{epoch:010}.json"), r#"{"expired":true}"#);
    }
}

fn compactor(store: &Arc<S3Store>, prefix: &str) -> Compactor {
    let compactor = Compactor::builder(store.clone(), prefix).min_age(Duration::ZERO);
    compactor.build().expect("the settings are valid")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_passes_the_suite() {
    let (server, store) = start();
    conformance::run(store, "app/").await;
    // A directory bucket refuses a request without a session.
    assert!(server.count(Op::List) > 0);
    assert_eq!(server.count(Op::Session), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_store_passes_the_suite_with_short_pages() {
    let (server, store) = start();
    server.quirks(|quirks| quirks.page_cap = Some(3));
    let can = conformance::Capabilities { race_rounds: 2, ..Default::default() };
    conformance::run_with(store, "", &can).await;
}

#[tokio::test]
async fn leaders_resign_and_are_succeeded() {
    let (server, store) = start();
    for epoch in 1..=3 {
        let leadership = election(&store, "app", "a").campaign().await.expect("elected");
        assert_eq!(leadership.epoch().get(), epoch);
        let rival = election(&store, "app", "b").try_campaign().await.expect("an answer");
        assert!(matches!(rival, CampaignOutcome::Held(_)), "{rival:?}");
        leadership.proclaim("here").await.expect("renewed");
        leadership.resign().await.expect("resigned");
    }
    let lists = server.requests().into_iter().filter(|seen| seen.op == Op::List);
    for list in lists.map(|seen| seen.uri.query().unwrap_or_default().to_owned()) {
        assert!(list.ends_with("prefix=app%2F") && !list.contains("start-after"), "{list}");
    }
}

/// A gateway of Storj orders keys by their encrypted form, and refuses prefixes that are no
/// folders.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn storj_is_detected_by_the_first_listing() {
    let server = S3Server::start().await;
    server.quirks(|quirks| quirks.encrypted_keys = true);
    let new = || Arc::new(server.store(BUCKET));
    let store = new();
    assert!(!store.capabilities().lists_without_order);
    conformance::run(store.clone(), "suite/").await;
    assert!(store.capabilities().lists_without_order);
    for epoch in 1..=12 {
        let leadership = election(&new(), "app", "a").campaign().await.expect("elected");
        assert_eq!(leadership.epoch().get(), epoch);
        let rival = election(&new(), "app", "b").try_campaign().await.expect("an answer");
        assert!(matches!(rival, CampaignOutcome::Held(_)), "{rival:?}");
        leadership.resign().await.expect("resigned");
    }
    let history = Reader::new(new(), "app").expect("a prefix").read().await.expect("read");
    assert_eq!(history.spans.len(), 12);
}

#[tokio::test]
async fn a_lapsed_leader_is_succeeded() {
    let (server, store) = start();
    let validity = Duration::from_secs(2);
    let first = Arc::new(server.store(DIRECTORY_BUCKET));
    let first = election_with(&first, "app", ("a", validity));
    let leadership = first.campaign().await.expect("elected");
    server.fault(ServerFault::SlowDown).on(Op::Put).key_contains("lock-0000000001").after(1);
    let lost = within(DEADLINE, leadership.lost()).await;
    lost.expect("the lease ends");
    server.clear_faults();
    let second = election_with(&store, "app", ("b", validity));
    let second = within(DEADLINE, second.campaign()).await;
    assert_eq!(second.expect("in time").expect("elected").epoch().get(), 2);
}

/// A listing of two pages is no snapshot, so no campaign uses it. Compaction works at any size.
#[tokio::test]
async fn too_many_keys_end_no_election_and_are_compacted() {
    let (server, store) = start();
    epochs(&server, "app/", 1_500);
    let before = server.keys();
    let error = election(&store, "app", "a").try_campaign().await.expect_err("two pages");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for words in ["too many keys", "tenure compact", "this listing is ignored"] {
        assert!(error.to_string().contains(words), "{error}");
    }
    let of_check = |key: &String| key.contains(".tenure-check-");
    let after: Vec<_> = server.keys().into_iter().filter(|key| !of_check(key)).collect();
    assert_eq!(after, before);

    election(&store, "app", "a").depose(None).await.expect_err("two pages");
    let history = Reader::new(store.clone(), "app").expect("a prefix").limit(3).read().await;
    let history = history.expect("read");
    assert_eq!((history.spans.len(), history.left_out), (3, 1_497));
    let report = compactor(&store, "app").run_once().await.expect("compacted");
    assert_eq!((report.listed, report.deleted), (1_500, 1_490), "{report:?}");
    let leadership = election(&store, "app", "a").campaign().await.expect("elected");
    assert_eq!(leadership.epoch().get(), 1_501);
}

/// A listing of two pages verifies no renewal, so the lease ends.
#[tokio::test]
async fn a_renewal_is_not_verified_by_two_pages() {
    let (server, store) = start();
    let election = Election::builder(store, "app").validity(Duration::from_secs(2));
    let election = election.verify_renewals(true).build().expect("the settings are valid");
    let leadership = election.campaign().await.expect("elected");
    leadership.proclaim("verified").await.expect("renewed");
    (0..1_000).for_each(|number| server.put_raw(&format!("app/{number}"), "x"));
    within(DEADLINE, leadership.lost()).await.expect("the lease ends");
}

/// A page need not contain the keys of lower folders, such as other elections.
#[tokio::test]
async fn an_election_with_many_others_in_lower_folders_is_listed_in_one_page() {
    let (server, store) = start();
    for number in 0..1_200 {
        server.put_raw(&format!("app/other-{number}/lock-0000000001.json"), "{}");
        server.put_raw(&format!("app/data/{number}"), "{}");
    }
    server.quirks(|quirks| quirks.page_cap = Some(1_000));
    let error = election(&store, "app", "a").try_campaign().await.expect_err("many folders");
    assert!(error.to_string().contains("too many keys"), "{error}");
    for number in 0..400 {
        server.remove_raw(&format!("app/other-{number}/lock-0000000001.json"));
    }
    let leadership = election(&store, "app", "a").campaign().await.expect("elected");
    assert_eq!(leadership.epoch(), Epoch::FIRST);
    let page = store.list("app/", "", 1_000).await.expect("a page");
    assert!(page.truncated && page.torn);
    assert_eq!(page.entries.len(), 1_000);
    let page = store.list("app/data/119", "app/data/1190", 5).await.expect("a page");
    let keys: Vec<_> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
    let expected: Vec<_> = (1191..=1195).map(|number| format!("app/data/{number}")).collect();
    assert_eq!(keys, expected);
}

/// A log may use a listing of two pages, unless a trim runs meanwhile.
#[tokio::test]
async fn a_log_may_be_longer_than_a_page() {
    let (server, store) = start();
    server.quirks(|quirks| quirks.page_cap = Some(20));
    let log = FencedLog::new(store, "log").expect("a prefix");
    let mut first = log.open(Epoch::FIRST).await.expect("opened");
    for number in 0..100 {
        first.append(format!("{number}")).await.expect("written");
    }
    let mut second = log.open(Epoch::new(2).expect("an epoch")).await.expect("opened");
    assert!(first.append("late").await.expect_err("an old epoch").stale().is_some());
    second.append("100").await.expect("written");
    let read = async |from| {
        let entries: Vec<_> = log.read_from(from).try_collect().await.expect("read");
        entries.into_iter().map(|entry| entry.body).collect::<Vec<_>>()
    };
    let expected: Vec<_> = (0..=100).map(|number| number.to_string()).collect();
    assert_eq!(read(1).await, expected);
    let before = server.keys().len();
    assert_eq!(log.trim(92).await.expect("trimmed"), 92);
    assert_eq!(server.keys().len(), before - 90 + 1);
    assert_eq!(read(92).await, expected[90..]);
    assert_eq!(log.latest().await.expect("read").expect("an entry").body, "100");
}

#[tokio::test]
async fn guards_work_and_refuse_a_listing_of_two_pages() {
    let (server, store) = start();
    let store: Arc<dyn Store> = store;
    let two = Epoch::new(2).expect("an epoch");
    let log = FencedLog::new(Arc::clone(&store), "log").expect("a prefix");
    let mut former = log.open(Epoch::FIRST).await.expect("opened");
    former.append("a").await.expect("written");
    log.open(two).await.expect("opened").append("b").await.expect("written");
    assert!(former.append("c").await.expect_err("an old epoch").stale().is_some());
    assert_eq!(log.latest().await.expect("read").expect("an entry").body, "b");

    let object = FencedObject::new(Arc::clone(&store), "object");
    let mut former = object.open(Epoch::FIRST).await.expect("opened");
    object.open(two).await.expect("opened").write("b").await.expect("written");
    assert!(former.write("c").await.expect_err("an old epoch").stale().is_some());

    let gate = DurableGate::new(Arc::clone(&store), "gate");
    gate.admit(two).await.expect("admitted");
    gate.admit(Epoch::FIRST).await.expect_err("an old epoch");

    let generations = Generations::new(Arc::clone(&store), "data").expect("a prefix");
    for epoch in [Epoch::FIRST, two] {
        server.put_raw(&format!("{}x", generations.key(epoch)), "x");
    }
    assert_eq!(generations.newest().await.expect("listed"), Some(two));
    (0..1_200).for_each(|number| server.put_raw(&format!("data/0000000003/{number}"), "x"));
    let error = generations.newest().await.expect_err("two pages").to_string();
    assert!(error.contains("too many keys"), "{error}");
}

/// The address and the session of a request.
type Sent = (String, Option<String>);

/// A connector that records each request.
#[derive(Debug, Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Sent>>>);

impl HttpConnector for Recorder {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let token = request.headers().get("x-amz-s3session-token").map(str::to_owned);
        let url = request.uri().to_owned();
        let body = match url.ends_with("?session") {
            true => {
                "<CreateSessionResult><Credentials><SessionToken>of a session</SessionToken>\
                 <SecretAccessKey>s</SecretAccessKey><AccessKeyId>A</AccessKeyId>\
                 <Expiration>2999-01-01T00:00:00Z</Expiration></Credentials></CreateSessionResult>"
            }
            false => "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>",
        };
        self.0.lock().expect("not poisoned").push((url, token));
        let status = 200.try_into().expect("a status");
        HttpConnectorFuture::ready(Ok(HttpResponse::new(status, SdkBody::from(body))))
    }
}

#[tokio::test]
async fn requests_go_to_the_endpoint_of_the_zone() {
    let recorder = Recorder::default();
    let connector = SharedHttpConnector::new(recorder.clone());
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("A", "s", None, None, "tests"))
        .http_client(http_client_fn(move |_, _| connector.clone()));
    let client = aws_sdk_s3::Client::from_conf(config.build());
    let page = S3Store::new(client, DIRECTORY_BUCKET).list("app/lock-", "", 9).await;
    assert!(page.expect("a page").entries.is_empty());
    let requests = recorder.0.lock().expect("not poisoned");
    let zone = format!("https://{DIRECTORY_BUCKET}.s3express-use1-az4.us-east-1.amazonaws.com/?");
    let [(session, None), (list, Some(token))] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!(*session, format!("{zone}session"));
    assert!(list.starts_with(&zone) && list.ends_with("&prefix=app%2F"), "{list}");
    assert_eq!(token, "of a session");
}

/// The listing that detects Storj by its host is repeated for the whole folder.
#[tokio::test]
async fn storj_is_detected_by_its_host() {
    let recorder = Recorder::default();
    let connector = SharedHttpConnector::new(recorder.clone());
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url("https://gateway.eu1.StorjShare.io")
        .credentials_provider(Credentials::new("A", "s", None, None, "tests"))
        .http_client(http_client_fn(move |_, _| connector.clone()));
    let store = S3Store::new(aws_sdk_s3::Client::from_conf(config.build()), "bucket");
    for _ in 0..2 {
        store.list("log/", "log/5", 9).await.expect("a page");
    }
    let requests = recorder.0.lock().expect("not poisoned");
    let starts: Vec<_> = requests.iter().map(|(url, _)| url.contains("start-after")).collect();
    assert_eq!(starts, [true, false, false]);
}

#[tokio::test]
async fn a_session_that_has_ended_is_replaced() {
    let (server, store) = start();
    let no = Determinacy::Determinate;
    store.create("app/1", "one".into()).await.expect("created");
    // Before each request, the SDK replaces a session that lasts less than 10 s.
    server.quirks(|quirks| quirks.session_length = Some(Duration::from_secs(5)));
    server.end_sessions();
    let refused = store.create("app/2", "two".into()).await.expect_err("no session");
    assert_eq!((refused.kind(), refused.determinacy()), (StoreErrorKind::Transient, no));
    assert!(refused.to_string().contains("creates a new session"), "{refused}");
    store.create("app/2", "two".into()).await.expect("created");
    let sessions = server.count(Op::Session);
    store.list("app/", "", 9).await.expect("listed");
    assert_eq!((sessions, server.count(Op::Session)), (2, 3));

    let leadership = election(&store, "app", "a").campaign().await.expect("elected");
    server.end_sessions();
    leadership.proclaim("still here").await.expect("renewed with another session");
}

#[tokio::test]
async fn a_refused_session_is_a_denial_and_a_failed_one_is_transient() {
    let (server, store) = start();
    let failed = async || {
        let error = store.create("app/1", "one".into()).await.expect_err("no session");
        assert_eq!(error.determinacy(), Determinacy::Determinate, "{error}");
        error
    };
    server.fault(ServerFault::AccessDenied).on(Op::Session);
    let error = failed().await;
    assert_eq!(error.kind(), StoreErrorKind::AccessDenied, "{error}");
    assert!(error.to_string().contains("needs s3express:CreateSession"), "{error}");
    server.clear_faults();
    for fault in [ServerFault::ErrorBefore, ServerFault::CutBefore] {
        server.fault(fault).on(Op::Session);
        let error = failed().await;
        assert_eq!(error.kind(), StoreErrorKind::Transient, "{error}");
        server.clear_faults();
    }
    server.fault(ServerFault::NoSuchBucket).on(Op::Session);
    assert_eq!(failed().await.kind(), StoreErrorKind::NoSuchStore);
    server.clear_faults();
    assert!(matches!(
        store.create("app/1", "one".into()).await,
        Ok(PutOutcome::Done { etag: Some(_) })
    ));
}

#[tokio::test]
async fn a_session_may_be_read_only() {
    let (server, store) = start();
    store.create("app/1", "one".into()).await.expect("created");
    server.add_user_with("READER", SECRET_KEY, |seen| {
        let mode = seen.headers.get("x-amz-create-session-mode");
        mode.is_some_and(|mode| mode == "ReadOnly")
    });
    let reader = S3Store::new(server.client_as("READER", SECRET_KEY), DIRECTORY_BUCKET);
    assert_eq!(reader.list("app/", "", 9).await.expect("listed").entries.len(), 1);
    let error = reader.create("app/2", "two".into()).await.expect_err("denied");
    assert_eq!(error.kind(), StoreErrorKind::AccessDenied, "{error}");
    assert!(error.to_string().contains("the mode ReadWrite"), "{error}");
}

#[tokio::test]
async fn the_bucket_has_no_versions_and_its_rules_are_read() {
    let (_server, store) = start();
    let settings = store.bucket_settings().await;
    assert_eq!(settings.versioning.expect("known"), Versioning::Off);
    assert!(settings.lifecycle.expect("read").is_empty());
    assert!(store.capabilities().lists_without_order);
}
