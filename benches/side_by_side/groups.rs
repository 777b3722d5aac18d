//! Measures groups of partitions: their requests, their cost, the partitions that move, and memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::store::Store as _;
use tenure::{Election, Process};
use tenure_groups::{Group, Partition};
use tenure_testkit::time::{TestClock, process};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::bucket::{Bucket, Counts, Service};
use super::{DRIFT, HOURS_A_MONTH, POLL, ROUND_TRIP, Size, VALIDITY};
use super::{check, head, paused, quantile, row};

const WORKERS: usize = 10;
const LOOK: Duration = Duration::from_millis(20);

type Owned = Arc<Mutex<BTreeMap<String, Partition>>>;

/// A member that works until a partition is revoked, and then releases it immediately.
struct Worker {
    group: Group,
    owned: Owned,
    task: JoinHandle<()>,
}

impl Worker {
    fn start(group: Group) -> Worker {
        let owned = Owned::default();
        let (own, member) = (Arc::clone(&owned), group.clone());
        let task = tokio::spawn(async move {
            let lock = || own.lock().unwrap_or_else(PoisonError::into_inner);
            let work = async |partition: Partition| {
                let (name, revoked) = (partition.name().to_owned(), partition.revoked());
                lock().insert(name.clone(), partition);
                revoked.cancelled().await;
                lock().remove(&name);
                Ok(())
            };
            member.run(work).await.expect("the bucket has no faults");
        });
        Worker { group, owned, task }
    }

    fn owned(&self) -> MutexGuard<'_, BTreeMap<String, Partition>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A group on a simulated bucket, and its members.
struct Scene {
    clock: TestClock,
    bucket: Bucket,
    partitions: u32,
    workers: Vec<Worker>,
    seed: u64,
}

impl Scene {
    fn new(partitions: u32, seed: u64) -> Scene {
        let clock = TestClock::new();
        let bucket = Bucket::new(&clock, seed);
        Scene { clock, bucket, partitions, workers: Vec::new(), seed: seed * 1_000 }
    }

    /// Creates a group of ten workers that start at different times, and waits until each owns its
    /// share.
    async fn settled(partitions: u32, seed: u64) -> Scene {
        let mut scene = Scene::new(partitions, seed);
        let mut rng = fastrand::Rng::with_seed(seed);
        for number in 0..WORKERS {
            scene.join(&format!("worker-{number}"));
            sleep(Duration::from_millis(rng.u64(0..3_000))).await;
        }
        scene.balanced().await;
        sleep(VALIDITY * 2 + VALIDITY.mul_f64(rng.f64())).await;
        scene
    }

    fn group(&self, name: &str, process: Process) -> Group {
        Group::builder(Arc::new(self.bucket.clone()), "app")
            .name(name)
            .partitions(0..self.partitions)
            .validity(VALIDITY)
            .check_store(false)
            .process(process)
            .build()
            .expect("the settings are valid")
    }

    fn join(&mut self, name: &str) {
        self.seed += 1;
        self.workers.push(Worker::start(self.group(name, process(&self.clock, self.seed))));
    }

    fn owned(&self) -> usize {
        self.workers.iter().map(|worker| worker.owned().len()).sum()
    }

    /// Waits until each partition has an owner and each worker has its share.
    async fn balanced(&self) {
        let (all, share) =
            (self.partitions as usize, self.partitions as usize / self.workers.len());
        let fair = |worker: &Worker| (share..=share + 1).contains(&worker.owned().len());
        while self.owned() < all || !self.workers.iter().all(fair) {
            sleep(LOOK).await;
        }
    }

    /// Returns the position of each partition's owner in `workers`.
    fn owners(&self) -> BTreeMap<String, usize> {
        let all = self.workers.iter().enumerate();
        let names = |worker: &Worker| worker.owned().keys().cloned().collect::<Vec<_>>();
        all.flat_map(|(place, it)| names(it).into_iter().map(move |name| (name, place))).collect()
    }

