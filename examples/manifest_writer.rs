//! A program that writes the manifests of a database. Manifests are numbered objects, and each
//! manifest is created with `If-None-Match`.
//!
//! ```text
//! cargo run --example manifest_writer -- s3://my-bucket
//! ```
//!
//! Each manifest is an entry of a [`FencedLog`], which stores the epoch of the writer in the entry.
//! A new leader opens the log before it reads the newest manifest. From then on the log refuses
//! manifests of a former leader, even if that leader paused between the check of its lease and its
//! write.

use std::error::Error;

use serde::{Deserialize, Serialize};
use tenure::Election;
use tenure_fencing::{FencedLog, FencingError};

#[derive(Debug, Default, Serialize, Deserialize)]
struct Manifest {
    files: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or("file:///tmp/bucket".to_owned());
    let (store, _) = tenure::store::open(&url).await?;
    let election = Election::builder(store.clone(), "database/leader").build()?;
    let log = FencedLog::new(store, "database/manifest")?;

    let leadership = election.campaign().await?;
    let mut writer = log.open(&leadership.lease()).await?;
    let mut manifest = match writer.latest().await? {
        Some(entry) => serde_json::from_slice(&entry.body)?,
        None => Manifest::default(),
    };
    for part in 0..3 {
        // A real program first writes the data file, under a name that no other writer uses. Then
        // it appends a manifest that contains this name.
        manifest.files.push(format!("{}-{part}.sst", leadership.epoch()));
        match writer.append(serde_json::to_vec(&manifest)?).await {
            Ok(number) => println!("manifest {number}: {} files", manifest.files.len()),
            Err(FencingError::Stale { stale, .. }) => return Err(stale.into()), // lost
            // The effect of the append is unknown. Before the next append, a program must open the
            // log again and read the newest manifest.
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(newest) = writer.last() {
        log.trim(newest).await?; // deletes the manifests before the newest
    }
    leadership.resign().await?;
    Ok(())
}
