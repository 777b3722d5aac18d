use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::store::timed;

/// A provider of numbered credentials. Each element of `takes` is the time, in seconds, until the
/// response to one call. Later calls hang.
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
        (CredentialsCache::of(source), provider.asked)
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

/// Returns the session token of the credentials, which is the number that the provider gave them.
/// Returns `None` if no credentials arrive within `seconds`.
async fn within(seconds: u64, cache: &CredentialsCache) -> Option<String> {
    let credentials = timed(Duration::from_secs(seconds), cache.credentials()).await?;
    Some(credentials.ok()?.session_token()?.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_fetch_continues_after_its_caller_has_given_up() {
    let (cache, asked) = Provider::cache(&[5], 3_600);
    for _ in 0..4 {
        assert_eq!(within(1, &cache).await, None);
    }
    assert_eq!(within(2, &cache).await.as_deref(), Some("0"));
    assert_eq!(within(0, &cache).await.as_deref(), Some("0"));
    pass(1).await;
    assert_eq!(asked.load(Ordering::SeqCst), 1, "new credentials cause no fetch");
}

#[tokio::test(start_paused = true)]
async fn a_fetch_that_hangs_is_repeated() {
    let (cache, asked) = Provider::cache(&[3_600, 1], 3_600);
    assert_eq!(within(60, &cache).await, None, "an error");
    assert_eq!(within(2, &cache).await.as_deref(), Some("1"));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

/// Panics in the first call, and returns credentials in later calls.
#[derive(Debug, Default)]
struct PanicsOnce(AtomicUsize);

impl ProvideCredentials for PanicsOnce {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "the first call panics");
        future::ProvideCredentials::ready(Ok(Credentials::new("key", "s", None, None, "test")))
    }
}

#[tokio::test(start_paused = true)]
async fn regression_credentials_are_fetched_again_after_a_panic() {
    let source = SharedCredentialsProvider::new(PanicsOnce::default());
    let cache = CredentialsCache::of(source);
    assert!(cache.credentials().await.is_err());
    assert!(cache.credentials().await.is_ok());
}

/// A store in a `static` variable outlives the runtime that runs the fetch. A call in the next
/// runtime must start another fetch.
#[test]
fn regression_credentials_are_fetched_again_in_a_new_runtime() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    };
    let (cache, _) = Provider::cache(&[3_600, 0], 3_600);
    let first = runtime();
    first.block_on(async {
        assert_eq!(within(0, &cache).await, None, "the fetch is running");
        tokio::task::yield_now().await;
    });
    drop(first);
    let second = runtime();
    let given = second.block_on(async {
        let first = within(1, &cache).await;
        first.or(within(1, &cache).await)
    });
    assert_eq!(given.as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn regression_credentials_that_cannot_be_sent_are_an_error() {
    for bad in ["key\n", "k\u{e9}y"] {
        let source = Credentials::new(bad, "secret", None, None, "test");
        let source = SharedCredentialsProvider::new(source);
        let cache = CredentialsCache::of(source);
        let error = cache.credentials().await.expect_err("no header can contain the key ID");
        assert!(matches!(error, CredentialsError::InvalidConfiguration(_)), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn old_credentials_are_used_during_a_fetch() {
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
async fn expired_credentials_are_not_used() {
    let (cache, _) = Provider::cache(&[0, 5], 3_600);
    assert_eq!(within(1, &cache).await.as_deref(), Some("0"));
    cache.state().held.as_mut().unwrap().until = SystemClock.now().wall;
    assert_eq!(within(1, &cache).await, None);
    assert_eq!(within(5, &cache).await.as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn expired_credentials_cause_a_retry_only_if_the_service_had_accepted_them() {
    let (cache, _) = Provider::cache(&[0, 0, 0], 3_600);
    assert_eq!(within(1, &cache).await.as_deref(), Some("0"));
    assert!(!cache.expired());
    assert!(cache.expired(), "another request has already reported the expiry");
    assert_eq!(within(1, &cache).await.as_deref(), Some("1"));
    cache.taken();
    assert!(cache.expired());
    assert_eq!(within(1, &cache).await.as_deref(), Some("2"));
}

#[test]
fn credentials_are_refreshed_a_minute_or_a_quarter_of_their_lifetime_before_they_expire() {
    let secs = Duration::from_secs;
    for (life, ahead) in [(3_600, 60), (400, 60), (240, 60), (120, 30), (4, 1)] {
        let credentials = Credentials::new("key", "secret", None, None, "test");
        let (fetched, until) = (secs(1_000), secs(1_000 + life));
        let held = CachedCredentials { credentials, fetched, until, taken: false };
        assert_eq!(held.renewed_from(), until - secs(ahead), "{life}");
    }
}

#[test]
fn an_error_keeps_its_kind_and_its_cause() {
    let timed_out = CredentialsError::provider_timed_out(SLOW);
    let said = timed_out.to_string();
    assert!(matches!(Failed::from(timed_out), Failed::Provider(why) if why == said));
    let none = Failed::from(CredentialsError::not_loaded("no credentials"));
    assert!(matches!(&none, Failed::None(why) if why.contains("no credentials")), "{none:?}");
    let causeless = CredentialsError::not_loaded_no_source();
    let said = causeless.to_string();
    assert!(matches!(Failed::from(causeless), Failed::None(why) if why == said));
    let wrong = Failed::from(CredentialsError::invalid_configuration("a bad profile"));
    assert!(matches!(&wrong, Failed::Settings(why) if why.contains("a bad profile")));
    let other = Failed::from(CredentialsError::provider_error("it broke"));
    assert!(matches!(&other, Failed::Provider(why) if why.contains("it broke")));
}
