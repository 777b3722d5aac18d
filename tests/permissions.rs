//! The policies under `deploy/iam` suffice for what they are for, and allow no more: each role works
//! with its policy, and with any one permission less it does not.
#![cfg(feature = "s3")]

mod support;

#[path = "permissions/policy.rs"]
mod policy;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use policy::{Policy, Who};
use support::s3_server::{BUCKET, S3Server};
use tenure::store::{S3Store, Store as _, StoreErrorKind};
use tenure::{Compactor, Election, Error, ErrorKind, Leadership};

const PREFIX: &str = "app";
const CANDIDATE: &str = include_str!("../deploy/iam/candidate.json");
const OBSERVER: &str = include_str!("../deploy/iam/observer.json");
const COMPACTOR: &str = include_str!("../deploy/iam/compactor.json");
const BUCKET_POLICY: &str = include_str!("../deploy/iam/bucket-policy.json");

/// Of several kinds, told apart by what it says.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn role(name: &str) -> String {
    format!("arn:aws:iam::123456789012:role/{name}")
}

/// What a role may do by its policy and the bucket's; a deny always wins.
fn store(server: &S3Server, name: &str, policies: &[&Policy]) -> Arc<S3Store> {
    let who = Who { arn: role(name) };
    let policies: Vec<Policy> = policies.iter().map(|policy| (*policy).clone()).collect();
    server.add_user_with(name, "secret", move |seen| policy::allows(&policies, &who, seen));
    Arc::new(S3Store::new(server.client_as(name, "secret"), BUCKET))
}

fn election(store: Arc<S3Store>, name: &str) -> Result<Election, Error> {
    let second = Duration::from_secs(1);
    Election::builder(store, PREFIX)
        .name(name)
        .validity(second * 2)
        .poll_interval(second / 5)
        .build()
}

async fn elect(store: Arc<S3Store>, name: &str) -> Result<Leadership, Error> {
    election(store, name)?.campaign().await
}

/// All that a candidate does: found, proclaim (which renews), resign, follow, succeed, take over.
async fn campaigns(store: Arc<S3Store>) -> Result<(), Failure> {
    let first = elect(store.clone(), "a").await?;
    first.proclaim(serde_json::json!({ "at": "here" })).await?;
    first.resign().await?;
    drop(elect(store.clone(), "b").await?);
    let third = elect(store, "c").await?;
    assert_eq!(third.epoch().get(), 3);
    Ok(third.resign().await?)
}

async fn observes(store: Arc<S3Store>) -> Result<(), Failure> {
    let leader = election(store, "watching")?.leader().await?;
    assert_eq!(leader.expect("somebody leads").name(), "leading");
    Ok(())
}

async fn compacts(store: Arc<S3Store>) -> Result<(), Failure> {
    let compactor = Compactor::builder(store, PREFIX).keep_epochs(1).min_age(Duration::ZERO);
    let report = compactor.build()?.run_once().await?;
    assert_eq!(report.listed, 5);
    if report.failed > 0 {
        return Err(report.first_failure.expect("a failure has a reason").into());
    }
    assert_eq!(report.deleted, 4);
    Ok(())
}

