//! What 1,000 partitions of 10 workers cost while nothing happens.

use std::sync::Arc;
use std::time::Duration;

use tenure::store::S3Store;
use tenure::{Election, Process};

use super::{Fleet, VALIDITY, kcl};
use crate::side::Size;
use crate::side::counts::Counts;
use crate::side::latency::Latency;
use crate::side::report::{Section, table};
use crate::side::server::{Server, THE_BUCKET};

const WORKERS: usize = 10;
const PARTITIONS: u32 = 1_000;
/// By how much time is compressed.
const FASTER: u32 = 15;
/// Elections that stand for those of all partitions.
const ELECTIONS: usize = 20;
const MINUTES_A_MONTH: f64 = 730.0 * 60.0;

/// The requests of all workers in the time that is watched.
async fn group(size: &Size) -> Counts {
    let mut server = Server::start();
    server.latency(Latency::Fixed(Latency::MEDIAN / FASTER));
    let mut workers = Vec::new();
    let fleet = |client| Fleet {
        store: Arc::new(S3Store::new(client, THE_BUCKET)),
        partitions: PARTITIONS,
        validity: VALIDITY / FASTER,
    };
    for number in 0..WORKERS {
        // Each has a client of its own, as processes have.
        let name = format!("worker-{number}");
        workers.push(fleet(server.client()).start(&name, Process::system()));
    }
    let all = fleet(server.client());
    all.balanced(&workers, Duration::from_millis(50)).await;
    tokio::time::sleep(VALIDITY * 4 / FASTER).await;
    server.counts();
    tokio::time::sleep(size.steady).await;
    let counts = server.counts();
    assert_eq!(all.owned(&workers), PARTITIONS as usize, "all were owned to the end");
    workers.into_iter().for_each(super::Worker::kill);
    counts
}

/// The same of some elections whose leaders nobody waits to succeed.
async fn elections(size: &Size) -> Counts {
    let mut server = Server::start();
    server.latency(Latency::Fixed(Latency::MEDIAN / FASTER));
    let store = Arc::new(S3Store::new(server.client(), THE_BUCKET));
    let mut leaderships = Vec::new();
    for number in 0..ELECTIONS {
        let election = Election::builder(store.clone(), format!("p{number}"))
            .validity(VALIDITY / FASTER)
            .check_store(false)
            .build()
            .expect("these settings fit together");
        leaderships.push(election.campaign().await.expect("nobody else is there"));
    }
    tokio::time::sleep(VALIDITY / FASTER).await;
    server.counts();
    tokio::time::sleep(size.steady).await;
    let counts = server.counts();
    assert!(leaderships.iter().all(|it| it.check().is_ok()), "all led to the end");
    counts
}

pub async fn measure(size: &Size) -> Section {
    let mut section = Section::new("1,000 partitions of 10 workers: what they cost");
    let minutes = size.steady.as_secs_f64() * f64::from(FASTER) / 60.0;
    let per_minute = |count: u64, many: f64| count as f64 * many / minutes;
    let row = |name: &str, counts: Counts, many: f64| {
        let Counts { list, get, put, .. } = counts;
        let each = [put, list, get].map(|count| per_minute(count, many));
        let all = each.iter().sum::<f64>() / f64::from(PARTITIONS);
        let month = counts.dollars() * many / minutes * MINUTES_A_MONTH;
        let numbers = each.map(|it| format!("{it:.0}"));
        let row = [name.to_owned()].into_iter().chain(numbers);
        let row: Vec<_> = row.chain([format!("{all:.2}"), format!("{month:.2}")]).collect();
        (row, all, month)
    };
    let own = row("tenure, a group", group(size).await, 1.0);
    let many = f64::from(PARTITIONS) / ELECTIONS as f64;
    let each = row("tenure, an election per partition", elections(size).await, many);
    let mut rows = vec![own.0, each.0];
    for failover in [Duration::from_secs(10), VALIDITY] {
        rows.push(kcl::measure(failover, size).await.row(PARTITIONS, WORKERS));
    }
    let head =
        ["scheme", "PUT a minute", "LIST", "GET", "requests a partition a minute", "$ a month"];
    section.text = format!(
        "10 workers own 100 partitions each, validity 30 s, and nothing happens. Counted over HTTP \
         for {:?} with all times divided by {FASTER}, and told for the true times; list prices as \
         above. The elections are {ELECTIONS} that stand for 1,000, each with a leader and nobody \
         who waits. {}\n\n{}",
        size.steady,
        kcl::TOLD,
        table(&head, &rows)
    );
    let (requests, month) = (own.1, own.2);
    section.exact(
        "1,000 partitions of 10 workers, steady: requests a partition a minute",
        format!("{requests:.3}"),
        "≤ 0.3",
        requests <= 0.3,
    );
    section.exact(
        "1,000 partitions of 10 workers, steady: dollars a month",
        format!("{month:.2}"),
        "≤ 20",
        month <= 20.0,
    );
    section
}
