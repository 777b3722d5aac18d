//! A cache of access tokens, for use with slow or failing token services.
//!
//! Without this cache, object_store fetches a token within the request that needs it. A leader
//! cancels the request after a fraction of its lease. This also cancels the fetch, so a slow token
//! service never delivers a token. In addition, object_store stops using a token some minutes
//! before the token expires, even if no other token can be fetched.

use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use object_store::CredentialProvider;

use super::error_response::status;
use crate::env::clock::{Clock as _, SystemClock};
use crate::env::mutex::unpoisoned;
use crate::store::fetch::{self, Fetching, PATIENCE, SLOW};
use crate::store::redact::printable;

/// Interval of the background refresh. If the token is valid for at least another 5 min, the source
/// returns the same token and sends no request.
const REFRESH_EVERY: Duration = Duration::from_secs(60);
/// Wait after a failed refresh.
const RETRY_AFTER: Duration = Duration::from_secs(5);

pub(super) type Source<C> = Arc<dyn CredentialProvider<Credential = C>>;

/// Caches the token of a source until the store refuses this token. All clones share one cache.
pub(super) struct TokenCache<C>(Arc<Mutex<TokenState<C>>>);

struct TokenState<C> {
    /// Creates a source without a token. The cache needs a new source after the store has refused a
    /// token, because a source keeps its token until the token expires.
    new_source: Box<dyn Fn() -> Option<Source<C>> + Send>,
    source: Source<C>,
    token: Option<Arc<C>>,
    /// Time of the next refresh, on the boot clock.
    refresh_at: Duration,
    fetching: Option<Fetching<Arc<C>, TokenError>>,
}

/// The error of a failed attempt to fetch a token.
#[derive(Debug, Clone)]
pub(super) struct TokenError {
    why: String,
    /// True if the token service refused to issue a token.
    pub(super) refused: bool,
}

/// A cache of tokens, independent of the token type.
pub(super) trait ForgetToken: Send + Sync {
    /// Discards the token after the store has refused it.
    fn forget(&self);
}

impl<C: Send + Sync + fmt::Debug + 'static> TokenCache<C> {
    pub(super) fn new(
        source: Source<C>,
        new_source: impl Fn() -> Option<Source<C>> + Send + 'static,
    ) -> TokenCache<C> {
        TokenCache(Arc::new(Mutex::new(TokenState {
            new_source: Box::new(new_source),
            source,
            token: None,
            refresh_at: Duration::ZERO,
            fetching: None,
        })))
    }

    /// Returns the cached token, and starts a fetch if a refresh is due. If the cache has no token,
    /// returns `Err` with this fetch, so that the caller can wait for its token.
    fn have(&self) -> Result<Arc<C>, Fetching<Arc<C>, TokenError>> {
        let mut state = self.state();
        let token = state.token.clone();
        match token {
            Some(token) if SystemClock.now().boot < state.refresh_at => Ok(token),
            token => {
                let source = Arc::clone(&state.source);
                let fetching = state.fetching.get_or_insert_with(|| self.fetch(source)).clone();
                token.ok_or(fetching)
            }
        }
    }

    fn fetch(&self, source: Source<C>) -> Fetching<Arc<C>, TokenError> {
        let (cache, ended) = (self.clone(), self.clone());
        let fetched = async move {
            let fetched = ask(&source).await;
            cache.fetched(&fetched);
            fetched
        };
        fetch::fetch(fetched, move |error| {
            ended.state().fetching = None;
            TokenError { why: error.to_string(), refused: false }
        })
    }

    fn fetched(&self, fetched: &Result<Arc<C>, TokenError>) {
        let mut state = self.state();
        let now = SystemClock.now().boot;
        state.fetching = None;
        match fetched {
            Ok(token) => {
                state.token = Some(Arc::clone(token));
                state.refresh_at = now.saturating_add(REFRESH_EVERY);
            }
            Err(error) => {
                state.refresh_at = now.saturating_add(RETRY_AFTER);
                if state.token.is_some() {
                    tracing::warn!(
                        "the access token could not be refreshed; the old token is still in use: \
                         {error}"
                    );
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, TokenState<C>> {
        unpoisoned(self.0.lock())
    }
}

async fn ask<C>(source: &Source<C>) -> Result<Arc<C>, TokenError> {
    match fetch::answer("the access token has", source.get_credential()).await {
        Some(answer) => answer.map_err(|error| TokenError::of(&error)),
        None => {
            let why = format!("no response from the token service for {:?}", SLOW + PATIENCE);
            Err(TokenError { why, refused: false })
        }
    }
}

impl<C: Send + Sync + fmt::Debug + 'static> ForgetToken for TokenCache<C> {
    fn forget(&self) {
        let mut state = self.state();
        if state.token.take().is_some()
            && let Some(source) = (state.new_source)()
        {
            state.source = source;
        }
    }
}

#[async_trait]
impl<C: Send + Sync + fmt::Debug + 'static> CredentialProvider for TokenCache<C> {
    type Credential = C;

    async fn get_credential(&self) -> object_store::Result<Arc<C>> {
        let fetching = match self.have() {
            Ok(token) => return Ok(token),
            Err(fetching) => fetching,
        };
        let failed = |error: TokenError| object_store::Error::Generic {
            store: "token service",
            source: Box::new(error),
        };
        fetching.await.map_err(failed)
    }
}

impl<C> Clone for TokenCache<C> {
    fn clone(&self) -> TokenCache<C> {
        TokenCache(Arc::clone(&self.0))
    }
}

// `Debug` is not derived, because a log must not contain a token.
impl<C> fmt::Debug for TokenCache<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenCache")
    }
}

