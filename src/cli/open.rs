//! Opens the store that a URL names.

use std::path::Path;
use std::sync::Arc;

use tenure::store::{DirStore, Store, StoreError};

use super::exit::{self, Failure};
use super::store_url::{Place, Service, StoreUrl};

/// What becomes of a directory that does not exist. A bucket is never made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It is made: whoever campaigns founds the election.
    Make,
    /// It is refused: to look at an election that nobody has founded is most likely a typing error.
    Refuse,
}

/// A store, and the prefix of the election in it.
pub struct Opened {
    pub store: Arc<dyn Store>,
    pub prefix: String,
}

/// Opens the store. A bucket is not asked for anything yet.
pub async fn open(url: &StoreUrl, missing: Missing) -> Result<Opened, Failure> {
    match url.place() {
        Place::Dir { path } => dir(path, url, missing),
        Place::Bucket { service, bucket, prefix } => {
            let store = match service {
                Service::S3 => s3(bucket).await,
                Service::CloudStorage => gcs(bucket),
                Service::Azure => azure(bucket),
            };
            let Some(store) = store else { return Err(not_built(*service, bucket)) };
            Ok(Opened { store: store?, prefix: prefix.clone() })
        }
    }
}

/// The prefix of the election in its store, to check it before the store is opened.
pub fn prefix(url: &StoreUrl) -> &str {
    match url.place() {
        Place::Dir { .. } => "",
        Place::Bucket { prefix, .. } => prefix,
    }
}

fn dir(path: &Path, url: &StoreUrl, missing: Missing) -> Result<Opened, Failure> {
    // An error other than "not found" is for the store to explain.
    if missing == Missing::Refuse && matches!(path.try_exists(), Ok(false)) {
        let why = format!("{url}: there is no such directory; `tenure run` makes it");
        return Err(Failure::new(exit::UNAVAILABLE, why));
    }
    Ok(Opened { store: Arc::new(DirStore::open(path)?), prefix: String::new() })
}

/// A store, or `None` if this build has none of that service.
type Built = Option<Result<Arc<dyn Store>, StoreError>>;

#[cfg(feature = "s3")]
async fn s3(bucket: &str) -> Built {
    Some(Ok(Arc::new(tenure::store::S3Store::from_env(bucket).await)))
}

#[cfg(not(feature = "s3"))]
async fn s3(_bucket: &str) -> Built {
    None
}

#[cfg(feature = "gcs")]
fn gcs(bucket: &str) -> Built {
    let store = tenure::store::AnyObjectStore::gcs_from_env(bucket);
    Some(store.map(|store| Arc::new(store) as Arc<dyn Store>))
}

#[cfg(not(feature = "gcs"))]
fn gcs(_bucket: &str) -> Built {
    None
}

#[cfg(feature = "azure")]
fn azure(container: &str) -> Built {
    let store = tenure::store::AnyObjectStore::azure_from_env(container);
    Some(store.map(|store| Arc::new(store) as Arc<dyn Store>))
}

#[cfg(not(feature = "azure"))]
fn azure(_container: &str) -> Built {
    None
}

fn not_built(service: Service, bucket: &str) -> Failure {
    let (name, feature) = match service {
        Service::S3 => ("S3", "s3"),
        Service::CloudStorage => ("Cloud Storage", "gcs"),
        Service::Azure => ("Azure", "azure"),
    };
    let scheme = service.scheme();
    let why = format!(
        "{scheme}://{bucket}: this build has no store for {name}: build it with \
         --features cli,{feature}"
    );
    Failure::new(exit::USAGE, why)
}
