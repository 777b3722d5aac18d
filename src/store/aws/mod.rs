//! The parts that all stores on Amazon's SDK share. They load settings and credentials, provide one
//! HTTPS connector for the process, record calls, and classify failures.

use aws_config::SdkConfig;
use aws_smithy_runtime_api::client::http::{SharedHttpClient, http_client_fn};
use aws_types::service_config::ServiceConfigKey;

mod connector;
mod credentials;
mod error_text;
pub(super) mod failure;
mod interceptor;
mod region;
mod session;
mod settings;

#[cfg(feature = "s3")]
pub(super) use error_text::{causes, find};
pub(super) use interceptor::CallInterceptor;
pub(super) use region::RegionalClient;
pub(super) use session::Session;

/// Returns a setting from the environment or the profile, either of this service or of all
/// services.
///
/// This function exists because the fields of the loaded configuration also contain defaults.
pub(super) fn setting(
    config: &SdkConfig,
    service: &'static str,
    env: &'static str,
    profile: &'static str,
) -> Option<String> {
    let key =
        ServiceConfigKey::builder().service_id(service).env(env).profile(profile).build().ok()?;
    config.service_config()?.load_config(key)
}

fn https() -> SharedHttpClient {
    http_client_fn(|settings, _| connector::connector(settings))
}

#[cfg(test)]
mod tests {
    use aws_types::service_config::LoadServiceConfig;

    use super::*;

    #[derive(Debug)]
    struct Says;

    impl LoadServiceConfig for Says {
        fn load_config(&self, key: ServiceConfigKey<'_>) -> Option<String> {
            (key.profile() == "p").then(|| format!("{} {}", key.service_id(), key.env()))
        }
    }

    #[test]
    fn a_setting_is_looked_up_by_service_variable_and_profile() {
        let config = SdkConfig::builder().service_config(Says).build();
        assert_eq!(setting(&config, "s", "e", "p").as_deref(), Some("s e"));
        assert_eq!(setting(&config, "s", "e", "other"), None);
        assert_eq!(setting(&SdkConfig::builder().build(), "s", "e", "p"), None);
    }
}
