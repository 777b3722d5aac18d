//! Classifies a failed call: the kind of the failure, whether the request may have taken effect,
//! and the remedy.

use std::error::Error as StdError;
use std::fmt::Write as _;

use aws_sdk_s3::error::ProvideErrorMetadata;
use aws_sdk_s3::types::Error as KeyError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ServiceError;

use super::{Determinacy, S3Store, StoreError, StoreErrorKind, directory_bucket};
use crate::store::aws::CallInterceptor;
use crate::store::aws::failure::{Service, reason};
use crate::store::redact::printable;
use crate::store::request_context::{OF_A_PROXY, RequestContext, Verb, is_of_a_proxy};

/// Codes of transient failures. Some have the status 400.
const PASSING: [&str; 5] =
    ["SlowDown", "RequestTimeout", "IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch"];

/// Codes of responses for a bucket in another region.
const ELSEWHERE: [&str; 4] = [
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "IncorrectEndpoint",
];

/// Codes of credential errors. Some have the status 400.
const CREDENTIALS: [&str; 5] =
    ["ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId", "NotSignedUp"];

/// Codes of credential errors that new credentials may resolve.
const REJECTED: [&str; 3] = ["InvalidToken", "InvalidAccessKeyId", "SignatureDoesNotMatch"];

/// Returns a key that `DeleteObjects` did not delete, and the reason.
pub(super) fn of_key(error: &KeyError) -> (String, StoreError) {
    let code = error.code().unwrap_or("no code");
    let mut why = code.to_owned();
    if let Some(message) = error.message().filter(|message| !message.is_empty()) {
        let _ = write!(why, ": {}", printable(message));
    }
    let kind = match code {
        "AccessDenied" => StoreErrorKind::AccessDenied,
        _ => StoreErrorKind::Transient,
    };
    if kind == StoreErrorKind::AccessDenied {
        let _ = write!(why, "; {}", needs(Verb::Delete));
    }
    let error_of_key = StoreError::new(kind, Determinacy::Determinate, why);
    (error.key().unwrap_or_default().to_owned(), error_of_key)
}

/// Names the permission that the request needs.
fn needs(verb: Verb) -> &'static str {
    match verb {
        Verb::List => "listing needs s3:ListBucket on the bucket",
        Verb::Get => {
            "reading needs s3:GetObject; without s3:ListBucket S3 also sends this response for a \
             missing key"
        }
        // A write with `If-Match` also needs `s3:GetObject`.
        Verb::Replace => "replacing needs s3:PutObject and s3:GetObject",
        Verb::Delete => "deleting needs s3:DeleteObject",
        Verb::Settings => {
            "reading the bucket's settings needs s3:GetBucketVersioning and \
             s3:GetLifecycleConfiguration"
        }
        _ => "writing needs s3:PutObject",
    }
}

/// Names the permission on the KMS key that the request needs.
fn kms_permission(verb: Verb) -> &'static str {
    match verb {
        Verb::Get => "reading also needs kms:Decrypt on the key",
        _ => "writing also needs kms:GenerateDataKey on the key",
    }
}

impl Service for S3Store {
    const WRONG_ENDPOINT: &'static str = "check that the endpoint is an S3 API";

    fn has_answered(&self) -> bool {
        self.session.has_answered()
    }

    fn refused<E: ProvideErrorMetadata>(
        request: RequestContext<'_, S3Store>,
        answer: &ServiceError<E, HttpResponse>,
        seen: &CallInterceptor,
    ) -> StoreError {
        S3Store::refusal(request, answer, seen, false)
    }

