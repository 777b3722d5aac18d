//! Measures the requests, the cost and the failover time of one election in each scheme.

use std::sync::Arc;
use std::time::Duration;

use tenure::store::{GetOutcome, Store as _};
use tenure::{Election, Layout, Process};
use tenure_testkit::time::{TestClock, process};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, spawn};
use tokio::time::{Instant, sleep};

use super::baselines::{Candidate, Post, latest_epoch};
use super::bucket::{Bucket, Counts};
use super::{DRIFT, HOURS_A_MONTH, POLL, ROUND_TRIP, Size, VALIDITY};
use super::{check, head, paused, quantile, row};

/// Number of candidates: one leads, and the others follow.
const CANDIDATES: usize = 3;

#[derive(Clone, Copy)]
enum Scheme {
    Tenure(Layout, Option<Duration>),
    Other(Post),
}

const TENURE: Scheme = Scheme::Tenure(Layout::EpochFiles, Some(POLL));
const AT_LAPSE: Scheme = Scheme::Tenure(Layout::EpochFiles, None);
const ONE_OBJECT: Scheme = Scheme::Tenure(Layout::SingleObject, Some(POLL));
const MORLING: Scheme = Scheme::Other(Post::Morling { rounding: Duration::from_secs(1) });
const MORLING_TOO_EARLY: Scheme = Scheme::Other(Post::Morling { rounding: Duration::ZERO });
const IF_MATCH: Scheme = Scheme::Other(Post::SingleObject);

/// A simulated bucket and the candidates on it.
struct Scene {
    clock: TestClock,
    bucket: Bucket,
    elected: UnboundedSender<usize>,
    leads: UnboundedReceiver<usize>,
}

impl Scene {
    fn new(seed: u64) -> Scene {
        let clock = TestClock::new();
        let (elected, leads) = unbounded_channel();
        Scene { bucket: Bucket::new(&clock, seed), clock, elected, leads }
    }

    /// Starts a candidate in a separate simulated process.
    fn start(&self, scheme: Scheme, id: usize, seed: u64) -> AbortHandle {
        let (bucket, elected) = (self.bucket.clone(), self.elected.clone());
        let task = match scheme {
            Scheme::Tenure(layout, poll) => {
                let builder = election(bucket, process(&self.clock, seed)).layout(layout);
                let election = builder.poll_interval(poll).name(format!("candidate-{id}")).build();
                spawn(campaign(election.expect("the settings are valid"), id, elected))
            }
            Scheme::Other(post) => {
                let clock = self.clock.clone();
                spawn(Candidate { id, bucket, clock, elected }.run(post))
            }
        };
        task.abort_handle()
    }
}

fn election(bucket: Bucket, process: Process) -> tenure::ElectionBuilder {
    let builder = Election::builder(Arc::new(bucket), "tenure").validity(VALIDITY);
    builder.check_store(false).process(process)
}

/// Campaigns again after the end of each leadership. If the task is aborted, the lease lapses, as
/// after a crash.
async fn campaign(election: Election, id: usize, elected: UnboundedSender<usize>) {
    loop {
        let leadership = election.campaign().await.expect("the bucket has no faults");
        // The send fails only after the measurement has dropped the receiver, so the error is
        // ignored.
        let _ = elected.send(id);
        leadership.lost().await;
    }
}

/// Returns the number of requests in one hour in which the same candidate leads.
fn hour(scheme: Scheme) -> Counts {
    paused().block_on(async move {
        let scene = Scene::new(1);
        for id in 0..CANDIDATES {
            scene.start(scheme, id, id as u64);
            sleep(Duration::from_millis(1_700)).await;
        }
        sleep(VALIDITY * 4).await;
        scene.bucket.counts();
        sleep(Duration::from_secs(3_600)).await;
        scene.bucket.counts()
    })
}

pub fn steady(_: &Size) {
    head("requests in an hour", &["PUT", "LIST", "GET", "$ a month"]);
    let measure = |name: &str, scheme| {
        let counts = hour(scheme);
        let month = counts.dollars() * HOURS_A_MONTH;
        let Counts { put, list, get } = counts;
        let columns = [put.to_string(), list.to_string(), get.to_string(), format!("{month:.2}")];
        row(name, &columns);
        month
    };
    let tenure = measure("tenure", TENURE);
    measure("tenure, polls only at the lapse", AT_LAPSE);
    measure("tenure, single object", ONE_OBJECT);
    let morling = measure("Morling as posted", MORLING);
    let if_match = measure("single object with If-Match", IF_MATCH);
    check("cost relative to Morling as posted", tenure / morling, 0.26);
    check("cost relative to the single object with If-Match", tenure / if_match, 1.05);
}