    fn moved_since(&self, before: &BTreeMap<String, usize>) -> usize {
        let after = self.owners();
        before.iter().filter(|(name, owner)| after[*name] != **owner).count()
    }
}

/// Returns the number of requests that a group sends in ten minutes while no member joins or
/// leaves. Each member sends one LIST in this time.
fn group_requests(partitions: u32) -> Counts {
    paused().block_on(async move {
        let scene = Scene::settled(partitions, 1).await;
        sleep(VALIDITY * 4).await;
        scene.bucket.counts();
        sleep(Duration::from_secs(600)).await;
        assert_eq!(scene.owned(), partitions as usize, "a partition lost its owner");
        scene.bucket.counts()
    })
}

/// Returns the number of requests in ten minutes if each partition has a separate election. Each
/// election has a leader and no other candidates.
fn election_requests(partitions: u32) -> Counts {
    paused().block_on(async move {
        let clock = TestClock::new();
        let bucket = Bucket::new(&clock, 1);
        let mut leaderships = Vec::new();
        for number in 0..partitions {
            let election = Election::builder(Arc::new(bucket.clone()), format!("p{number}"))
                .validity(VALIDITY)
                .check_store(false)
                .process(process(&clock, u64::from(number)))
                .build()
                .expect("the settings are valid");
            leaderships.push(election.campaign().await.expect("there is no other candidate"));
        }
        sleep(VALIDITY * 4).await;
        bucket.counts();
        sleep(Duration::from_secs(600)).await;
        assert!(leaderships.iter().all(|it| it.check().is_ok()), "a leader lost its lease");
        bucket.counts()
    })
}

pub fn steady(size: &Size) {
    head("requests in a minute", &["PUT", "LIST", "GET", "a partition", "$ a month"]);
    let measure = |name: &str, counts: Counts| {
        let Counts { put, list, get } = counts;
        let each = counts.total() as f64 / 10.0 / f64::from(size.partitions);
        let month = counts.dollars(Service::STANDARD) * 6.0 * HOURS_A_MONTH;
        let minute = [put, list, get].map(|count| format!("{:.0}", count as f64 / 10.0));
        row(name, &[&minute[..], &[format!("{each:.2}"), format!("{month:.2}")]].concat());
        counts.total()
    };
    let own = measure("tenure, a group of ten workers", group_requests(size.partitions));
    let each = measure("tenure, an election per partition", election_requests(size.partitions));
    check("requests of a member in a minute", own as f64 / 10.0 / WORKERS as f64, 30.0);
    check("requests relative to an election per partition", own as f64 / each as f64, 1.0);
}

/// Returns two durations in seconds. The first lasts from the death of a worker until the last of
/// its partitions has a new owner. The second duration is shorter by `left × (1 + drift)`, where
/// `left` is the remaining time of the worker's lease when the worker dies.
fn death(partitions: u32, seed: u64) -> (f64, f64) {
    paused().block_on(async move {
        let mut scene = Scene::settled(partitions, seed).await;
        let victim = scene.workers.swap_remove(seed as usize % WORKERS);
        let left = || victim.owned().values().next().expect("the worker owns a share").remaining();
        // Waits until the worker has just renewed its lease. If the worker died during a renewal,
        // the end of its lease would be unknown.
        while left() <= VALIDITY * 2 / 3 {
            sleep(LOOK).await;
        }
        let (left, died) = (left(), Instant::now());
        victim.task.abort();
        while scene.owned() < partitions as usize {
            sleep(LOOK).await;
        }
        let took = died.elapsed().as_secs_f64();
        (took, took - left.as_secs_f64() * (1.0 + DRIFT))
    })
}

/// Returns the seconds until an eleventh worker owns its share, and the number of partitions that
/// moved.
fn join(partitions: u32, seed: u64) -> (f64, usize) {
    paused().block_on(async move {
        let mut scene = Scene::settled(partitions, seed).await;
        let (before, began) = (scene.owners(), Instant::now());
        scene.join("worker-10");
        scene.balanced().await;
        (began.elapsed().as_secs_f64(), scene.moved_since(&before))
    })
}

/// Restarts the workers one after another, each under its old name. Returns the number of
/// partitions that move to another worker.
fn rolling_restart(partitions: u32) -> usize {
    paused().block_on(async move {
        let mut scene = Scene::settled(partitions, 1).await;
        let (before, mut moved) = (scene.owners(), 0);
        for place in 0..WORKERS {
            let worker = scene.workers.swap_remove(place);
            worker.group.leave_for(Duration::from_secs(120));
            worker.task.await.expect("the worker leaves");
            sleep(Duration::from_secs(10)).await;
            scene.join(&format!("worker-{place}"));
            let last = scene.workers.len() - 1;
            scene.workers.swap(place, last);
            scene.balanced().await;
            moved += scene.moved_since(&before);
        }
        moved
    })
}

pub fn moves(size: &Size) {
    let (partitions, deaths) = (size.partitions, size.deaths);
    let (took, beyond): (Vec<_>, Vec<_>) = (0..deaths).map(|seed| death(partitions, seed)).unzip();
    let (joined, moved): (Vec<_>, Vec<_>) =
        (0..deaths / 4).map(|seed| join(partitions, seed)).unzip();
    head("seconds", &["p50", "p99"]);
    let line = |name: &str, seconds: &[f64]| {
        row(name, &[0.5, 0.99].map(|share| format!("{:.2}", quantile(seconds, share))));
    };
    line("death of a worker, until its last partition is owned", &took);
    line("death, minus the lease × (1 + drift)", &beyond);
    line("join of a worker, until it owns its share", &joined);
    let most = (POLL * 2 + ROUND_TRIP * 4).as_secs_f64();
    check("death, p99, minus the lease × (1 + drift)", quantile(&beyond, 0.99), most);
    let share = (partitions as usize).div_ceil(WORKERS + 1) as f64;
    let most_moved = moved.into_iter().max().expect("there are joins");
    check("partitions that a join moves", most_moved as f64, share);
    check("partitions that a rolling restart moves", rolling_restart(partitions) as f64, 0.0);
}

/// Returns the number of bytes in memory that a member needs while it owns all partitions. The
/// objects of the simulated bucket are not included.
fn kept(partitions: u32) -> i64 {
    let (runtime, mut kept) = (paused(), None);
    let info = allocation_counter::measure(|| {
        runtime.block_on(async {
            let scene = Scene::new(partitions, 1);
            let owned = Arc::new(AtomicU32::new(0));
            let (group, own) = (scene.group("worker", process(&scene.clock, 1)), owned.clone());
            let task = tokio::spawn(async move {
                let work = async |partition: Partition| {
                    own.fetch_add(1, Ordering::Relaxed);
                    partition.revoked().cancelled().await;
                    Ok(())
                };
                group.run(work).await
            });
            while owned.load(Ordering::Relaxed) < partitions {
                sleep(LOOK).await;
            }
            // Lets the member poll and renew a few times, because polls and renewals may also
            // allocate memory.
            sleep(VALIDITY * 4).await;
            kept = Some((scene, task));
        });
    });
    let (scene, _) = kept.expect("the closure sets `kept`");
    let list = scene.bucket.objects.list("app/", "", 1_000);
    let page = runtime.block_on(list).expect("memory has no faults");
    info.bytes_current - page.entries.iter().map(|entry| entry.size as i64).sum::<i64>()
}

pub fn large(size: &Size) {
    let (partitions, members) = size.large;
    let (took, requests) = paused().block_on(async move {
        let mut scene = Scene::new(partitions, 1);
        let began = Instant::now();
        (0..members).for_each(|number| scene.join(&format!("worker-{number}")));
        scene.balanced().await;
        (began.elapsed().as_secs_f64(), scene.bucket.counts().total())
    });
    println!("{members} members own {partitions} partitions after {took:.0} s");
    check(
        "requests of a member until all partitions are owned",
        requests as f64 / members as f64,
        60.0,
    );
    let (few, many) = (100, 5_000);
    let each = (kept(many) - kept(few)) as f64 / 1_024.0 / f64::from(many - few);
    check("KiB of memory for each partition that a member owns", each, 1.0);
}
