//! What a failed call means: what kind of failure, whether the request may have taken effect, and
//! what to do about it.

use std::error::Error as StdError;
use std::fmt::Write as _;

use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::ServiceError;

use super::DynamoStore;
use crate::store::aws::Witness;
use crate::store::aws::words::{self, causes, never_connected};
use crate::store::words::printable;
use crate::store::{Happened, StoreError, StoreErrorKind};

/// What was asked of a store, for its errors.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    store: &'a DynamoStore,
    verb: Verb,
    /// The key, or the prefix of a listing.
    key: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    List,
    Get,
    Create,
    Replace,
    Delete,
    Describe,
    CreateTable,
}

/// Codes of requests that were turned away before anything of them was done.
const TURNED_AWAY: [&str; 4] = [
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "RequestLimitExceeded",
    "LimitExceededException",
];

/// Codes of somebody else's write at the same time: no answer to whether the condition held.
const CONFLICTS: [&str; 3] = [
    "TransactionConflictException",
    "TransactionInProgressException",
    "ReplicatedWriteConflictException",
];

/// Codes that speak of the credentials, most of them with a status of 400.
const CREDENTIALS: [&str; 7] = [
    "UnrecognizedClientException",
    "InvalidSignatureException",
    "IncompleteSignatureException",
    "MissingAuthenticationTokenException",
    "MissingAuthenticationToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
];

const WRONG_SERVICE: &str = "is the endpoint a DynamoDB?";

/// DynamoDB's code of an answer that is no success.
pub(super) fn code<E: ProvideErrorMetadata>(error: &SdkError<E, HttpResponse>) -> Option<&str> {
    let SdkError::ServiceError(answer) = error else { return None };
    answer.err().code()
}

impl Verb {
    fn changes(self) -> bool {
        !matches!(self, Verb::List | Verb::Get | Verb::Describe)
    }

    /// The permission that the request needs.
    fn needs(self) -> &'static str {
        match self {
            Verb::List => "listing needs dynamodb:Query on the table",
            Verb::Get => "reading needs dynamodb:GetItem",
            Verb::Create | Verb::Replace => "writing needs dynamodb:PutItem",
            Verb::Delete => "deleting needs dynamodb:BatchWriteItem",
            Verb::Describe => "looking at the table needs dynamodb:DescribeTable",
            Verb::CreateTable => "creating the table needs dynamodb:CreateTable",
        }
    }
}

