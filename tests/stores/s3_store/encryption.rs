//! Tests the settings for encryption, and for the owner of the bucket.

use tenure::store::{S3Store, Store, StoreErrorKind};

use super::{Determinacy, KEY, MAX, body, done, expect, found, start};
use tenure_testkit::s3_server::*;

const HEADERS: [&str; 3] = [
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-bucket-key-enabled",
];

/// Makes every call: creates, replaces, reads, lists and deletes.
async fn every_call(store: &S3Store) {
    let etag = done(store.create(KEY, body("one")).await);
    done(store.replace(KEY, body("two"), etag).await);
    assert_eq!(found(store.get(KEY, None, MAX).await).body, body("two"));
    assert_eq!(store.list("app/", "", 10).await.unwrap().entries.len(), 1);
    assert!(store.delete(vec![KEY.to_owned()]).await.unwrap().is_empty());
}

/// Returns the encryption headers of the writes. Asserts that other requests lack these headers,
/// because S3 refuses other requests with encryption headers.
async fn said_by_writes(with: impl FnOnce(S3Store) -> S3Store) -> [Option<String>; 3] {
    let (server, store) = start().await;
    every_call(&with(store)).await;
    let mut puts = Vec::new();
    for seen in server.requests() {
        let said = HEADERS.map(|name| Some(seen.headers.get(name)?.to_str().unwrap().to_owned()));
        match seen.op {
            Op::Put => puts.push(said),
            _ => assert_eq!(said, [None, None, None], "{seen:?}"),
        }
    }
    assert_eq!(puts.len(), 2);
    assert_eq!(puts[0], puts[1]);
    puts.remove(0)
}

#[tokio::test]
async fn only_writes_have_encryption_headers() {
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(said_by_writes(|store| store).await, [None, None, None]);
    let managed = said_by_writes(S3Store::with_s3_managed_keys).await;
    assert_eq!(managed, [some("AES256"), None, None]);
    let account_key = said_by_writes(|store| store.with_kms_key(None, None)).await;
    assert_eq!(account_key, [some("aws:kms"), None, None]);
    let key = "arn:aws:kms:us-east-1:111122223333:alias/leaders";
    let own_key = said_by_writes(|store| store.with_kms_key(some(key), Some(true))).await;
    assert_eq!(own_key, [some("aws:kms"), some(key), some("true")]);
}

#[tokio::test]
async fn each_request_names_the_expected_owner_of_the_bucket() {
    let server = S3Server::start().await;
    let store = server.store(BUCKET).with_expected_bucket_owner(OWNER);
    every_call(&store).await;
    let requests = server.requests();
    assert_eq!(requests.len(), 5);
    for seen in requests {
        assert_eq!(seen.headers["x-amz-expected-bucket-owner"], OWNER, "{seen:?}");
    }
}

#[tokio::test]
async fn a_refusal_of_kms_names_the_permission_on_the_key() {
    let (server, store) = start().await;
    server.put_raw(KEY, "one");
    server.quirks(|quirks| quirks.key_denied = true);
    let (kind, no) = (StoreErrorKind::AccessDenied, Determinacy::Determinate);
    let words = ["403 AccessDenied", "writing also needs kms:GenerateDataKey on the key"];
    expect(store.create("app/new", body("")).await, kind, no, &words);
    expect(
        store.get(KEY, None, MAX).await,
        kind,
        no,
        &["reading also needs kms:Decrypt on the key"],
    );
    server.fault(ServerFault::Answer(400, "KMS.DisabledException"));
    let disabled = store.create("app/new", body("")).await;
    expect(disabled, StoreErrorKind::Invalid, no, &["KMS.DisabledException", "check the KMS key"]);
}
