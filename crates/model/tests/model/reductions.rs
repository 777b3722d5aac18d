//! What the model leaves out because it makes no difference: seen to make none.

use std::collections::{BTreeSet, HashSet};

use stateright::Model;

use super::setting::{Budget, Setting};
use super::store::{Body, Number};
use super::world::{Game, World, hash};

/// What can be seen of a state from outside: the store, and what was granted. Nonces are numbered
/// in the order of their place here, as their numbers mean nothing.
type Seen = (Vec<(Number, Body)>, Vec<(Number, u8)>);

fn seen(world: &World) -> Seen {
    let mut nonces = Vec::new();
    let mut number = |nonce: u8| {
        let known = nonces.iter().position(|known| *known == nonce);
        let place = known.unwrap_or_else(|| {
            nonces.push(nonce);
            nonces.len() - 1
        });
        u8::try_from(place).expect("few nonces")
    };
    let objects = world.store.epochs();
    let objects = objects.map(|(epoch, body)| (epoch, body.with_nonce(number(body.nonce))));
    let objects = objects.collect();
    let grants = world.history.grants.iter().filter(|grant| !grant.pending);
    let grants = grants.map(|grant| (grant.epoch, number(grant.nonce))).collect();
    (objects, grants)
}

fn all_seen(setting: Setting) -> (BTreeSet<Seen>, usize) {
    let game = Game { setting };
    let mut waiting = game.init_states();
    let mut known: HashSet<u64> = waiting.iter().map(hash).collect();
    let mut all = BTreeSet::new();
    while let Some(world) = waiting.pop() {
        all.insert(seen(&world));
        for next in game.next_states(&world) {
            if known.insert(hash(&next)) {
                waiting.push(next);
            }
        }
    }
    (all, known.len())
}

/// Whatever can be seen in a model that leaves out nothing can be seen in the reduced one.
fn nothing_is_lost(setting: Setting) {
    let name = setting.name;
    let (reduced, few) = all_seen(setting.clone());
    let (whole, many) = all_seen(Setting { unreduced: true, ..setting });
    println!("{name}: {} sights in {few} states, in place of {many}", whole.len());
    assert!(few < many);
    assert!(reduced == whole, "{name}: the reductions change what can be seen");
}

#[test]
fn reductions_lose_nothing_among_late_requests() {
    let faults = Budget { gives_up: 1, twice: 1, ..Budget::CALM };
    let setting = Setting::new("late requests", faults);
    nothing_is_lost(Setting { last_epoch: 2, ..setting });
}

#[test]
fn reductions_lose_nothing_among_compactors() {
    let faults = Budget { twice: 1, compactions: 1, ..Budget::CALM };
    nothing_is_lost(Setting::new("compactor", faults));
}

#[test]
fn reductions_lose_nothing_among_crashes() {
    let faults = Budget { crashes: 1, depositions: 1, ..Budget::CALM };
    let setting = Setting::new("crashes", faults);
    nothing_is_lost(Setting { last_epoch: 2, ..setting });
}

/// An answer that comes late is as good as one that comes at once to a process that does nothing.
#[test]
fn late_answers_show_nothing_new() {
    let late = Budget { late: 1, ..Budget::CALM };
    let (late, more) = all_seen(Setting::new("late answers", late));
    let (prompt, states) = all_seen(Setting::new("prompt answers", Budget::CALM));
    println!("late answers: {} sights in {more} states and in {states}", late.len());
    assert!(late == prompt);
}
