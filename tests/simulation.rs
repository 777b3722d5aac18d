//! Deterministic simulation: the shipped driver, election, leadership and compactor on one thread
//! with paused time, a seeded store and clocks of their own (docs/protocol.md, section 5).

#[path = "simulation/mod.rs"]
mod sim;

use sim::plan::{Broken, Plan};
use sim::world::Counts;
use sim::{Outcome, run, run_all};

const DEFAULT_BASE: u64 = 0;
const DEFAULT_SEEDS: u64 = 200;

fn seeds() -> std::ops::Range<u64> {
    let number = |text: &str| text.trim().parse::<u64>().expect("a seed is a whole number");
    if let Ok(seed) = std::env::var("SEED") {
        let seed = number(&seed);
        return seed..seed + 1;
    }
    match std::env::var("SEEDS") {
        Err(_) => DEFAULT_BASE..DEFAULT_BASE + DEFAULT_SEEDS,
        Ok(seeds) => match seeds.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => DEFAULT_BASE..DEFAULT_BASE + number(&seeds),
        },
    }
}

/// Runs the seed again, this time writing its timeline, and fails with it.
fn explain(outcome: &Outcome) -> ! {
    let violation = outcome.violation.as_ref().expect("only failures are explained");
    let again = run(Plan { traced: true, ..outcome.plan.clone() });
    let lines: Vec<&str> = again.trace.lines().collect();
    let shown = if std::env::var("SEED").is_ok() { lines.len() } else { lines.len().min(150) };
    println!("{:#?}", outcome.plan);
    println!("{}", lines[lines.len() - shown..].join("\n"));
    panic!(
        "seed {}: {} at {:?}: {} (SEED={} shows the whole timeline)",
        outcome.seed, violation.checker, violation.at, violation.what, outcome.seed
    );
}

#[test]
fn the_invariants_hold_under_faults() {
    let seeds = seeds();
    let outcomes = run_all(seeds, Broken::Nothing);
    if let Some(failed) = outcomes.iter().find(|outcome| outcome.violation.is_some()) {
        explain(failed);
    }
    let mut total = Counts::new();
    for outcome in &outcomes {
        for (what, count) in &outcome.counts {
            *total.entry(what).or_default() += count;
        }
    }
    println!("{} seeds", outcomes.len());
    for (what, count) in &total {
        println!("{count:>10} {what}");
    }
    let slowest = outcomes.iter().filter_map(|o| Some((o.recovered?, o.seed))).max();
    println!("slowest recovery: {slowest:?}");
}
