//! A cache of credentials, for leaderships that outlive their first credentials. The cache fetches
//! new credentials before the old credentials expire, while requests use the old credentials.
//!
//! The SDK's own cache has three faults. It fetches inside a request, so the cancellation of the
//! request also cancels the fetch. Every refresh makes requests wait. It keeps credentials until
//! they expire by this machine's clock, even if the service rejects them as expired.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_config::identity::IdentityCache;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{self, ProvideCredentials, SharedCredentialsProvider, future};

use super::error_text::{
    RefusedByTheMachine, causes, not_sendable, refused_by_the_machine, wrong_setting,
};
use super::settings::{self, WrongSetting, unsendable};
use crate::env::clock::{Clock as _, SystemClock};
use crate::env::mutex::unpoisoned;
use crate::store::fetch::{self, Fetching, PATIENCE, SLOW};
use crate::store::url::StoreOptions;

/// Assumed lifetime of credentials without an expiry. The SDK assumes the same lifetime.
const UNLIMITED: Duration = Duration::from_secs(15 * 60);
/// Maximum time between a refresh and the expiry of the old credentials.
const AHEAD: Duration = Duration::from_secs(60);

/// Caches a provider's credentials while they are valid. Clones share the cache.
#[derive(Clone)]
pub(in crate::store) struct CredentialsCache {
    source: Arc<Mutex<SharedCredentialsProvider>>,
    /// The options with which the source was loaded from the environment and the AWS files. `None`
    /// for any other source: such a source cannot be loaded again.
    options: Option<Arc<StoreOptions>>,
    state: Arc<Mutex<CacheState>>,
}

#[derive(Default)]
struct CacheState {
    held: Option<CachedCredentials>,
    fetching: Option<Fetching<Credentials, Failed>>,
    /// True if the service has refused the source's credentials, or a fetch from the source failed.
    /// In this case, the next fetch loads the source again, because the SDK's sources read their
    /// files only once.
    outdated: bool,
}

struct CachedCredentials {
    credentials: Credentials,
    /// Time of the fetch, by the wall clock.
    fetched: Duration,
    /// Expiry, by the wall clock.
    until: Duration,
    /// True if the service has accepted the credentials.
    taken: bool,
}

/// The text of a [`CredentialsError`]. This text can be cloned for each request that waits for the
/// provider.
#[derive(Debug, Clone)]
enum Failed {
    None(String),
    /// An error of the machine's metadata service.
    OfTheMachine(String),
    Settings(String),
    Wrong(WrongSetting),
    Provider(String),
}

/// Adds a cache between the credentials provider of these settings and the clients.
pub(super) fn keep(
    config: SdkConfig,
    options: &StoreOptions,
) -> (SdkConfig, Option<CredentialsCache>) {
    let Some(source) = config.credentials_provider() else { return (config, None) };
    let region = config.region().map(ToString::to_string);
    let options = Some(Arc::new(StoreOptions { region, ..options.clone() }));
    let cache = CredentialsCache { options, ..CredentialsCache::of(source) };
    let builder = config
        .into_builder()
        .credentials_provider(SharedCredentialsProvider::new(cache.clone()))
        .identity_cache(IdentityCache::no_cache());
    (builder.build(), Some(cache))
}

impl CredentialsCache {
    fn of(source: SharedCredentialsProvider) -> CredentialsCache {
        let (source, state) = (Arc::new(Mutex::new(source)), Arc::default());
        CredentialsCache { source, options: None, state }
    }

    /// Records that the service has accepted the credentials.
    pub(in crate::store) fn taken(&self) {
        if let Some(held) = self.state().held.as_mut() {
            held.taken = true;
        }
    }

    /// Discards the credentials after the service has refused them as expired or unknown. Returns
    /// true if a retry may succeed with new credentials, because the service had accepted the old
    /// credentials before.
    pub(in crate::store) fn expired(&self) -> bool {
        let mut state = self.state();
        state.outdated = true;
        state.held.take().is_none_or(|held| held.taken)
    }

    async fn credentials(&self) -> provider::Result {
        match self.have() {
            Ok(credentials) => Ok(credentials),
            Err(fetching) => fetching.await.map_err(CredentialsError::from),
        }
    }

    /// Returns the current credentials, and starts a fetch if they expire soon. If they are missing
    /// or expired, returns `Err` with this fetch, so that the caller can wait for new credentials.
    fn have(&self) -> Result<Credentials, Fetching<Credentials, Failed>> {
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

    fn fetch(&self) -> Fetching<Credentials, Failed> {
        let cache = self.clone();
        let fetched = async move {
            let fetched = cache.ask().await;
            let mut state = cache.state();
            state.fetching = None;
            state.outdated |= fetched.is_err();
            if let Ok(credentials) = &fetched {
                state.held = Some(CachedCredentials::new(credentials.clone(), state.held.as_ref()));
            }
            fetched
        };
        // If the fetch panics or its runtime shuts down, the next caller starts another fetch.
        let cache = self.clone();
        fetch::fetch(fetched, move |error| {
            cache.state().fetching = None;
            Failed::Provider(error.to_string())
        })
    }

    /// Returns the source. If the service has refused the source's credentials, this function first
    /// loads the source from its files again.
    async fn source(&self) -> SharedCredentialsProvider {
        if let Some(options) = &self.options
            && std::mem::take(&mut self.state().outdated)
            && let Some(source) = settings::load(options).await.credentials_provider()
        {
            *unpoisoned(self.source.lock()) = source;
        }
        unpoisoned(self.source.lock()).clone()
    }

    async fn ask(&self) -> Result<Credentials, Failed> {
        let source = self.source().await;
        let answer = fetch::answer("the credentials have", source.provide_credentials()).await;
        let answer = answer.unwrap_or_else(|| {
            let late = || CredentialsError::provider_timed_out(SLOW + PATIENCE);
            ProvideCredentials::fallback_on_interrupt(&source).ok_or_else(late)
        });
        let credentials = answer.map_err(Failed::from)?;
        let parts = [
            ("access key id", credentials.access_key_id()),
            ("session token", credentials.session_token().unwrap_or_default()),
        ];
        let wrong = parts.into_iter().find_map(|(name, text)| Some((name, unsendable(text)?)));
        match wrong {
            None => Ok(credentials),
            Some((name, place)) => Err(Failed::Settings(format!(
                "character {place} of the {name} cannot be sent in a header (for example a space \
                 or a line end); correct the {name}"
            ))),
        }
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
        // If the provider returns the same credentials again, `taken` keeps its value.
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

    /// Returns the time at which the background refresh starts, by the wall clock.
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
        if let Some(wrong) = wrong_setting(&error) {
            return Failed::Wrong(wrong.clone());
        }
        let why = match causes(&error) {
            none if none.is_empty() => error.to_string(),
            causes => causes,
        };
        match error {
            error if refused_by_the_machine(&error) => Failed::OfTheMachine(why),
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
            Failed::OfTheMachine(why) => CredentialsError::not_loaded(RefusedByTheMachine(why)),
            Failed::Settings(why) => CredentialsError::invalid_configuration(why),
            Failed::Wrong(why) => CredentialsError::invalid_configuration(why),
            Failed::Provider(why) => CredentialsError::provider_error(why),
        }
    }
}

#[cfg(test)]
mod tests;
