//! Credentials that outlast a tenure: fetched ahead of their end, and beside the requests.
//!
//! The SDK's own cache fetches in the course of a request. A request of a leader is given up after
//! a fraction of its lease, and the fetching with it, so that a provider slower than that would
//! never finish; and it keeps credentials that the service calls expired until they expire by this
//! machine's clock.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_config::identity::IdentityCache;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{self, ProvideCredentials, SharedCredentialsProvider, future};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};

use super::error_text::{causes, not_sendable, refused_by_the_machine};
use crate::clock::{Clock as _, SystemClock};
use crate::mutex::unpoisoned;
use crate::store::timed;

/// Credentials that say nothing of their end are fetched again after so long, as by the SDK.
const UNLIMITED: Duration = Duration::from_secs(15 * 60);
/// The longest time ahead of their end that others are fetched.
const AHEAD: Duration = Duration::from_secs(60);
/// After so long a provider is said to be slow: what waits for it is given up without a reason.
const SLOW: Duration = Duration::from_secs(1);
/// How long a provider may take. A caller waits no longer than for its request.
const PATIENCE: Duration = Duration::from_secs(30);

/// Keeps a provider's credentials for as long as they are good. Clones share them.
#[derive(Clone)]
pub(in crate::store) struct CredentialsCache {
    source: SharedCredentialsProvider,
    state: Arc<Mutex<CacheState>>,
}

#[derive(Default)]
struct CacheState {
    held: Option<CachedCredentials>,
    fetching: Option<Fetching>,
}

struct CachedCredentials {
    credentials: Credentials,
    /// By the wall clock, as the end that the credentials name is.
    fetched: Duration,
    until: Duration,
    /// Whether the service has taken them.
    taken: bool,
}

/// On a task of its own, so that it goes on when the request that began it is given up.
type Fetching = Shared<BoxFuture<'static, Result<Credentials, Failed>>>;

/// A [`CredentialsError`], in words, as several requests may wait for one provider.
#[derive(Debug, Clone)]
enum Failed {
    None(String),
    Settings(String),
    Provider(String),
}

/// Puts a cache between the provider of these settings and the clients.
pub(super) fn keep(config: SdkConfig) -> (SdkConfig, Option<CredentialsCache>) {
    let Some(source) = config.credentials_provider() else { return (config, None) };
    let cache = CredentialsCache { source, state: Arc::default() };
    let builder = config
        .into_builder()
        .credentials_provider(SharedCredentialsProvider::new(cache.clone()))
        .identity_cache(IdentityCache::no_cache());
    (builder.build(), Some(cache))
}

impl CredentialsCache {
    /// The service has taken the credentials.
    pub(in crate::store) fn taken(&self) {
        if let Some(held) = self.state().held.as_mut() {
            held.taken = true;
        }
    }

    /// The service calls the credentials expired, which are forgotten. Whether it makes sense to
    /// ask again: if it has taken them before, others may have come into their place.
    pub(in crate::store) fn expired(&self) -> bool {
        self.state().held.take().is_none_or(|held| held.taken)
    }

    async fn credentials(&self) -> provider::Result {
        match self.have() {
            Ok(credentials) => Ok(credentials),
            Err(fetching) => fetching.await.map_err(CredentialsError::from),
        }
    }

    /// What is there, or the fetching of what is not.
    fn have(&self) -> Result<Credentials, Fetching> {
        let mut state = self.state();
        let now = SystemClock.now().wall;
        let held = state.held.as_ref().filter(|held| now < held.until);
        let (credentials, young) = match held {
            Some(held) => (Some(held.credentials.clone()), now < held.renewed_from()),
            None => (None, false),
        };
        match credentials {
            Some(credentials) if young => Ok(credentials),
            credentials => {
                let fetching = state.fetching.get_or_insert_with(|| self.fetch()).clone();
                credentials.ok_or(fetching)
            }
        }
    }

    fn fetch(&self) -> Fetching {
        let cache = self.clone();
        let task = tokio::spawn(async move {
            let fetched = cache.ask().await;
            let mut state = cache.state();
            state.fetching = None;
            if let Ok(credentials) = &fetched {
                state.held = Some(CachedCredentials::new(credentials.clone(), state.held.as_ref()));
            }
            fetched
        });
        let ended = |error: tokio::task::JoinError| Failed::Provider(error.to_string());
        task.map(move |fetched| fetched.map_err(ended).flatten()).boxed().shared()
    }

