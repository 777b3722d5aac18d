//! The HTTP client that object_store's clients use. It sends each request once, and keeps the date
//! of each response.

use std::sync::LazyLock;

use async_trait::async_trait;
use chrono::DateTime;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientOptions, RetryConfig};
use reqwest::header::HeaderValue;
use rustls::ClientConfig;

use super::ServedAt;
use crate::store::http::{Http, system_roots, tls};

/// Returns settings without retries. If a client repeated a write, the store could refuse the
/// second attempt because the first attempt took effect (E20). So only the driver retries.
pub(super) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Creates the HTTP clients of a store, for its objects and for its credentials.
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

/// TLS configuration of all clients. The first client builds it.
static TLS: LazyLock<ClientConfig> = LazyLock::new(|| tls(system_roots()));

#[derive(Debug)]
struct Dated(Http);

#[async_trait]
impl HttpService for Dated {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // The HTTP client assumes that every URI has a host, so refuse a URI without a host.
        let Some(host) = request.uri().host() else {
            let why = std::io::Error::other("the URL names no host");
            return Err(HttpError::new(HttpErrorKind::Unknown, why));
        };
        let mut response = self.0.client(host).call(request).await?;
        self.0.answered(response.status().as_u16());
        // object_store parses a web page as an empty listing. The services never send web pages, so
        // a proxy or a login page has replaced the response.
        let kind = response.headers().get("content-type").map(HeaderValue::as_bytes);
        if response.status().is_success() && kind.is_some_and(|kind| kind.starts_with(b"text/html"))
        {
            let why = "the response is a web page; check for a proxy or a login page on the path";
            return Err(HttpError::new(HttpErrorKind::Unknown, std::io::Error::other(why)));
        }
        let date = response.headers().get("date").and_then(|date| date.to_str().ok());
        if let Some(date) = date.and_then(|date| DateTime::parse_from_rfc2822(date).ok()) {
            response.extensions_mut().insert(ServedAt(date.to_utc()));
        }
        Ok(response)
    }
}
