//! The HTTP connector of Amazon's SDK.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aws_smithy_runtime_api::client::connection::{CaptureSmithyConnection, ConnectionMetadata};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use reqwest::header::HOST;
use reqwest::{Body, Request};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::store::http::{Http, system_roots, tls};
use crate::store::timed;

/// File of root certificates that replaces the machine's certificates. The file comes from
/// `AWS_CA_BUNDLE`, or from `ca_bundle` in the profile.
pub(super) static CA_BUNDLE: OnceLock<Option<String>> = OnceLock::new();

#[derive(Debug, Clone)]
struct AwsConnector {
    http: Arc<Http>,
    /// Maximum time until the head of a response arrives. The SDK sets this timeout for services
    /// that issue credentials.
    limit: Option<Duration>,
}

/// The error of a request that was not sent, because a setting or the request itself is invalid.
#[derive(Debug, Clone)]
pub(super) struct NotSendable(String);

/// Returns a connector. The first call creates the pool of connections. All connectors share this
/// pool, because loading the system's root certificates takes 20 ms or more, on some machines
/// seconds.
pub(super) fn connector(settings: &HttpConnectorSettings) -> SharedHttpConnector {
    static HTTP: OnceLock<Result<Arc<Http>, NotSendable>> = OnceLock::new();
    let limit = settings
        .read_timeout()
        .map(|read| read.saturating_add(settings.connect_timeout().unwrap_or_default()));
    match HTTP.get_or_init(pool) {
        Ok(http) => SharedHttpConnector::new(AwsConnector { http: Arc::clone(http), limit }),
        Err(error) => SharedHttpConnector::new(error.clone()),
    }
}

fn pool() -> Result<Arc<Http>, NotSendable> {
    let roots = match CA_BUNDLE.get() {
        Some(Some(bundle)) => roots_in(bundle)?,
        _ => system_roots(),
    };
    let http = Http::new(tls(roots));
    http.map(Arc::new).map_err(|error| NotSendable(format!("no HTTP client: {error}")))
}

fn roots_in(bundle: &str) -> Result<RootCertStore, NotSendable> {
    let refused = |why: &dyn fmt::Display| {
        NotSendable(format!(
            "AWS_CA_BUNDLE (ca_bundle in the profile) must be a file of PEM certificates, got \
             {bundle:?}: {why}"
        ))
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(bundle).map_err(|error| refused(&error))? {
        let certificate = certificate.map_err(|error| refused(&error))?;
        roots.add(certificate).map_err(|error| refused(&error))?;
    }
    match roots.is_empty() {
        true => Err(refused(&"the file contains no certificate")),
        false => Ok(roots),
    }
}

impl HttpConnector for NotSendable {
    fn call(&self, _: HttpRequest) -> HttpConnectorFuture {
        HttpConnectorFuture::ready(Err(self.clone().into()))
    }
}

impl From<NotSendable> for ConnectorError {
    fn from(error: NotSendable) -> ConnectorError {
        ConnectorError::user(error.into())
    }
}

impl fmt::Display for NotSendable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotSendable {}

impl HttpConnector for AwsConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let AwsConnector { http, limit } = self.clone();
        if let Some(captured) = request.extension::<CaptureSmithyConnection>() {
            captured.set_connection_retriever(|| Some(connection()));
        }
        HttpConnectorFuture::new(async move {
            let request = converted(request)?;
            let client = http.client(request.url().host_str().unwrap_or_default());
            let answer = client.execute(request);
            let response = match limit {
                None => answer.await,
                Some(limit) => timed(limit, answer).await.ok_or_else(|| late(limit))?,
            }
            .map_err(failed)?;
            http.answered(response.status().as_u16());
            let response = http::Response::<Body>::from(response);
            HttpResponse::try_from(response.map(SdkBody::from_body_1_x))
                .map_err(|error| ConnectorError::other(error.into(), None))
        })
    }
}

/// Converts the request, and leaves its signed parts unchanged.
fn converted(request: HttpRequest) -> Result<Request, NotSendable> {
    let request = request.try_into_http1x().map_err(|error| NotSendable(error.to_string()))?;
    let uri = request.uri().clone();
    let mut request = Request::try_from(request.map(Body::wrap))
        .map_err(|error| NotSendable(format!("{uri} is not a URL: {error}")))?;
    // A `Request` parses the URI as a URL. This removes `.` and `..` between slashes, and changes
    // the host to lower case.
    if request.url().path() != uri.path() {
        return Err(NotSendable(format!(
            "a key must not have `.` or `..` between slashes, got {}",
            uri.path()
        )));
    }
    if let Some(authority) = uri.authority()
        && let Ok(host) = authority.as_str().parse()
    {
        request.headers_mut().entry(HOST).or_insert(host);
    }
    Ok(request)
}

/// Returns a placeholder for the connection of a request. After a 5xx, the SDK tries to close the
/// connection, and logs an error if it does not know the connection. Closing this placeholder has
/// no effect, because [`Http::answered`] already makes later requests use new connections.
fn connection() -> ConnectionMetadata {
    ConnectionMetadata::builder().proxied(false).poison_fn(|| {}).build()
}

fn late(limit: Duration) -> ConnectorError {
    ConnectorError::timeout(format!("no answer within {limit:?}").into())
}

fn failed(error: reqwest::Error) -> ConnectorError {
    let error = error.without_url();
    match error.is_timeout() {
        true => ConnectorError::timeout(error.into()),
        false => ConnectorError::io(error.into()),
    }
}
