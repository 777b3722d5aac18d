//! Tokens over HTTP (feature `tower`): [`TokenLayer`] sends tokens, and [`FenceLayer`] refuses
//! stale tokens.
//!
//! ```
//! use tenure_fencing::Gate;
//! use tenure_fencing::http::{FenceLayer, TokenLayer};
//! # use tenure::Epoch;
//! # let epoch = Epoch::FIRST;
//!
//! // In the client, with the epoch of its leadership:
//! let send = TokenLayer::new(epoch);
//! // In the service, around the routes that write:
//! let refuse = FenceLayer::new(Gate::new());
//! ```
//!
//! **Authentication comes before the layer.** A sender may claim any token, and the gate keeps the
//! greatest token. So after one request with `Fencing-Token: 9999999999`, the gate refuses every
//! real leader. Let only authenticated senders reach the layer. Where the service can reach the
//! election's store, the layer should also [verify](FenceLayer::verify) new tokens.
//!
//! The header is `Fencing-Token`, with a decimal number, such as `Fencing-Token: 7`. The client and
//! the service can agree on another name. The body of a refusal is `application/problem+json` (RFC
//! 9457):
//!
//! | status | condition |
//! | --- | --- |
//! | 412 | the token is stale: the body has `offered` and `newest`, see [`Stale::from_problem`] |
//! | 428 | the request has no token |
//! | 403 | the token is above the [ceiling](FenceLayer::ceiling), or was never granted |
//! | 400 | the header is not an epoch, or occurs more than once |
//! | 503 | a store failed, and the request had no effect; retry after `Retry-After` |
//! | 500 | the [`DurableGate`] is broken, see the log; there was no effect, and retries fail |
//! | 500 | the service's runtime is shutting down; the request may have taken effect |

use std::sync::Arc;

use http::HeaderName;
use tower_layer::Layer;

use tenure::{Election, Epoch};

use super::{DurableGate, Gate};
#[cfg(doc)]
use crate::error::Stale;

use problem::Problem;
use service::{FenceService, TokenService};

mod problem;
mod service;

const IMPLAUSIBLE: &str = "refused a fencing token that was never granted";

/// Sends the token with every request.
///
/// The layer does not check whether the lease is still valid, because the service refuses stale
/// tokens. Create one layer for each leadership. If the extensions of a request contain an
/// [`Epoch`], the layer sends that epoch instead.
///
/// # Examples
///
/// ```
/// # use std::convert::Infallible;
/// # use http::{Request, Response};
/// # use tenure::Epoch;
/// # use tenure_fencing::http::TokenLayer;
/// # use tower::{Layer as _, ServiceExt as _, service_fn};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Infallible> {
/// # let http_client = service_fn(|request: Request<()>| async move {
/// #     Ok::<_, Infallible>(Response::new(request.headers()["fencing-token"].clone()))
/// # });
/// # let epoch = Epoch::new(7).unwrap();
/// // Around the client of a service, with the epoch of the leadership:
/// let client = TokenLayer::new(epoch).layer(http_client);
/// let response = client.oneshot(Request::new(())).await?;
/// assert_eq!(response.body(), "7"); // this service returns the header that it received
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct TokenLayer {
    token: Epoch,
    header: HeaderName,
}

/// Admits requests by their token. Apply the layer to the routes that write.
///
/// A request is inside the gate from its admission until its response is ready. A request with a
/// greater token waits until all requests with lower tokens are complete ([`Gate::enter`]). So
/// after the request of a newer leader was admitted, no request of an older leader takes effect in
/// this process.
///
/// **A client that disconnects.** HTTP servers such as hyper drop the handler of a request when the
/// client disconnects, even while the handler calls its backend. So an admitted request runs in a
/// separate task, which keeps the permit. The task completes even if the caller no longer waits for
/// the response. If the client disconnects before the admission, the request has no effect. A panic
/// of the inner service is resumed in the caller.
///
/// The task needs a Tokio runtime; without one the future panics. The inner service, its future,
/// its response and its error must be `Send + 'static`. The task has the caller's [`tracing`] span,
/// but not its task-local values.
///
/// **Limits.** These steps are outside the gate:
///
/// - Work that a handler spawns or defers, and the writing of a streamed body.
/// - A call to a backend that the handler abandons, for example after a timeout: the handler
///   returns, and the backend may still apply the call. A timeout layer outside this layer ends
///   only the wait for the response. A timeout layer inside this layer ends the handler.
///
/// A service that restarts forgets its token unless it has a [`durable`](FenceLayer::durable) gate.
/// Several instances behind one address have several gates. A durable gate gives them a common
/// check. But after an instance has checked a token, another instance may admit a greater token and
/// write first. The write of the first instance then comes late. To prevent this late write, the
/// resource behind the instances must itself store and check the token. Handlers find the token as
/// an [`Epoch`] in the extensions of the request.
///
/// # Examples
///
/// ```
/// # use std::convert::Infallible;
/// # use http::{Request, Response};
/// # use tenure::Epoch;
/// # use tenure_fencing::{Gate, Stale, http::{FenceLayer, TokenLayer}};
/// # use tower::{Layer as _, ServiceExt as _, service_fn};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Infallible> {
/// # let (old, new) = (Epoch::FIRST, Epoch::new(2).unwrap());
/// # let routes_that_write = service_fn(|_: Request<()>| async {
/// #     Ok::<_, Infallible>(Response::new("written".to_owned()))
/// # });
/// let service = FenceLayer::new(Gate::new()).layer(routes_that_write);
/// let send = |token| TokenLayer::new(token).layer(service.clone()).oneshot(Request::new(()));
/// assert_eq!(send(new).await?.body(), "written");
///
/// let refused = send(old).await?; // the former leader sent this request before its pause
/// assert_eq!(refused.status(), 412);
/// assert_eq!(Stale::from_problem(refused.body().as_bytes()), Some(Stale::new(old, new)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FenceLayer {
    gate: Gate,
    durable: Option<DurableGate>,
    election: Option<Election>,
    ceiling: Epoch,
    header: HeaderName,
}

