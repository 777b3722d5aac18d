//! The query and the body of a request to the API.

use std::str::FromStr as _;
use std::time::Duration;

use hyper::body::Bytes;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;

use crate::http::refusal::Refusal;
use crate::http::{BadBody, HttpRequest};
use crate::process::timer::pause;

/// The time limit of a write to the store. After this time the reply reports an unknown outcome.
/// The limit is shorter than the time limit of a request handler, so the client gets this reply.
const LONGEST_WRITE: Duration = Duration::from_secs(25);
pub const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// Waits for the outcome of a write to the store, for at most [`LONGEST_WRITE`].
pub async fn within<T>(outcome: oneshot::Receiver<Result<T, Refusal>>) -> Result<T, Refusal> {
    tokio::select! {
        outcome = outcome => outcome.unwrap_or(Err(Refusal::UNKNOWN_OUTCOME)),
        () = pause(LONGEST_WRITE) => Err(Refusal::UNKNOWN_OUTCOME),
    }
}

/// Reads `?epoch=N` or `?token=N`. A request with this parameter applies only to this epoch or
/// token.
pub fn only(parameter: &str, query: &str) -> Result<Option<u64>, Refusal> {
    if query.is_empty() {
        return Ok(None);
    }
    let number = query.strip_prefix(parameter).and_then(|rest| rest.strip_prefix('='));
    let number = number.and_then(|text| u64::from_str(text).ok());
    let why = || format!("the only parameter is {parameter}=N, a whole number");
    number.map(Some).ok_or_else(|| Refusal::new(400, "bad_query", why()))
}

pub fn body_of(asked: &HttpRequest) -> Result<&Bytes, Refusal> {
    asked.body.as_ref().map_err(|why| match why {
        BadBody::TooLong { most } => {
            Refusal::new(413, "body_too_long", format!("a body has at most {most} bytes"))
        }
        BadBody::Broken => Refusal::fixed(400, "bad_body", "the body is incomplete"),
    })
}

/// Reads an optional body, which must be an object. A list is refused explicitly, because serde
/// would read a list of values as the fields of the object.
pub fn optional<T: DeserializeOwned + Default>(asked: &HttpRequest) -> Result<T, Refusal> {
    match &**body_of(asked)? {
        [] => Ok(T::default()),
        text if text.trim_ascii_start().first() == Some(&b'[') => {
            Err(Refusal::fixed(400, "bad_body", "the body must be an object, got a list"))
        }
        text => serde_json::from_slice(text).map_err(|error| bad_body(&error)),
    }
}

pub fn bad_body(error: &serde_json::Error) -> Refusal {
    Refusal::new(400, "bad_body", format!("the body is not the expected JSON: {error}"))
}

/// Reads a time in milliseconds. Accepts `5000.0`, because JSON does not distinguish it from 5000.
pub fn millis_of(
    field: &str,
    ms: Option<f64>,
    most: Duration,
) -> Result<Option<Duration>, Refusal> {
    let most = most.as_secs_f64() * 1000.0;
    let fits = |ms: f64| (0.0..=most).contains(&ms) && ms.fract() == 0.0;
    match ms {
        Some(ms) if !fits(ms) => {
            let why = format!("{field} must be a whole number from 0 to {most}");
            Err(Refusal::new(400, "bad_body", why))
        }
        ms => Ok(ms.map(|ms| Duration::from_secs_f64(ms / 1000.0))),
    }
}
