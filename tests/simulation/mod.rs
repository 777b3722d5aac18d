//! Runs the shipped library under a simulated world: one seed, one timeline.

pub mod bucket;
pub mod checkers;
pub mod clock;
pub mod faults;
pub mod gate;
pub mod network;
pub mod peers;
pub mod plan;
pub mod process;
pub mod store;
pub mod summary;
pub mod trace;
pub mod words;
pub mod world;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use faults::{Slot, inject};
use plan::Plan;
use world::{Counts, Violation, World, now, sleep};

/// What a run came to.
#[derive(Debug)]
pub struct Outcome {
    pub seed: u64,
    pub counts: Counts,
    pub violation: Option<Violation>,
    pub trace: String,
    pub plan: Plan,
    /// How long after the faults somebody led.
    pub recovered: Option<Duration>,
}

/// Runs one seed.
pub fn run(plan: Plan) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO needs nothing");
    let seed = plan.seed;
    let (world, recovered) = runtime.block_on(async {
        let world = World::new(plan.clone());
        let recovered = tokio::select! {
            biased;
            () = world.over.notified() => None,
            recovered = live(&world) => recovered,
        };
        (world, recovered)
    });
    drop(runtime);
    let mut state = world.state();
    Outcome {
        seed,
        counts: std::mem::take(&mut state.counts),
        violation: state.violation.take(),
        trace: state.trace.text().to_owned(),
        plan,
        recovered,
    }
}

/// The faults, then the calm after them.
async fn live(world: &Arc<World>) -> Option<Duration> {
    let plan = &world.plan;
    if plan.foreign_keys {
        let mut state = world.state();
        for key in
            ["app/lock-", "app/lock-0000000001.json.bak", "app/lock-0000000003x", "app/lock-a"]
        {
            state.bucket.put(key, Bytes::from_static(b"not ours"), now());
        }
    }
    let mut slots: Vec<Slot> = plan
        .candidates
        .iter()
        .map(|knobs| {
            let clock = process::machine(world, knobs.rate);
            let who = process::start_candidate(world, knobs, Arc::clone(&clock));
            Slot { knobs: knobs.clone(), clock, who }
        })
        .collect();
    let mut others = Vec::new();
    for knobs in &plan.compactors {
        others.push(process::start_compactor(world, knobs));
    }
    for _ in 0..plan.observers {
        others.push(process::start_observer(world, &plan.candidates[0]));
    }
    if plan.foreign {
        others.push(peers::start_foreign(world, plan.candidates[0].validity));
    }
    let operator = plan.operator.then(|| peers::join_operator(world));
    inject(world, &mut slots, &others, operator).await;
    calm(world).await
}

/// Ends the faults and waits until somebody leads: the promise of liveness.
async fn calm(world: &Arc<World>) -> Option<Duration> {
    world.calm_down();
    while !is_quiet(world) {
        sleep(world.plan.rtt).await;
    }
    let began = now();
    world.state().trace.line(began, "-", "CALM");
    if world.plan.foreign {
        // A foreign peer may hold the newest epoch for as long as it likes.
        return None;
    }
    let bound = bound(&world.plan);
    let recovered = loop {
        let last = world.state().last_token;
        match last.filter(|at| *at >= began) {
            Some(at) => break at - began,
            None if now() > began + bound => {
                world.fail("liveness", format!("nobody leads {bound:?} after the last fault"));
                return None;
            }
            None => sleep(world.plan.rtt / 4).await,
        }
    };
    stays(world, began + bound).await;
    Some(recovered)
}

/// Requests on their way and stops are faults too, until they have come to an end.
fn is_quiet(world: &World) -> bool {
    let state = world.state();
    let stopped = |member: &world::Member| {
        member.outage.is_some() || member.alive && member.gates.iter().any(|gate| gate.is_closed())
    };
    state.in_flight == 0 && !state.members.iter().any(stopped)
}

/// Once all have recovered, a leader that does not want to leave stays.
async fn stays(world: &World, recovered: Duration) {
    if world.plan.beyond_drift {
        return;
    }
    sleep(recovered.saturating_sub(now())).await;
    let grants = |world: &World| world.state().counts.get("grants").copied();
    let before = grants(world);
    sleep(world.plan.longest_validity() * 2).await;
    if grants(world) != before {
        world.fail("stability", "elected another although nothing went wrong".to_owned());
    }
}

/// By the slowest clock: validity × (1 + drift) and its jitter of a tenth, the takeover delay, and a
/// poll each for the first sight, a backoff and an application that polls itself. And 12 round trips:
/// 2 for the look, 3 to be elected, 5 to check the store, 2 to spare.
fn bound(plan: &Plan) -> Duration {
    let most = |of: fn(&plan::Knobs) -> Duration| plan.candidates.iter().map(of).max();
    let poll = most(|candidate| candidate.poll).unwrap_or_default();
    let delay = most(|candidate| candidate.takeover_delay).unwrap_or_default();
    let slowest = plan.candidates.iter().map(|candidate| candidate.rate).min().unwrap_or(1);
    let validity = plan.longest_validity();
    let local = validity.mul_f64(1.0 + plan.drift) + validity / 10 + delay + poll * 3;
    local.mul_f64(1e6 / slowest as f64) + plan.rtt * 12
}

/// Runs these seeds on all cores, up to the first that fails.
pub fn run_all(seeds: Range<u64>, plan: impl Fn(u64) -> Plan + Sync) -> Vec<Outcome> {
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut outcomes = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return outcomes;
            }
            let outcome = run(plan(seed));
            if outcome.violation.is_some() {
                // Greater seeds need not run; the lesser ones do already.
                next.fetch_max(seeds.end, Ordering::Relaxed);
            }
            outcomes.push(outcome);
        }
    };
    let mut outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|t| t.join().expect("reported, not panicked")).collect()
    });
    outcomes.sort_by_key(|outcome| outcome.seed);
    outcomes
}
