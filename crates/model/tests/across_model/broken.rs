//! Breaks each rule outside the machine. The checker must then find a violation of the invariant
//! that the rule protects (`tenure::protocol::across`).

use stateright::{Checker, Model};

use super::setting::{Broken, Budget, Setting};
use super::walk::{among_faults, caught_by_a_walk};
use super::world::{Action, Game};

/// Asserts that the setting breaks the invariant, and prints the shortest path. The search is
/// breadth first.
fn caught(broken: Broken, setting: Setting, invariant: &'static str) {
    let setting = Setting { broken, always: vec![invariant], ..setting };
    let checker = Game { setting }.checker().threads(2).spawn_bfs().join();
    let path = checker.discovery(invariant);
    let path = path.unwrap_or_else(|| panic!("{broken:?} does not break {invariant}")).into_vec();
    println!("{broken:?}: {invariant} is broken in {} steps:", path.len() - 1);
    for (_, action) in &path {
        if let Some(action) = action {
            println!("    {action:?}");
        }
    }
}

fn led(budget: Budget) -> Setting {
    Setting { led: true, ..Setting::new("broken", budget) }
}

fn free(budget: Budget) -> Setting {
    Setting::new("broken", budget)
}

const NONE: Budget = Budget::NONE;

#[test]
fn broken_candidate_that_does_not_wait_for_a_deposed_leader() {
    caught(Broken::NoWait, led(Budget { depositions: 2, ..NONE }), "I8");
}

#[test]
fn broken_candidate_that_creates_before_the_epoch_is_closed() {
    caught(Broken::NoClose, led(NONE), "I8");
}

#[test]
fn broken_candidate_that_counts_one_sealed_store() {
    caught(Broken::ClosedByOne, led(Budget { depositions: 1, ..NONE }), "I8");
}

#[test]
fn broken_candidate_that_seals_by_the_timers_of_others() {
    caught(Broken::TimersOfOthers, led(NONE), "I8");
}

#[test]
fn broken_candidate_that_counts_creates_without_an_answer() {
    caught(Broken::MinorityDone, free(Budget { gives_up: 1, ..NONE }), "I1");
}

#[test]
fn broken_lease_that_is_the_greatest() {
    caught(Broken::GreatestLease, led(NONE), "I8");
}

#[test]
fn broken_candidate_that_places_no_placeholder() {
    caught(Broken::NoPlaceholder, free(Budget { crashes: 1, ..NONE }), "live");
}

/// Asserts that these actions break I1 with the broken rule, and that they break nothing without
/// it.
fn caught_on_path(broken: Broken, path: &[Action]) {
    let budget = Budget { gives_up: 1, replacements: 1, ..NONE };
    let setting = Setting { last_epoch: 1, honest: false, walks: true, ..free(budget) };
    for (broken, violated) in [(broken, true), (Broken::Nothing, false)] {
        let game = Game { setting: Setting { broken, ..setting.clone() } };
        let mut world = game.start();
        for action in path {
            world = game.changed(&world, action).unwrap_or(world);
        }
        assert_eq!(world.violated.contains(&"I1"), violated, "{broken:?}: {:?}", world.grants);
    }
}

/// The action in which the process sends its next request to this store.
fn serve(who: usize, store: usize) -> Action {
    Action::Serve(who, store, None)
}

/// Both candidates list all stores, and begin an attempt for epoch 1.
fn both_begin() -> Vec<Action> {
    let lists = (0..2).flat_map(|who| (0..3).map(move |store| serve(who, store)));
    lists.chain([Action::Begin(0), Action::Begin(1)]).collect()
}

/// The first candidate has created at stores 0 and 1. The contents of store 1 are lost, and the
/// second candidate creates there and at store 2. Then the replacement takes its five steps.
#[test]
fn broken_candidate_that_ignores_a_new_generation() {
    let mut path = both_begin();
    path.extend([serve(0, 0), serve(0, 1), serve(0, 0), Action::Wipe(1)]);
    path.extend([Action::Spread(1), serve(1, 1), serve(1, 2)]);
    path.extend(vec![Action::Replace; 5]);
    path.extend([serve(1, 1), serve(1, 2), serve(0, 1)]);
    caught_on_path(Broken::SameGeneration, &path);
}

/// Store 2 loses its contents after the broken candidates have listed it. A late create of the
/// second candidate then arrives there.
#[test]
fn broken_candidate_that_lists_before_the_last_create() {
    let mut path = both_begin();
    path.extend([serve(1, 0), Action::GivesUp(1, 2, None)]);
    path.extend([Action::Spread(0), serve(0, 1), serve(0, 2), serve(1, 2), serve(0, 1)]);
    path.extend([Action::Wipe(2), Action::Arrives(0), serve(1, 2), serve(1, 2)]);
    path.extend([serve(0, 2), serve(1, 0)]);
    caught_on_path(Broken::ListsEarly, &path);
}

/// These violations need more steps than a search covers, so random walks find them.
#[test]
fn broken_walks_are_caught() {
    let walk = among_faults();
    let any = Setting { honest: false, ..walk.clone() };
    let budget = Budget { replacements: 20, ..walk.budget };
    let replaced = Setting { candidates: 2, budget, ..any.clone() };
    let budget = Budget { replacements: 2, ..NONE };
    let few = Setting { last_epoch: 2, budget, ..replaced.clone() };
    for (broken, invariant, setting) in [
        (Broken::NoMarker, "I1", &walk),
        (Broken::NoConfirm, "I1", &walk),
        (Broken::NoCondition, "I5", &walk),
        (Broken::CompactsNewest, "I1", &walk),
        (Broken::RestoredWithoutWait, "I8", &walk),
        (Broken::JoinsUnconfirmed, "I5", &any),
        (Broken::ListsOne, "I1", &replaced),
        (Broken::NoRestoredEpoch, "I1", &replaced),
        (Broken::RestoreKeepsObject, "I1", &few),
    ] {
        caught_by_a_walk(broken, setting.clone(), invariant, 50_000);
    }
}
