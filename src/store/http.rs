//! The HTTP client of the cloud stores. This client speaks only HTTP/1.1, over rustls with ring.
//!
//! A client of HTTP/2 sends all requests to a server on one connection. If a NAT drops that
//! connection, no response arrives, and the client does not open another connection. With HTTP/1.1,
//! a cancelled request closes its connection, and the next request opens another connection.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::{Client, ClientBuilder};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};

use super::metadata_hosts::is_metadata_host;
use crate::env::mutex::unpoisoned;

/// Timeout of an attempt to connect, as in Amazon's SDK.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(3_100);

/// A pool of connections. Proxies come from the environment (`HTTPS_PROXY`), except
/// for metadata services.
#[derive(Debug)]
pub(super) struct Http {
    tls: ClientConfig,
    client: Mutex<Client>,
    /// Client for metadata services.
    without_proxy: Client,
}

impl Http {
    pub(super) fn new(tls: ClientConfig) -> reqwest::Result<Http> {
        let client = Mutex::new(settings(tls.clone()).build()?);
        let without_proxy = settings(tls.clone()).no_proxy().build()?;
        Ok(Http { tls, client, without_proxy })
    }

    /// Returns the client for a request to this host. The client sends each request once.
    pub(super) fn client(&self, host: &str) -> Client {
        match is_metadata_host(host) {
            true => self.without_proxy.clone(),
            false => unpoisoned(self.client.lock()).clone(),
        }
    }

    /// Notes the status of a response. After a 5xx status, later requests use new connections,
    /// because every request on an old connection may reach the same failing server.
    pub(super) fn answered(&self, status: u16) {
        if status >= 500
            && let Ok(other) = settings(self.tls.clone()).build()
        {
            *unpoisoned(self.client.lock()) = other;
        }
    }
}

fn settings(tls: ClientConfig) -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls)
        .http1_only()
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
}

/// Returns a TLS configuration that trusts these root certificates. With an empty set, every TLS
/// connection fails with an error.
pub(super) fn tls(roots: RootCertStore) -> ClientConfig {
    let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    tls
}

/// Returns the root certificates of the machine. The function reads them from files, which takes at
/// least 20 ms, and some seconds on slow machines.
pub(super) fn system_roots() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