    fn without_session(
        request: RequestContext<'_, S3Store>,
        error: &(dyn StdError + 'static),
    ) -> Option<StoreError> {
        directory_bucket::without_session(request, error)
    }
}

impl S3Store {
    /// Returns the error for an error response to this request, or to the request for its session.
    pub(super) fn refusal<E: ProvideErrorMetadata>(
        request: RequestContext<'_, S3Store>,
        answer: &ServiceError<E, HttpResponse>,
        seen: &CallInterceptor,
        of_session: bool,
    ) -> StoreError {
        let raw = answer.raw();
        let (status, code) = (raw.status().as_u16(), answer.err().code().unwrap_or_default());
        let nonsense = raw.status().is_success() && code.is_empty();
        if nonsense && (seen.html() || !is_xml(raw)) {
            return request.web_page();
        }
        let mut why = reason(answer, if nonsense { ", but the response is invalid" } else { "" });
        if seen.html() && code.is_empty() {
            why.push_str(" (a web page, not a response of S3)");
        }
        if !of_session && request.store.session_ended(code) {
            let why = format!("{why}; the next request creates a new session");
            return request.error(StoreErrorKind::Transient, Determinacy::Determinate, &why);
        }
        let region = region(raw);
        let (kind, determinacy, mut advice) = request.meaning(status, code, region.as_deref());
        // S3 calls KMS with the caller's identity, and forwards the refusal of KMS.
        if kind == StoreErrorKind::AccessDenied && why.contains("kms:") {
            advice = kms_permission(request.verb).to_owned();
        }
        if !advice.is_empty() {
            let _ = write!(why, "; {advice}");
        }
        request.error(kind, determinacy, &why)
    }
}

impl RequestContext<'_, S3Store> {
    /// Returns the kind, the determinacy and the remedy for a status and a code.
    fn meaning(
        self,
        status: u16,
        code: &str,
        region: Option<&str>,
    ) -> (StoreErrorKind, Determinacy, String) {
        use StoreErrorKind::{AccessDenied, Invalid, NoSuchStore, Transient, Unsupported};
        let no = |kind, advice: &str| (kind, Determinacy::Determinate, advice.to_owned());
        let unknown = (Transient, self.maybe(), String::new());
        match (status, code) {
            // With status 200, a write may have taken effect even if the body contains an error.
            // 409 means a concurrent write, not an existing key (E20).
            (200..=299 | 409, _) => unknown,
            (_, code) if PASSING.contains(&code) || code.contains("Throttl") => unknown,
            (_, "NoSuchBucket" | "InvalidBucketName") => {
                no(NoSuchStore, "check the bucket's name and the endpoint")
            }
            (_, "RequestTimeTooSkewed") => {
                no(AccessDenied, "this machine's clock is wrong by more than 15 minutes; set it")
            }
            (_, "AuthorizationHeaderMalformed") if region.is_none() => {
                no(AccessDenied, "check the credentials and the region")
            }
            (_, code) if ELSEWHERE.contains(&code) => no(NoSuchStore, &elsewhere(region)),
            (301 | 302 | 308, _) => no(NoSuchStore, &elsewhere(region)),
            // For some hours after the creation of a bucket, S3 redirects requests to this bucket.
            (307, _) => (Transient, self.maybe(), elsewhere(region)),
            (400, code) if code.starts_with("KMS.") => {
                no(Invalid, "check the KMS key of the bucket or of this store")
            }
            (status, code)
                if is_of_a_proxy(status, code)
                    || matches!(status, 405 | 501) && self.store.has_done(self.verb) =>
            {
                (NoSuchStore, self.maybe(), OF_A_PROXY.to_owned())
            }
            (405 | 501, _) | (_, "NotImplemented") => no(
                Unsupported,
                "the store does not support this request; use a store with \
                                 conditional writes",
            ),
            (304 | 408 | 425 | 429 | 500.., _) => unknown,
            (_, "ExpiredToken" | "TokenRefreshRequired") if self.store.session.expired() => {
                no(Transient, "the next request fetches new credentials")
            }
            (_, code) if REJECTED.contains(&code) && self.store.session.rejected() => {
                no(Transient, "the next request fetches new credentials")
            }
            (_, "InvalidObjectState") => no(
                Invalid,
                "the object was moved to an archive: restore it, and exclude the prefix from the \
                 lifecycle rule that moves objects",
            ),
            (_, "AccessDenied") | (401 | 403, "") => {
                no(AccessDenied, &format!("{}{}", self.needs(), self.owner_advice()))
            }
            (_, code) if status == 401 || status == 403 || CREDENTIALS.contains(&code) => {
                no(AccessDenied, &format!("check the credentials; {}", self.needs()))
            }
            (404, _) => no(NoSuchStore, "check the bucket's name and the endpoint"),
            _ => no(Invalid, ""),
        }
    }

