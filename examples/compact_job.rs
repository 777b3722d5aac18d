//! A job that deletes superseded epoch objects. A scheduler runs the job every hour.
//!
//! ```text
//! cargo run --example compact_job -- s3://my-bucket/orders --dry-run
//! ```
//!
//! The newest epoch object is never deleted, because the next epoch continues from it. The job
//! needs the permissions to list, to read and to delete. Candidates do not need the permission to
//! delete. If a request fails, the job ends with an error. The printed report also counts objects
//! that the store refused to delete. The next run tries to delete the remaining objects.

use std::error::Error;
use std::time::Duration;

use tenure::Compactor;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("usage: compact_job URL [--dry-run]")?;
    let (store, prefix) = tenure::store::open(&url).await?;
    let compactor = Compactor::builder(store, prefix)
        .keep_epochs(10)
        .min_age(Duration::from_secs(3600))
        .dry_run(arguments.any(|argument| argument == "--dry-run"))
        .build()?;
    println!("{}", compactor.run_once().await?);
    Ok(())
}
