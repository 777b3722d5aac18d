//! Workers share the partitions of a stream. Each partition has a fenced log of its results.
//!
//! ```text
//! cargo run --example stream_processor -- s3://my-bucket    # on as many hosts as you like
//! ```
//!
//! An entry of a log contains the results of one batch and the next offset. One write stores both,
//! so the results contain each record once, even after a crash. The log refuses a late write of a
//! former owner.
#![allow(clippy::disallowed_methods, reason = "a sleep represents the work")]

use std::error::Error;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_fencing::FencedLog;
use tenure_groups::{Group, Partition};

#[derive(Default, Serialize, Deserialize)]
struct Batch {
    next_offset: u64,
    sum: u64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or("file:///tmp/bucket".to_owned());
    let (store, _) = tenure::store::open(&url).await?;
    let group = Group::builder(store.clone(), "orders/group").partitions(0..12).build()?;
    let leaving = group.clone();
    tokio::spawn(async move {
        tokio::signal::ctrl_c().await.expect("Tokio can handle SIGINT");
        leaving.leave(); // finishes the batches, releases all partitions and resigns
    });
    let process = async |partition: Partition| {
        let log = FencedLog::new(store.clone(), format!("orders/log-{}", partition.name()))?;
        let mut writer = log.open(&partition).await?; // refuses former owners
        let mut last = match writer.latest().await? {
            Some(entry) => serde_json::from_slice(&entry.body)?,
            None => Batch::default(),
        };
        while !partition.revoked().is_cancelled() {
            let records = read_records(last.next_offset).await;
            last.next_offset += records.len() as u64;
            last.sum += records.iter().sum::<u64>();
            writer.append(serde_json::to_vec(&last)?).await?;
        }
        println!("partition {} released at offset {}", partition.name(), last.next_offset);
        Ok::<(), Box<dyn Error + Send + Sync>>(())
    };
    group.run(process).await?;
    Ok(())
}

/// Returns ten records of the stream, from this offset.
async fn read_records(offset: u64) -> Vec<u64> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    (offset..offset + 10).collect()
}
