//! Long tails: leases that are lost because the store is slow.

use std::sync::Arc;
use std::time::Duration;

use tenure::Election;

use super::Size;
use super::latency::Latency;
use super::report::{Section, grouped, table};
use super::simulate;
use super::simulated::Bucket;
use tenure_testkit::time::{TestClock, process};

const VALIDITY: Duration = Duration::from_secs(30);
const LEADERS: u64 = 100;

struct Outcome {
    renewals: u64,
    lost: u64,
}

/// A hundred leaders, each of an election of its own, until they have renewed so often together.
fn lead(renewals: u64) -> Outcome {
    simulate(async move {
        let clock = TestClock::new();
        let bucket = Bucket::new(&clock, Latency::LONG_TAIL, 7);
        let (lost, mut losses) = tokio::sync::mpsc::unbounded_channel();
        for number in 0..LEADERS {
            let election =
                Election::builder(Arc::new(bucket.clone()), format!("election-{number}"))
                    .name("leader")
                    .name_is_unique(true)
                    .validity(VALIDITY)
                    .check_store(false)
                    .process(process(&clock, number))
                    .build()
                    .expect("these settings fit together");
            let lost = lost.clone();
            tokio::spawn(async move {
                loop {
                    let leadership = election.campaign().await.expect("nothing is wrong");
                    leadership.lost().await;
                    if lost.send(()).is_err() {
                        return;
                    }
                }
            });
        }
        tokio::time::sleep(VALIDITY * 2).await;
        bucket.writes();
        while losses.try_recv().is_ok() {}
        let mut outcome = Outcome { renewals: 0, lost: 0 };
        while outcome.renewals < renewals {
            tokio::time::sleep(Duration::from_secs(600)).await;
            outcome.renewals += bucket.writes();
            bucket.counts();
        }
        while losses.try_recv().is_ok() {
            outcome.lost += 1;
        }
        outcome
    })
}

pub fn measure(size: &Size) -> Section {
    let mut section = Section::new("Long tails: leases lost because the store is slow");
    let outcome = lead(size.renewals);
    let per_million = outcome.lost as f64 * 1e6 / outcome.renewals as f64;
    let row = ["short attempts".to_owned(), grouped(outcome.renewals), outcome.lost.to_string()];
    section.text = format!(
        "{LEADERS} leaders on simulated time, validity 30 s, renewals every 10 s, timeout 6 s. Nine of ten \
         requests take a log-normal time with a median of 20 ms, one of ten a second or more (Pareto, \
         α = 0.5), so that 4 of 100 are not answered within 6 s: far worse than S3. A request of a leader is given up \
         for another renewal after 2 s, at most three until the lease is extended.\n\n{}",
        table(&["", "renewals", "leases lost"], &[row.to_vec()])
    );
    section.exact(
        "leases lost per million renewals",
        format!("{per_million:.1}"),
        "at most 10",
        per_million <= 10.0,
    );
    section
}
