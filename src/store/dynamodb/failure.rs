//! Classifies a failed call: the kind of the failure, whether the request may have taken effect,
//! and the remedy.

use std::error::Error as StdError;
use std::fmt::Write as _;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ServiceError;

use super::DynamoStore;
use crate::store::aws::CallInterceptor;
use crate::store::aws::failure::{Service, UNREADABLE, reason};
use crate::store::request_context::{OF_A_PROXY, RequestContext, Verb, is_of_a_proxy};
use crate::store::{Determinacy, StoreError, StoreErrorKind};

/// Codes of requests that DynamoDB rejected without any effect.
const TURNED_AWAY: [&str; 4] = [
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "LimitExceededException",
];

/// Codes of errors that concurrent writes cause. Such an error does not show whether the condition
/// of the write held.
const CONFLICTS: [&str; 3] = [
    "TransactionConflictException",
    "TransactionInProgressException",
    "ReplicatedWriteConflictException",
];

/// Codes of credential errors. Most have the status 400.
const CREDENTIALS: [&str; 7] = [
    "UnrecognizedClientException",
    "InvalidSignatureException",
    "IncompleteSignatureException",
    "MissingAuthenticationTokenException",
    "MissingAuthenticationToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
];

/// Codes of credential errors that new credentials may resolve.
const REJECTED: [&str; 3] =
    ["UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException"];

/// Names the permission that the request needs.
fn needs(verb: Verb) -> &'static str {
    match verb {
        Verb::List => "listing needs dynamodb:Query on the table",
        Verb::Get => "reading needs dynamodb:GetItem",
        Verb::Delete => "deleting needs dynamodb:BatchWriteItem",
        Verb::Describe => "describing the table needs dynamodb:DescribeTable",
        Verb::CreateTable => "creating the table needs dynamodb:CreateTable",
        _ => "writing needs dynamodb:PutItem",
    }
}

impl Service for DynamoStore {
    const WRONG_ENDPOINT: &'static str = "check that the endpoint is DynamoDB";

    fn has_answered(&self) -> bool {
        self.looked.initialized()
    }

    fn refused<E: ProvideErrorMetadata>(
        request: RequestContext<'_, DynamoStore>,
        answer: &ServiceError<E, HttpResponse>,
        seen: &CallInterceptor,
    ) -> StoreError {
        if seen.html() {
            return request.web_page();
        }
        let (status, error) = (answer.raw().status().as_u16(), answer.err());
        let (code, said) = (error.code().unwrap_or_default(), error.message().unwrap_or_default());
        let mut why = reason(answer, "");
        let (kind, determinacy, advice) = request.meaning(status, code, said);
        if !advice.is_empty() {
            let _ = write!(why, "; {advice}");
        }
        request.error(kind, determinacy, &why)
    }

    fn unreadable(request: RequestContext<'_, DynamoStore>, seen: &CallInterceptor) -> StoreError {
        match seen.html() {
            true => request.web_page(),
            false => request.transient(UNREADABLE),
        }
    }
}