fn put_epochs(server: &S3Server, epochs: u64) {
    for epoch in 1..=epochs {
        server.put_raw(&format!("{PREFIX}/lock-{epoch:010}.json"), r#"{"expired": true}"#);
    }
}

/// The work fails with each permission taken away, and the error says that access is denied.
async fn needs_each<W>(policy: &Policy, prepare: impl AsyncFn(&S3Server), work: W)
where
    W: AsyncFn(Arc<S3Store>) -> Result<(), Failure>,
{
    for (less, missing) in policy.with_one_less() {
        let server = S3Server::start().await;
        prepare(&server).await;
        let error = work(store(&server, "less", &[&less])).await;
        let error = error.expect_err(&format!("it works without {missing}"));
        assert!(error.to_string().contains("AccessDenied"), "without {missing}: {error}");
    }
}

#[tokio::test]
async fn a_candidate_needs_its_policy_and_no_more() {
    let policy = Policy::parse(CANDIDATE, BUCKET, PREFIX);
    let server = S3Server::start().await;
    campaigns(store(&server, "candidate", &[&policy])).await.unwrap();
    needs_each(&policy, async |_| (), campaigns).await;
}

#[tokio::test]
async fn a_candidate_deletes_nothing_and_stays_under_its_prefix() {
    let policy = Policy::parse(CANDIDATE, BUCKET, PREFIX);
    let server = S3Server::start().await;
    put_epochs(&server, 5);
    let store = store(&server, "candidate", &[&policy]);
    let error = compacts(store.clone()).await.unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    assert_eq!(server.keys().len(), 5);
    let elsewhere = store.create("other/lock-0000000001.json", Bytes::new()).await.unwrap_err();
    assert_eq!(elsewhere.kind(), StoreErrorKind::AccessDenied);
    let elsewhere = store.list("other/", "", 10).await.unwrap_err();
    assert_eq!(elsewhere.kind(), StoreErrorKind::AccessDenied);
}

#[tokio::test]
async fn an_observer_needs_its_policy_and_writes_nothing() {
    let policy = Policy::parse(OBSERVER, BUCKET, PREFIX);
    let lead = async |server: &S3Server| {
        std::mem::forget(elect(Arc::new(server.store(BUCKET)), "leading").await.unwrap());
    };
    let server = S3Server::start().await;
    lead(&server).await;
    let store = store(&server, "observer", &[&policy]);
    observes(store.clone()).await.unwrap();
    needs_each(&policy, lead, observes).await;
    let error = elect(store, "observer").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
}

#[tokio::test]
async fn a_compactor_needs_its_policy_and_neither_reads_nor_writes() {
    let policy = Policy::parse(COMPACTOR, BUCKET, PREFIX);
    let server = S3Server::start().await;
    put_epochs(&server, 5);
    let store = store(&server, "COMPACTOR", &[&policy]);
    compacts(store.clone()).await.unwrap();
    let newest = format!("{PREFIX}/lock-0000000005.json");
    assert_eq!(server.keys(), [newest.clone()]);
    needs_each(&policy, async |server| put_epochs(server, 5), compacts).await;
    assert_eq!(
        store.get(&newest, None, 1_000).await.unwrap_err().kind(),
        StoreErrorKind::AccessDenied
    );
    let write = store.create(&newest, Bytes::new()).await.unwrap_err();
    assert_eq!(write.kind(), StoreErrorKind::AccessDenied);
}

/// What a bucket's policy denies even an administrator of the bucket.
#[tokio::test]
async fn the_bucket_takes_no_epoch_without_a_condition_and_lets_the_compactor_alone_delete() {
    let bucket = Policy::parse(BUCKET_POLICY, BUCKET, PREFIX);
    let all = Policy::everything();
    let server = S3Server::start().await;
    let admin = store(&server, "admin", &[&all, &bucket]);
    campaigns(admin.clone()).await.unwrap();

    let key = format!("{PREFIX}/lock-0000000009.json");
    let client = server.client_as("admin", "secret");
    let plain = |key: &str| client.put_object().bucket(BUCKET).key(key).body(Vec::new().into());
    plain(&key).send().await.unwrap_err();
    plain(&key).if_none_match("*").send().await.unwrap();
    plain("app/notes.txt").send().await.unwrap();

    let compaction = async |store| {
        let compactor = Compactor::builder(store, PREFIX).keep_epochs(1).min_age(Duration::ZERO);
        compactor.build().unwrap().run_once().await
    };
    // S3 denies it key by key, this server the request as a whole.
    let error = compaction(admin).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    let compactor = Policy::parse(COMPACTOR, BUCKET, PREFIX);
    let report = compaction(store(&server, "COMPACTOR", &[&compactor, &bucket])).await.unwrap();
    assert_eq!((report.deleted, report.failed), (3, 0), "{report:?}");
}

/// The evaluator itself: what it does not know it must not skip.
#[test]
#[should_panic(expected = "no such condition here: IpAddress")]
fn a_condition_that_is_not_understood_is_not_taken_for_true() {
    let conditioned = CANDIDATE.replace("StringLike", "IpAddress");
    Policy::parse(&conditioned, BUCKET, PREFIX);
}
