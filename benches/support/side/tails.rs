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
fn lead(hedged: bool, renewals: u64) -> Outcome {
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
                    .hedged_renewals(hedged)
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
    let (with, without) = std::thread::scope(|scope| {
        let with = scope.spawn(|| lead(true, size.renewals));
        let without = lead(false, size.renewals);
        (with.join().expect("no panic"), without)
    });
    let million = |it: &Outcome| it.lost as f64 * 1e6 / it.renewals as f64;
    let row = |what: &str, it: &Outcome| {
        let per_million = format!("{:.1}", million(it));
        vec![what.to_owned(), grouped(it.renewals), it.lost.to_string(), per_million]
    };
    section.text = format!(
        "{LEADERS} leaders on simulated time, validity 30 s, renewals every 10 s, timeout 6 s. Nine of ten \
         requests take a log-normal time with a median of 20 ms, one of ten a second or more (Pareto, \
         α = 0.5), so that 4 of 100 are not answered within 6 s: far worse than S3. With less than half \
         of a lease left, a hedged renewal, or the reading back of one, is given up for another renewal \
         once it takes longer than nine of ten of the last that were answered.\n\n{}",
        table(
            &["", "renewals", "leases lost", "per million"],
            &[row("hedged", &with), row("the request's timeout alone", &without)],
        )
    );
    let (with, without) = (million(&with), million(&without));
    section.exact(
        "leases lost per million renewals, hedged beside unhedged",
        format!("{with:.1} beside {without:.1}"),
        "fewer, or none",
        with < without || with == 0.0,
    );
    section
}
