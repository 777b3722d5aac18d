//! Measures the requests, the cost and the failover time of one election in each scheme.

use std::sync::Arc;
use std::time::Duration;

use tenure::store::{GetOutcome, Store};
use tenure::{Election, ElectionBuilder, Layout};
use tenure_testkit::time::{TestClock, process};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, spawn};
use tokio::time::{Instant, sleep};

use super::baselines::{Candidate, Post, latest_epoch};
use super::bucket::{Bucket, Counts, Service};
use super::{DRIFT, HOURS_A_MONTH, POLL, ROUND_TRIP, Size, VALIDITY};
use super::{check, head, paused, quantile, row};

/// Number of candidates: one leads, and the others follow.
const CANDIDATES: usize = 3;

#[derive(Clone, Copy)]
pub enum Scheme {
    Tenure(Layout, Option<Duration>),
    Other(Post),
}

pub const TENURE: Scheme = Scheme::Tenure(Layout::EpochFiles, Some(POLL));
const AT_LAPSE: Scheme = Scheme::Tenure(Layout::EpochFiles, None);
const ONE_OBJECT: Scheme = Scheme::Tenure(Layout::SingleObject, Some(POLL));
const MORLING: Scheme = Scheme::Other(Post::Morling { rounding: Duration::from_secs(1) });
const MORLING_TOO_EARLY: Scheme = Scheme::Other(Post::Morling { rounding: Duration::ZERO });
const IF_MATCH: Scheme = Scheme::Other(Post::SingleObject);

/// The stores of an election, and its validity.
#[derive(Clone)]
pub struct Site {
    pub services: Vec<Service>,
    /// Additional duration of a request to another region. Each store is in a separate
    /// region, and each candidate is in the region of one store.
    pub away: Duration,
    pub validity: Duration,
}

impl Site {
    fn one() -> Site {
        Site { services: vec![Service::STANDARD], away: Duration::ZERO, validity: VALIDITY }
    }
}

/// Simulated buckets and the candidates on them.
pub struct Scene {
    site: Site,
    clock: TestClock,
    pub buckets: Vec<Bucket>,
    elected: UnboundedSender<usize>,
    leads: UnboundedReceiver<usize>,
}

impl Scene {
    pub async fn new(site: &Site, seed: u64) -> Scene {
        let clock = TestClock::new();
        let (elected, leads) = unbounded_channel();
        let services = site.services.iter().zip(0..);
        let buckets = services.map(|(it, n)| Bucket::at(*it, &clock, seed + n * 1_000_003));
        let scene = Scene { site: site.clone(), buckets: buckets.collect(), clock, elected, leads };
        if scene.buckets.len() > 1 {
            let election = scene.election(0, 0).build().expect("the settings are valid");
            election.init_stores().await.expect("the stores are empty");
        }
        scene
    }

    /// Starts a candidate in a separate simulated process.
    fn start(&self, scheme: Scheme, id: usize, seed: u64) -> AbortHandle {
        let elected = self.elected.clone();
        let task = match scheme {
            Scheme::Tenure(layout, poll) => {
                let builder = self.election(id, seed).layout(layout);
                let election = builder.poll_interval(poll).name(format!("candidate-{id}")).build();
                spawn(campaign(election.expect("the settings are valid"), id, elected))
            }
            Scheme::Other(post) => {
                let (clock, bucket) = (self.clock.clone(), self.buckets[0].clone());
                spawn(Candidate { id, bucket, clock, elected }.run(post))
            }
        };
        task.abort_handle()
    }

    pub fn election(&self, region: usize, seed: u64) -> ElectionBuilder {
        let mut stores = self.buckets.iter().enumerate().map(|(at, bucket)| {
            let away = if at == region { Duration::ZERO } else { self.site.away };
            Arc::new(bucket.away(away)) as Arc<dyn Store>
        });
        let builder = match self.buckets.len() {
            1 => Election::builder(stores.next().expect("one store"), "tenure"),
            _ => Election::across(stores, "tenure"),
        };
        let builder = builder.validity(self.site.validity).check_store(false);
        builder.process(process(&self.clock, seed))
    }

    /// Returns the numbers of requests to all stores since the last call.
    fn counts(&self) -> Counts {
        self.buckets.iter().map(Bucket::counts).sum()
    }