impl TokenLayer {
    /// The default name of the header, here and in [`FenceLayer`]: `Fencing-Token`.
    pub const HEADER: HeaderName = HeaderName::from_static("fencing-token");

    /// Creates a layer that sends this token in the header `Fencing-Token`.
    #[must_use]
    pub fn new(token: Epoch) -> TokenLayer {
        TokenLayer { token, header: Self::HEADER }
    }

    /// Sends this header instead of `Fencing-Token`.
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> TokenLayer {
        self.header = name;
        self
    }
}

impl<S> Layer<S> for TokenLayer {
    type Service = TokenService<S>;

    fn layer(&self, inner: S) -> TokenService<S> {
        TokenService { layer: self.clone(), inner }
    }
}

impl FenceLayer {
    /// Creates a layer that admits requests by their `Fencing-Token`, with this gate. All services
    /// of one layer share the gate.
    #[must_use]
    pub fn new(gate: Gate) -> FenceLayer {
        let (durable, election) = (None, None);
        FenceLayer { gate, durable, election, ceiling: Epoch::MAX, header: TokenLayer::HEADER }
    }

    /// Verifies each token above the greatest token that the gate has seen. The layer refuses a
    /// token above [`Election::newest_epoch`] with 403, so no sender can make the gate refuse the
    /// real leaders. A verification costs 1 LIST, or 1 GET with
    /// [`Layout::SingleObject`](tenure::Layout::SingleObject). If the store does not respond, the
    /// layer refuses the request with 503.
    ///
    /// The tokens must be epochs of this election. The service does not campaign. It needs only the
    /// permission to send the LIST or GET of the verification.
    #[must_use]
    pub fn verify(mut self, election: Election) -> FenceLayer {
        self.election = Some(election);
        self
    }

    /// Refuses tokens above `ceiling` with 403. Use a ceiling if the service cannot reach the
    /// election's store. The ceiling must be above all epochs that the election reaches while the
    /// service runs. Default: [`Epoch::MAX`], which refuses no token.
    #[must_use]
    pub fn ceiling(mut self, ceiling: Epoch) -> FenceLayer {
        self.ceiling = ceiling;
        self
    }

    async fn require_plausible(&self, token: Epoch) -> Result<(), Problem> {
        if token > self.ceiling {
            tracing::warn!(token = token.get(), ceiling = self.ceiling.get(), "{IMPLAUSIBLE}");
            let ceiling = self.ceiling;
            let detail =
                format!("the token {token} is above {ceiling}, the ceiling of this service");
            return Err(Problem::implausible(detail));
        }
        let Some(election) = &self.election else { return Ok(()) };
        if self.gate.newest() >= Some(token) {
            return Ok(());
        }
        let newest = election.newest_epoch().await.map_err(|error| {
            tracing::warn!(token = token.get(), %error, "a fencing token could not be verified");
            Problem::of(&error.into())
        })?;
        if newest >= Some(token) {
            return Ok(());
        }
        let newest = newest.map_or(0, Epoch::get);
        tracing::warn!(token = token.get(), newest, "{IMPLAUSIBLE}");
        Err(Problem::implausible(format!(
            "the token {token} was never granted: the newest epoch is {newest}"
        )))
    }

    /// Checks each token with this gate before the gate in memory. This gate keeps the greatest
    /// token in an object, so the service refuses lower tokens even after a restart. Each check
    /// sends the requests of [`DurableGate::admit`].
    #[must_use]
    pub fn durable(mut self, gate: DurableGate) -> FenceLayer {
        self.durable = Some(gate);
        self
    }

    /// Reads this header instead of `Fencing-Token`.
    #[must_use]
    pub fn header(mut self, name: HeaderName) -> FenceLayer {
        self.header = name;
        self
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = FenceService<S>;

    fn layer(&self, inner: S) -> FenceService<S> {
        FenceService { layer: Arc::new(self.clone()), inner }
    }
}

#[cfg(test)]
mod tests;
