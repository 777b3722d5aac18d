//! What 1,000 partitions of 10 workers cost while nothing happens.

use std::sync::Arc;
use std::time::Duration;

use tenure::Election;
use tenure::store::S3Store;
use tenure_testkit::time::{TestClock, process};
use tokio::time::sleep;

use super::{Fleet, VALIDITY, kcl};
use crate::side::counts::Counts;
use crate::side::latency::Latency;
use crate::side::report::{Section, table};
use crate::side::server::{Server, THE_BUCKET};
use crate::side::simulated::Bucket;
use crate::side::{Size, simulate};

const WORKERS: usize = 10;
const PARTITIONS: u32 = 1_000;
/// How long the group is watched: each member lists once in it.
const WATCHED: Duration = Duration::from_secs(600);
/// The factor by which the time of the elections is compressed.
const FASTER: u32 = 15;
/// Elections that stand for those of all partitions.
const ELECTIONS: usize = 20;
const MINUTES_A_MONTH: f64 = 730.0 * 60.0;

/// The requests of all workers in the time that is watched. On simulated time, so that other work on
/// the machine changes no count.
fn group() -> Counts {
    simulate(async {
        let clock = TestClock::new();
        let bucket = Bucket::new(&clock, Latency::USUAL, 1);
        let fleet =
            Fleet { store: Arc::new(bucket.clone()), partitions: PARTITIONS, validity: VALIDITY };
        let mut workers = Vec::new();
        for number in 0..WORKERS {
            workers.push(fleet.start(&format!("worker-{number}"), process(&clock, number as u64)));
            sleep(VALIDITY / 12).await;
        }
        fleet.balanced(&workers, Duration::from_millis(250)).await;
        sleep(VALIDITY * 4).await;
        bucket.counts();
        sleep(WATCHED).await;
        let counts = bucket.counts();
        assert_eq!(fleet.owned(&workers), PARTITIONS as usize, "all were owned to the end");
        counts
    })
}

/// The same over HTTP, of some elections without candidates that wait.
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
    sleep(VALIDITY / FASTER).await;
    server.counts();
    sleep(size.steady).await;
    let counts = server.counts();
    assert!(leaderships.iter().all(|it| it.check().is_ok()), "all led to the end");
    counts
}

pub async fn measure(size: &Size) -> Section {
    let mut section = Section::new("1,000 partitions of 10 workers: what they cost");
    let row = |name: &str, counts: Counts, watched: Duration, many: f64| {
        let (Counts { list, get, put, .. }, minutes) = (counts, watched.as_secs_f64() / 60.0);
        let each = [put, list, get].map(|count| count as f64 * many / minutes);
        let all = each.iter().sum::<f64>() / f64::from(PARTITIONS);
        let month = counts.dollars() * many / minutes * MINUTES_A_MONTH;
        let numbers = each.map(|it| format!("{it:.0}"));
        let row = [name.to_owned()].into_iter().chain(numbers);
        let row: Vec<_> = row.chain([format!("{all:.2}"), format!("{month:.2}")]).collect();
        (row, all, month)
    };
    let own = row("tenure, a group", group(), WATCHED, 1.0);
    let many = f64::from(PARTITIONS) / ELECTIONS as f64;
    let each =
        row("tenure, an election per partition", elections(size).await, size.steady * FASTER, many);
    let mut rows = vec![own.0, each.0];
    for failover in [Duration::from_secs(10), VALIDITY] {
        rows.push(kcl::measure(failover, size).await.row(PARTITIONS, WORKERS));
    }
    let head =
        ["scheme", "PUT a minute", "LIST", "GET", "requests a partition a minute", "$ a month"];
    section.text = format!(
        "10 workers own 100 partitions each, validity 30 s, and nothing happens. The group is counted \
         for {WATCHED:?} on simulated time with requests of 20 ms. The elections are {ELECTIONS} that \
         stand for 1,000, each with a leader and without candidates that wait, counted over HTTP for \
         {:?} with all times divided by {FASTER}. List prices as above. {}\n\n{}",
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
