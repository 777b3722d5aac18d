//! The scheme of Amazon's KCL 3: a row of DynamoDB for each lease, on the double of the tests.
//!
//! One worker with its leases stands for all. As its source has it: each lease is renewed by a
//! conditional write every third of the failover time less 25 ms; every two failover times one
//! worker scans all leases, and each asks the index by owner for its own; each writes its metrics
//! every 30 s.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use futures::stream::{self, StreamExt as _};
use tenure_testkit::dynamo_server::DynamoServer;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::side::Size;

/// Those of one worker.
const LEASES: usize = 100;
const TABLE: &str = "leases";
const EPSILON: Duration = Duration::from_millis(25);
const METRICS_EVERY: Duration = Duration::from_secs(30);
/// By how much time is compressed: less than elsewhere, as there is a request for each lease.
const FASTER: u32 = 5;
/// Dollars for a million write and read units of 1 KB and of 4 KB: on demand, us-east-1. Reads that
/// may be old cost half.
const WRITE: f64 = 0.625;
const READ: f64 = 0.125;
/// A lease's row, by KCL's own fields.
const BYTES: f64 = 300.0;
const KEY_BYTES: f64 = 60.0;

pub const TOLD: &str = "KCL is its scheme by its source, one worker of 100 leases on our double of \
     DynamoDB, times 10 and times divided by 5: renewals are conditional writes (PUT), a scan of all \
     leases by one worker and each worker's look at its own by the index are reads (LIST), priced on \
     demand by units of 1 KB and 4 KB ($0.625 and $0.125 a million). Its tokens are of no use to \
     another system, and its failover times are of its own clocks.";

pub struct Measured {
    failover: Duration,
    /// Of one worker, a minute.
    writes: f64,
}

fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

async fn put(client: &Client, lease: usize, counter: u64) {
    let number = |it: u64| AttributeValue::N(it.to_string());
    let call = client
        .put_item()
        .table_name(TABLE)
        .item("leaseKey", text(format!("shardId-{lease:012}")))
        .item("leaseOwner", text("worker-7"))
        .item("leaseCounter", number(counter))
        .item("ownerSwitchesSinceCheckpoint", number(0))
        .item("checkpoint", text("49590338271490256608559692538361571095921575989136588898"))
        .item("checkpointSubSequenceNumber", number(0))
        .item("throughputKBps", number(12));
    let call = match counter {
        0 => call,
        _ => call
            .condition_expression("#counter = :counter AND #owner = :owner")
            .expression_attribute_names("#counter", "leaseCounter")
            .expression_attribute_names("#owner", "leaseOwner")
            .expression_attribute_values(":counter", number(counter - 1))
            .expression_attribute_values(":owner", text("worker-7")),
    };
    call.send().await.expect("nobody else writes it");
}

pub async fn measure(failover: Duration, size: &Size) -> Measured {
    let server = DynamoServer::start_empty();
    server.create_table(TABLE, &[("leaseKey", "HASH", "S")]);
    let client = server.client();
    let renew = async {
        let every = (failover / 3 - EPSILON) / FASTER;
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for counter in 0.. {
            let all = (0..LEASES).map(|lease| put(&client, lease, counter));
            // Its renewer has 20 threads.
            stream::iter(all).buffer_unordered(20).for_each(async |()| {}).await;
            ticks.tick().await;
        }
    };
    let watched = async {
        tokio::time::sleep(failover / FASTER).await;
        server.forget_requests();
        let start = Instant::now();
        tokio::time::sleep(size.steady.max(failover * 2 / FASTER)).await;
        (server.count("PutItem"), start.elapsed())
    };
    let (writes, watched) = tokio::select! {
        counted = watched => counted,
        () = renew => unreachable!("it renews for ever"),
    };
    let minutes = watched.as_secs_f64() * f64::from(FASTER) / 60.0;
    Measured { failover, writes: writes as f64 / minutes }
}

impl Measured {
    pub fn row(&self, partitions: u32, workers: usize) -> Vec<String> {
        let (partitions, workers) = (f64::from(partitions), workers as f64);
        let a_minute = |every: Duration| 60.0 / every.as_secs_f64();
        let writes = self.writes * workers + a_minute(METRICS_EVERY) * workers;
        // A scan has pages of 1 MB, and here one; the index has keys alone.
        let rounds = a_minute((self.failover + EPSILON) * 2);
        let looks = rounds * (1.0 + workers);
        let units = rounds * partitions * (BYTES + KEY_BYTES) / 4_096.0 / 2.0;
        let month = 730.0 * 60.0 * (writes * WRITE + units * READ) / 1e6;
        vec![
            format!("KCL 3, failover time {} s", self.failover.as_secs()),
            format!("{writes:.0}"),
            format!("{looks:.0}"),
            "0".to_owned(),
            format!("{:.2}", (writes + looks) / partitions),
            format!("{month:.2}"),
        ]
    }
}
