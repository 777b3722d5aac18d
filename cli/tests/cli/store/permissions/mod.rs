//! Tests that the policies under `deploy/iam` are sufficient and minimal. Each role works with its
//! policy, and fails if one permission is removed.
#![cfg(feature = "s3")]

mod bucket;
#[cfg(feature = "dynamodb")]
mod dynamodb;
mod fencing;
mod groups;
mod operator;
mod policy;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use policy::{Policy, Who};
use tenure::store::{S3Store, Store, StoreErrorKind};
use tenure::{Compactor, Election, Error, ErrorKind, Layout, Leadership};
use tenure_testkit::s3_server::{BUCKET, S3Server};

const PREFIX: &str = "app";
/// Value for PREFIX in a policy for elections in both layouts. Each layout uses a separate prefix
/// below `app/`.
const ANY: &str = "app/*";
const CANDIDATE: &str = include_str!("../../../../../deploy/iam/candidate.json");
const OBSERVER: &str = include_str!("../../../../../deploy/iam/observer.json");
const COMPACTOR: &str = include_str!("../../../../../deploy/iam/compactor.json");

const LAYOUTS: [Layout; 2] = [Layout::EpochFiles, Layout::SingleObject];

/// An error of any crate. The tests compare only its message.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Returns a store that acts as a role with these policies. If one policy denies a request, no
/// other policy can allow it.
fn store(server: &S3Server, name: &str, policies: &[&Policy]) -> Arc<S3Store> {
    store_in(BUCKET, server, name, policies)
}

fn store_in(bucket: &str, server: &S3Server, name: &str, policies: &[&Policy]) -> Arc<S3Store> {
    let who = Who { arn: format!("arn:aws:iam::123456789012:role/{name}") };
    let policies: Vec<Policy> = policies.iter().map(|policy| (*policy).clone()).collect();
    server.add_user_with(name, "secret", move |seen| policy::allows(&policies, &who, seen));
    Arc::new(S3Store::new(server.client_as(name, "secret"), bucket))
}

fn place(layout: Layout) -> &'static str {
    if layout == Layout::SingleObject { "app/single" } else { "app/epochs" }
}

fn election(store: Arc<dyn Store>, name: &str, layout: Layout) -> Result<Election, Error> {
    let second = Duration::from_secs(1);
    Election::builder(store, place(layout))
        .name(name)
        .layout(layout)
        .validity(second * 2)
        .poll_interval(second / 5)
        .retry_denied(Duration::ZERO)
        .build()
}

async fn elect(store: Arc<dyn Store>, name: &str, layout: Layout) -> Result<Leadership, Error> {
    election(store, name, layout)?.campaign().await
}

/// Does the work of candidates. The first candidate creates an election, proclaims data, which
/// renews the lease, and resigns. The second candidate is elected after the resignation. The third
/// candidate takes over after a lapse.
async fn campaigns(store: Arc<dyn Store>, layout: Layout) -> Result<(), Failure> {
    let first = elect(store.clone(), "a", layout).await?;
    first.proclaim(serde_json::json!({ "at": "here" })).await?;
    first.resign().await?;
    drop(elect(store.clone(), "b", layout).await?);
    let third = elect(store, "c", layout).await?;
    assert_eq!(third.epoch().get(), 3);
    Ok(third.resign().await?)
}

async fn campaigns_in_both(store: Arc<S3Store>) -> Result<(), Failure> {
    for layout in LAYOUTS {
        campaigns(store.clone(), layout).await?;
    }
    Ok(())
}

