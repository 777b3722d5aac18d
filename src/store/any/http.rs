//! HTTP for object_store's clients: nothing sent twice, and the date of each answer kept.

use std::sync::LazyLock;

use async_trait::async_trait;
use chrono::DateTime;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientOptions, RetryConfig};
use rustls::ClientConfig;

use super::ServedAt;
use crate::store::http::{Http, system_roots, tls};

/// A repeated write could be refused for its own success (E20). The driver makes all retries.
pub(super) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Makes the clients of one store: for its objects, and for its credentials.
#[derive(Debug)]
pub(super) struct ClientConnector;

impl HttpConnector for ClientConnector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let http = Http::new(TLS.clone()).map_err(|error| object_store::Error::Generic {
            store: "HTTP",
            source: error.into(),
        })?;
        Ok(HttpClient::new(Dated(http)))
    }
}

/// Built with the first client and then shared.
static TLS: LazyLock<ClientConfig> = LazyLock::new(|| tls(system_roots()));

#[derive(Debug)]
struct Dated(Http);

#[async_trait]
impl HttpService for Dated {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // The client below takes it for granted that a URI is a URL.
        let Some(host) = request.uri().host() else {
            let why = std::io::Error::other("the URL names no host");
            return Err(HttpError::new(HttpErrorKind::Unknown, why));
        };
        let mut response = self.0.client(host).call(request).await?;
        self.0.answered(response.status().as_u16());
        let date = response.headers().get("date").and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) {
            response.extensions_mut().insert(ServedAt(date.to_utc()));
        }
        Ok(response)
    }
}
