//! HTTP for object_store's clients: TLS as the S3 store has it, nothing sent twice, and the date of
//! each answer kept.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use chrono::DateTime;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientOptions, RetryConfig};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use super::ServedAt;

/// As the S3 store.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(3_100);

/// A write that was sent twice could be refused for its own success, and the driver tries again by
/// itself whatever may be tried again.
pub(super) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Makes the clients of one store: for its objects, and for its credentials.
#[derive(Debug)]
pub(super) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = reqwest::Client::builder()
            .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(TLS.clone())
            .http1_only()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .build()
            .map_err(|error| object_store::Error::Generic {
                store: "HTTP",
                source: error.into(),
            })?;
        Ok(HttpClient::new(Dated(client)))
    }
}

/// Built with the first client and then shared: loading the system's root certificates takes
/// between 20 ms and seconds. Without any, every connection with TLS fails and says so.
static TLS: LazyLock<ClientConfig> = LazyLock::new(|| {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth()
});

#[derive(Debug)]
struct Dated(reqwest::Client);

#[async_trait]
impl HttpService for Dated {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // The client below takes it for granted that a URI is a URL.
        if request.uri().host().is_none() {
            let why = std::io::Error::other("the URL names no host");
            return Err(HttpError::new(HttpErrorKind::Unknown, why));
        }
        let mut response = self.0.call(request).await?;
        let date = response.headers().get("date").and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) {
            response.extensions_mut().insert(ServedAt(date.to_utc()));
        }
        Ok(response)
    }
}
