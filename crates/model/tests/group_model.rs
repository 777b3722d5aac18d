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

#[test]
fn writes_lost_and_late() {
    let budget = Budget { lost: 1, ..Budget::default() };
    let sometimes = vec!["GS1"];
    explore("writes lost and late", Group { sometimes, ..group(2, 2, 3, budget) });
}

#[test]
fn leases_end() {
    let budget = Budget { ends: 1, ahead: 1, ..Budget::default() };
    let sometimes = vec!["GS1", "GS1 after a loss"];
    explore("leases end", Group { sometimes, ..group(2, 1, 4, budget) });
}

#[test]
fn leaves() {
    let budget = Budget { leaves: 1, ahead: 1, ..Budget::default() };
    let sometimes = vec!["GS1", "GS2", "moved"];
    explore("leaves", Group { sometimes, ..group(2, 1, 4, budget) });
}

#[test]
fn compaction() {
    let budget = Budget { compactions: 1, lost: 1, ..Budget::default() };
    explore("compaction", group(2, 1, 4, budget));
}

#[test]
fn depositions() {
    let budget = Budget { depositions: 1, ahead: 1, ..Budget::default() };
    let sometimes = vec!["GS1 after a loss"];
    explore("depositions", Group { sometimes, ..group(2, 1, 4, budget) });
}
#[test]
fn vanish() {
    let budget = Budget { vanish: 1, ahead: 1, ..Budget::default() };
    let sometimes = vec!["GS1 after a loss"];
    explore("vanish", Group { sometimes, ..group(2, 1, 4, budget) });
}
#[test]
fn crash() {
    let budget = Budget { crashes: 1, ahead: 1, swept: 1, ..Budget::default() };
    explore("crash", Group { reuses_ids: true, ..group(2, 1, 4, budget) });
}

fn broken(broken: Broken, group: Group, invariant: &'static str) {
    caught(Group { broken, ..group }, invariant);
}

#[test]
fn broken_any_token() {
    let budget = Budget { gives: 1, ..Budget::default() };
    broken(Broken::AnyToken, group(1, 1, 6, budget), "G4");
}
#[test]
fn broken_no_seal() {
    let budget = Budget { ahead: 1, ..Budget::default() };
    broken(Broken::NoSeal, group(2, 1, 4, Budget { ends: 1, ..budget }), "G4");
}
#[test]
fn broken_no_wait_for_deposed() {
    let budget = Budget { depositions: 1, ahead: 1, ..Budget::default() };
    broken(Broken::NoWaitForDeposed, group(2, 1, 4, budget), "G5");
}
#[test]
fn broken_no_wait_for_gone() {
    let budget = Budget { vanish: 1, ahead: 1, ..Budget::default() };
    broken(Broken::NoWaitForGone, group(2, 1, 4, budget), "G5");
}
#[test]
fn broken_keeps_token() {
    let budget = Budget { leaves: 1, ahead: 1, ..Budget::default() };
    broken(Broken::KeepsToken, group(2, 1, 4, budget), "G1");
}
#[test]
fn broken_skips_number() {
    let budget = Budget { ends: 1, ahead: 1, ..Budget::default() };
    broken(Broken::SkipsNumber, group(2, 1, 5, budget), "G4");
}
#[test]
fn broken_compacts_newest() {
    let budget = Budget { compactions: 1, ..Budget::default() };
    broken(Broken::CompactsNewest, group(2, 1, 4, budget), "G3");
}
#[test]
fn broken_no_confirm() {
    let budget = Budget { compactions: 1, lost: 1, ahead: 1, ends: 1, ..Budget::default() };
    broken(Broken::NoConfirm, group(2, 1, 5, budget), "G1");
}
#[test]
fn broken_releases_first() {
    let budget = Budget { ahead: 1, ..Budget::default() };
    broken(Broken::ReleasesFirst, group(2, 2, 5, budget), "G5");
}
#[test]
fn broken_takes_back() {
    let budget = Budget { lost: 1, ahead: 1, leaves: 1, ..Budget::default() };
    broken(Broken::TakesBack, group(2, 1, 5, budget), "G5");
}
#[test]
fn broken_ids_alone() {
    let budget = Budget { crashes: 1, ahead: 1, vanish: 1, ..Budget::default() };
    broken(Broken::IdsAlone, Group { reuses_ids: true, ..group(2, 1, 5, budget) }, "G1");
}