impl RequestContext<'_, DynamoStore> {
    /// Returns the output of a call, or its error. The SDK parses an empty body as a success, even
    /// if a proxy has sent it. So a success counts only if the response has the headers of
    /// DynamoDB.
    pub(super) fn output<T, E>(
        self,
        output: Result<T, SdkError<E, HttpResponse>>,
        seen: &CallInterceptor,
    ) -> Result<T, StoreError>
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        match output {
            Ok(_) if !seen.is_of_dynamodb() => Err(DynamoStore::unreadable(self, seen)),
            Ok(output) => Ok(output),
            Err(error) => Err(self.failed(&error, seen)),
        }
    }

    /// Returns the kind, the determinacy and the remedy for a status and a code.
    fn meaning(
        self,
        status: u16,
        code: &str,
        said: &str,
    ) -> (StoreErrorKind, Determinacy, &'static str) {
        use StoreErrorKind::{AccessDenied, Invalid, NoSuchStore, Transient, Unsupported};
        let no = |kind, advice| (kind, Determinacy::Determinate, advice);
        let unknown = (Transient, self.maybe(), "");
        match (status, code) {
            (_, code) if TURNED_AWAY.contains(&code) => no(Transient, ""),
            (_, code) if CONFLICTS.contains(&code) => unknown,
            (404, "") => (NoSuchStore, self.maybe(), OF_A_PROXY),
            (status, code) if is_of_a_proxy(status, code) => {
                (NoSuchStore, self.maybe(), OF_A_PROXY)
            }
            (501, _) | (_, "UnknownOperationException") => {
                no(Unsupported, DynamoStore::WRONG_ENDPOINT)
            }
            (200..=299 | 408 | 409 | 429 | 500.., _) => unknown,
            (_, "ResourceNotFoundException") => no(
                NoSuchStore,
                "the table does not exist in this region; `tenure table create` creates it",
            ),
            (_, "ResourceInUseException") => no(Transient, "the table is being changed"),
            (_, "InvalidSignatureException") if said.contains("expired") => {
                no(AccessDenied, "this machine's clock is wrong by minutes; set it")
            }
            (_, "ExpiredTokenException") if self.store.session.expired() => {
                no(Transient, "the next request fetches new credentials")
            }
            (_, code) if REJECTED.contains(&code) && self.store.session.rejected() => {
                no(Transient, "the next request fetches new credentials")
            }
            (_, code) if CREDENTIALS.contains(&code) => {
                no(AccessDenied, "check the credentials and the region")
            }
            (_, "AccessDeniedException") | (401 | 403, _) => no(AccessDenied, needs(self.verb)),
            (404 | 405, _) => no(Unsupported, DynamoStore::WRONG_ENDPOINT),
            (_, "ValidationException") if said.contains("does not match the schema") => {
                no(Invalid, super::table::EXPECTED)
            }
            _ => no(Invalid, ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_dynamodb::operation::get_item::GetItemError;
    use aws_smithy_runtime_api::http::StatusCode;
    use aws_smithy_types::body::SdkBody;

    use super::*;

    fn store() -> DynamoStore {
        let settings = aws_sdk_dynamodb::Config::builder().behavior_version_latest().build();
        DynamoStore::new(aws_sdk_dynamodb::Client::from_conf(settings), "table")
    }

    #[test]
    fn each_status_and_code_has_a_kind_and_a_remedy() {
        use StoreErrorKind::{AccessDenied, Invalid, NoSuchStore, Transient};
        let store = store();
        let invalid_signature = "InvalidSignatureException";
        for (status, code, said, kind, words) in [
            (400, "ResourceInUseException", "", Transient, "being changed"),
            (400, invalid_signature, "Signature expired: 20261122T1", AccessDenied, "clock"),
            (400, invalid_signature, "does not match", AccessDenied, "check the credentials"),
            (401, "", "", AccessDenied, "dynamodb:PutItem"),
            (400, "SerializationException", "", Invalid, ""),
            (404, "", "", NoSuchStore, OF_A_PROXY),
            (405, "", "", NoSuchStore, OF_A_PROXY),
            (407, "", "", NoSuchStore, OF_A_PROXY),
            (501, "", "", NoSuchStore, OF_A_PROXY),
        ] {
            let (meant, determinacy, advice) =
                RequestContext::new(&store, Verb::Create, "a/b").meaning(status, code, said);
            // A proxy may forward the request and then send this response, so the write may have
            // taken effect.
            let expected = match kind {
                NoSuchStore => Determinacy::Indeterminate,
                _ => Determinacy::Determinate,
            };
            assert_eq!((meant, determinacy), (kind, expected), "{status} {code} {said}");
            assert!(advice.contains(words), "{status} {code}: {advice}");
        }
    }

    #[test]
    fn an_invalid_response_is_not_a_broken_connection() {
        let status = StatusCode::try_from(200).expect("a status");
        let raw = HttpResponse::new(status, SdkBody::from("{"));
        let error = SdkError::<GetItemError, HttpResponse>::response_error("no JSON", raw);
        let (store, seen) = (store(), CallInterceptor::default());
        let error = RequestContext::new(&store, Verb::Create, "a/b").failed(&error, &seen);
        assert_eq!(
            (error.kind(), error.determinacy()),
            (StoreErrorKind::Transient, Determinacy::Indeterminate)
        );
        assert!(error.to_string().contains("broke off or is invalid"), "{error}");
    }
}
