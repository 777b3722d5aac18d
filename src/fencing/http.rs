//! Tokens over HTTP: a layer that sends them, and one that refuses stale ones (feature `tower`).
//!
//! ```
//! use tenure::fencing::Gate;
//! use tenure::fencing::http::{FenceLayer, TokenLayer};
//! # use tenure::Epoch;
//! # let epoch = Epoch::FIRST;
//!
//! // In the client, with the epoch of its leadership:
//! let send = TokenLayer::new(epoch);
//! // In the service, around the routes that write:
//! let refuse = FenceLayer::new(Gate::new());
//! ```
//!
//! The header is `Fencing-Token: 7`, a decimal number; the name can be chosen on both sides. A
//! refusal is a `application/problem+json` body (RFC 9457):
//!
//! | status | when |
//! | --- | --- |
//! | 412 | the token is stale: `offered` and `newest` tell both; see [`stale`] |
//! | 428 | there is no token |
//! | 400 | the header is there but is no epoch, or is there more than once |
//! | 503 | the [`DurableGate`] could not be asked: nothing was done, ask again |

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use serde::{Deserialize, Serialize};
use tower_layer::Layer;
use tower_service::Service;

use super::{DurableGate, FencingError, Gate, Stale};
use crate::epoch::Epoch;

/// The header's name where no other is chosen: `Fencing-Token`.
pub const FENCING_TOKEN: HeaderName = HeaderName::from_static("fencing-token");

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Sends the token with every request.
///
/// It does not ask whether the lease still runs: the token belongs to what was begun under it, and
/// to refuse it is the service's part. Make one for each leadership. A request whose extensions hold
/// an [`Epoch`] is sent with that in place of the layer's.
#[derive(Debug, Clone)]
pub struct TokenLayer {
    token: Epoch,
    header: HeaderName,
}

/// A client that sends the token; see [`TokenLayer`].
#[derive(Debug, Clone)]
pub struct Token<S> {
    layer: TokenLayer,
    inner: S,
}

/// Admits requests by their token; goes around the routes that write.
///
/// A request is inside from its admission until its response is made, and a greater token waits until
/// all that came with a lower one have left ([`Gate::enter`]). So once a newer leader's request has
/// been let in, nothing that an older one sent takes effect any more, in this process.
///
/// **What it does not guarantee.** Work that a handler spawns or defers, and the writing of a
/// streamed body, is not inside. A service that restarts forgets unless it has a
/// [`durable`](FenceLayer::durable) gate; and several instances behind one address are several
/// gates: with a durable gate the check is common, but between one instance's check and its write
/// another may write. There the resource behind them must keep the token itself: handlers find it as
/// an [`Epoch`] in the request's extensions.
#[derive(Debug, Clone)]
pub struct FenceLayer {
    gate: Gate,
    durable: Option<DurableGate>,
    header: HeaderName,
}

/// A service behind a gate; see [`FenceLayer`].
#[derive(Debug, Clone)]
pub struct Fence<S> {
    layer: Arc<FenceLayer>,
    inner: S,
}

impl TokenLayer {
    /// Sends this token, as `Fencing-Token`.
    #[must_use]
    pub fn new(token: Epoch) -> TokenLayer {
        TokenLayer { token, header: FENCING_TOKEN }
    }

    /// Another header.
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> TokenLayer {
        self.header = name;
        self
    }
}

impl<S> Layer<S> for TokenLayer {
    type Service = Token<S>;

    fn layer(&self, inner: S) -> Token<S> {
        Token { layer: self.clone(), inner }
    }
}

impl<S, B> Service<Request<B>> for Token<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        let token = request.extensions().get().copied().unwrap_or(self.layer.token);
        // Replaces what is there: two tokens would be refused.
        request.headers_mut().insert(self.layer.header.clone(), HeaderValue::from(token.get()));
        self.inner.call(request)
    }
}

