//! A client from the environment.

use aws_config::{BehaviorVersion, Region};
use aws_sdk_dynamodb::Client;

use crate::store::aws::{https, setting};

/// A client by the environment's settings, and the custom endpoint among them.
pub(super) async fn from_env() -> (Client, Option<String>) {
    let loader = aws_config::defaults(BehaviorVersion::latest());
    let config = loader.http_client(https()).load().await;
    let endpoint = setting(&config, "DynamoDB", "AWS_ENDPOINT_URL", "endpoint_url")
        .or_else(|| config.endpoint_url().map(str::to_owned));
    let mut builder = aws_sdk_dynamodb::config::Builder::from(&config);
    if endpoint.is_some() && config.region().is_none() {
        builder = builder.region(Region::from_static("us-east-1"));
    }
    (Client::from_conf(builder.build()), endpoint)
}
