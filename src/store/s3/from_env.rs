//! Creates a client from the settings of the environment.

use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{RequestChecksumCalculation, ResponseChecksumValidation};

use crate::store::aws::{RegionalClient, Session, setting};
use crate::store::url::StoreOptions;

/// Creates a client from the options and the settings of the environment, including a custom
/// endpoint.
pub(super) async fn load(options: &StoreOptions) -> (RegionalClient<Client>, Session) {
    let (config, session) = Session::load("S3", options).await;
    let endpoint = session.endpoint().map(str::to_owned);
    let client = RegionalClient::new(config, move |config| client(config, endpoint.as_deref()));
    (client, session)
}

fn client(config: &SdkConfig, endpoint: Option<&str>) -> Client {
    let mut builder = aws_sdk_s3::config::Builder::from(config);
    if let Some(endpoint) = endpoint {
        builder = builder.endpoint_url(with_final_slash(endpoint));
        // Most servers other than S3 do not accept bucket names in the host name, and do not
        // support the newer checksums.
        builder = builder.force_path_style(true);
        let key = ("AWS_REQUEST_CHECKSUM_CALCULATION", "request_checksum_calculation");
        if setting(config, "S3", key.0, key.1).is_none() {
            builder = builder.request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        }
        let key = ("AWS_RESPONSE_CHECKSUM_VALIDATION", "response_checksum_validation");
        if setting(config, "S3", key.0, key.1).is_none() {
            builder = builder.response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        }
    }
    Client::from_conf(builder.build())
}

/// Returns the endpoint with a slash after its path. Without the slash, the SDK joins the path and
/// the bucket's name: `PUT /minio/apibucket/key`.
fn with_final_slash(endpoint: &str) -> String {
    let end = endpoint.find(['?', '#']).unwrap_or(endpoint.len());
    let (url, rest) = endpoint.split_at(end);
    format!("{}/{rest}", url.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slash_is_added_to_the_path_before_the_query() {
        assert_eq!(with_final_slash("http://h"), "http://h/");
        assert_eq!(with_final_slash("http://h/"), "http://h/");
        assert_eq!(with_final_slash("http://[::1]:9/a/b"), "http://[::1]:9/a/b/");
        assert_eq!(with_final_slash("http://h/a?b=c/d"), "http://h/a/?b=c/d");
    }
}