impl FenceLayer {
    /// Admits by this gate what comes with a `Fencing-Token`. All services made by one layer share
    /// the gate.
    #[must_use]
    pub fn new(gate: Gate) -> FenceLayer {
        FenceLayer { gate, durable: None, header: FENCING_TOKEN }
    }

    /// Asks this gate first, so that a service that restarts does not forget. For its costs, see
    /// [`DurableGate::admit`].
    #[must_use]
    pub fn durable(mut self, gate: DurableGate) -> FenceLayer {
        self.durable = Some(gate);
        self
    }

    /// Another header.
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> FenceLayer {
        self.header = name;
        self
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = Fence<S>;

    fn layer(&self, inner: S) -> Fence<S> {
        Fence { layer: Arc::new(self.clone()), inner }
    }
}

impl<S, B, R> Service<Request<B>> for Fence<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
    R: From<String>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let layer = Arc::clone(&self.layer);
        // The one that was polled ready is the one to be called.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        async move {
            let token = match token(request.headers(), &layer.header) {
                Ok(token) => token,
                Err(problem) => return Ok(problem.response()),
            };
            if let Some(durable) = &layer.durable
                && let Err(error) = durable.admit(token).await
            {
                return Ok(Problem::of(&error).response());
            }
            let pass = match layer.gate.enter(token).await {
                Ok(pass) => pass,
                Err(stale) => return Ok(Problem::stale(stale).response()),
            };
            request.extensions_mut().insert(token);
            let response = inner.call(request).await;
            drop(pass);
            response
        }
        .boxed()
    }
}

/// The refusal that a response with status 412 tells of; `None` if its body is none of ours.
///
/// It is final: stop, and campaign anew.
#[must_use]
pub fn stale(body: &[u8]) -> Option<Stale> {
    let problem: Problem = serde_json::from_slice(body).ok()?;
    let (Some(offered), Some(newest)) = (problem.offered, problem.newest) else { return None };
    (problem.kind == STALE && offered < newest).then_some(Stale { offered, newest })
}

const STALE: &str = "urn:tenure:stale-fencing-token";

/// RFC 9457.
#[derive(Debug, Serialize, Deserialize)]
struct Problem {
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

    fn stale(stale: Stale) -> Problem {
        let status = StatusCode::PRECONDITION_FAILED;
        let problem = Problem::new(status, STALE, "Stale fencing token", stale.to_string());
        Problem { offered: Some(stale.offered), newest: Some(stale.newest), ..problem }
    }

    fn of(error: &FencingError) -> Problem {
        match error.stale() {
            Some(stale) => Problem::stale(stale),
            // What the store says is for the service's own log.
            None => Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "urn:tenure:gate-unavailable",
                "The gate cannot be asked",
                "whether the token is stale is unknown; nothing was done",
            ),
        }
    }

    fn response<R: From<String>>(self) -> Response<R> {
        let body = serde_json::to_string(&self).expect("strings and numbers can be written");
        let mut response = Response::new(R::from(body));
        *response.status_mut() =
            StatusCode::from_u16(self.status).expect("made from a status code");
        response.headers_mut().insert(CONTENT_TYPE, PROBLEM);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

fn token(headers: &HeaderMap, name: &HeaderName) -> Result<Epoch, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        let status = StatusCode::PRECONDITION_REQUIRED;
        let detail = format!("this request needs the header {name}, with the sender's epoch");
        return Err(Problem::new(
            status,
            "urn:tenure:no-fencing-token",
            "No fencing token",
            detail,
        ));
    };
    // Digits alone: the number's own parser takes a sign.
    let digits = value.to_str().ok().filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()).filter(|_| values.next().is_none()) {
        Some(token) => Ok(token),
        None => Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "urn:tenure:bad-fencing-token",
            "No epoch",
            format!("{name} must be there once, as a decimal number of 1 to {}", Epoch::MAX),
        )),
    }
}

#[cfg(test)]
mod tests;
