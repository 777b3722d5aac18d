//! Deaths, joins and restarts, on simulated time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Fleet, VALIDITY, Worker};
use crate::side::latency::Latency;
use crate::side::report::{Section, quantile, table};
use crate::side::simulated::Bucket;
use crate::side::{Size, simulate};
use tenure_testkit::time::{TestClock, process};

const WORKERS: usize = 10;
const POLL: Duration = Duration::from_secs(5);
const DRIFT: f64 = 0.01;
/// More than 999 of 1,000 round trips take.
const ROUND_TRIP: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(20);

/// A simulated bucket and the workers that share it.
struct Scene {
    clock: TestClock,
    bucket: Bucket,
    fleet: Fleet,
    workers: Vec<Worker>,
    seed: u64,
}

impl Scene {
    async fn new(partitions: u32, seed: u64) -> Scene {
        let clock = TestClock::new();
        let bucket = Bucket::new(&clock, Latency::USUAL, seed);
        let fleet = Fleet { store: Arc::new(bucket.clone()), partitions, validity: VALIDITY };
        let mut scene = Scene { clock, bucket, fleet, workers: Vec::new(), seed: seed * 1_000 };
        let mut rng = fastrand::Rng::with_seed(seed);
        for number in 0..WORKERS {
            scene.join(&format!("worker-{number}"));
            sleep(Duration::from_millis(rng.u64(0..3_000))).await;
        }
        scene.balanced().await;
        sleep(VALIDITY * 2 + VALIDITY.mul_f64(rng.f64())).await;
        scene
    }

    fn join(&mut self, name: &str) {
        self.seed += 1;
        self.workers.push(self.fleet.start(name, process(&self.clock, self.seed)));
    }

    async fn balanced(&self) {
        self.fleet.balanced(&self.workers, LOOK).await;
    }

    fn owners(&self) -> BTreeMap<String, usize> {
        let all = self.workers.iter().enumerate();
        all.flat_map(|(place, it)| it.names().into_iter().map(move |name| (name, place))).collect()
    }
}

/// From the death until the last of its partitions is owned, beyond what was left of its lease.
fn death(partitions: u32, seed: u64) -> (f64, f64) {
    simulate(async move {
        let mut scene = Scene::new(partitions, seed).await;
        let victim = scene.workers.swap_remove(seed as usize % WORKERS);
        // Of a renewal that is under way the dead do not know whether it took effect.
        while victim.remaining() <= VALIDITY * 2 / 3 {
            sleep(LOOK).await;
        }
        let (left, died) = (victim.remaining(), Instant::now());
        victim.kill();
        while scene.fleet.owned(&scene.workers) < partitions as usize {
            sleep(LOOK).await;
        }
        let took = died.elapsed().as_secs_f64();
        (took, took - left.as_secs_f64() * (1.0 + DRIFT))
    })
}

/// How long until an eleventh worker has its share, and how many partitions moved.
fn join(partitions: u32, seed: u64) -> (f64, usize) {
    simulate(async move {
        let mut scene = Scene::new(partitions, seed).await;
        let (before, began) = (scene.owners(), Instant::now());
        scene.join("worker-10");
        scene.balanced().await;
        let took = began.elapsed().as_secs_f64();
        let after = scene.owners();
        (took, before.iter().filter(|(name, owner)| after[*name] != **owner).count())
    })
}

/// Partitions that moved while each worker was restarted under its name, and PUTs.
fn rolling_restart(partitions: u32) -> (usize, u64) {
    simulate(async move {
        let mut scene = Scene::new(partitions, 1).await;
        let (before, mut moved) = (scene.owners(), 0);
        scene.bucket.counts();
        let began = Instant::now();
        for place in 0..WORKERS {
            let name = format!("worker-{place}");
            let found = scene.workers.swap_remove(place);
            found.leave_for(Duration::from_secs(120)).await;
            sleep(Duration::from_secs(10)).await;
            scene.join(&name);
            let last = scene.workers.len() - 1;
            scene.workers.swap(place, last);
            scene.balanced().await;
            let after = scene.owners();
            moved += before.iter().filter(|(name, owner)| after[*name] != **owner).count();
        }
        let renewals = began.elapsed().as_secs() / 10 * WORKERS as u64;
        (moved, scene.bucket.counts().put.saturating_sub(renewals))
    })
}

pub fn measure(size: &Size) -> Section {
    let mut section = Section::new("Partitions that move");
    let partitions = size.partitions;
    let deaths: Vec<_> = (0..size.deaths).map(|seed| death(partitions, seed)).collect();
    let joins: Vec<_> = (0..size.deaths / 4).map(|seed| join(partitions, seed)).collect();
    let (restarted, restart_puts) = rolling_restart(partitions);
    let of = |all: &[(f64, f64)], which: fn(&(f64, f64)) -> f64, share: f64| {
        quantile(&mut all.iter().map(which).collect::<Vec<_>>(), share)
    };
    let mut took: Vec<_> = joins.iter().map(|it| it.0).collect();
    let row =
        |name: String, p50: f64, p99: f64| vec![name, format!("{p50:.2}"), format!("{p99:.2}")];
    let rows = [
        row(
            "a death, until the last is owned".to_owned(),
            of(&deaths, |it| it.0, 0.5),
            of(&deaths, |it| it.0, 0.99),
        ),
        row(
            "the same, beyond what was left of the lease × (1 + drift)".to_owned(),
            of(&deaths, |it| it.1, 0.5),
            of(&deaths, |it| it.1, 0.99),
        ),
        row(
            "a join, until it has its share".to_owned(),
            quantile(&mut took, 0.5),
            quantile(&mut took, 0.99),
        ),
    ];
    section.text = format!(
        "{partitions} partitions of {WORKERS} workers on simulated time, validity 30 s, polls every \
         5 s, requests of 20 ms (log-normal); work stops at once when a partition is revoked. {} \
         deaths, each at a random moment between renewals, and {} joins of an eleventh worker, in seconds; and a rolling restart with \
         `leave_for`, each worker 10 s away.\n\n{}A rolling restart moved {restarted} partitions, and \
         took {restart_puts} PUT beside the renewals.\n",
        deaths.len(),
        joins.len(),
        table(&["event", "p50", "p99"], &rows)
    );
    let beyond = of(&deaths, |it| it.1, 0.99);
    let most = (POLL * 2 + ROUND_TRIP * 4).as_secs_f64();
    section.exact(
        "a worker dies, until the last of its partitions is owned: p99 beyond its lease × (1 + drift)",
        format!("{beyond:.2} s"),
        &format!("≤ {most:.1} s: 2 polls and 4 round trips"),
        beyond <= most,
    );
    let moved = joins.iter().map(|it| it.1).max().unwrap_or_default();
    let share = (partitions as usize).div_ceil(WORKERS + 1);
    section.exact(
        "an eleventh worker joins: partitions that move, at most",
        moved.to_string(),
        &format!("≤ {share}"),
        moved <= share,
    );
    section.exact(
        "a rolling restart with `leave_for`: partitions that move",
        restarted.to_string(),
        "0",
        restarted == 0,
    );
    section
}
