//! The tests that each simulation has: the invariants hold under faults, a seed has one timeline,
//! and a checker reports each broken variant.

use std::fmt;
use std::time::Duration;

use super::{Counts, Violation};
use crate::seeds;

/// Number of seeds that run at a time. It limits the memory for their outcomes.
const SEEDS_AT_ONCE: usize = 1_000;
const SHOWN_LINES: usize = 150;

/// The plan of one run.
pub trait Plan: Clone + fmt::Debug + Send + Sync {
    /// The part of the system that is broken on purpose. By default, no part is broken.
    type Broken: Copy + Default + fmt::Debug + Sync;
    /// A drawing of a failed run.
    type Drawing: fmt::Debug + Send;

    fn draw(seed: u64, broken: Self::Broken) -> Self;

    fn seed(&self) -> u64;

    /// Returns the plan with this broken part, and only these checkers.
    fn with(self, broken: Self::Broken, only: &'static [&'static str]) -> Self;

    /// Returns the plan with a timeline.
    fn traced(self) -> Self;

    fn run(self) -> Outcome<Self>;

    /// Saves the drawing of a failed run. Returns a text that names the file.
    fn save(_outcome: &Outcome<Self>) -> String {
        String::new()
    }
}

/// The time from the last fault until a process leads, and the bound on this time.
#[derive(Debug, Clone, Copy)]
pub struct Recovery {
    pub took: Duration,
    pub bound: Duration,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome<P: Plan> {
    pub plan: P,
    pub counts: Counts,
    pub violation: Option<Violation>,
    pub trace: String,
    pub recovered: Option<Recovery>,
    pub drawing: P::Drawing,
}

/// Runs these seeds on all cores, up to the first failing seed.
pub fn run_all<P: Plan>(
    seeds: std::ops::Range<u64>,
    plan: impl Fn(u64) -> P + Sync,
) -> Vec<Outcome<P>> {
    seeds::run_all(seeds, |seed| plan(seed).run(), |outcome| outcome.violation.is_some())
}

/// Runs the seeds of the variables `SEED` and `SEEDS`, or the first `enough` seeds, with the
/// checkers of the variable `ONLY`. Asserts that no invariant is violated. If the first `enough`
/// seeds run, these events must occur in them.
pub fn invariants_hold<P: Plan>(
    enough: u64,
    events: &[&str],
    plan: impl Fn(P) -> P + Sync,
) -> Summary {
    let (seeds, only) = (seeds::chosen(0..enough), only());
    let plan = |seed| {
        let drawn = plan(P::draw(seed, P::Broken::default()));
        drawn.with(P::Broken::default(), only)
    };
    let mut summary = Summary::default();
    for from in seeds.clone().step_by(SEEDS_AT_ONCE) {
        let some = from..seeds.end.min(from + SEEDS_AT_ONCE as u64);
        let outcomes = run_all(some, plan);
        if let Some(failed) = outcomes.iter().find(|outcome| outcome.violation.is_some()) {
            explain(failed);
        }
        outcomes.iter().for_each(|outcome| summary.add(outcome));
    }
    println!("seeds {} to {}:\n{summary}", seeds.start, seeds.end - 1);
    // The first seeds together show every event. Other seeds may miss a rare event.
    if seeds.start == 0 && seeds.end >= enough && only.is_empty() {
        let never: Vec<_> = events.iter().filter(|it| !summary.total.contains_key(*it)).collect();
        assert!(never.is_empty(), "never happened: {never:?}");
    }
    summary
}

/// Returns the names of checkers in the variable `ONLY`. An empty list means all checkers.
fn only() -> &'static [&'static str] {
    let names = std::env::var("ONLY").unwrap_or_default().leak();
    names.split(',').filter(|name| !name.is_empty()).collect::<Vec<_>>().leak()
}

