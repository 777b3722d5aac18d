//! The meaning of a failed call: the kind of failure, and whether the request may have taken
//! effect.
//!
//! object_store's error type words 409 as "already exists" and drops the status of most other
//! answers. So the status and the code are read from the errors below it.

use object_store::Error;

use super::AnyObjectStore;
use super::error_response::{ErrorResponse, chain};
#[cfg(any(feature = "azure", feature = "gcs"))]
use super::token::TokenError;
use crate::store::redact::printable;
use crate::store::request_context::{OF_A_PROXY, RequestContext, Verb, is_of_a_proxy};
use crate::store::{Determinacy, GetOutcome, PutOutcome, StoreError, StoreErrorKind};

/// The text of object_store's clients for an answer without an ETag.
const NO_ETAG: &str = "ETag Header missing from response";

/// Codes for a missing bucket, container or account.
const NO_STORE: [&str; 5] = [
    "NoSuchBucket",
    "InvalidBucketName",
    "ContainerNotFound",
    "ContainerBeingDeleted",
    "AccountNotFound",
];

/// Codes for an access token that is invalid or has expired.
const REFUSED_TOKEN: [&str; 2] = ["AuthenticationFailed", "InvalidAuthenticationInfo"];

/// The kind and the remedy of Azure's own codes. A status of 409 or 412 alone says
/// that another writer was faster.
fn meaning(code: &str) -> Option<(StoreErrorKind, &'static str)> {
    match code {
        // Another program may release it at any time.
        "LeaseIdMissing" | "LeaseIdMismatchWithBlobOperation" | "LeaseLost" => Some((
            StoreErrorKind::Transient,
            "another program holds a lease on this blob, which tenure never takes; nobody can \
             write it until that lease ends or is broken (`az storage blob lease break`)",
        )),
        code if code.starts_with("BlobImmutable") => Some((
            StoreErrorKind::Invalid,
            "the container has an immutability policy or a legal hold: use one without",
        )),
        "BlobArchived" => Some((
            StoreErrorKind::Invalid,
            "the blob was moved to the archive tier: rehydrate it, and exclude the prefix from the \
             rule that moves blobs",
        )),
        _ => None,
    }
}

