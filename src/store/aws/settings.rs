//! Settings of the environment that the SDK would panic for, or could never send.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::str::FromStr as _;
use std::time::Duration;

use aws_config::imds;
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_smithy_types::retry::RetryMode;
use futures::FutureExt as _;

use super::error_text::refused_by_the_machine;
use super::https;
use crate::clock::{Clock as _, SystemClock};
use crate::store::timed;

/// Sent as they are, in headers and in signatures.
const SENT: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
];

/// How long the machine's metadata service may refuse to name the region after a start.
const METADATA_PATIENCE: Duration = Duration::from_secs(60);

/// A setting that cannot be used, in words without its value where that may be a secret.
#[derive(Debug, Clone)]
pub(super) struct WrongSetting(String);

impl fmt::Display for WrongSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongSetting {}

/// Loads the settings. With a wrong one every request of the configuration fails, and names it.
pub(super) async fn load(loader: ConfigLoader) -> SdkConfig {
    let wrong = match wrong_setting(|name| std::env::var(name).ok()) {
        Some(wrong) => wrong,
        // A profile may have the same.
        None => match AssertUnwindSafe(loader.load()).catch_unwind().await {
            Ok(config) => return config,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                WrongSetting(format!("a setting of the profile or the environment: {text}"))
            }
        },
    };
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(https())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Refusing(wrong)))
        .build()
}

/// Whether each character is one of those that headers can have.
pub(super) fn can_be_sent(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_graphic())
}

fn wrong_setting(variable: impl Fn(&str) -> Option<String>) -> Option<WrongSetting> {
    for name in SENT {
        let text = variable(name).unwrap_or_default();
        if let Some(at) = text.chars().position(|c| !c.is_ascii_graphic()) {
            return Some(WrongSetting(format!(
                "{name} must have letters, digits and signs only, and its character {} is a space, \
                 a line end or another that cannot be sent",
                at + 1
            )));
        }
        if name.ends_with("REGION") && !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        {
            return Some(WrongSetting(format!(
                "{name} must have letters, digits and hyphens only, got {text:?}"
            )));
        }
    }
    let mode = variable("AWS_RETRY_MODE").filter(|mode| RetryMode::from_str(mode).is_err());
    if let Some(mode) = mode {
        let why = format!("AWS_RETRY_MODE must be standard or adaptive, got {mode:?}");
        return Some(WrongSetting(why));
    }
    let attempts = variable("AWS_MAX_ATTEMPTS").filter(|text| !matches!(text.parse(), Ok(1_u32..)));
    attempts.map(|text| WrongSetting(format!("AWS_MAX_ATTEMPTS must be at least 1, got {text:?}")))
}

/// Gives the reason in the place of credentials, as the first thing that a request needs.
#[derive(Debug)]
struct Refusing(WrongSetting);

impl ProvideCredentials for Refusing {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::ready(Err(CredentialsError::invalid_configuration(
            self.0.clone(),
        )))
    }
}

/// The region by the machine's metadata service, where nothing else names one. The service may
/// refuse for a while after a start, and the SDK asks it once.
pub(super) async fn region_of_the_machine() -> Option<Region> {
    let disabled = std::env::var("AWS_EC2_METADATA_DISABLED");
    if disabled.is_ok_and(|text| text.eq_ignore_ascii_case("true")) {
        return None;
    }
    let settings = ProviderConfig::without_region().with_http_client(https());
    let client = imds::Client::builder().configure(&settings).max_attempts(1).build();
    let started = SystemClock.now().boot;
    loop {
        match client.get("/latest/meta-data/placement/region").await {
            Ok(region) => return Some(Region::new(String::from(region))),
            Err(error) if !refused_by_the_machine(&error) => return None,
            Err(_) if SystemClock.now().boot.saturating_sub(started) >= METADATA_PATIENCE => {
                return None;
            }
            Err(_) => {}
        }
        tracing::warn!("the machine's metadata service does not name the region yet");
        timed(Duration::from_secs(2), std::future::pending::<()>()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(name: &str, text: &str) -> Option<String> {
        let wrong = wrong_setting(|asked| (asked == name).then(|| text.to_owned()));
        wrong.map(|wrong| wrong.to_string())
    }

    #[test]
    fn regression_settings_that_the_sdk_panics_for_are_named() {
        for (name, text) in [
            ("AWS_ACCESS_KEY_ID", "AKIA-not-shown\n"),
            ("AWS_SECRET_ACCESS_KEY", "not-shown not-shown"),
            ("AWS_SESSION_TOKEN", "not-shown\u{7f}"),
            ("AWS_REGION", "eu-west-3\n"),
            ("AWS_DEFAULT_REGION", "eu/west"),
            ("AWS_RETRY_MODE", "bogus"),
            ("AWS_MAX_ATTEMPTS", "0"),
            ("AWS_MAX_ATTEMPTS", "many"),
        ] {
            let why = wrong(name, text).unwrap_or_else(|| panic!("{name}={text:?} is accepted"));
            assert!(why.starts_with(name), "{why}");
            assert!(!why.contains("not-shown"), "{why}");
        }
        for (name, text) in [
            ("AWS_ACCESS_KEY_ID", ""),
            ("AWS_SECRET_ACCESS_KEY", "a/b+c="),
            ("AWS_REGION", "eu-west-3"),
            ("AWS_RETRY_MODE", "Standard"),
            ("AWS_RETRY_MODE", "adaptive"),
            ("AWS_MAX_ATTEMPTS", "3"),
        ] {
            assert_eq!(wrong(name, text), None, "{name}={text:?}");
        }
    }
}
