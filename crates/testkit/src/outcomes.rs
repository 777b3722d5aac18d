//! Assertions about the outcomes and errors of a store.

use std::fmt::Debug;

use tenure::store::{
    Determinacy, ETag, GetOutcome, Object, PutOutcome, StoreError, StoreErrorKind,
};

/// Secret key of the first user of the test servers for S3 and DynamoDB. No error may contain this
/// key.
pub const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// Panics unless the result is an error with this kind, this determinacy and these words in its
/// text.
#[track_caller]
pub fn expect<T: Debug>(
    result: Result<T, StoreError>,
    kind: StoreErrorKind,
    determinacy: Determinacy,
    words: &[&str],
) {
    let error = result.expect_err("the call must fail");
    assert_eq!((error.kind(), error.determinacy()), (kind, determinacy), "{error:?}");
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "{word:?} is missing in: {message}");
    }
    assert!(!message.contains(SECRET_KEY), "{message}");
}

#[track_caller]
pub fn done(outcome: Result<PutOutcome, StoreError>) -> ETag {
    match outcome.expect("the write returns an outcome") {
        PutOutcome::Done { etag: Some(etag) } => etag,
        other => panic!("not done: {other:?}"),
    }
}

#[track_caller]
pub fn found(outcome: Result<GetOutcome, StoreError>) -> Object {
    match outcome.expect("the read returns an outcome") {
        GetOutcome::Found(object) => object,
        other => panic!("not found: {other:?}"),
    }
}
