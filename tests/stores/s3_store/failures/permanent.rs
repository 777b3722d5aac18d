//! Tests permanent failures.

use super::*;

/// Asserts that the fault makes every kind of call fail with an error of the kind `kind`, and that
/// no call has an effect.
async fn every_call_fails(fault: ServerFault, kind: StoreErrorKind, words: &[&str]) {
    let (server, store) = start().await;
    server.put_raw(KEY, "one");
    let etag = ETag::new(server.object(KEY).unwrap().etag);
    server.fault(fault);
    expect(store.list("app/", "", 1).await, kind, Determinacy::Determinate, words);
    expect(store.get(KEY, Some(etag.clone()), MAX).await, kind, Determinacy::Determinate, words);
    expect(store.create(KEY, body("two")).await, kind, Determinacy::Determinate, words);
    expect(store.replace(KEY, body("two"), etag).await, kind, Determinacy::Determinate, words);
    expect(store.delete(vec![KEY.to_owned()]).await, kind, Determinacy::Determinate, words);
    assert_eq!(server.object(KEY).unwrap().body, body("one"));
}

#[tokio::test]
async fn the_error_of_a_missing_bucket_is_no_such_store() {
    let (server, _) = start().await;
    let store = server.store("no-such-bucket");
    let (kind, no) = (StoreErrorKind::NoSuchStore, Determinacy::Determinate);
    let words = ["NoSuchBucket", "s3://no-such-bucket"];
    expect(store.list("app/", "", 1).await, kind, no, &words);
    expect(store.get(KEY, None, MAX).await, kind, no, &words);
    expect(store.create(KEY, body("one")).await, kind, no, &words);
    expect(store.replace(KEY, body("one"), ETag::new("\"0\"")).await, kind, no, &words);
    expect(store.delete(vec![KEY.to_owned()]).await, kind, no, &words);
    every_call_fails(ServerFault::NoSuchBucket, kind, &["NoSuchBucket"]).await;
}

#[tokio::test]
async fn the_404_of_a_web_server_is_no_such_store_and_never_a_missing_key() {
    every_call_fails(
        ServerFault::Answer(404, "404 page not found"),
        StoreErrorKind::NoSuchStore,
        &[],
    )
    .await;
}

#[tokio::test]
async fn the_error_of_a_wrong_name_or_region_is_no_such_store() {
    let kind = StoreErrorKind::NoSuchStore;
    let words = ["400 InvalidBucketName", "check the bucket's name"];
    every_call_fails(ServerFault::Answer(400, "InvalidBucketName"), kind, &words).await;
    let words = ["the bucket is in another region"];
    every_call_fails(ServerFault::Answer(301, "Moved"), kind, &words).await;
    every_call_fails(ServerFault::Answer(400, "IllegalLocationConstraintException"), kind, &words)
        .await;
}

#[tokio::test]
async fn the_message_of_an_error_without_a_code_contains_its_status() {
    let (server, store) = start().await;
    server.fault(ServerFault::Answer(403, ""));
    let error = store.list("app/", "", 1).await.expect_err("denied");
    assert_eq!(error.kind(), StoreErrorKind::AccessDenied);
    let words = error.to_string();
    assert!(words.contains(": 403: ordered by the test; listing needs"), "{words}");
}

#[tokio::test]
async fn the_error_of_a_wrong_region_names_the_right_region() {
    let words = ["301 PermanentRedirect", "region eu-central-1", "AWS_REGION=eu-central-1"];
    every_call_fails(ServerFault::WrongRegion("eu-central-1"), StoreErrorKind::NoSuchStore, &words)
        .await;
}

#[tokio::test]
async fn the_error_names_a_wrong_clock() {
    let fault = ServerFault::Answer(403, "RequestTimeTooSkewed");
    every_call_fails(fault, StoreErrorKind::AccessDenied, &["clock", "15 minutes"]).await;
}

#[tokio::test]
async fn refused_credentials_are_access_denied() {
    let kind = StoreErrorKind::AccessDenied;
    every_call_fails(ServerFault::AccessDenied, kind, &["403 AccessDenied", "needs s3:"]).await;
    for code in ["InvalidAccessKeyId", "SignatureDoesNotMatch"] {
        every_call_fails(ServerFault::Answer(403, code), kind, &[code, "credentials"]).await;
    }
    every_call_fails(ServerFault::Answer(400, "ExpiredToken"), kind, &["ExpiredToken"]).await;
    let server = S3Server::start().await;
    for client in
        [server.client_as("AKIANOBODY", SECRET_KEY), server.client_as(ACCESS_KEY, "another")]
    {
        let denied = S3Store::new(client, BUCKET).create(KEY, body("one")).await;
        expect(denied, kind, Determinacy::Determinate, &["check the credentials"]);
    }
    assert!(server.keys().is_empty());
}

