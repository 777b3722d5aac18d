//! Shows that the reductions of the model change no observable state.

use std::collections::{BTreeSet, HashSet};

use stateright::Model;
use tenure_model::hashed_arc::HashedArc;

use super::found;
use super::setting::{Broken, Budget, Setting};
use super::store::{Body, NonceNumber, Number, Wire};
use super::world::{Game, Message, World};

impl World {
    /// Drops the pending writes that can never be accepted.
    pub fn drop_hopeless_writes(&mut self, game: &Game) {
        if self.wires.is_empty() || game.setting.broken == Broken::ReusesBody {
            return;
        }
        // The contents that epoch objects can have: the current contents, and the contents that
        // pending writes create. Later writes do not matter, because no pending write is
        // conditional on the content of a later write.
        let mut possible: Vec<(Number, Body)> = self.store.epochs().collect();
        let creates =
            self.wires.iter().filter(|message| matches!(message.wire, Wire::Create { .. }));
        possible.extend(creates.filter_map(|it| Some((it.wire.epoch(), it.wire.body()?))));
        loop {
            let known = possible.len();
            for Message { wire, .. } in &self.wires {
                if let Wire::Replace { epoch, tag, body } = *wire
                    && possible.contains(&(epoch, tag))
                    && !possible.contains(&(epoch, body))
                {
                    possible.push((epoch, body));
                }
            }
            if possible.len() == known {
                break;
            }
        }
        let keeps = |message: &Message| match message.wire {
            Wire::Replace { epoch, tag, .. } => possible.contains(&(epoch, tag)),
            // Another copy of this create was already applied. So this copy could take effect only
            // after the compaction of its epoch, and the protocol assumes that no copy arrives so
            // late.
            Wire::Create { .. } if message.done && !game.setting.creates_outlive_compaction => {
                false
            }
            Wire::Create { epoch, .. } => self.may_be_free(game, epoch),
            Wire::Delete { epoch } => self.may_exist(epoch),
        };
        let kept: Vec<Message> =
            self.wires.iter().filter(|message| keeps(message)).copied().collect();
        self.wires = kept;
    }

    fn may_be_free(&self, game: &Game, epoch: Number) -> bool {
        let deletion = |message: &Message| message.wire == Wire::Delete { epoch };
        self.store.get(epoch).is_none()
            || self.wires.iter().any(deletion)
            || self.left.compactions > 0
            || self.compactors.iter().any(|compactor| compactor.run.is_some())
            || game.setting.broken == Broken::ResignsByDeleting
    }

    /// Returns whether the epoch can exist. If all participants have seen this epoch or a greater
    /// epoch, only a pending write can still create this epoch.
    fn may_exist(&self, epoch: Number) -> bool {
        let creation = |message: &Message| {
            matches!(message.wire, Wire::Create { .. }) && message.wire.epoch() == epoch
        };
        self.store.get(epoch).is_some()
            || self.store.newest() <= epoch
            || self.wires.iter().any(creation)
            || self.processes.iter().any(|process| process.greatest() < epoch)
            || self.morling.about == Some(epoch)
            || self.morling.owned.contains(&epoch)
    }
}

/// The observable part of a state: the store and the grants. Nonces are numbered in the order of
/// their first use, because their values have no meaning.
type Seen = (Vec<(Number, Body)>, Vec<(Number, NonceNumber)>);

fn seen(world: &World) -> Seen {
    let mut nonces = Vec::new();
    let mut number = |nonce: NonceNumber| {
        let known = nonces.iter().position(|known| *known == nonce);
        let place = known.unwrap_or_else(|| {
            nonces.push(nonce);
            nonces.len() - 1
        });
        NonceNumber::try_from(place).expect("the number of nonces is small")
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
    let mut known: HashSet<u64> = waiting.iter().map(HashedArc::digest).collect();
    let mut all = BTreeSet::new();
    while let Some(world) = waiting.pop() {
        all.insert(seen(&world));
        for next in game.next_states(&world) {
            if known.insert(next.digest()) {
                waiting.push(next);
            }
        }
    }
    (all, known.len())
}

/// Asserts that the reduced model reaches every observable state of the model without reductions.
fn nothing_is_lost(setting: Setting) {
    let name = setting.name;
    let (reduced, few) = all_seen(setting.clone());
    let (whole, many) = all_seen(Setting { unreduced: true, ..setting });
    println!("{name}: {} observable states in {few} states instead of {many}", whole.len());
    let numbers = found::on_page(&format!("{name}, reduced and whole"));
    assert_eq!(numbers, [few, many], "{name} in states.md");
    assert!(few < many);
    assert!(reduced == whole, "{name}: the reductions change the observable states");
}

#[test]
fn reductions_keep_all_states_among_late_requests() {
    let faults = Budget { gives_up: 1, twice: 1, ..Budget::CALM };
    let setting = Setting::new("late requests", faults);
    nothing_is_lost(Setting { last_epoch: 2, ..setting });
}

#[test]
fn reductions_keep_all_states_among_compactors() {
    let faults = Budget { twice: 1, compactions: 1, ..Budget::CALM };
    nothing_is_lost(Setting::new("compactor", faults));
}

#[test]
fn reductions_keep_all_states_among_crashes() {
    let faults = Budget { crashes: 1, depositions: 1, ..Budget::CALM };
    let setting = Setting::new("crashes", faults);
    nothing_is_lost(Setting { last_epoch: 2, ..setting });
}

/// A late answer has the same effects as an immediate answer to a process that then pauses.
#[test]
fn late_answers_add_no_observable_state() {
    let late = Budget { late: 1, ..Budget::CALM };
    let (late, more) = all_seen(Setting::new("late answers", late));
    let (prompt, states) = all_seen(Setting::new("prompt answers", Budget::CALM));
    println!("late answers: {} observable states in {more} states and in {states}", late.len());
    assert!(late == prompt);
}
