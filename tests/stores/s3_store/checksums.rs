//! Tests servers that require a checksum, which the SDK omits by default.

use aws_sdk_s3::config::RequestChecksumCalculation;

use super::*;

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
