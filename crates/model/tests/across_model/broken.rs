//! Each test breaks one rule by changes outside the machine. The checker must then find a violation
//! of the invariant that the rule protects (`tenure::protocol::across`).

use stateright::{Checker, Model};

use super::setting::{Broken, Budget, Setting};
use super::walk::{among_faults, caught_by_a_walk};
use super::world::{Action, Game, Serving};

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
fn broken_candidate_that_does_not_wait_for_a_deposed_leader_is_caught() {
    caught(Broken::NoWait, led(Budget { depositions: 2, ..NONE }), "I8");
}

#[test]
fn broken_candidate_that_creates_before_the_epoch_is_closed_is_caught() {
    caught(Broken::NoClose, led(NONE), "I8");
}

#[test]
fn broken_candidate_that_counts_one_sealed_store_is_caught() {
    caught(Broken::ClosedByOne, led(Budget { depositions: 1, ..NONE }), "I8");
}

#[test]
fn broken_candidate_that_seals_by_the_timers_of_other_stores_is_caught() {
    caught(Broken::TimersOfOthers, led(NONE), "I8");
}

#[test]
fn broken_candidate_that_counts_creates_without_an_answer_is_caught() {
    caught(Broken::MinorityDone, free(Budget { gives_up: 1, ..NONE }), "I1");
}

#[test]
fn broken_leader_that_uses_the_longest_lease_is_caught() {
    caught(Broken::GreatestLease, led(NONE), "I8");
}

#[test]
fn broken_candidate_that_creates_no_placeholder_is_caught() {
    caught(Broken::NoPlaceholder, free(Budget { crashes: 1, ..NONE }), "live");
}

/// Asserts that these actions break the invariant with the broken rule, and that they break no
/// invariant with the correct rule. All pauses end immediately.
fn caught_on_path(broken: Broken, invariant: &str, setting: &Setting, path: &[Action]) {
    for (broken, violated) in [(broken, true), (Broken::Nothing, false)] {
        let game = Game { setting: Setting { broken, walks: true, ..setting.clone() } };
        let mut world = game.start();
        for action in path {
            let mut next = Some(action.clone());
            while let Some(action) = next {
                world = game.changed(&world, &action).unwrap_or(world);
                let mut actions = Vec::new();
                game.possible(&world, &mut actions);
                let ends = |it: &Action| matches!(it, Action::Resumes(..) | Action::Continues(_));
                next = actions.into_iter().find(ends);
            }
        }
        assert_eq!(world.violated.contains(&invariant), violated, "{broken:?}: {:?}", world.grants);
        assert!(violated || world.violated.is_empty(), "{:?}", world.violated);
    }
}

/// Returns the action in which the process sends its next request to this store.
fn serve(who: usize, store: usize) -> Action {
    Action::Serve(who, store, None, Serving::Once)
}

/// Returns the actions in which the process sends one request to each of these stores.
fn serves<const N: usize>(who: usize, stores: [usize; N]) -> impl Iterator<Item = Action> {
    stores.into_iter().map(move |store| serve(who, store))
}

const STORES: [usize; 3] = [0, 1, 2];

/// Returns the steps of a replacement: it writes two notes, lists the other stores, and writes the
/// epoch and the marker.
fn replaced(store: usize) -> impl Iterator<Item = Action> {
    std::iter::once(Action::Wipe(store)).chain(vec![Action::Replace; 5])
}

/// Returns a setting in which clocks may be wrong, for the test of one path.
fn any_clocks(last_epoch: u8) -> Setting {
    let budget = Budget { gives_up: 1, replacements: 1, compactions: 2, ..NONE };
    Setting { last_epoch, honest: false, ..free(budget) }
}

/// Returns the actions in which both candidates list all stores, and begin an attempt for epoch 1.
fn both_begin() -> Vec<Action> {
    let lists = serves(0, STORES).chain(serves(1, STORES));
    lists.chain([Action::Begin(0), Action::Begin(1)]).collect()
}

/// The first candidate has created epoch 1 at stores 0 and 1. The contents of store 1 are lost, and
/// the second candidate creates epoch 1 there and at store 2. Then store 1 is replaced.
#[test]
fn broken_candidate_that_ignores_a_new_generation_is_caught() {
    let mut path = both_begin();
    path.extend(serves(0, [0, 1, 0]));
    path.extend([Action::Wipe(1), Action::Spread(1), serve(1, 1), serve(1, 2)]);
    path.extend(vec![Action::Replace; 5]);
    path.extend([serve(1, 1), serve(1, 2), serve(0, 1)]);
    caught_on_path(Broken::SameGeneration, "I1", &any_clocks(1), &path);
}

