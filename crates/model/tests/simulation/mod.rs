//! Runs the real library in a simulated world. Each seed gives one timeline.

pub mod application;
pub mod bucket;
pub mod calls;
pub mod calm;
pub mod checkers;
pub mod events;
pub mod fault_effects;
pub mod network;
pub mod peers;
pub mod picture;
pub mod plan;
pub mod process;
pub mod spoil;
pub mod stops;
pub mod store;
pub mod words;
pub mod world;

use std::sync::Arc;

use bytes::Bytes;
use calm::{calm, end_faults};
use fault_effects::{Slot, inject, kill, slew};
use plan::{Broken, Plan};
use tenure::Layout;
use tenure_model::sim::suite::{self, Recovery};
use tenure_model::sim::{Common, in_paused_time};
use tenure_model::time::now;
use world::World;

pub type Outcome = suite::Outcome<Plan>;

/// Runs one seed.
pub fn run(plan: Plan) -> Outcome {
    let (world, recovered) = in_paused_time(async {
        let world = World::new(plan.clone());
        let recovered = tokio::select! {
            biased;
            () = world.over.notified() => None,
            recovered = live(&world) => recovered,
        };
        (world, recovered)
    });
    let mut state = world.state();
    let drawing = picture::of_failure(plan.seed, &state);
    let Common { counts, violation, trace, .. } =
        std::mem::replace(&mut state.common, Common::new(0, &[]));
    Outcome { plan, counts, violation, trace, recovered, drawing }
}

/// Runs the phase with faults and then the calm phase.
async fn live(world: &Arc<World>) -> Option<Recovery> {
    let plan = &world.plan;
    count_settings(world);
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
            let runs = plan.broken == Broken::ClockRuns && knobs.name == plan.candidates[0].name;
            let clock = process::machine(world, knobs.rate * if runs { 4 } else { 1 });
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
    let foreign = plan.foreign.then(|| {
        let validity = plan.candidates[0].validity;
        match plan.layout {
            Layout::SingleObject => peers::start_if_match(world, validity),
            _ => peers::start_foreign(world, validity),
        }
    });
    others.extend(foreign);
    if plan.faults.slew > 0 {
        slots.iter().for_each(|slot| slew(world, slot.who));
    }
    let operator = plan.operator.then(|| peers::join_operator(world));
    inject(world, &mut slots, &others, operator).await;
    // A live peer that does not use tenure may hold the newest epoch for an unlimited time. So the
    // peer is killed before the calm phase.
    foreign.into_iter().for_each(|who| kill(world, who));
    for (number, slot) in slots.iter().enumerate() {
        if plan.survivor.is_some_and(|survivor| survivor != number) {
            kill(world, slot.who);
        }
    }
    if let Some(operator) = operator.filter(|_| plan.restores) {
        // If an operator was killed during a restore, its create may arrive late and leave the
        // restore unfinished. So the operator finishes the restore only after all creates have
        // arrived.
        end_faults(world).await;
        peers::finish_restoring(world, operator).await;
    }
    calm(world).await
}

/// Counts the settings of this run, for the summary.
fn count_settings(world: &World) {
    let plan = &world.plan;
    let twins = plan.candidates.iter().filter(|knobs| knobs.name == "twin").count();
    let settings = [
        ("runs beyond the drift", plan.beyond_drift),
        ("runs with a foreign peer", plan.foreign),
        ("runs with slewed clocks", plan.faults.slew > 0),
        ("runs that are never paused", plan.never_paused),
        ("steady runs", plan.steady),
        ("runs with an operator who restores the election", plan.restores),
        ("runs with a min_age of 0", plan.compactors.iter().any(|knobs| knobs.min_age.is_zero())),
        ("runs with two processes of one name", twins > 1),
    ];
    settings.iter().filter(|(_, is)| *is).for_each(|(what, _)| world.count(what));
}