/// Observes the leader of an election in each layout, and reads the record of periods, as `status`
/// does.
async fn observes(store: Arc<S3Store>) -> Result<(), Failure> {
    for layout in LAYOUTS {
        let leader = election(store.clone(), "watching", layout)?.leader().await?;
        assert_eq!(leader.expect("somebody leads").name(), "leading");
        store.get(&format!("{}/once-per.json", place(layout)), None, 1_000).await?;
    }
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

/// Asserts that the store denies a request of `work` if any single permission of the policy is
/// removed.
async fn needs_each<W>(policy: &Policy, prepare: impl AsyncFn(&S3Server), work: W)
where
    W: AsyncFn(Arc<S3Store>) -> Result<(), Failure>,
{
    let each = policy.with_one_less().into_iter().map(async |(less, missing)| {
        let server = S3Server::start().await;
        prepare(&server).await;
        let error = work(store(&server, "less", &[&less])).await;
        let error = error.expect_err(&format!("the work succeeds without {missing}"));
        assert!(error.to_string().contains("AccessDenied"), "without {missing}: {error}");
        // The error must name the missing action.
        let action = missing.strip_prefix("s3:").unwrap_or("");
        assert!(error.to_string().contains(action), "without {missing}: {error}");
    });
    join_all(each).await;
}

#[tokio::test]
async fn a_candidate_needs_exactly_its_policy() {
    let policy = Policy::parse(CANDIDATE, BUCKET, ANY);
    let server = S3Server::start().await;
    campaigns_in_both(store(&server, "candidate", &[&policy])).await.unwrap();
    needs_each(&policy, async |_| (), campaigns_in_both).await;
}

#[tokio::test]
async fn a_candidate_may_not_delete_or_leave_its_prefix() {
    let policy = Policy::parse(CANDIDATE, BUCKET, PREFIX);
    let server = S3Server::start().await;
    put_epochs(&server, 5);
    let store = store(&server, "candidate", &[&policy]);
    let error = compacts(store.clone()).await.unwrap_err();
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    assert_eq!(server.keys().len(), 5);
    for key in ["other/lock-0000000001.json", "app/data", "app/locks", "lock-0000000001.json"] {
        let elsewhere = store.create(key, Bytes::new()).await.unwrap_err();
        assert_eq!(elsewhere.kind(), StoreErrorKind::AccessDenied);
        let elsewhere = store.get(key, None, 1_000).await.unwrap_err();
        assert_eq!(elsewhere.kind(), StoreErrorKind::AccessDenied);
    }
}

/// The policy of this test allows listings of the prefix, but not of the whole bucket. With this
/// policy, S3 answers a GET of a missing key with 403. So a leader with epoch files cannot check
/// for a successor, but all other work of a candidate succeeds.
#[tokio::test]
async fn candidates_with_epoch_files_need_to_list_only_their_prefix() {
    let any = r#""Resource": "arn:aws:s3:::BUCKET""#;
    let bound = format!(r#"{any}, "Condition": {{ "StringLike": {{ "s3:prefix": "PREFIX/*" }} }}"#);
    assert!(CANDIDATE.contains(any));
    let policy = Policy::parse(&CANDIDATE.replace(any, &bound), BUCKET, ANY);
    let server = S3Server::start().await;
    let store = store(&server, "bound", &[&policy]);
    assert!(store.list("", "", 10).await.is_err(), "the role may not list the bucket");
    campaigns(store.clone(), Layout::EpochFiles).await.unwrap();
    let error = campaigns(store, Layout::SingleObject).await.unwrap_err();
    assert!(error.to_string().contains("without s3:ListBucket S3 also sends"), "{error}");
}

#[tokio::test]
async fn an_observer_needs_its_policy_and_writes_nothing() {
    let policy = Policy::parse(OBSERVER, BUCKET, ANY);
    let lead = async |server: &S3Server| {
        for layout in LAYOUTS {
            let store = Arc::new(server.store(BUCKET));
            std::mem::forget(elect(store, "leading", layout).await.unwrap());
        }
    };
    let server = S3Server::start().await;
    let observer = store(&server, "observer", &[&policy]);
    for layout in LAYOUTS {
        let nobody = election(observer.clone(), "early", layout).unwrap().leader().await;
        assert!(nobody.unwrap().is_none());
    }
    lead(&server).await;
    observes(observer.clone()).await.unwrap();
    needs_each(&policy, lead, observes).await;
    for layout in LAYOUTS {
        let error = elect(observer.clone(), "observer", layout).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    }
}

#[tokio::test]
async fn a_compactor_needs_its_policy_and_writes_nothing() {
    let policy = Policy::parse(COMPACTOR, BUCKET, PREFIX);
    let server = S3Server::start().await;
    put_epochs(&server, 5);
    let store = store(&server, "COMPACTOR", &[&policy]);
    compacts(store.clone()).await.unwrap();
    let newest = format!("{PREFIX}/lock-0000000005.json");
    assert_eq!(server.keys(), std::slice::from_ref(&newest));
    needs_each(&policy, async |server| put_epochs(server, 5), compacts).await;
    store.get(&newest, None, 1_000).await.unwrap();
    let single = store.get(&format!("{PREFIX}/lock.json"), None, 1_000).await.unwrap_err();
    assert_eq!(single.kind(), StoreErrorKind::AccessDenied);
    let write = store.create(&newest, Bytes::new()).await.unwrap_err();
    assert_eq!(write.kind(), StoreErrorKind::AccessDenied);
    let elsewhere = store.list("other/", "", 10).await.unwrap_err();
    assert_eq!(elsewhere.kind(), StoreErrorKind::AccessDenied);
}

/// The code that evaluates policies must refuse an unknown condition.
#[test]
#[should_panic(expected = "unsupported condition: IpAddress")]
fn an_unknown_condition_is_refused() {
    Policy::parse(&COMPACTOR.replace("StringLike", "IpAddress"), BUCKET, PREFIX);
}