    async fn ask(&self) -> Result<Credentials, Failed> {
        let mut asked = self.source.provide_credentials();
        let mut answer = timed(SLOW, &mut asked).await;
        if answer.is_none() {
            tracing::warn!("the credentials have not come for {SLOW:?}");
            answer = timed(PATIENCE, asked).await;
        }
        let answer = answer.unwrap_or_else(|| {
            let late = || CredentialsError::provider_timed_out(SLOW + PATIENCE);
            ProvideCredentials::fallback_on_interrupt(&self.source).ok_or_else(late)
        });
        answer.map_err(Failed::from)
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        unpoisoned(self.state.lock())
    }
}

impl CachedCredentials {
    fn new(credentials: Credentials, before: Option<&CachedCredentials>) -> CachedCredentials {
        let fetched = SystemClock.now().wall;
        let end = credentials.expiry().map(|end| end.duration_since(SystemTime::UNIX_EPOCH));
        let until = end.map_or(fetched + UNLIMITED, Result::unwrap_or_default);
        // A provider may give the same ones until others are there.
        let same = before.filter(|before| {
            before.credentials.session_token() == credentials.session_token()
                && before.credentials.access_key_id() == credentials.access_key_id()
        });
        CachedCredentials {
            credentials,
            fetched,
            until,
            taken: same.is_some_and(|before| before.taken),
        }
    }

    /// When the background refresh begins.
    fn renewed_from(&self) -> Duration {
        let whole = self.until.saturating_sub(self.fetched);
        self.until.saturating_sub(AHEAD.min(whole / 4))
    }
}

impl ProvideCredentials for CredentialsCache {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.credentials())
    }
}

impl fmt::Debug for CredentialsCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialsCache")
    }
}

impl From<CredentialsError> for Failed {
    fn from(error: CredentialsError) -> Failed {
        let why = match causes(&error) {
            none if none.is_empty() => error.to_string(),
            causes => causes,
        };
        match error {
            error if refused_by_the_machine(&error) => Failed::None(why),
            CredentialsError::CredentialsNotLoaded(_) => Failed::None(why),
            CredentialsError::InvalidConfiguration(_) => Failed::Settings(why),
            error if not_sendable(&error).is_some() => Failed::Settings(why),
            _ => Failed::Provider(why),
        }
    }
}

