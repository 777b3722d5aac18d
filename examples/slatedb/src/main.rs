//! A writer that opens a SlateDB database only while it leads.
//!
//! ```text
//! cargo run -p tenure-slatedb -- my-bucket    # settings as for the AWS CLI
//! ```
//!
//! The lease prevents two live writers from opening the database alternately and fencing each
//! other. SlateDB's fence protects the data. After a writer has opened the database, SlateDB
//! refuses the writes of the previous writer, even if that writer paused between the check of its
//! lease and its write.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use slatedb::{Db, config::Settings};
use tenure::{Cancellation, Election, Epoch, store::AnyObjectStore};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let bucket = std::env::args().nth(1).ok_or("usage: tenure-slatedb BUCKET")?;
    let s3 = AmazonS3Builder::from_env()
        .with_bucket_name(bucket)
        .with_allow_http(
            std::env::var("AWS_ENDPOINT_URL").is_ok_and(|url| url.starts_with("http:")),
        )
        .with_conditional_put(S3ConditionalPut::ETagMatch);
    let s3 = Arc::new(s3.build()?);
    let store = Arc::new(AnyObjectStore::new(s3.clone()).await?);
    let election = Election::builder(store, "leader").validity(Duration::from_secs(3)).build()?;

    let (stop, mut terminate) = (CancellationToken::new(), signal(SignalKind::terminate())?);
    let stopping = stop.clone();
    tokio::spawn(async move { terminate.recv().await.map(|()| stopping.cancel()) });
    while let Some(leadership) = stop.run_until_cancelled(election.campaign()).await.transpose()? {
        println!("leads {}", leadership.epoch());
        let work = async |epoch: Epoch, cancelled: Cancellation| {
            let settings =
                Settings { flush_interval: Some(Duration::from_millis(20)), ..Default::default() };
            let db = Db::builder("db", s3.clone()).with_settings(settings).build().await?;
            for number in 0.. {
                if cancelled.is_cancelled() || stop.is_cancelled() {
                    break;
                }
                let key = format!("{epoch:>010}/{number:06}");
                db.put(&key, "value").await?.await_durable().await?;
                println!("acked {key}"); // the key is in the object store
            }
            db.close().await
        };
        // The work fails if SlateDB has fenced this writer, or if the store fails.
        println!("stopped: {:?}", leadership.run(work).await);
    }
    Ok(())
}