    fn needs(self) -> &'static str {
        match self.verb {
            Verb::Settings if self.store.is_directory_bucket() => {
                "reading the bucket's rules needs s3express:GetLifecycleConfiguration"
            }
            _ if self.store.is_directory_bucket() => {
                "a directory bucket needs s3express:CreateSession, with the mode ReadWrite for \
                 writing and deleting"
            }
            verb => needs(verb),
        }
    }

    fn owner_advice(self) -> String {
        let owner = self.store.owner.as_ref();
        owner.map_or_else(String::new, |owner| {
            format!(", and the bucket must belong to the expected owner {owner}")
        })
    }
}

fn elsewhere(region: Option<&str>) -> String {
    match region {
        Some(region) => format!("the bucket is in the region {region}; set AWS_REGION={region}"),
        None => "the bucket is in another region; check the region and the endpoint".to_owned(),
    }
}

/// Returns the region that the response names in a header, or in the element `Region` of its body.
fn region(raw: &HttpResponse) -> Option<String> {
    if let Some(region) = raw.headers().get("x-amz-bucket-region") {
        return Some(printable(region));
    }
    let body = std::str::from_utf8(raw.body().bytes()?).ok()?;
    let (_, rest) = body.split_once("<Region>")?;
    let (region, _) = rest.split_once("</Region>")?;
    (region.len() <= 40).then(|| printable(region))
}

/// Returns true if the body is empty, or starts like a response of S3.
fn is_xml(raw: &HttpResponse) -> bool {
    let body = raw.body().bytes().unwrap_or_default().trim_ascii_start();
    body.is_empty()
        || [&b"<?xml"[..], b"<ListBucketResult", b"<DeleteResult", b"<Error"]
            .iter()
            .any(|start| body.starts_with(start))
}

#[cfg(test)]
mod tests {
    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;

    use super::*;

    /// S3 sends the code `AuthorizationHeaderMalformed` for invalid credentials and for a wrong
    /// region. Only in the second case does the response name a region.
    #[test]
    fn a_malformed_authorization_is_classified_by_its_region() {
        let settings = aws_sdk_s3::Config::builder().behavior_version_latest().build();
        let store = S3Store::new(aws_sdk_s3::Client::from_conf(settings), "box");
        let meaning = |region| {
            RequestContext::new(&store, Verb::Get, "k").meaning(
                400,
                "AuthorizationHeaderMalformed",
                region,
            )
        };
        let (kind, _, advice) = meaning(None);
        assert_eq!(kind, StoreErrorKind::AccessDenied, "{advice}");
        let (kind, _, advice) = meaning(Some("eu-west-3"));
        assert_eq!(kind, StoreErrorKind::NoSuchStore, "{advice}");
        assert!(advice.contains("AWS_REGION=eu-west-3"), "{advice}");
    }

    #[test]
    fn the_region_is_read_from_the_header_or_the_body() {
        let status = StatusCode::try_from(400).unwrap();
        let answer = |body: &'static str| HttpResponse::new(status, SdkBody::from(body));
        let body = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region>";
        assert_eq!(region(&answer(body)).as_deref(), Some("eu-west-3"));
        let mut with_header = answer(body);
        with_header.headers_mut().insert("x-amz-bucket-region", "us-west-2");
        assert_eq!(region(&with_header).as_deref(), Some("us-west-2"));
        assert_eq!(region(&answer("<Error><Region>")), None);
    }
}