impl From<Failed> for CredentialsError {
    fn from(failed: Failed) -> CredentialsError {
        match failed {
            Failed::None(why) => CredentialsError::not_loaded(why),
            Failed::Settings(why) => CredentialsError::invalid_configuration(why),
            Failed::Provider(why) => CredentialsError::provider_error(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Answers with credentials of the next number after each of these times; then never again.
    #[derive(Debug, Clone)]
    struct Provider {
        takes: &'static [u64],
        life: Duration,
        asked: Arc<AtomicUsize>,
    }

    impl Provider {
        fn cache(takes: &'static [u64], life: u64) -> (CredentialsCache, Arc<AtomicUsize>) {
            let life = Duration::from_secs(life);
            let provider = Provider { takes, life, asked: Arc::default() };
            let source = SharedCredentialsProvider::new(provider.clone());
            (CredentialsCache { source, state: Arc::default() }, provider.asked)
        }

        async fn answer(&self) -> provider::Result {
            let number = self.asked.fetch_add(1, Ordering::SeqCst);
            let Some(takes) = self.takes.get(number) else { return std::future::pending().await };
            pass(*takes).await;
            let end = SystemTime::UNIX_EPOCH + SystemClock.now().wall + self.life;
            let token = Some(number.to_string());
            Ok(Credentials::new("key", "secret", token, Some(end), "test"))
        }
    }

    impl ProvideCredentials for Provider {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::new(self.answer())
        }
    }

    async fn pass(seconds: u64) {
        timed(Duration::from_secs(seconds), std::future::pending::<()>()).await;
    }

    /// The number of the credentials, if they come within so many seconds.
    async fn within(seconds: u64, cache: &CredentialsCache) -> Option<String> {
        let credentials = timed(Duration::from_secs(seconds), cache.credentials()).await?;
        Some(credentials.ok()?.session_token()?.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn fetching_goes_on_when_its_caller_gives_up() {
        let (cache, asked) = Provider::cache(&[5], 3_600);
        for _ in 0..4 {
            assert_eq!(within(1, &cache).await, None);
        }
        assert_eq!(within(2, &cache).await.as_deref(), Some("0"));
        assert_eq!(within(0, &cache).await.as_deref(), Some("0"));
        pass(1).await;
        assert_eq!(asked.load(Ordering::SeqCst), 1, "nobody asks while they are young");
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_hangs_is_asked_again() {
        let (cache, asked) = Provider::cache(&[3_600, 1], 3_600);
        assert_eq!(within(60, &cache).await, None, "an error");
        assert_eq!(within(2, &cache).await.as_deref(), Some("1"));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nears_its_end_is_used_while_others_are_fetched() {
        let (cache, asked) = Provider::cache(&[0, 5], 3_600);
        assert_eq!(within(1, &cache).await.as_deref(), Some("0"));
        let now = SystemClock.now().wall;
        if let Some(held) = cache.state().held.as_mut() {
            (held.fetched, held.until) = (now - AHEAD * 10, now + AHEAD / 2);
        }
        assert_eq!(within(0, &cache).await.as_deref(), Some("0"));
        assert_eq!(within(0, &cache).await.as_deref(), Some("0"));
        pass(6).await;
        assert_eq!(within(0, &cache).await.as_deref(), Some("1"));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_ended_is_not_used() {
        let (cache, _) = Provider::cache(&[0, 5], 3_600);
        assert_eq!(within(1, &cache).await.as_deref(), Some("0"));
        cache.state().held.as_mut().unwrap().until = SystemClock.now().wall;
        assert_eq!(within(1, &cache).await, None);
        assert_eq!(within(5, &cache).await.as_deref(), Some("1"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_service_that_calls_them_expired_is_asked_again_only_if_it_has_taken_them() {
        let (cache, _) = Provider::cache(&[0, 0, 0], 3_600);
        assert_eq!(within(1, &cache).await.as_deref(), Some("0"));
        assert!(!cache.expired());
        assert!(cache.expired(), "another request has said so already");
        assert_eq!(within(1, &cache).await.as_deref(), Some("1"));
        cache.taken();
        assert!(cache.expired());
        assert_eq!(within(1, &cache).await.as_deref(), Some("2"));
    }

    #[test]
    fn others_are_fetched_a_minute_ahead_or_in_the_last_quarter_of_a_short_life() {
        let secs = Duration::from_secs;
        for (life, ahead) in [(3_600, 60), (400, 60), (240, 60), (120, 30), (4, 1)] {
            let credentials = Credentials::new("key", "secret", None, None, "test");
            let (fetched, until) = (secs(1_000), secs(1_000 + life));
            let held = CachedCredentials { credentials, fetched, until, taken: false };
            assert_eq!(held.renewed_from(), until - secs(ahead), "{life}");
        }
    }

    #[test]
    fn a_failure_keeps_its_kind_and_says_its_cause() {
        let timed_out = CredentialsError::provider_timed_out(SLOW);
        let said = timed_out.to_string();
        assert!(matches!(Failed::from(timed_out), Failed::Provider(why) if why == said));
        let none = Failed::from(CredentialsError::not_loaded("there are none"));
        assert!(matches!(&none, Failed::None(why) if why.contains("there are none")), "{none:?}");
        let causeless = CredentialsError::not_loaded_no_source();
        let said = causeless.to_string();
        assert!(matches!(Failed::from(causeless), Failed::None(why) if why == said));
        let wrong = Failed::from(CredentialsError::invalid_configuration("a bad profile"));
        assert!(matches!(&wrong, Failed::Settings(why) if why.contains("a bad profile")));
        let other = Failed::from(CredentialsError::provider_error("it broke"));
        assert!(matches!(&other, Failed::Provider(why) if why.contains("it broke")));
    }
}
