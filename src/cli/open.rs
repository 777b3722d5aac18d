//! Opens the store that a URL names.

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum as _;
use tenure::store::{DirStore, Store};
use tenure::{Election, SnapshotState};

use super::args::LayoutArg;
use super::exit::{self, Failure};
use super::store_url::{Place, StoreUrl};

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
        Place::S3 { bucket, prefix } => s3(bucket, prefix).await,
    }
}

/// Refuses to look for an election in one layout where there is one in the other: it would seem
/// that nobody leads. What cannot be read there now is not what was asked for.
pub async fn refuse_other_layout(
    store: &Arc<dyn Store>,
    prefix: &str,
    layout: LayoutArg,
) -> Result<(), Failure> {
    let other = match layout {
        LayoutArg::EpochFiles => LayoutArg::SingleObject,
        LayoutArg::SingleObject => LayoutArg::EpochFiles,
    };
    let election = Election::builder(Arc::clone(store), prefix).layout(other.into()).build()?;
    match election.snapshot().await {
        Ok(snapshot) if snapshot.state != SnapshotState::Vacant => {
            let name = other.to_possible_value().expect("no layout is hidden");
            let why =
                format!("the election here lies in the other layout: --layout {}", name.get_name());
            Err(Failure::new(exit::USAGE, why))
        }
        _ => Ok(()),
    }
}

/// The prefix of the election in its store, to check it before the store is opened.
pub fn prefix(url: &StoreUrl) -> &str {
    match url.place() {
        Place::Dir { .. } => "",
        Place::S3 { prefix, .. } => prefix,
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

#[cfg(feature = "s3")]
async fn s3(bucket: &str, prefix: &str) -> Result<Opened, Failure> {
    let store = Arc::new(tenure::store::S3Store::from_env(bucket).await);
    Ok(Opened { store, prefix: prefix.to_owned() })
}

#[cfg(not(feature = "s3"))]
async fn s3(bucket: &str, _prefix: &str) -> Result<Opened, Failure> {
    let why = format!("s3://{bucket}: this build has no S3 store: build it with --features cli,s3");
    Err(Failure::new(exit::USAGE, why))
}