#[tokio::test]
async fn the_error_names_a_missing_permission() {
    let server = S3Server::start().await;
    server.put_raw(KEY, "one");
    let etag = || ETag::new("\"0123\"");
    let kind = StoreErrorKind::AccessDenied;
    let denied = |op: Op| {
        let name = format!("AKIANO{op:?}");
        server.add_user(&name, "secret", &[op]);
        S3Store::new(server.client_as(&name, "secret"), BUCKET)
    };
    let list = denied(Op::List);
    expect(list.list("app/", "", 1).await, kind, Determinacy::Determinate, &["s3:ListBucket"]);
    found(list.get(KEY, None, MAX).await);
    let get = denied(Op::Get).get(KEY, None, MAX).await;
    expect(
        get,
        kind,
        Determinacy::Determinate,
        &["s3:GetObject", "without s3:ListBucket S3 also sends"],
    );
    let put = denied(Op::Put);
    expect(put.create(KEY, body("two")).await, kind, Determinacy::Determinate, &["s3:PutObject"]);
    expect(
        put.replace(KEY, body("two"), etag()).await,
        kind,
        Determinacy::Determinate,
        &["s3:PutObject"],
    );
    let delete = denied(Op::Delete).delete(vec![KEY.to_owned()]).await;
    expect(delete, kind, Determinacy::Determinate, &["s3:DeleteObject"]);
}

#[tokio::test]
async fn an_unexpected_owner_is_access_denied() {
    let server = S3Server::start().await;
    let store = server.store(BUCKET).with_expected_bucket_owner(OWNER);
    done(store.create(KEY, body("one")).await);
    let store = server.store(BUCKET).with_expected_bucket_owner("999999999999");
    let (kind, words) = (StoreErrorKind::AccessDenied, ["expected owner 999999999999"]);
    expect(store.list("app/", "", 1).await, kind, Determinacy::Determinate, &words);
    expect(store.get(KEY, None, MAX).await, kind, Determinacy::Determinate, &words);
    expect(store.create("new", body("")).await, kind, Determinacy::Determinate, &words);
    expect(store.delete(vec![KEY.to_owned()]).await, kind, Determinacy::Determinate, &words);
}

#[tokio::test]
async fn a_request_that_is_not_implemented_is_unsupported() {
    let fault = ServerFault::Answer(501, "NotImplemented");
    every_call_fails(fault, StoreErrorKind::Unsupported, &["501", "conditional writes"]).await;
}

/// A proxy may be unable to resolve the name of the server, or may require a password. Before the
/// fix, a service with an election ended permanently after such an error of the proxy.
#[tokio::test]
async fn regression_an_answer_of_a_proxy_is_not_a_permanent_error() {
    for (status, code) in
        [(400, ""), (405, ""), (407, "x"), (410, "x"), (411, ""), (413, ""), (451, "x"), (501, "")]
    {
        let (server, store) = start().await;
        server.fault(ServerFault::Answer(status, code));
        let created = store.create(KEY, body("one")).await;
        let kind = StoreErrorKind::NoSuchStore;
        expect(created, kind, Determinacy::Indeterminate, &["the endpoint and any proxy"]);
        let read = store.get(KEY, None, MAX).await;
        expect(read, kind, Determinacy::Determinate, &["the endpoint and any proxy"]);
    }
}

/// A server may support listings, but no conditional writes. So `S3Store` remembers for each kind
/// of request whether a request of this kind has succeeded.
#[tokio::test]
async fn a_kind_of_request_that_has_succeeded_is_supported() {
    let (server, store) = start().await;
    let (no, kind) = (Determinacy::Determinate, StoreErrorKind::Unsupported);
    let not_implemented = || server.fault(ServerFault::Answer(501, "NotImplemented"));
    done(store.create(KEY, body("one")).await);
    not_implemented();
    let created = store.create("app/new.json", body("one")).await;
    expect(created, StoreErrorKind::NoSuchStore, Determinacy::Indeterminate, &["any proxy"]);
    expect(store.replace(KEY, body("two"), ETag::new("\"0\"")).await, kind, no, &["501"]);
    expect(store.list("app/", "", 1).await, kind, no, &["501"]);
    server.clear_faults();
    store.list("app/", "", 1).await.unwrap();
    not_implemented();
    expect(store.list("app/", "", 1).await, StoreErrorKind::NoSuchStore, no, &["any proxy"]);
}

#[tokio::test]
async fn a_malformed_request_is_invalid() {
    for code in ["KeyTooLongError", "InvalidRequest"] {
        let fault = ServerFault::Answer(400, code);
        every_call_fails(fault, StoreErrorKind::Invalid, &["400", code]).await;
    }
}

#[tokio::test]
async fn an_access_point_without_order_or_consistency_is_refused_before_any_request() {
    let server = S3Server::start().await;
    for bucket in ["point.mrap", "app--use1-az4--xa-s3"] {
        let store = server.store(bucket);
        let (kind, words) = (StoreErrorKind::Unsupported, [bucket, "use the name of a bucket"]);
        expect(store.list("app/", "", 1).await, kind, Determinacy::Determinate, &words);
        expect(store.create(KEY, body("one")).await, kind, Determinacy::Determinate, &words);
    }
    assert!(server.requests().is_empty());
}