impl TokenError {
    fn of(error: &object_store::Error) -> TokenError {
        let refused = matches!(status(error), Some(400 | 401 | 403 | 404));
        TokenError { why: printable(&error.to_string()), refused }
    }
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.refused {
            true => write!(f, "the token service refused an access token: {}", self.why),
            false => write!(f, "no access token from the token service: {}", self.why),
        }
    }
}

impl StdError for TokenError {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::store::timed;

    /// A token service for tests. Each element of `takes` is for one request: the time in seconds
    /// until the response, or `None` for a failure. Later requests never get a response.
    #[derive(Debug)]
    struct TokenService {
        takes: &'static [Option<u64>],
        asked: AtomicUsize,
    }

    #[async_trait]
    impl CredentialProvider for TokenService {
        type Credential = usize;

        async fn get_credential(&self) -> object_store::Result<Arc<usize>> {
            let number = self.asked.fetch_add(1, Ordering::SeqCst);
            match self.takes.get(number) {
                Some(Some(takes)) => {
                    pass(*takes).await;
                    Ok(Arc::new(number))
                }
                Some(None) => Err(object_store::Error::NotImplemented {
                    operation: "token".to_owned(),
                    implementer: "test".to_owned(),
                }),
                None => std::future::pending().await,
            }
        }
    }

    fn cache(takes: &'static [Option<u64>]) -> TokenCache<usize> {
        let service = Arc::new(TokenService { takes, asked: AtomicUsize::new(0) });
        let again = Arc::clone(&service);
        TokenCache::new(service, move || Some(Arc::clone(&again) as Source<usize>))
    }

    async fn pass(seconds: u64) {
        timed(Duration::from_secs(seconds), std::future::pending::<()>()).await;
    }

    /// Returns the token, or `None` if no token arrives within `seconds`. The first token of a
    /// service is 0, the second is 1, and so on.
    async fn within(seconds: u64, cache: &TokenCache<usize>) -> Option<usize> {
        let token = timed(Duration::from_secs(seconds), cache.get_credential()).await?;
        token.ok().map(|token| *token)
    }

    #[tokio::test(start_paused = true)]
    async fn regression_a_slow_token_service_delivers_a_token() {
        let cache = cache(&[Some(5)]);
        for _ in 0..4 {
            assert_eq!(within(1, &cache).await, None);
        }
        assert_eq!(within(2, &cache).await, Some(0));
        assert_eq!(within(0, &cache).await, Some(0));
    }

    #[tokio::test(start_paused = true)]
    async fn regression_a_token_is_used_while_refreshes_fail() {
        let cache = cache(&[Some(0), None, None, Some(3)]);
        assert_eq!(within(1, &cache).await, Some(0));
        for _ in 0..3 {
            cache.state().refresh_at = Duration::ZERO;
            assert_eq!(within(0, &cache).await, Some(0));
            pass(1).await;
        }
        assert_eq!(within(0, &cache).await, Some(0));
        pass(5).await;
        assert_eq!(within(0, &cache).await, Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_token_is_fetched_again() {
        let cache = cache(&[Some(0), Some(0)]);
        assert_eq!(within(1, &cache).await, Some(0));
        cache.forget();
        assert_eq!(within(1, &cache).await, Some(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_that_hangs_is_repeated() {
        let cache = cache(&[Some(3_600), Some(1)]);
        assert_eq!(within(60, &cache).await, None, "an error");
        assert_eq!(within(2, &cache).await, Some(1));
    }
}