/// Store 2 loses its contents after the broken candidates have listed it. A late create of the
/// second candidate then arrives there.
#[test]
fn broken_candidate_that_lists_before_the_last_create_is_caught() {
    let mut path = both_begin();
    path.extend([serve(1, 0), Action::GivesUp(1, 2, None)]);
    path.extend([Action::Spread(0), serve(0, 1), serve(0, 2), serve(1, 2), serve(0, 1)]);
    path.extend([Action::Wipe(2), Action::Arrives(0), serve(1, 2), serve(1, 2)]);
    path.extend([serve(0, 2), serve(1, 0)]);
    caught_on_path(Broken::ListsEarly, "I1", &any_clocks(1), &path);
}

/// The second candidate seals epoch 1 at store 0, before store 0 loses its contents. The first
/// candidate creates epoch 1 in the new contents, and is elected. Only the note at store 2 shows
/// the second candidate that epoch 1 is not closed.
#[test]
fn broken_candidate_that_counts_a_seal_in_lost_contents_is_caught() {
    let mut path: Vec<Action> = serves(0, STORES).chain([Action::Begin(0), serve(0, 0)]).collect();
    path.extend(serves(1, STORES).chain(serves(1, STORES)));
    path.extend([Action::Lapsed(1, 0), Action::Lapsed(1, 2), serve(1, 0), serve(1, 0)]);
    path.extend(replaced(0).chain(serves(1, [2, 2, 0, 0, 0])).chain([Action::Begin(1)]));
    path.extend(serves(0, [1, 0, 1, 0, 0, 1, 0, 1]));
    path.extend(serves(1, [0, 1, 2, 1, 2, 0, 1, 0, 1]));
    let setting = free(Budget { replacements: 1, ..NONE });
    for broken in [Broken::IgnoresNotes, Broken::AnyListMarks, Broken::KeepsKnown] {
        caught_on_path(broken, "I8", &setting, &path);
    }
}

/// The first candidate creates epoch 1 again at store 0, after epoch 2 was granted at the other
/// stores.
#[test]
fn broken_candidate_that_keeps_the_lists_before_a_repeated_create_is_caught() {
    let mut path: Vec<Action> = serves(0, STORES).chain([Action::Begin(0), serve(0, 0)]).collect();
    path.extend(replaced(0).chain(serves(0, [1, 1])));
    path.extend(serves(1, STORES).chain(serves(1, STORES)));
    path.extend([Action::Lapsed(1, 1), Action::Lapsed(1, 2)]);
    path.extend(serves(1, [1, 2, 1, 2]).chain([Action::Begin(1)]));
    path.extend(serves(1, [1, 2, 1, 2]).chain(serves(0, [0, 0, 0, 1])));
    caught_on_path(Broken::KeepsLists, "I2", &any_clocks(2), &path);
}

/// Store 2 loses epochs 1 and 2 after the third candidate has seen epoch 1 there.
#[test]
fn broken_candidate_that_ignores_a_decrease_of_the_greatest_epoch_is_caught() {
    let mut path: Vec<Action> = serves(1, STORES).chain(serves(1, STORES)).collect();
    path.extend(serves(2, STORES).chain(STORES.map(|store| Action::Lapsed(1, store))));
    path.extend(serves(1, STORES).chain(serves(2, [0, 1, 2, 0, 1])));
    path.extend(serves(1, STORES).chain([Action::Begin(1), Action::Spread(1)]));
    path.extend(serves(1, [1, 2, 1, 2]).chain([Action::Compact(2), Action::Compact(2)]));
    path.extend(serves(2, [2]).chain([Action::Begin(2)]).chain(serves(2, [0, 1, 1, 2, 0, 2])));
    let setting = Setting { led: true, candidates: 3, ..any_clocks(2) };
    caught_on_path(Broken::MayFall, "I1", &setting, &path);
}

/// The first candidate has created epoch 1 at one store only.
#[test]
fn broken_candidate_that_closes_absent_objects_immediately_is_caught() {
    let mut path: Vec<Action> = serves(0, STORES).chain([Action::Begin(0), serve(0, 0)]).collect();
    path.extend(serves(1, STORES).chain(serves(1, STORES)).chain(serves(1, [1])));
    caught_on_path(Broken::AbsentLapses, "Q4", &free(NONE), &path);
}

/// These violations need more steps than a search covers, so random walks find them.
#[test]
fn broken_variants_are_caught_by_walks() {
    let walk = among_faults();
    let any = Setting { honest: false, ..walk.clone() };
    let budget = Budget { replacements: 20, ..walk.budget };
    let replaced = Setting { candidates: 2, budget, ..any.clone() };
    let budget = Budget { replacements: 2, ..NONE };
    let few = Setting { last_epoch: 2, budget, ..replaced.clone() };
    let budget = Budget { moves: 1, renewals: 100, ..NONE };
    let moved = Setting { candidates: 2, last_epoch: 3, budget, ..walk.clone() };
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
        (Broken::MoveKeepsMarker, "I8", &moved),
        (Broken::MoveDeposesNothing, "I8", &moved),
    ] {
        caught_by_a_walk(broken, setting.clone(), invariant, 50_000);
    }
}
