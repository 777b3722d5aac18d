//! The machines of partition groups as shipped, explored exhaustively within bounds
//! (docs/verification.md). `TENURE_MODEL=large` explores farther.

#[path = "group_model/process.rs"]
mod process;
#[path = "group_model/step.rs"]
mod step;
#[path = "group_model/store.rs"]
mod store;
#[path = "group_model/world.rs"]
mod world;

use stateright::{Checker, Model};
use world::{Broken, Budget, Group};

const ALWAYS: &[&str] = &["G1", "G2", "G3", "G4", "G5", "goes on"];

fn group(members: u8, partitions: u8, last: u64, budget: Budget) -> Group {
    Group {
        members,
        partitions,
        last,
        budget,
        reuses_ids: false,
        broken: Broken::Nothing,
        always: ALWAYS.into(),
        sometimes: Vec::new(),
    }
}

/// Explores all of it: no invariant breaks, and what should happen at times does.
fn explore(name: &'static str, group: Group) {
    let clock = tenure::Process::system();
    let start = clock.now().boot;
    let checker = group.checker().threads(2).spawn_dfs().join();
    let took = (clock.now().boot - start).as_secs_f32();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{name}: unique states: {states}, depth: {depth}, time: {took:.1} s");
    checker.assert_properties();
}

/// The shortest way to break it.
fn caught(group: Group, invariant: &'static str) {
    let broken = group.broken;
    let checker = Group { always: vec![invariant], ..group }.checker().spawn_bfs().join();
    let path = checker.discovery(invariant);
    let path = path.unwrap_or_else(|| {
        panic!("{broken:?} does not break {invariant} in {} states", checker.unique_state_count())
    });
    let actions = path.into_actions();
    println!("{broken:?}: {invariant} is broken in {} steps:", actions.len());
    for action in actions {
        println!("    {action:?}");
    }
}

#[test]
fn calm() {
    let sometimes = vec!["GS1"];
    explore("calm", Group { sometimes, ..group(2, 2, 3, Budget::default()) });
}
