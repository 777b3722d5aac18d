//! Fetches of credentials and tokens, each on a separate task.
//!
//! A leader cancels a request after a fraction of its lease. If the request contained the fetch,
//! the cancellation would also stop the fetch, and a slow provider would never deliver credentials.

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::task::JoinError;

use super::timed;

/// Time after which a provider is logged as slow.
pub(super) const SLOW: Duration = Duration::from_secs(1);
/// Further wait for a provider that was logged as slow. After this wait, the fetch fails. A caller
/// stops waiting earlier if the request that needs the fetch ends.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A fetch that outlives the request that began it. Clones share its result.
pub(super) type Fetching<T, E> = Shared<BoxFuture<'static, Result<T, E>>>;

/// Starts a fetch. `ended` converts a panic and the shutdown of the runtime into an error.
pub(super) fn fetch<T, E>(
    fetch: impl Future<Output = Result<T, E>> + Send + 'static,
    ended: impl FnOnce(JoinError) -> E + Send + 'static,
) -> Fetching<T, E>
where
    T: Clone + Send + 'static,
    E: Clone + Send + 'static,
{
    let task = tokio::spawn(fetch);
    task.map(move |fetched| fetched.map_err(ended).flatten()).boxed().shared()
}

/// Returns the result of a provider, or `None` after 31 s. If the provider is slow, this function
/// logs `subject`, followed by "not arrived after 1s".
pub(super) async fn answer<F: Future>(subject: &str, provider: F) -> Option<F::Output> {
    let mut provider = pin!(provider);
    if let Some(answer) = timed(SLOW, &mut provider).await {
        return Some(answer);
    }
    tracing::warn!("{subject} not arrived after {SLOW:?}");
    timed(PATIENCE, provider).await
}
