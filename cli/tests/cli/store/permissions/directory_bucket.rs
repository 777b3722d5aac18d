//! Tests the policies for directory buckets. A session applies to the whole bucket.

use tenure::ErrorKind;
use tenure_testkit::s3_server::{DIRECTORY_BUCKET, Op, S3Server};

use super::policy::Policy;
use super::{LAYOUTS, campaigns_in_both, elect, observes, store_in};

const WRITER: &str = include_str!("../../../../../deploy/iam/directory-bucket.json");
const OBSERVER: &str = include_str!("../../../../../deploy/iam/directory-bucket-observer.json");

#[tokio::test]
async fn a_directory_bucket_needs_only_the_permission_for_sessions() {
    let server = S3Server::start_directory_bucket();
    let store = |name: &str, policy: &Policy| store_in(DIRECTORY_BUCKET, &server, name, &[policy]);
    let policy = Policy::parse(WRITER, DIRECTORY_BUCKET, "");
    let writer = store("writer", &policy);
    campaigns_in_both(writer.clone()).await.unwrap();
    assert!(server.count(Op::Session) > 0);

    for layout in LAYOUTS {
        std::mem::forget(elect(writer.clone(), "leading", layout).await.unwrap());
    }
    let observer = store("observer", &Policy::parse(OBSERVER, DIRECTORY_BUCKET, ""));
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
