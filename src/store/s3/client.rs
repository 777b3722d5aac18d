//! A client from the environment.

use aws_config::Region;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{RequestChecksumCalculation, ResponseChecksumValidation};

use crate::store::aws::{Keeper, load, setting, with_final_slash};

/// A client by the environment's settings, the custom endpoint among them, and who keeps its
/// credentials.
pub(super) async fn from_env() -> (Client, Option<String>, Option<Keeper>) {
    let (config, keeper) = load().await;
    let endpoint = setting(&config, "S3", "AWS_ENDPOINT_URL", "endpoint_url")
        .or_else(|| config.endpoint_url().map(str::to_owned));
    let mut builder = aws_sdk_s3::config::Builder::from(&config);
    if let Some(endpoint) = &endpoint {
        builder = builder.endpoint_url(with_final_slash(endpoint));
        // Few other stores answer to bucket names in the host name or know the newer checksums,
        // and none has regions that mean anything.
        builder = builder.force_path_style(true);
        if config.region().is_none() {
            builder = builder.region(Region::from_static("us-east-1"));
        }
        let key = ("AWS_REQUEST_CHECKSUM_CALCULATION", "request_checksum_calculation");
        if setting(&config, "S3", key.0, key.1).is_none() {
            builder = builder.request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        }
        let key = ("AWS_RESPONSE_CHECKSUM_VALIDATION", "response_checksum_validation");
        if setting(&config, "S3", key.0, key.1).is_none() {
            builder = builder.response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        }
    }
    (Client::from_conf(builder.build()), endpoint, keeper)
}
