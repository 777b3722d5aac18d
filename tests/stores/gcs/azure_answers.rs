//! Tests how the store treats answers of Azure. The test server for Cloud Storage gives these
//! answers, because the clients of both stores turn answers into errors in the same way.

use super::*;

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
    assert_eq!((error.kind(), error.determinacy()), (StoreErrorKind::Transient, NOTHING));
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
    assert_eq!((error.kind(), error.determinacy()), (StoreErrorKind::Invalid, NOTHING));
    assert!(error.to_string().contains("immutability policy"), "{error}");
}

#[tokio::test]
async fn regression_an_archived_blob_is_named() {
    let server = GcsServer::start();
    let store = server.store();
    done(store.create(KEY, "one".into()).await);
    server.fault(ServerFault::Answer(409, "BlobArchived")).on(Op::Get);
    let error = store.get(KEY, None, 99).await.expect_err("archived");
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(error.to_string().contains("rehydrate"), "{error}");
}

const NOTHING: Determinacy = Determinacy::Determinate;