    /// Returns the start of the last lease of the leader.
    fn written(&self) -> Instant {
        let mut written: Vec<Instant> = self.buckets.iter().map(Bucket::written).collect();
        written.sort_unstable();
        written[(written.len() - 1) / 2]
    }
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

/// Returns the number of requests in one hour. The same candidate leads during this hour.
pub fn hour(site: &Site, scheme: Scheme) -> Counts {
    paused().block_on(async {
        let scene = Scene::new(site, 1).await;
        for id in 0..CANDIDATES {
            scene.start(scheme, id, id as u64);
            sleep(Duration::from_millis(1_700)).await;
        }
        sleep(site.validity * 4).await;
        scene.counts();
        sleep(Duration::from_secs(3_600)).await;
        scene.counts()
    })
}

pub fn steady(_: &Size) {
    head("requests in an hour", &["PUT", "LIST", "GET", "$ a month"]);
    let measure = |name: &str, scheme| {
        let counts = hour(&Site::one(), scheme);
        let month = counts.dollars(Service::STANDARD) * HOURS_A_MONTH;
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
/// election. The second is shorter by `left × (1 + drift)`, where `left` is the remaining time of
/// the lease when the leader crashes.
fn crash(site: &Site, scheme: Scheme, seed: u64) -> (f64, f64) {
    paused().block_on(async {
        let mut scene = Scene::new(site, seed).await;
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut tasks = Vec::new();
        for id in 0..CANDIDATES {
            tasks.push(scene.start(scheme, id, seed * 3 + id as u64));
            sleep((site.validity / 6).mul_f64(rng.f64())).await;
        }
        let first = scene.leads.recv().await.expect("a candidate leads");
        sleep(site.validity * 2 + site.validity.mul_f64(rng.f64())).await;
        assert!(scene.leads.is_empty(), "another candidate leads before the crash");
        tasks[first].abort();
        let crashed = Instant::now();
        // Waits until the store has applied a renewal that was under way.
        sleep(site.validity / 10).await;
        let left = (scene.written() + site.validity).saturating_duration_since(crashed);
        scene.leads.recv().await.expect("another candidate leads");
        let took = crashed.elapsed().as_secs_f64();
        (took, took - left.as_secs_f64() * (1.0 + DRIFT))
    })
}

/// Returns p50 and p99 of the two durations of [`crash`].
pub fn crashes(site: &Site, scheme: Scheme, many: u64) -> [f64; 4] {
    let trials = (0..many).map(|seed| crash(site, scheme, seed));
    let (took, beyond): (Vec<_>, Vec<_>) = trials.unzip();
    let [p50, p99] = [0.5, 0.99].map(|share| quantile(&took, share));
    [p50, p99, quantile(&beyond, 0.5), quantile(&beyond, 0.99)]
}

pub fn failover(size: &Size) {
    head("seconds to the next leader", &["p50", "p99", "beyond, p50", "beyond, p99"]);
    let measure = |name: &str, scheme| {
        let seconds = crashes(&Site::one(), scheme, size.crashes);
        row(name, &seconds.map(|seconds| format!("{seconds:.2}")));
        (seconds[0], seconds[1], seconds[3])
    };
    let tenure = measure("tenure", TENURE);
    let morling = measure("Morling as posted", MORLING);
    measure("Morling, without the second for rounded dates", MORLING_TOO_EARLY);
    measure("single object with If-Match", IF_MATCH);
    check("p50 relative to Morling as posted", tenure.0, morling.0);
    check("p99 relative to Morling as posted", tenure.1, morling.1);
    // The bound is the sum of one poll interval, three round trips and the drift over one validity.
    // A follower may see the last renewal up to one poll interval after the leader has sent it.
    let most = (POLL + ROUND_TRIP * 3).as_secs_f64() + VALIDITY.as_secs_f64() * DRIFT;
    check("p99, minus the rest of the lease × (1 + drift)", tenure.2, most);
}

/// Runs 100 leaders on a slow store for at least `renewals` renewals. Returns the numbers of
/// renewals and of lost leases.
pub fn lost_leases(service: Service, validity: Duration, renewals: u64) -> (u64, u64) {
    paused().block_on(async move {
        let clock = TestClock::new();
        let bucket = Bucket::at(service, &clock, 7);
        let (elected, mut leads) = unbounded_channel();
        for number in 0..100 {
            let store = Arc::new(bucket.clone());
            let election = Election::builder(store, format!("election-{number}"))
                .name("leader")
                .name_is_unique(true)
                .validity(validity)
                .check_store(false)
                .process(process(&clock, number))
                .build()
                .expect("the settings are valid");
            spawn(campaign(election, 0, elected.clone()));
        }
        sleep(validity * 2).await;
        bucket.writes();
        while leads.try_recv().is_ok() {}
        let (mut done, mut lost) = (0, 0);
        while done < renewals {
            sleep(validity * 20).await;
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
    let (renewals, lost) = lost_leases(Service::LONG_TAIL, VALIDITY, size.renewals);
    println!("{lost} leases lost in {renewals} renewals");
    check("leases lost in a million renewals", lost as f64 * 1e6 / renewals as f64, 10.0);
}

/// Finds and reads the newest of `epochs` epochs, once as a candidate of tenure and once as a
/// candidate in the scheme of Morling's blog post. Returns the numbers of requests of the two
/// candidates.
fn find(epochs: u64) -> (u64, u64) {
    paused().block_on(async move {
        let scene = Scene::new(&Site::one(), 1).await;
        let bucket = &scene.buckets[0];
        let body = r#"{"expired": false, "validity_ms": 30000}"#;
        for epoch in 1..=epochs {
            for scheme in ["tenure", "morling"] {
                let key = format!("{scheme}/lock-{epoch:010}.json");
                bucket.objects.create(&key, body.into()).await.expect("memory has no faults");
            }
        }
        let election = scene.election(0, 1).build().expect("a valid election");
        election.leader().await.expect("the bucket has no faults").expect("the epoch has no seal");
        let own = bucket.counts().total();
        let latest = latest_epoch(bucket).await.expect("the bucket has no faults");
        assert_eq!(latest, Some(epochs));
        let key = format!("morling/lock-{epochs:010}.json");
        let found = bucket.get(&key, None, usize::MAX).await;
        assert!(matches!(found, Ok(GetOutcome::Found(_))), "{found:?}");
        (own, bucket.counts().total())
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
