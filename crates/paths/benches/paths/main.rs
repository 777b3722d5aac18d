//! Compares path locks with the simpler schemes of Charemza's post (docs/how-to/lock-folders.md).
//! The benchmarks measure the throughput of a mixed workload and the cost of an uncontended lock.
//!
//! ```text
//! cargo bench -p tenure-paths
//! ```
#![allow(clippy::disallowed_methods, reason = "sleeps represent requests")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use schemes::{Operation, Scheme};
use tenure::Process;
use tenure_paths::Path;
use tokio::runtime::Builder;

mod schemes;

/// Number of tasks. Each task runs one operation after the other.
const TASKS: usize = 64;
/// Time for which an operation holds its locks. A few requests to a store take about this time.
const HOLD: Duration = Duration::from_millis(5);
/// Number of folders in the root. Each of these folders has the same number of subfolders.
const WIDTH: usize = 8;

/// Returns a random operation. Of 20 operations, 16 read a folder, 2 write a folder, 1 copies a
/// folder and 1 renames a folder. Of 100 folders, 90 are two levels deep, 9 are one level deep, and
/// 1 is the root.
fn operation(rng: &mut fastrand::Rng) -> Operation {
    let (one, other) = (folder(rng), folder(rng));
    match rng.u8(..20) {
        0 => Operation { reads: vec![one], writes: vec![other] },
        1 => Operation { reads: vec![], writes: vec![one, other] },
        2 | 3 => Operation { reads: vec![], writes: vec![one] },
        _ => Operation { reads: vec![one], writes: vec![] },
    }
}

fn folder(rng: &mut fastrand::Rng) -> Path {
    let (top, below) = (rng.usize(..WIDTH), rng.usize(..WIDTH));
    let text = match rng.u8(..100) {
        0 => "/".to_owned(),
        1..10 => format!("/{top}"),
        _ => format!("/{top}/{below}"),
    };
    Path::new(&text).expect("a path")
}

/// Returns the time in which all tasks complete `rounds` operations each.
async fn workload(scheme: Scheme, rounds: u64) -> Duration {
    let start = Process::system().now().boot;
    let tasks: Vec<_> = (0..TASKS as u64)
        .map(|seed| {
            let (scheme, mut rng) = (scheme.clone(), fastrand::Rng::with_seed(seed));
            tokio::spawn(async move {
                for _ in 0..rounds {
                    let guard = scheme.lock(&operation(&mut rng)).await;
                    tokio::time::sleep(HOLD).await;
                    drop(guard);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no task panics");
    }
    Process::system().now().boot - start
}

/// The number of operations and the total time of each scheme, over all measurements.
#[derive(Default)]
struct Throughput(RefCell<BTreeMap<&'static str, (u64, Duration)>>);

impl Throughput {
    fn add(&self, scheme: &'static str, operations: u64, took: Duration) {
        let mut known = self.0.borrow_mut();
        let entry = known.entry(scheme).or_default();
        *entry = (entry.0 + operations, entry.1 + took);
    }

    fn print(&self) {
        let known = self.0.borrow();
        let rate = |(operations, took): &(u64, Duration)| *operations as f64 / took.as_secs_f64();
        let Some(base) = known.get("global mutex").map(rate) else { return };
        println!("\n{TASKS} tasks, {HOLD:?} an operation:");
        println!("{:>16}  {:>12}  {:>6}", "scheme", "operations/s", "ratio");
        for (scheme, _) in Scheme::all() {
            if let Some(rate) = known.get(scheme).map(rate) {
                println!("{scheme:>16}  {rate:>12.0}  {:>6.1}", rate / base);
            }
        }
        println!();
    }
}

fn mixed(c: &mut Criterion) {
    let runtime =
        Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let throughput = Throughput::default();
    let mut group = c.benchmark_group("paths/mixed workload");
    group.sample_size(10);
    group.measurement_time(Duration::from_secs(10));
    group.warm_up_time(Duration::from_millis(1));
    for (name, scheme) in Scheme::all() {
        group.bench_function(name, |b| {
            b.to_async(&runtime).iter_custom(|rounds| {
                let (scheme, throughput) = (scheme.clone(), &throughput);
                async move {
                    let took = workload(scheme, rounds).await;
                    throughput.add(name, rounds * TASKS as u64, took);
                    took
                }
            });
        });
    }
    group.finish();
    throughput.print();
}

fn alone(c: &mut Criterion) {
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let mut group = c.benchmark_group("paths/lock and unlock alone");
    let path = |text: &str| Path::new(text).expect("a path");
    let rename = Operation { reads: vec![], writes: vec![path("/a/b"), path("/a/c")] };
    for (name, scheme) in Scheme::all() {
        group.bench_function(name, |b| {
            b.to_async(&runtime).iter(|| async { scheme.lock(black_box(&rename)).await });
        });
    }
    // Measures the cost of a lock while 100,000 other locks are held. The number of other locks
    // must not change this cost.
    let locks = tenure_paths::PathLocks::new();
    let held: Vec<_> = (0..100_000)
        .filter_map(|number| {
            let folder = path(&format!("/a/{number}"));
            locks.try_lock(tenure_paths::Access::to_write(&folder)).ok().flatten()
        })
        .collect();
    assert_eq!(held.len(), 100_000);
    let scheme = Scheme::PathLocks(locks.clone());
    group.bench_function("PathLocks among 100,000", |b| {
        b.to_async(&runtime).iter(|| async { scheme.lock(black_box(&rename)).await });
    });
    group.finish();
}

criterion_group!(benches, mixed, alone);
criterion_main!(benches);
