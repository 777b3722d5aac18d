//! The services that the layers create. Callers refer to them as `Layer::Service`.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tower_service::Service;
use tracing::Instrument as _;

use tenure::Epoch;

use super::problem::Problem;
use super::{FenceLayer, TokenLayer};

/// A client that sends the token; see [`TokenLayer`].
#[derive(Debug, Clone)]
pub struct TokenService<S> {
    pub(super) layer: TokenLayer,
    pub(super) inner: S,
}

/// A service behind a gate; see [`FenceLayer`].
#[derive(Debug, Clone)]
pub struct FenceService<S> {
    pub(super) layer: Arc<FenceLayer>,
    pub(super) inner: S,
}

impl<S, B> Service<Request<B>> for TokenService<S>
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
        // `insert` replaces a token that the caller has set, because the service refuses a request
        // with two tokens.
        request.headers_mut().insert(self.layer.header.clone(), HeaderValue::from(token.get()));
        self.inner.call(request)
    }
}

impl<S, B, R> Service<Request<B>> for FenceService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: From<String> + Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let layer = Arc::clone(&self.layer);
        // A tower service may be called only after its `poll_ready` returned `Ready`. The clone is
        // not ready, so this call uses the polled service.
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        async move {
            let token = match token(request.headers(), &layer.header) {
                Ok(token) => token,
                Err(problem) => return Ok(problem.response()),
            };
            if let Err(problem) = layer.require_plausible(token).await {
                return Ok(problem.response());
            }
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
            // There is no await point between the admission and the spawn. So if the caller drops
            // this future, either the request was not admitted, or its task completes.
            let task = async move {
                let response = inner.call(request).await;
                drop(pass);
                response
            };
            match tokio::spawn(task.in_current_span()).await {
                Ok(response) => response,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    // Only a runtime that shuts down aborts the task.
                    Err(_) => Ok(Problem::shutting_down().response()),
                },
            }
        }
        .boxed()
    }
}

pub(super) fn token(headers: &HeaderMap, name: &HeaderName) -> Result<Epoch, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Err(Problem::no_token(name));
    };
    // `parse` alone would also accept a number with a plus sign.
    let digits = value.to_str().ok().filter(|it| it.bytes().all(|byte| byte.is_ascii_digit()));
    match digits.and_then(|digits| digits.parse().ok()).filter(|_| values.next().is_none()) {
        Some(token) => Ok(token),
        None => Err(Problem::bad_token(name)),
    }
}
