//! A client from the environment, and the one HTTPS connector of the process.

use std::sync::OnceLock;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{RequestChecksumCalculation, ResponseChecksumValidation};
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use aws_smithy_runtime_api::client::http::{SharedHttpClient, SharedHttpConnector, http_client_fn};
use aws_types::service_config::ServiceConfigKey;

/// A client by the environment's settings, and the custom endpoint among them.
pub(super) async fn from_env() -> (Client, Option<String>) {
    let loader = aws_config::defaults(BehaviorVersion::latest());
    let config = loader.http_client(https()).load().await;
    let endpoint = setting(&config, "AWS_ENDPOINT_URL", "endpoint_url")
        .or_else(|| config.endpoint_url().map(str::to_owned));
    let mut builder = aws_sdk_s3::config::Builder::from(&config);
    if endpoint.is_some() {
        // Few other stores answer to bucket names in the host name or know the newer checksums,
        // and none has regions that mean anything.
        builder = builder.force_path_style(true);
        if config.region().is_none() {
            builder = builder.region(Region::from_static("us-east-1"));
        }
        let key = ("AWS_REQUEST_CHECKSUM_CALCULATION", "request_checksum_calculation");
        if setting(&config, key.0, key.1).is_none() {
            builder = builder.request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        }
        let key = ("AWS_RESPONSE_CHECKSUM_VALIDATION", "response_checksum_validation");
        if setting(&config, key.0, key.1).is_none() {
            builder = builder.response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        }
    }
    (Client::from_conf(builder.build()), endpoint)
}

/// What the environment or the profile says of a setting, for S3 or for all services.
///
/// The loaded configuration does not tell a default from a setting.
fn setting(config: &SdkConfig, env: &str, profile: &str) -> Option<String> {
    let key =
        ServiceConfigKey::builder().service_id("S3").env(env).profile(profile).build().ok()?;
    config.service_config()?.load_config(key)
}

/// Built with the first request and then shared: loading the system's root certificates takes
/// between 20 ms and seconds.
fn https() -> SharedHttpClient {
    static CONNECTOR: OnceLock<SharedHttpConnector> = OnceLock::new();
    http_client_fn(|settings, components| {
        // Every caller comes from `from_env`, so the settings, a connect timeout, are the same.
        let build = || {
            let mut connector = aws_smithy_http_client::Connector::builder()
                .tls_provider(Provider::Rustls(CryptoMode::Ring))
                .connector_settings(settings.clone())
                .proxy_config(ProxyConfig::from_env());
            connector.set_sleep_impl(components.sleep_impl());
            SharedHttpConnector::new(connector.build())
        };
        CONNECTOR.get_or_init(build).clone()
    })
}
