//! Detects settings of the environment that would make the SDK panic, or that the SDK cannot send.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::str::FromStr as _;

use aws_config::meta::region::ProvideRegion as _;
use aws_config::profile::{self, ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region, SdkConfig};
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider, future};
use aws_smithy_types::retry::RetryMode;
use aws_types::os_shim_internal::{Env, Fs};
use futures::FutureExt as _;

use super::https;
use crate::store::time_limits::text_of;
use crate::store::url::StoreOptions;

/// Environment variables with values that the SDK sends unchanged, in headers or signatures.
const SENT: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
];

/// The error for an unusable setting. The message omits values that may be secret.
#[derive(Debug, Clone)]
pub(super) struct WrongSetting(String);

impl fmt::Display for WrongSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongSetting {}

/// Loads the settings of the environment. The options have precedence. If a setting is wrong, every
/// request with this configuration fails, and the error of the request names the setting.
pub(super) async fn load(options: &StoreOptions) -> SdkConfig {
    let named = options.profile.clone().map(Into::into);
    let profile = profile::load(&Fs::real(), &Env::real(), &Default::default(), named).await;
    let of_profile = |name: &str| profile.as_ref().ok()?.get(name).map(str::to_owned);
    let is_missing =
        |name: &&String| !profile.as_ref().is_ok_and(|it| it.get_profile(name).is_some());
    let missing = options.profile.as_ref().filter(is_missing);
    let missing = missing.map(|it| WrongSetting(format!("profile {it:?} is not in the AWS files")));
    let wrong = wrong_setting(|name| std::env::var(name).ok(), of_profile);
    let wrong = match missing.or(wrong) {
        Some(wrong) => wrong,
        // The check above does not cover every setting, so an invalid setting may still make the
        // SDK panic.
        None => match AssertUnwindSafe(loaded(options)).catch_unwind().await {
            Ok(config) => return config,
            Err(panic) => {
                let text = text_of(&*panic);
                WrongSetting(format!(
                    "a setting of the profile or the environment is invalid: \
                                      {text}"
                ))
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

async fn loaded(options: &StoreOptions) -> SdkConfig {
    let loader = aws_config::defaults(BehaviorVersion::latest()).http_client(https());
    let region = options.region.clone().map(Region::new);
    let Some(name) = &options.profile else { return in_region(loader, region).load().await };
    let region = match region {
        None => ProfileFileRegionProvider::builder().profile_name(name).build().region().await,
        region => region,
    };
    // The default provider would prefer the keys of the environment to this profile.
    let settings = ProviderConfig::without_region().with_http_client(https());
    let settings = settings.with_region(region.clone());
    let source = ProfileFileCredentialsProvider::builder().configure(&settings);
    let source = source.profile_name(name).build();
    in_region(loader.profile_name(name).credentials_provider(source), region).load().await
}

fn in_region(loader: ConfigLoader, region: Option<Region>) -> ConfigLoader {
    match region {
        Some(region) => loader.region(region),
        None => loader,
    }
}

/// Returns the position of the first character that a header cannot contain, counted from 1.
pub(super) fn unsendable(text: &str) -> Option<usize> {
    text.chars().position(|c| !c.is_ascii_graphic()).map(|at| at + 1)
}

fn wrong_setting(
    variable: impl Fn(&str) -> Option<String>,
    profile: impl Fn(&str) -> Option<String>,
) -> Option<WrongSetting> {
    for name in SENT {
        let text = variable(name).unwrap_or_default();
        if let Some(place) = unsendable(&text) {
            return Some(WrongSetting(format!(
                "{name} must contain only letters, digits and symbols; correct its character \
                 {place} (for example a space or a line end)"
            )));
        }
        if name.ends_with("REGION") && !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        {
            return Some(WrongSetting(format!(
                "{name} must contain only letters, digits and hyphens, got {text:?}"
            )));
        }
    }
    // The environment variable has precedence over the profile. An error message names the variable
    // or the profile, whichever contains the value.
    let either = |name: &'static str, of_profile: &'static str| match variable(name) {
        Some(text) => Some((name.to_owned(), text)),
        None => Some((format!("{of_profile} in the profile"), profile(of_profile)?)),
    };
    if let Some((name, mode)) = either("AWS_RETRY_MODE", "retry_mode")
        && RetryMode::from_str(&mode).is_err()
    {
        return Some(WrongSetting(format!("{name} must be standard or adaptive, got {mode:?}")));
    }
    let (name, attempts) = either("AWS_MAX_ATTEMPTS", "max_attempts")?;
    match attempts.parse() {
        Ok(1_u32..) => None,
        _ => Some(WrongSetting(format!("{name} must be at least 1, got {attempts:?}"))),
    }
}

/// A credentials provider that always returns this error. Each request first needs credentials, so
/// each request fails with this error.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(name: &str, text: &str) -> Option<String> {
        let given = |asked: &str| (asked == name).then(|| text.to_owned());
        wrong_setting(given, given).map(|wrong| wrong.to_string())
    }

    #[test]
    fn regression_errors_name_settings_that_make_the_sdk_panic() {
        for (name, text) in [
            ("AWS_ACCESS_KEY_ID", "AKIA-not-shown\n"),
            ("AWS_SECRET_ACCESS_KEY", "not-shown not-shown"),
            ("AWS_SESSION_TOKEN", "not-shown\u{7f}"),
            ("AWS_REGION", "eu-west-3\n"),
            ("AWS_DEFAULT_REGION", "eu/west"),
            ("AWS_RETRY_MODE", "bogus"),
            ("AWS_MAX_ATTEMPTS", "0"),
            ("AWS_MAX_ATTEMPTS", "many"),
            ("retry_mode", "bogus"),
            ("max_attempts", "0"),
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
            ("retry_mode", "standard"),
            ("max_attempts", "3"),
        ] {
            assert_eq!(wrong(name, text), None, "{name}={text:?}");
        }
    }
}
