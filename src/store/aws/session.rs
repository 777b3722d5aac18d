//! The settings of a service from the environment, and whether the service has sent a valid
//! response.

use std::sync::atomic::{AtomicBool, Ordering};

use aws_config::{Region, SdkConfig};

use super::connector::CA_BUNDLE;
use super::credentials::{self, CredentialsCache};
use super::{setting, settings};
use crate::store::redact::without_secrets;
use crate::store::url::StoreOptions;

/// The facts about a service that come from its settings and its responses. For a client that the
/// caller created, the store uses the default value, which contains no facts.
#[derive(Default)]
pub(in crate::store) struct Session {
    /// Custom endpoint, if there is one.
    endpoint: Option<String>,
    credentials: Option<CredentialsCache>,
    /// True if the service has sent a valid response before.
    answered: AtomicBool,
}

impl Session {
    /// Loads the settings from the options, the environment and the AWS files, including a custom
    /// endpoint. Adds a credentials cache. With a custom endpoint, the default region is
    /// `us-east-1`, because most servers that are not Amazon's ignore the region.
    pub(in crate::store) async fn load(
        service: &'static str,
        options: &StoreOptions,
    ) -> (SdkConfig, Session) {
        let config = settings::load(options).await;
        let (mut config, credentials) = credentials::keep(config, options);
        CA_BUNDLE.get_or_init(|| {
            let bundle = setting(&config, service, "AWS_CA_BUNDLE", "ca_bundle");
            bundle.filter(|bundle| !bundle.is_empty())
        });
        // The endpoint of a profile in the URL has precedence over the variables.
        let of_profile = |variable| setting(&config, service, variable, "endpoint_url");
        let endpoint = (options.endpoint.clone())
            .or_else(|| options.profile.as_ref().and_then(|_| of_profile("")))
            .or_else(|| of_profile("AWS_ENDPOINT_URL"))
            .or_else(|| config.endpoint_url().map(str::to_owned));
        if endpoint.is_some() && config.region().is_none() {
            config = config.into_builder().region(Region::from_static("us-east-1")).build();
        }
        (config, Session { endpoint, credentials, answered: AtomicBool::new(false) })
    }

    pub(in crate::store) fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    /// Returns this URL, followed by the custom endpoint if one is set.
    pub(in crate::store) fn at(&self, url: String) -> String {
        match &self.endpoint {
            None => url,
            Some(endpoint) => format!("{url} at {}", without_secrets(endpoint)),
        }
    }

    /// Notes that the service has sent a valid response. So the service has accepted the
    /// credentials.
    pub(in crate::store) fn heard(&self) {
        self.answered.store(true, Ordering::Relaxed);
        if let Some(credentials) = &self.credentials {
            credentials.taken();
        }
    }

    pub(in crate::store) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Notes that the service has rejected the credentials. Returns true if the next request
    /// fetches other credentials.
    pub(in crate::store) fn rejected(&self) -> bool {
        self.credentials.as_ref().is_some_and(CredentialsCache::expired)
    }

    /// Notes that the service has rejected the credentials as expired. Returns true if another
    /// attempt may succeed, because the service had accepted the credentials before. For this
    /// attempt, the cache of this session or the caller's client fetches new credentials.
    pub(in crate::store) fn expired(&self) -> bool {
        match &self.credentials {
            Some(credentials) => credentials.expired(),
            None => self.has_answered(),
        }
    }
}
