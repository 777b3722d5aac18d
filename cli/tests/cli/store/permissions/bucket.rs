//! Tests the bucket policy, which denies some requests even to an administrator with all
//! permissions, and the policies for directory buckets.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tenure::{Compactor, ErrorKind, Layout};

use super::policy::{Policy, Who, allows};
use super::{
    ANY, COMPACTOR, LAYOUTS, PREFIX, campaigns_in_both, elect, observes, place, store, store_in,
};
use tenure_testkit::s3_server::{BUCKET, DIRECTORY_BUCKET, Op, S3Request, S3Server};

const DIRECTORY_WRITER: &str = include_str!("../../../../../deploy/iam/directory-bucket.json");
const DIRECTORY_OBSERVER: &str =
    include_str!("../../../../../deploy/iam/directory-bucket-observer.json");
const BUCKET_POLICY: &str = include_str!("../../../../../deploy/iam/bucket-policy.json");

/// Returns a PUT request of this path, with these headers.
fn put(path: &str, headers: &[(&str, &str)]) -> S3Request {
    let uri: http::Uri = format!("/{BUCKET}/{path}").parse().unwrap();
    let key = uri.path().trim_start_matches(&format!("/{BUCKET}/")).to_owned();
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.insert(name, HeaderValue::from_str(value).unwrap());
    }
    S3Request { op: Op::Put, key, deletes: Vec::new(), uri, headers: map, exists: true }
}

/// Before the fix, no statement of the policy covered the record of periods. Every principal with
/// access to the bucket could delete or overwrite this record. Then CMD ran a second time in the
/// same period.
#[test]
fn regression_every_way_to_write_an_epoch_or_a_period_needs_a_condition() {
    let policies = [Policy::everything(), Policy::parse(BUCKET_POLICY, BUCKET, PREFIX)];
    let who = Who { arn: "arn:aws:iam::123456789012:role/admin".to_owned() };
    let allowed =
        |path: &str, headers: &[(&str, &str)]| allows(&policies, &who, &put(path, headers));
    for key in [
        "app/lock-0000000001.json",
        "app/lock.json",
        "app/once-per.json",
        "app/once-per.json.reservation",
        "app/assignment-0000000001.json",
        "app/members/0123/lock.json",
    ] {
        assert!(!allowed(key, &[]), "{key}");
        assert!(!allowed(key, &[("x-amz-copy-source", "/other/key")]), "{key}");
        assert!(allowed(key, &[("if-none-match", "*")]), "{key}");
        assert!(allowed(key, &[("if-match", "\"0123\"")]), "{key}");
        // Only the last request of a multipart upload creates the object, so only this request
        // needs a condition.
        assert!(allowed(&format!("{key}?uploads"), &[]), "{key}");
        assert!(allowed(&format!("{key}?partNumber=1&uploadId=a"), &[]), "{key}");
        assert!(!allowed(&format!("{key}?uploadId=a"), &[]), "{key}");
        assert!(allowed(&format!("{key}?uploadId=a"), &[("if-none-match", "*")]), "{key}");
    }
    for key in ["app/notes.txt", "app/.tenure-check-0f", "other/lock.json", "app/locks"] {
        assert!(allowed(key, &[]), "{key}");
    }
}

#[tokio::test]
async fn the_bucket_requires_conditions_and_only_the_compactor_deletes() {
    let bucket = Policy::parse(BUCKET_POLICY, BUCKET, ANY);
    let all = Policy::everything();
    let server = S3Server::start().await;
    let admin = store(&server, "admin", &[&all, &bucket]);
    campaigns_in_both(admin.clone()).await.unwrap();

    let (epochs, single) = (place(Layout::EpochFiles), "app/single/lock.json");
    let key = format!("{epochs}/lock-0000000009.json");
    let client = server.client_as("admin", "secret");
    let body = br#"{"expired":true}"#.to_vec();
    let plain = |key: &str| client.put_object().bucket(BUCKET).key(key).body(body.clone().into());
    plain(&key).send().await.unwrap_err();
    plain(single).send().await.unwrap_err();
    let periods = "app/single/once-per.json";
    plain(periods).if_none_match("*").send().await.unwrap();
    plain(periods).send().await.unwrap_err();
    plain(&key).if_none_match("*").send().await.unwrap();
    plain("app/notes.txt").send().await.unwrap();

    let compaction = async |store| {
        let compactor = Compactor::builder(store, epochs).keep_epochs(1).min_age(Duration::ZERO);
        compactor.build().unwrap().run_once().await
    };
    // S3 denies the deletion of each key separately, but this test server denies the whole request.
    let error = compaction(admin.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    let compactor = Policy::parse(COMPACTOR, BUCKET, ANY);
    let compactor = store(&server, "COMPACTOR", &[&compactor, &bucket]);
    let report = compaction(compactor).await.unwrap();
    assert_eq!((report.deleted, report.failed), (3, 0), "{report:?}");

    use tenure::store::Store as _;
    let mighty = store(&server, "COMPACTOR", &[&all, &bucket]);
    for anybody in [admin, mighty] {
        for key in [single, periods] {
            anybody.delete(vec![key.to_owned()]).await.unwrap_err();
        }
    }
    assert!(server.object(single).is_some());
}

/// A session applies to the whole bucket.
#[tokio::test]
async fn a_directory_bucket_needs_only_the_permission_for_sessions() {
    let server = S3Server::start_directory_bucket();
    let store = |name: &str, policy: &Policy| store_in(DIRECTORY_BUCKET, &server, name, &[policy]);
    let policy = Policy::parse(DIRECTORY_WRITER, DIRECTORY_BUCKET, "");
    let writer = store("writer", &policy);
    campaigns_in_both(writer.clone()).await.unwrap();
    assert!(server.count(Op::Session) > 0);

    for layout in LAYOUTS {
        std::mem::forget(elect(writer.clone(), "leading", layout).await.unwrap());
    }
    let observer = store("observer", &Policy::parse(DIRECTORY_OBSERVER, DIRECTORY_BUCKET, ""));
    observes(observer.clone()).await.unwrap();
    for layout in LAYOUTS {
        let error = elect(observer.clone(), "observer", layout).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AccessDenied, "{error}");
    }
    for (less, missing) in policy.with_one_less() {
        let error = campaigns_in_both(store("less", &less)).await.unwrap_err().to_string();
        assert!(error.contains("AccessDenied") && error.contains(&missing), "{error}");
    }
}
