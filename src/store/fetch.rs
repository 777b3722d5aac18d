//! Fetches of credentials and tokens, each on a separate task.
//!
//! A request of a leader is given up after a fraction of its lease. A fetch in the course of the
//! request would be given up with it, so that a slower provider would never deliver.

use std::pin::pin;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::task::JoinError;

use super::timed;

/// After this time a provider is logged as slow.
pub(super) const SLOW: Duration = Duration::from_secs(1);
/// The time for a provider after that. A caller waits no longer than for its request.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// A fetch that outlives the request that began it. Clones share its result.
pub(super) type Fetching<T, E> = Shared<BoxFuture<'static, Result<T, E>>>;

/// Starts a fetch. `ended` makes an error of a panic, and of the end of the runtime.
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

/// Returns the answer of a provider, or `None` after 31 s. `what` begins the sentence "… not come".
pub(super) async fn answer<F: Future>(what: &str, provider: F) -> Option<F::Output> {
    let mut provider = pin!(provider);
    if let Some(answer) = timed(SLOW, &mut provider).await {
        return Some(answer);
    }
    tracing::warn!("{what} not come for {SLOW:?}");
    timed(PATIENCE, provider).await
}
