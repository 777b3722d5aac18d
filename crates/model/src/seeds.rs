//! Runs a simulation with many seeds, on all cores.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Calls `run` with these seeds in ascending order. After a seed has failed, starts no further
/// seed.
pub fn run_all<T: Send>(
    seeds: Range<u64>,
    run: impl Fn(u64) -> T + Sync,
    fails: impl Fn(&T) -> bool + Sync,
) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut outcomes = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return outcomes;
            }
            let outcome = run(seed);
            if fails(&outcome) {
                // Start no further seed. All seeds below the failing seed have already started.
                next.fetch_max(seeds.end, Ordering::Relaxed);
            }
            outcomes.push((seed, outcome));
        }
    };
    let mut outcomes: Vec<(u64, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|it| it.join().expect("the thread returns its failures"))
            .collect()
    });
    outcomes.sort_by_key(|(seed, _)| *seed);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}
