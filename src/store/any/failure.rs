//! Determines the kind of a failed call, and whether its request may have taken effect.
//!
//! The error type of object_store reports 409 as "already exists" and omits the status of most
//! other responses. So this module reads the status and the code from the sources of the error.

use object_store::Error;

use super::AnyObjectStore;
use super::error_response::{ErrorResponse, chain};
#[cfg(any(feature = "azure", feature = "gcs"))]
use super::token::TokenError;
use crate::store::redact::printable;
use crate::store::request_context::{OF_A_PROXY, RequestContext, Verb, is_of_a_proxy};
use crate::store::{Determinacy, GetOutcome, PutOutcome, StoreError, StoreErrorKind};

/// Message with which object_store's clients report a response without an ETag.
const NO_ETAG: &str = "ETag Header missing from response";

/// Error codes with which a store reports that a bucket, container or account is missing.
const NO_STORE: [&str; 5] = [
    "NoSuchBucket",
    "InvalidBucketName",
    "ContainerNotFound",
    "ContainerBeingDeleted",
    "AccountNotFound",
];

/// Error codes with which a store reports an invalid or expired access token.
const REFUSED_TOKEN: [&str; 2] = ["AuthenticationFailed", "InvalidAuthenticationInfo"];

/// Returns the kind of the error and the remedy for some error codes of Azure. With one of these
/// codes, the status 409 or 412 does not mean that another process has written the object.
fn meaning(code: &str) -> Option<(StoreErrorKind, &'static str)> {
    match code {
        // Another program holds an Azure lease on the blob, and may release this lease at any time.
        "LeaseIdMissing" | "LeaseIdMismatchWithBlobOperation" | "LeaseLost" => Some((
            StoreErrorKind::Transient,
            "another program holds an Azure lease on this blob, which blocks all writes; wait, or \
             break that lease (`az storage blob lease break`)",
        )),
        code if code.starts_with("BlobImmutable") => Some((
            StoreErrorKind::Invalid,
            "the container has an immutability policy or a legal hold: use another container",
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
    /// Returns the outcome of a write for which the client returned an error. If the condition of
    /// the write did not hold, or if only the ETag is missing in the response, returns a
    /// [`PutOutcome`]. Otherwise returns an error.
    pub(super) fn write_failed(self, error: Error) -> Result<PutOutcome, StoreError> {
        let answer = ErrorResponse::of(&error);
        let (status, code) = answer.as_ref().map_or((0, ""), |answer| answer.pair());
        let refused = match (&error, self.verb) {
            // On S3 and Cloud Storage, the status 409 means a concurrent write, not an existing
            // key. On Azure, 409 with the code `BlobAlreadyExists` means an existing key.
            (Error::AlreadyExists { .. }, Verb::Create) => {
                (matches!(status, 0 | 412) && meaning(code).is_none())
                    || (status == 409 && code == "BlobAlreadyExists")
            }
            (Error::Precondition { .. }, _) => matches!(status, 0 | 412) && meaning(code).is_none(),
            _ => false,
        };
        // If the object to replace is missing, the S3 client returns the error `Precondition`.
        let missing = matches!(error, Error::NotFound { .. } | Error::Precondition { .. })
            && self.verb == Verb::Replace
            && matches!(status, 0 | 404)
            && !NO_STORE.contains(&code)
            && !is_web_page(answer.as_ref());
        // The write succeeded, but the response has no ETag of the written version.
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
        let of_a_proxy =
            is_of_a_proxy(status, code) || status == 404 && is_web_page(answer.as_ref());
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
        // If the client retries, it reports only the last attempt, and an earlier attempt may have
        // taken effect. If an error of the kind `Unsupported` or `Invalid` has no status, the
        // client has sent no request.
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
    /// Returns an error if the client had no access token, so it did not send the request.
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

/// Returns true if the request succeeded and its response has no ETag.
fn without_etag(error: &Error) -> bool {
    chain(error).any(|error| error.to_string() == NO_ETAG)
}

/// Returns true if the error means that the key is missing, and false if the bucket is missing or a
/// proxy sent the response.
pub(super) fn missing_key(error: &Error) -> bool {
    let answer = ErrorResponse::of(error);
    let code = answer.as_ref().map_or("", |answer| answer.pair().1);
    matches!(error, Error::NotFound { .. })
        && !NO_STORE.contains(&code)
        && !is_web_page(answer.as_ref())
}

/// Returns true if a proxy may have sent this response. A response of the service itself about a
/// missing key is XML with an error code.
fn is_web_page(answer: Option<&ErrorResponse>) -> bool {
    answer.is_some_and(|answer| answer.is_web_page)
}

/// Returns true if the client could not open a connection, so it did not send the request.
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