impl RequestContext<'_, AnyObjectStore> {
    /// A refused condition is a value; anything else is an error.
    pub(super) fn write_failed(self, error: Error) -> Result<PutOutcome, StoreError> {
        let answer = ErrorResponse::of(&error);
        let (status, code) = answer.as_ref().map_or((0, ""), |answer| answer.pair());
        let refused = match (&error, self.verb) {
            // On S3 and Cloud Storage 409 means that another process was writing, not that the key
            // exists. On Azure it means the key, and only with this code.
            (Error::AlreadyExists { .. }, Verb::Create) => {
                (matches!(status, 0 | 412) && meaning(code).is_none())
                    || (status == 409 && code == "BlobAlreadyExists")
            }
            (Error::Precondition { .. }, _) => matches!(status, 0 | 412) && meaning(code).is_none(),
            _ => false,
        };
        // The client of S3 calls the replacement of a missing object a failed precondition.
        let missing = matches!(error, Error::NotFound { .. } | Error::Precondition { .. })
            && self.verb == Verb::Replace
            && matches!(status, 0 | 404)
            && !NO_STORE.contains(&code);
        // The status was 2xx, but the writer of the current version is unknown.
        if without_etag(&error) {
            return Ok(PutOutcome::Done { etag: None });
        }
        match (refused, missing) {
            (true, _) => Ok(PutOutcome::PreconditionFailed),
            (_, true) => Ok(PutOutcome::NotFound),
            _ => Err(self.failed(&error)),
        }
    }

    pub(super) fn read_failed(self, error: Error) -> Result<GetOutcome, StoreError> {
        match error {
            Error::NotModified { .. } => Ok(GetOutcome::NotModified),
            error if missing_key(&error) => Ok(GetOutcome::NotFound),
            error => Err(self.failed(&error)),
        }
    }

    pub(super) fn failed(self, error: &Error) -> StoreError {
        use StoreErrorKind::{AccessDenied, Invalid, NoSuchStore, Transient, Unsupported};
        if let Some(failed) = self.without_token(error) {
            return failed;
        }
        let answer = ErrorResponse::of(error);
        let (status, code) = answer.as_ref().map_or((0, ""), |answer| answer.pair());
        if status == 401 || REFUSED_TOKEN.contains(&code) {
            self.store.forget_token();
        }
        let meant = meaning(code);
        let of_a_proxy = is_of_a_proxy(status, code);
        let (kind, determinacy) = match (error, status) {
            _ if let Some((kind, _)) = meant => (kind, Determinacy::Determinate),
            (Error::PermissionDenied { .. } | Error::Unauthenticated { .. }, _)
            | (_, 401 | 403) => (AccessDenied, Determinacy::Determinate),
            _ if of_a_proxy => (NoSuchStore, self.maybe()),
            (Error::NotImplemented { .. } | Error::NotSupported { .. }, _) | (_, 405 | 501) => {
                (Unsupported, Determinacy::Determinate)
            }
            (Error::InvalidPath { .. } | Error::UnknownConfigurationKey { .. }, _) => {
                (Invalid, Determinacy::Determinate)
            }
            _ if without_etag(error) => (Unsupported, self.maybe()),
            _ if NO_STORE.contains(&code) => (NoSuchStore, Determinacy::Determinate),
            (Error::NotFound { .. }, _) | (_, 301 | 302 | 308 | 404) => {
                (NoSuchStore, Determinacy::Determinate)
            }
            (_, 408 | 409 | 412 | 425 | 429) => (Transient, self.maybe()),
            (_, 400..=499) => (Invalid, Determinacy::Determinate),
            _ if never_connected(error) => (Transient, Determinacy::Determinate),
            _ => (Transient, self.maybe()),
        };
        // An earlier attempt of the client may have taken effect. An error without a request has no
        // status. A missing ETag has one meaning with and without retries.
        let unsent = matches!((kind, status), (Unsupported | Invalid, 0));
        let determinacy = if self.store.sent_once || unsent { determinacy } else { self.maybe() };
        let why = match (&answer, meant) {
            (Some(answer), Some((_, advice))) => format!("{}; {advice}", answer.words()),
            (Some(answer), None) if of_a_proxy => format!("{}; {OF_A_PROXY}", answer.words()),
            (Some(answer), None) => answer.words(),
            (None, _) => printable(&error.to_string()),
        };
        self.error(kind, determinacy, &why)
    }
}

#[cfg(any(feature = "azure", feature = "gcs"))]
impl RequestContext<'_, AnyObjectStore> {
    /// The failure of a request that was not sent, as there was no access token.
    fn without_token(self, error: &Error) -> Option<StoreError> {
        let error = chain(error).find_map(|error| error.downcast_ref::<TokenError>())?;
        let kind = match error.refused {
            true => StoreErrorKind::AccessDenied,
            false => StoreErrorKind::Transient,
        };
        let failed = self.error(kind, Determinacy::Determinate, &error.to_string());
        Some(if error.refused { failed.of_the_machine() } else { failed })
    }
}

#[cfg(not(any(feature = "azure", feature = "gcs")))]
impl RequestContext<'_, AnyObjectStore> {
    fn without_token(self, _: &Error) -> Option<StoreError> {
        None
    }
}

/// Returns whether the request succeeded and its answer lacks the ETag.
fn without_etag(error: &Error) -> bool {
    chain(error).any(|error| error.to_string() == NO_ETAG)
}

/// Returns whether only the key is missing, and not the bucket.
pub(super) fn missing_key(error: &Error) -> bool {
    let code = || ErrorResponse::of(error).map(|answer| answer.code).unwrap_or_default();
    matches!(error, Error::NotFound { .. }) && !NO_STORE.contains(&&*code())
}

/// Returns whether the request was not sent, as there was no connection.
#[cfg(feature = "cloud")]
fn never_connected(error: &Error) -> bool {
    use object_store::client::{HttpError, HttpErrorKind};
    let mut errors = chain(error).filter_map(|error| error.downcast_ref::<HttpError>());
    errors.any(|error| error.kind() == HttpErrorKind::Connect)
}

#[cfg(not(feature = "cloud"))]
fn never_connected(_: &Error) -> bool {
    false
}