impl<'a> Asked<'a> {
    pub(super) fn of(store: &'a DynamoStore, verb: Verb, key: &'a str) -> Asked<'a> {
        Asked { store, verb, key }
    }

    /// The SDK's error in the crate's words. The error itself is left behind: its `Debug` shows
    /// whole requests and answers.
    pub(super) fn failed<E>(self, error: &SdkError<E, HttpResponse>, seen: &Witness) -> StoreError
    where
        E: ProvideErrorMetadata + StdError + 'static,
    {
        match error {
            SdkError::ServiceError(_) | SdkError::ResponseError(_) if seen.html() => {
                self.web_page()
            }
            SdkError::ServiceError(answer) => self.refused(answer),
            SdkError::ResponseError(_) => self.transient("its answer broke off or made no sense"),
            _ if !seen.sent() => {
                let (kind, advice) = words::not_sent(error);
                self.error(kind, Happened::No, &format!("{advice} ({})", causes(error)))
            }
            _ if never_connected(error) => {
                let message = format!("no connection: {}", causes(error));
                self.error(StoreErrorKind::Transient, Happened::No, &message)
            }
            SdkError::TimeoutError(_) => self.transient("no answer in time"),
            _ => self.transient(&format!("the connection broke: {}", causes(error))),
        }
    }

    pub(super) fn transient(self, why: &str) -> StoreError {
        self.error(StoreErrorKind::Transient, self.maybe(), why)
    }

    pub(super) fn unsupported(self, why: &str) -> StoreError {
        self.error(StoreErrorKind::Unsupported, self.maybe(), why)
    }

    pub(super) fn invalid(self, why: &str) -> StoreError {
        self.error(StoreErrorKind::Invalid, Happened::No, why)
    }

    /// From the wrong server before the table was seen, and after that from a proxy or login page
    /// that is in between for a while.
    fn web_page(self) -> StoreError {
        let (kind, advice) = if self.store.looked.initialized() {
            (StoreErrorKind::Transient, "is a proxy or a login page in between?")
        } else {
            (StoreErrorKind::Unsupported, WRONG_SERVICE)
        };
        self.error(kind, self.maybe(), &format!("it answered with a web page; {advice}"))
    }

    /// A write that came as far as the network may have taken effect; a read has no effect.
    fn maybe(self) -> Happened {
        if self.verb.changes() { Happened::Maybe } else { Happened::No }
    }

    fn error(self, kind: StoreErrorKind, happened: Happened, why: &str) -> StoreError {
        let (key, at) = (self.key, self.store.at());
        let what = match self.verb {
            Verb::List => format!("listing {key:?} in {at}"),
            Verb::Get => format!("reading {key:?} from {at}"),
            Verb::Create => format!("creating {key:?} in {at}"),
            Verb::Replace => format!("replacing {key:?} in {at}"),
            Verb::Delete => format!("deleting from {at}"),
            Verb::Describe => format!("looking at the table of {at}"),
            Verb::CreateTable => format!("creating the table of {at}"),
        };
        StoreError::new(kind, happened, format!("{what}: {why}"))
    }

    /// An answer that is no success.
    fn refused<E: ProvideErrorMetadata>(
        self,
        answer: &ServiceError<E, HttpResponse>,
    ) -> StoreError {
        let status = answer.raw().status().as_u16();
        let code = answer.err().code().unwrap_or_default();
        let said = answer.err().message().unwrap_or_default();
        let mut why = format!("{status} {code}").trim_end().to_owned();
        if !said.is_empty() {
            let _ = write!(why, ": {}", printable(said));
        }
        let (kind, happened, advice) = self.meaning(status, code, said);
        if !advice.is_empty() {
            let _ = write!(why, "; {advice}");
        }
        self.error(kind, happened, &why)
    }

    /// What a status and a code mean, and what to do then.
    fn meaning(
        self,
        status: u16,
        code: &str,
        said: &str,
    ) -> (StoreErrorKind, Happened, &'static str) {
        use StoreErrorKind::{AccessDenied, Invalid, NoSuchStore, Transient, Unsupported};
        let no = |kind, advice| (kind, Happened::No, advice);
        let unknown = (Transient, self.maybe(), "");
        match (status, code) {
            (_, code) if TURNED_AWAY.contains(&code) => no(Transient, ""),
            (_, code) if CONFLICTS.contains(&code) => unknown,
            (501, _) | (_, "UnknownOperationException") => no(Unsupported, WRONG_SERVICE),
            (200..=299 | 408 | 409 | 429 | 500.., _) => unknown,
            (_, "ResourceNotFoundException") => no(
                NoSuchStore,
                "there is no such table in this region; `tenure table create` makes it",
            ),
            (_, "ResourceInUseException") => no(Transient, "the table is being changed"),
            (_, "InvalidSignatureException") if said.contains("expired") => {
                no(Invalid, "this machine's clock is wrong by minutes; set it")
            }
            (_, "ExpiredTokenException") if self.store.expired() => {
                no(Transient, "others are fetched with the next request")
            }
            (_, code) if CREDENTIALS.contains(&code) => {
                no(AccessDenied, "check the credentials and the region")
            }
            (_, "AccessDeniedException") | (401 | 403, _) => no(AccessDenied, self.verb.needs()),
            (404 | 405, _) => no(Unsupported, WRONG_SERVICE),
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
    fn each_answer_has_its_meaning() {
        use StoreErrorKind::{AccessDenied, Invalid, Transient, Unsupported};
        let store = store();
        let invalid_signature = "InvalidSignatureException";
        for (status, code, said, kind, words) in [
            (400, "ResourceInUseException", "", Transient, "being changed"),
            (400, invalid_signature, "Signature expired: 20261122T1", Invalid, "clock"),
            (400, invalid_signature, "does not match", AccessDenied, "check the credentials"),
            (404, "", "", Unsupported, WRONG_SERVICE),
            (405, "", "", Unsupported, WRONG_SERVICE),
            (401, "", "", AccessDenied, "dynamodb:PutItem"),
            (400, "", "", Invalid, ""),
        ] {
            let (meant, happened, advice) =
                Asked::of(&store, Verb::Create, "a/b").meaning(status, code, said);
            assert_eq!((meant, happened), (kind, Happened::No), "{status} {code} {said}");
            assert!(advice.contains(words), "{status} {code}: {advice}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_no_broken_connection() {
        let status = StatusCode::try_from(200).expect("a status");
        let raw = HttpResponse::new(status, SdkBody::from("{"));
        let error = SdkError::<GetItemError, HttpResponse>::response_error("no JSON", raw);
        let (store, seen) = (store(), Witness::default());
        let error = Asked::of(&store, Verb::Create, "a/b").failed(&error, &seen);
        assert_eq!((error.kind(), error.happened()), (StoreErrorKind::Transient, Happened::Maybe));
        assert!(error.to_string().contains("broke off or made no sense"), "{error}");
    }
}
