//! A client from the environment.

use aws_config::Region;
use aws_sdk_dynamodb::Client;

use crate::store::aws::{Keeper, load, setting};

/// A client by the environment's settings, the custom endpoint among them, and who keeps its
/// credentials.
pub(super) async fn from_env() -> (Client, Option<String>, Option<Keeper>) {
    let (config, keeper) = load().await;
    let endpoint = setting(&config, "DynamoDB", "AWS_ENDPOINT_URL", "endpoint_url")
        .or_else(|| config.endpoint_url().map(str::to_owned));
    let mut builder = aws_sdk_dynamodb::config::Builder::from(&config);
    if endpoint.is_some() && config.region().is_none() {
        builder = builder.region(Region::from_static("us-east-1"));
    }
    (Client::from_conf(builder.build()), endpoint, keeper)
}