/// Returns two durations in seconds. The first lasts from the crash of the leader to the next
/// election. The second is shorter by `left × (1 + drift)`, where `left` is the time left of the
/// lease at the crash.
fn crash(scheme: Scheme, seed: u64) -> (f64, f64) {
    paused().block_on(async move {
        let mut scene = Scene::new(seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut tasks = Vec::new();
        for id in 0..CANDIDATES {
            tasks.push(scene.start(scheme, id, seed * 3 + id as u64));
            sleep(POLL.mul_f64(rng.f64())).await;
        }
        let first = scene.leads.recv().await.expect("a candidate leads");
        sleep(VALIDITY * 2 + VALIDITY.mul_f64(rng.f64())).await;
        assert!(scene.leads.is_empty(), "another candidate leads before the crash");
        tasks[first].abort();
        let crashed = Instant::now();
        let left = (scene.bucket.written() + VALIDITY).saturating_duration_since(crashed);
        scene.leads.recv().await.expect("another candidate leads");
        let took = crashed.elapsed().as_secs_f64();
        (took, took - left.as_secs_f64() * (1.0 + DRIFT))
    })
}

pub fn failover(size: &Size) {
    head("seconds to the next leader", &["p50", "p99", "beyond, p50", "beyond, p99"]);
    let measure = |name: &str, scheme| {
        let trials: Vec<_> = (0..size.crashes).map(|seed| crash(scheme, seed)).collect();
        let (took, beyond): (Vec<_>, Vec<_>) = trials.into_iter().unzip();
        let [p50, p99] = [0.5, 0.99].map(|share| quantile(&took, share));
        let beyond = [0.5, 0.99].map(|share| quantile(&beyond, share));
        row(name, &[p50, p99, beyond[0], beyond[1]].map(|seconds| format!("{seconds:.2}")));
        (p50, p99, beyond[1])
    };
    let tenure = measure("tenure", TENURE);
    let morling = measure("Morling as posted", MORLING);
    measure("Morling without a second for rounded dates", MORLING_TOO_EARLY);
    measure("single object with If-Match", IF_MATCH);
    check("p50 relative to Morling as posted", tenure.0, morling.0);
    check("p99 relative to Morling as posted", tenure.1, morling.1);
    // The bound is the sum of one poll interval, three round trips and the drift over one validity.
    // A follower may see the last renewal up to one poll interval after the leader has sent it.
    let most = (POLL + ROUND_TRIP * 3).as_secs_f64() + VALIDITY.as_secs_f64() * DRIFT;
    check("p99 beyond the rest of the lease × (1 + drift)", tenure.2, most);
}

/// Runs 100 leaders on a slow store for at least `renewals` renewals. Returns the numbers of
/// renewals and of lost leases.
fn lost_leases(renewals: u64) -> (u64, u64) {
    paused().block_on(async move {
        let clock = TestClock::new();
        let bucket = Bucket::new(&clock, 7).with_long_tail();
        let (elected, mut leads) = unbounded_channel();
        for number in 0..100 {
            let store = Arc::new(bucket.clone());
            let election = Election::builder(store, format!("election-{number}"))
                .name("leader")
                .name_is_unique(true)
                .validity(VALIDITY)
                .check_store(false)
                .process(process(&clock, number))
                .build()
                .expect("the settings are valid");
            spawn(campaign(election, 0, elected.clone()));
        }
        sleep(VALIDITY * 2).await;
        bucket.writes();
        while leads.try_recv().is_ok() {}
        let (mut done, mut lost) = (0, 0);
        while done < renewals {
            sleep(Duration::from_secs(600)).await;
            done += bucket.writes();
        }
        // A leader campaigns again only after it has lost its lease, so each further election
        // counts as a lost lease.
        while leads.try_recv().is_ok() {
            lost += 1;
        }
        (done, lost)
    })
}

pub fn tails(size: &Size) {
    let (renewals, lost) = lost_leases(size.renewals);
    println!("{lost} leases lost in {renewals} renewals");
    check("leases lost in a million renewals", lost as f64 * 1e6 / renewals as f64, 10.0);
}

/// Finds and reads the newest of `epochs` epochs, once as a candidate of tenure and once as a
/// candidate in the scheme of Morling's blog post. Returns the numbers of requests of the two
/// candidates.
fn find(epochs: u64) -> (u64, u64) {
    paused().block_on(async move {
        let scene = Scene::new(1);
        let body = r#"{"expired": false, "validity_ms": 30000}"#;
        for epoch in 1..=epochs {
            for scheme in ["tenure", "morling"] {
                let key = format!("{scheme}/lock-{epoch:010}.json");
                scene.bucket.objects.create(&key, body.into()).await.expect("memory has no faults");
            }
        }
        let process = process(&scene.clock, 1);
        let election = election(scene.bucket.clone(), process).build().expect("a valid election");
        election.leader().await.expect("the bucket has no faults").expect("the epoch has no seal");
        let own = scene.bucket.counts().total();
        let latest = latest_epoch(&scene.bucket).await.expect("the bucket has no faults");
        assert_eq!(latest, Some(epochs));
        let key = format!("morling/lock-{epochs:010}.json");
        let found = scene.bucket.get(&key, None, usize::MAX).await;
        assert!(matches!(found, Ok(GetOutcome::Found(_))), "{found:?}");
        (own, scene.bucket.counts().total())
    })
}

pub fn finding(size: &Size) {
    head("requests to find the newest epoch", &["tenure", "Morling"]);
    for epochs in size.backlogs {
        let (own, morling) = find(*epochs);
        row(&format!("{epochs} epochs"), &[own.to_string(), morling.to_string()]);
        assert!(own <= 30, "the search must take at most 30 requests, got {own}");
    }
}
