//! Assertions about the answers and errors of a store.

use std::fmt::Debug;

use tenure::store::{
    Determinacy, ETag, GetOutcome, Object, PutOutcome, StoreError, StoreErrorKind,
};

/// Secret of the only user that the doubles of AWS's services know. No error may contain it.
pub const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

/// Returns the error. Panics unless it has this kind and this determinacy, and contains these
/// words.
#[track_caller]
pub fn expect<T: Debug>(
    result: Result<T, StoreError>,
    kind: StoreErrorKind,
    determinacy: Determinacy,
    words: &[&str],
) {
    let error = result.expect_err("this call fails");
    assert_eq!((error.kind(), error.determinacy()), (kind, determinacy), "{error:?}");
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "{word:?} is missing in: {message}");
    }
    assert!(!message.contains(SECRET_KEY), "{message}");
}

#[track_caller]
pub fn done(outcome: Result<PutOutcome, StoreError>) -> ETag {
    match outcome.expect("the write is answered") {
        PutOutcome::Done { etag: Some(etag) } => etag,
        other => panic!("not done: {other:?}"),
    }
}

#[track_caller]
pub fn found(outcome: Result<GetOutcome, StoreError>) -> Object {
    match outcome.expect("the read is answered") {
        GetOutcome::Found(object) => object,
        other => panic!("not found: {other:?}"),
    }
}
