//! Runs a simulation with many seeds, on all cores.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Returns the seed in the variable `SEED`, or else the seeds in `SEEDS` (their number, or a
/// range), or else `default`.
///
/// # Panics
///
/// Panics if a variable is not a number or a range.
pub fn chosen(default: Range<u64>) -> Range<u64> {
    let number = |text: &str| text.trim().parse::<u64>().expect("a seed must be a whole number");
    if let Ok(seed) = std::env::var("SEED") {
        return number(&seed)..number(&seed) + 1;
    }
    match std::env::var("SEEDS") {
        Err(_) => default,
        Ok(seeds) => match seeds.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => 0..number(&seeds),
        },
    }
}

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
