//! One place, seen by two libraries: tenure's objects and SlateDB's databases below one prefix.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use object_store::local::LocalFileSystem;
use tenure::Election;
use tenure::store::{AnyObjectStore, DirStore, Store};
use tenure_groups::Group;

use crate::Result;

#[derive(Debug, Clone)]
pub enum Place {
    Dir(PathBuf),
    S3 { bucket: String, prefix: String },
}

impl Place {
    pub fn parse(at: &str) -> Place {
        let Some(rest) = at.strip_prefix("s3://") else { return Place::Dir(PathBuf::from(at)) };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        Place::S3 { bucket: bucket.to_owned(), prefix: prefix.to_owned() }
    }

    /// A part of this place that nobody has used before.
    pub fn below(self, run: &str) -> Place {
        match self {
            Place::Dir(path) => Place::Dir(path.join(run)),
            Place::S3 { bucket, prefix } if prefix.is_empty() => {
                Place::S3 { bucket, prefix: run.to_owned() }
            }
            Place::S3 { bucket, prefix } => Place::S3 { bucket, prefix: format!("{prefix}/{run}") },
        }
    }

    pub async fn election(&self, name: &str) -> Result<Election> {
        let (store, prefix) = self.store("leader").await?;
        // A lease of some seconds, so that a takeover is worth watching.
        let election = Election::builder(store, prefix).validity(Duration::from_secs(3)).name(name);
        Ok(election.build()?)
    }

    /// The group whose partitions are this many databases.
    pub async fn group(&self, name: &str, shards: u32) -> Result<Group> {
        let (store, prefix) = self.store("group").await?;
        let group = Group::builder(store, prefix).name(name).partitions(0..shards);
        // Long enough for a busy machine.
        Ok(group.validity(Duration::from_secs(10)).poll_interval(Duration::from_secs(1)).build()?)
    }

    async fn store(&self, folder: &str) -> Result<(Arc<dyn Store>, String)> {
        Ok(match self {
            Place::Dir(path) => (Arc::new(DirStore::open(path.join(folder))?), String::new()),
            // SlateDB's client serves tenure, too.
            Place::S3 { prefix, .. } => {
                let (store, _) = self.database("")?;
                (Arc::new(AnyObjectStore::new(store).await?), format!("{prefix}/{folder}"))
            }
        })
    }

    /// Where SlateDB keeps its objects, and the path of the database of this name there.
    pub fn database(&self, name: &str) -> Result<(Arc<dyn ObjectStore>, String)> {
        match self {
            Place::Dir(path) => {
                std::fs::create_dir_all(path)?;
                Ok((Arc::new(LocalFileSystem::new_with_prefix(path)?), name.to_owned()))
            }
            Place::S3 { bucket, prefix } => {
                let endpoint = std::env::var("AWS_ENDPOINT_URL").unwrap_or_default();
                let s3 = AmazonS3Builder::from_env()
                    .with_bucket_name(bucket)
                    .with_allow_http(endpoint.starts_with("http://"))
                    .with_conditional_put(S3ConditionalPut::ETagMatch)
                    .build()?;
                Ok((Arc::new(s3), format!("{prefix}/{name}")))
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Dir(path) => write!(f, "{}", path.display()),
            Place::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}
