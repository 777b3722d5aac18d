//! One service with the settings of the environment, and the state of its answers.

use std::sync::atomic::{AtomicBool, Ordering};

use aws_config::{BehaviorVersion, Region, SdkConfig};

use super::connector::CA_BUNDLE;
use super::credentials::{self, CredentialsCache};
use super::{https, setting, settings};
use crate::store::redact::without_secrets;

/// The known facts about a service. Empty by default, for a client of the caller.
#[derive(Default)]
pub(in crate::store) struct Session {
    /// If custom.
    endpoint: Option<String>,
    credentials: Option<CredentialsCache>,
    /// Whether the service has answered in its format before.
    answered: AtomicBool,
}

impl Session {
    /// The settings of the environment and its files, a custom endpoint among them, with
    /// credentials that are kept. At a custom endpoint the region is `us-east-1` unless set: few
    /// other stores have regions that mean anything.
    pub(in crate::store) async fn from_env(service: &'static str) -> (SdkConfig, Session) {
        let loader = aws_config::defaults(BehaviorVersion::latest());
        let config = settings::load(loader.http_client(https())).await;
        let (mut config, credentials) = credentials::keep(config);
        CA_BUNDLE.get_or_init(|| {
            let bundle = setting(&config, service, "AWS_CA_BUNDLE", "ca_bundle");
            bundle.filter(|bundle| !bundle.is_empty())
        });
        let endpoint = setting(&config, service, "AWS_ENDPOINT_URL", "endpoint_url")
            .or_else(|| config.endpoint_url().map(str::to_owned));
        if endpoint.is_some() && config.region().is_none() {
            config = config.into_builder().region(Region::from_static("us-east-1")).build();
        }
        (config, Session { endpoint, credentials, answered: AtomicBool::new(false) })
    }

    #[cfg(feature = "s3")]
    pub(in crate::store) fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    /// This URL and, if custom, the endpoint.
    pub(in crate::store) fn at(&self, url: String) -> String {
        match &self.endpoint {
            None => url,
            Some(endpoint) => format!("{url} at {}", without_secrets(endpoint)),
        }
    }

    /// The service has answered, and so taken the credentials.
    pub(in crate::store) fn heard(&self) {
        self.answered.store(true, Ordering::Relaxed);
        if let Some(credentials) = &self.credentials {
            credentials.taken();
        }
    }

    pub(in crate::store) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// The service does not know the credentials, or not any more. Returns whether others may be
    /// fetched.
    pub(in crate::store) fn rejected(&self) -> bool {
        self.credentials.as_ref().is_some_and(CredentialsCache::expired)
    }

    /// The service calls the credentials expired. Returns whether another attempt makes sense, as
    /// the service has taken them before: then others are fetched here, or by the provider that the
    /// client was made with.
    pub(in crate::store) fn expired(&self) -> bool {
        match &self.credentials {
            Some(credentials) => credentials.expired(),
            None => self.has_answered(),
        }
    }
}
