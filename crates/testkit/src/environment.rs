//! The S3 server that a script under `scripts/` has started. Environment variables describe the
//! server.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `AWS_ENDPOINT_URL` | URL of the server |
//! | `TENURE_TEST_S3_ENDPOINTS` | URLs of all gateways, separated by commas, if there are several |
//! | `TENURE_TEST_S3_BUCKET` | name of a bucket |
//! | `TENURE_TEST_S3_QUIRKS` | `unquoted-etags`, `missing-is-refused`, separated by commas |

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use tenure::store::{
    Determinacy, ETag, GetOutcome, Page, PutOutcome, S3Store, Store, StoreError,
    StoreErrorKind,
};

use super::conformance::Capabilities;
use super::http_shell::aws::own_http_client;
use super::s3_server;

/// Time limit of a request. A cluster that loses a member needs less time to detect the loss.
const PATIENCE: Duration = Duration::from_secs(90);

fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!(
        "{name} is not set: start the server by a script under scripts/"
    ))
}

pub fn quirk(name: &str) -> bool {
    let quirks = std::env::var("TENURE_TEST_S3_QUIRKS").unwrap_or_default();
    quirks.split(',').any(|quirk| quirk == name)
}

pub fn bucket() -> String {
    var("TENURE_TEST_S3_BUCKET")
}

/// Returns a unique key prefix that begins with `name`.
pub fn prefix(name: &str) -> String {
    let unique = fastrand::u128(..);
    format!("{name}-{unique:032x}/")
}

pub fn endpoints() -> Vec<String> {
    let all = std::env::var("TENURE_TEST_S3_ENDPOINTS");
    let all = all.unwrap_or_else(|_| var("AWS_ENDPOINT_URL"));
    all.split(',').map(str::to_owned).collect()
}

/// Returns a client with separate connections. Concurrent tests must not share connections, because
/// a connection ends with the runtime of the test that created it.
pub fn client(endpoint: &str) -> aws_sdk_s3::Client {
    let (key, secret) = (var("AWS_ACCESS_KEY_ID"), var("AWS_SECRET_ACCESS_KEY"));
    let config = s3_server::config(endpoint, &key, &secret).http_client(own_http_client());
    aws_sdk_s3::Client::from_conf(config.build())
}

/// Returns a store without any setting for the server's quirks.
pub fn plain_store() -> Arc<dyn Store> {
    Arc::new(S3Store::new(client(&endpoints()[0]), bucket()))
}

/// Returns a store that uses all gateways of the server. Also returns the capabilities of this
/// store.
pub fn server() -> (Arc<dyn Store>, Capabilities) {
    let gateway = |endpoint: &String| {
        let store = S3Store::new(client(endpoint), bucket());
        if quirk("unquoted-etags") { store.with_unquoted_etags() } else { store }
    };
    let gateways = endpoints().iter().map(gateway).collect();
    let store = Gateways { gateways, turn: AtomicUsize::new(0) };
    let missing_is_refused = quirk("missing-is-refused");
    (Arc::new(store), Capabilities { missing_is_refused, ..Capabilities::default() })
}

/// One bucket behind several gateways. Each call uses the next gateway. A call that fails without
/// an effect is repeated at the next gateway.
#[derive(Debug)]
struct Gateways {
    gateways: Vec<S3Store>,
    turn: AtomicUsize,
}

impl Gateways {
    async fn call<'a, T>(
        &'a self,
        call: impl Fn(&'a S3Store) -> BoxFuture<'a, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut last = None;
        for attempt in 0..self.gateways.len() {
            let gateway = &self.gateways[(turn + attempt) % self.gateways.len()];
            match bounded(call(gateway)).await {
                Err(error)
                    if error.kind() == StoreErrorKind::Transient
                        && error.determinacy() == Determinacy::Determinate =>
                {
                    last = Some(error);
                }
                answer => return answer,
            }
        }
        Err(last.expect("there is at least one gateway"))
    }
}

#[allow(clippy::disallowed_methods, reason = "real servers take real time")]
async fn bounded<T>(call: BoxFuture<'_, Result<T, StoreError>>) -> Result<T, StoreError> {
    let late =
        |_| StoreError::new(StoreErrorKind::Transient, Determinacy::Indeterminate, "no response");
    tokio::time::timeout(PATIENCE, call).await.map_err(late)?
}

#[async_trait]
impl Store for Gateways {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        self.call(|gateway| {
            let (prefix, after) = (prefix.clone(), after.clone());
            Box::pin(async move { gateway.list(&prefix, &after, limit).await })
        })
        .await
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        self.call(|gateway| {
            let (key, unless) = (key.to_owned(), unless.clone());
            Box::pin(async move { gateway.get(&key, unless, max_len).await })
        })
        .await
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.call(|gateway| {
            let (key, body) = (key.to_owned(), body.clone());
            Box::pin(async move { gateway.create(&key, body).await })
        })
        .await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        self.call(|gateway| {
            let (key, body, etag) = (key.to_owned(), body.clone(), etag.clone());
            Box::pin(async move { gateway.replace(&key, body, etag).await })
        })
        .await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.call(|gateway| {
            let keys = keys.clone();
            Box::pin(async move { gateway.delete(keys).await })
        })
        .await
    }

    fn describe(&self) -> String {
        self.gateways[0].describe()
    }
}
