//! Responses that refuse a request, with a problem document (RFC 9457) as the body.

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde::{Deserialize, Serialize};

use tenure::Epoch;

use crate::durable_gate::may_pass;
use crate::error::{FencingError, Stale};

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

impl Stale {
    /// Reads the refusal from the body of a response with status 412. Returns `None` if the body is
    /// not a refusal of a stale token by a [`FenceLayer`](super::FenceLayer).
    ///
    /// The refusal is final: stop, and campaign again.
    #[must_use]
    pub fn from_problem(body: &[u8]) -> Option<Stale> {
        let problem: Problem = serde_json::from_slice(body).ok()?;
        let (offered, newest) = (problem.offered?, problem.newest?);
        (problem.kind == STALE && offered < newest).then_some(Stale { offered, newest })
    }
}

const STALE: &str = "urn:tenure:stale-fencing-token";

/// A problem document of RFC 9457.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    offered: Option<Epoch>,
    #[serde(skip_serializing_if = "Option::is_none")]
    newest: Option<Epoch>,
}

impl Problem {
    fn new(status: StatusCode, kind: &str, title: &str, detail: impl Into<String>) -> Problem {
        Problem {
            kind: kind.to_owned(),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: detail.into(),
            offered: None,
            newest: None,
        }
    }

    pub(super) fn stale(stale: Stale) -> Problem {
        let status = StatusCode::PRECONDITION_FAILED;
        let problem = Problem::new(status, STALE, "Stale fencing token", stale.to_string());
        Problem { offered: Some(stale.offered), newest: Some(stale.newest), ..problem }
    }

    pub(super) fn no_token(name: &HeaderName) -> Problem {
        let status = StatusCode::PRECONDITION_REQUIRED;
        let detail = format!("this request needs the header {name}, with the sender's epoch");
        Problem::new(status, "urn:tenure:no-fencing-token", "No fencing token", detail)
    }

    pub(super) fn bad_token(name: &HeaderName) -> Problem {
        let max = Epoch::MAX;
        let detail = format!("{name} must occur once, as a decimal number from 1 to {max}");
        let status = StatusCode::BAD_REQUEST;
        Problem::new(status, "urn:tenure:bad-fencing-token", "No epoch", detail)
    }

    pub(super) fn implausible(detail: String) -> Problem {
        let kind = "urn:tenure:unknown-fencing-token";
        Problem::new(StatusCode::FORBIDDEN, kind, "Unknown fencing token", detail)
    }

    pub(super) fn of(error: &FencingError) -> Problem {
        match error.stale() {
            Some(stale) => Problem::stale(stale),
            // The response omits the store's error. The gate has logged this error.
            None if may_pass(error) => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "urn:tenure:gate-unavailable",
                "The token could not be checked",
                "the token could not be checked; the request had no effect",
            ),
            None => Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "urn:tenure:gate-failed",
                "The gate is broken",
                "the token could not be checked; the request had no effect; a retry fails too",
            ),
        }
    }

    pub(super) fn shutting_down() -> Problem {
        Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "urn:tenure:shutting-down",
            "The service is shutting down",
            "the request was admitted and then aborted; it may have taken effect",
        )
    }

    pub(super) fn response<R: From<String>>(self) -> Response<R> {
        let body = serde_json::to_string(&self).expect("JSON can represent strings and numbers");
        let mut response = Response::new(R::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.status).expect("the status was created from a status code");
        response.headers_mut().insert(CONTENT_TYPE, PROBLEM);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
