//! The program of docs/start/first-leader-in-rust.md, with a shorter validity and with batches.
//!
//! ```text
//! cargo run --example quick_start    # on the bucket my-bucket, settings as for the AWS CLI
//! ```
//!
//! The program runs until it is stopped. If it cannot reach the store for some seconds, it stops
//! its writes and campaigns again.
#![allow(clippy::disallowed_methods, reason = "a sleep represents the time between batches")]

use std::sync::Arc;
use tenure::{Election, RunOutcome, store::S3Store};
use tenure_fencing::FencedLog;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = Arc::new(S3Store::from_env("my-bucket").await);
    let election = Election::builder(store.clone(), "orders/leader")
        .name("worker-7")
        .validity(std::time::Duration::from_secs(8))
        .build()?;
    let log = FencedLog::new(store, "orders/log")?;
    loop {
        let leadership = election.campaign().await?; // waits until elected
        let lease = leadership.lease();
        let outcome = leadership
            .run(async |_token, cancelled| {
                let mut writer = log.open(&lease).await?; // older writers are refused from here on
                while !cancelled.is_cancelled() {
                    writer.append(next_batch().await).await?;
                }
                Ok::<_, tenure_fencing::FencingError>(())
            })
            .await; // resigns after the work returns
        match outcome {
            RunOutcome::Completed(Ok(())) => return Ok(()), // the work is complete
            other => eprintln!("{other:?}; campaigning again in a second"),
        }
        // Without a pause, work that fails immediately would consume many epochs.
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
}

async fn next_batch() -> Vec<u8> {
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    b"a batch".to_vec()
}