/// Asserts that the timeline of a seed does not depend on the thread, or on another run.
pub fn has_one_timeline<P: Plan>(seeds: u64, plan: impl Fn(P) -> P + Sync) {
    let traced = |seed| plan(P::draw(seed, P::Broken::default())).traced().run();
    for seed in 0..seeds {
        let (first, second) = std::thread::scope(|threads| {
            let second = threads.spawn(|| {
                traced(seed + 1);
                traced(seed).trace
            });
            (traced(seed).trace, second.join().expect("the run does not panic"))
        });
        assert!(first.lines().count() > 100, "the timeline of seed {seed} is too short:\n{first}");
        let differs = first.lines().zip(second.lines()).find(|(one, other)| one != other);
        assert!(differs.is_none() && first.len() == second.len(), "seed {seed}: {differs:#?}");
    }
}

/// Defines a test for each broken variant. The function `caught` of the caller asserts that one of
/// the given checkers reports a violation within the given number of seeds.
#[macro_export]
macro_rules! broken_variants {
    ($($(#[$attribute:meta])* $name:ident: $broken:ident $(($within:expr, $by:expr))+;)*) => {$(
        $(#[$attribute])*
        #[test]
        fn $name() {
            $(caught(Broken::$broken, $within, &$by);)+
        }
    )*};
}

/// Runs the broken variant with the seeds below `within`. Asserts that one of the checkers `by`
/// reports a violation, and that the same seed passes without the broken part.
pub fn caught<P: Plan>(
    broken: P::Broken,
    within: u64,
    by: &'static [&'static str],
    plan: impl Fn(P) -> P + Sync,
) {
    let outcomes = run_all(0..within, |seed| plan(P::draw(seed, broken)).with(broken, by));
    let Some(caught) = outcomes.iter().find(|outcome| outcome.violation.is_some()) else {
        panic!("{broken:?}: not caught in {within} seeds");
    };
    let violation = caught.violation.as_ref().expect("only a failing seed is examined");
    let seed = caught.plan.seed();
    println!("{broken:?}: seed {seed}: {}: {}", violation.checker, violation.what);
    let cured = caught.plan.clone().with(P::Broken::default(), &[]).run();
    assert!(cured.violation.is_none(), "seed {seed} also fails without the fault: {cured:#?}");
}

/// Runs the seed of a failed run again with a timeline, prints the timeline, and panics.
fn explain<P: Plan>(outcome: &Outcome<P>) -> ! {
    let violation = outcome.violation.as_ref().expect("only failures are explained");
    let again = outcome.plan.clone().traced().run();
    let lines: Vec<&str> = again.trace.lines().collect();
    let shown = if std::env::var("SEED").is_ok() { lines.len() } else { SHOWN_LINES };
    println!("{:#?}", outcome.plan);
    println!("{}", lines[lines.len().saturating_sub(shown)..].join("\n"));
    let (seed, checker, at) = (outcome.plan.seed(), violation.checker, violation.at);
    let (problem, saved) = (&violation.what, P::save(outcome));
    panic!("seed {seed}: {checker} at {at:?}: {problem} (SEED={seed} prints the timeline{saved})");
}

/// Counts the events of many runs. The counts show that the checks were effective.
#[derive(Debug, Default)]
pub struct Summary {
    pub runs: usize,
    pub total: Counts,
    /// The longest time from the last fault until a process led, with the seed of its run.
    slowest: Option<(Duration, u64)>,
    /// The greatest ratio of a recovery time to its bound, with the seed of its run.
    closest: Option<(f64, u64)>,
}

impl Summary {
    fn add<P: Plan>(&mut self, outcome: &Outcome<P>) {
        self.runs += 1;
        for (event, count) in &outcome.counts {
            *self.total.entry(event).or_default() += count;
        }
        let Some(Recovery { took, bound }) = outcome.recovered else { return };
        let seed = outcome.plan.seed();
        if self.slowest.is_none_or(|(slowest, _)| took > slowest) {
            self.slowest = Some((took, seed));
        }
        let part = took.div_duration_f64(bound);
        if self.closest.is_none_or(|(closest, _)| part > closest) {
            self.closest = Some((part, seed));
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>10} runs", self.runs)?;
        for (event, count) in &self.total {
            writeln!(f, "{count:>10} {event}")?;
        }
        if let Some((slowest, seed)) = self.slowest {
            writeln!(f, "slowest recovery {slowest:?}, seed {seed}")?;
        }
        match self.closest {
            None => Ok(()),
            Some((part, seed)) => write!(f, "greatest ratio to the bound: {part:.3}, seed {seed}"),
        }
    }
}
