//! Checks the invariants I1 to I6 (docs/design/protocol.md). The checks examine the actions of the
//! store, and use no clocks.

use std::collections::BTreeSet;

use stateright::Property;
use tenure::protocol::message::{EpochEnd, Lost};
use tenure_model::hashed_arc::HashedArc;

use super::setting::Setting;
use super::store::{Body, NonceNumber, Number, Store, Wire, small};
use super::world::{Game, World};

/// The past events on which the invariants depend.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct History {
    /// Grants in the order of their dates. The date of a grant is the moment at which the store
    /// evaluates the first page of the confirming LIST.
    pub grants: Vec<Grant>,
    /// Names of the properties that the explored path has broken.
    broken: Vec<&'static str>,
    /// The epoch of the last leader that crashed, or 0.
    pub crashed: Number,
    /// The writes that the store accepted, and the names of the events that the walk reached. Only
    /// a random walk records this field.
    pub past: Past,
}

/// An epoch that is granted or about to be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grant {
    pub epoch: Number,
    /// Nonce of the epoch. 0 means that a peer that follows Morling's post (docs/how-to/upgrade.md)
    /// created the epoch and believes that it leads.
    pub nonce: NonceNumber,
    /// True from the moment at which the store sends the first page of the confirming LIST until it
    /// sends the last page.
    pub pending: bool,
    /// True if no greater epoch existed when the store evaluated the first page of the confirming
    /// LIST.
    pub alone: bool,
}

impl History {
    pub fn of_a_walk() -> History {
        History { past: Past(Some(HashedArc::new(Written::default()))), ..History::default() }
    }

    pub fn require(&mut self, name: &'static str, holds: bool) {
        if !holds && !self.broken.contains(&name) {
            self.broken.push(name);
            self.broken.sort_unstable();
        }
    }

    pub fn granted(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter().filter(|grant| !grant.pending)
    }

    pub fn was_granted(&self, epoch: Number, nonce: NonceNumber) -> bool {
        self.granted().any(|grant| (grant.epoch, grant.nonce) == (epoch, nonce))
    }

    /// Records that the store evaluates the first page of a confirming LIST.
    pub fn date(&mut self, store: &Store, epoch: Number, nonce: NonceNumber) {
        self.forget_pending(epoch, nonce);
        let alone = store.newest() <= epoch;
        self.grants.push(Grant { epoch, nonce, pending: true, alone });
    }

    pub fn forget_pending(&mut self, epoch: Number, nonce: NonceNumber) {
        self.grants.retain(|grant| !grant.pending || (grant.epoch, grant.nonce) != (epoch, nonce));
    }

    pub fn grant(&mut self, epoch: Number, nonce: NonceNumber) {
        let this = |grant: &Grant| grant.pending && (grant.epoch, grant.nonce) == (epoch, nonce);
        let Some(place) = self.grants.iter().position(this) else {
            return self.require("I2", false);
        };
        let again = self.granted().any(|grant| grant.epoch == epoch);
        self.require("I1", !again);
        self.grants[place].pending = false;
        let ordered = self.granted().is_sorted_by(|one, next| one.epoch < next.epoch);
        self.require("I2", self.grants[place].alone && ordered);
    }

    /// Checks a write that the store is about to accept. `sealed_since` is true if the write is a
    /// create that was applied before, and the created epoch object was sealed since then.
    pub fn before(&mut self, store: &Store, wire: Wire, sealed_since: bool) {
        let epoch = wire.epoch();
        match wire {
            Wire::Delete { .. } => self.require("I3", store.newest() != epoch),
            Wire::Create { body, .. } => {
                self.require("I4", !(sealed_since && self.was_granted(epoch, body.nonce)));
            }
            Wire::Replace { tag, body, .. } => {
                if body.ended().is_none() && self.was_granted(epoch, body.nonce) {
                    self.require("I4", tag.ended().is_none());
                    self.require("I5", store.newest() == epoch);
                }
            }
        }
    }

    /// Checks that the reason of a loss matches the objects in the store when the store answers.
    pub fn lost(&mut self, store: &Store, epoch: Number, nonce: NonceNumber, lost: Lost) {
        let body = store.get(epoch);
        let is_own = body.is_some_and(|body| body.nonce == nonce);
        let ended = body.and_then(Body::ended);
        let honest = match lost {
            Lost::LeaseEnded => true,
            Lost::Resigned => is_own && ended == Some(EpochEnd::Resigned),
            Lost::Sealed(word) => is_own && ended == Some(word),
            Lost::Superseded(by) => small(by.get()) > epoch && store.newest() >= small(by.get()),
            Lost::Vanished => body.is_none() && store.newest() > epoch,
            Lost::Tampered => body.is_some() && !is_own,
        };
        self.require("honest", honest);
    }

    /// Checks a loss in a random walk. Answers can be late, so the reason must match an earlier
    /// state of the store.
    pub fn lost_once(&mut self, epoch: Number, nonce: NonceNumber, lost: Lost) {
        self.past.reach("a loss");
        let Some(past) = &self.past.0 else { return };
        let sealed = |word| past.sealed.contains(&(epoch, nonce, word));
        let honest = match lost {
            Lost::LeaseEnded => true,
            Lost::Resigned => sealed(EpochEnd::Resigned),
            Lost::Sealed(word) => sealed(word),
            Lost::Superseded(by) => {
                small(by.get()) > epoch && past.created.contains(&small(by.get()))
            }
            // The leader's object can be missing, or replaced by an object with another nonce, only
            // after a deletion of the epoch.
            Lost::Vanished | Lost::Tampered => past.deleted.contains(&epoch),
        };
        self.require("honest", honest);
    }

    /// In a random walk, checks that the store accepted the renewal with which the process extends
    /// its lease.
    pub fn extended(&mut self, epoch: Number, nonce: NonceNumber, heartbeat: u64) {
        let Some(past) = &self.past.0 else { return };
        let honest = past.written.contains(&(epoch, nonce, small(heartbeat)));
        self.require("honest", honest);
    }
}

/// All writes that the store accepted in a random walk, and the names of the events that the walk
/// reached.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Past(Option<HashedArc<Written>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Written {
    created: BTreeSet<Number>,
    deleted: BTreeSet<Number>,
    written: BTreeSet<(Number, NonceNumber, u8)>,
    sealed: Vec<(Number, NonceNumber, EpochEnd)>,
    reached: BTreeSet<&'static str>,
}

impl Past {
    pub fn reach(&mut self, what: &'static str) {
        if let Some(past) = &mut self.0
            && !past.reached.contains(what)
        {
            past.reached.insert(what);
        }
    }

    pub fn settle(&mut self) {
        self.0.iter_mut().for_each(HashedArc::settle);
    }

    pub fn has(&self, what: &str) -> bool {
        self.0.as_ref().is_some_and(|past| past.reached.contains(what))
    }

    /// Records a write that the store accepted.
    pub fn accepted(&mut self, wire: Wire) {
        let Some(past) = &mut self.0 else { return };
        let epoch = wire.epoch();
        let Some(body) = wire.body() else {
            past.deleted.insert(epoch);
            return;
        };
        past.created.insert(epoch);
        match body.ended() {
            None => {
                past.written.insert((epoch, body.nonce, body.heartbeat));
            }
            Some(word) => past.sealed.push((epoch, body.nonce, word)),
        }
    }
}

/// I6: a granted epoch object is the newest while it is unsealed and has the granted nonce.
fn i6(world: &World) -> bool {
    let newest = world.store.newest();
    world.store.epochs().all(|(epoch, body)| {
        epoch == newest || body.ended().is_some() || !world.history.was_granted(epoch, body.nonce)
    })
}

/// Returns whether the epoch right after a deposed epoch was granted.
fn deposition_succeeded(world: &World) -> bool {
    let deposed = |body: Body| body.ended() == Some(EpochEnd::Deposed);
    world.history.granted().any(|grant| world.store.get(grant.epoch - 1).is_some_and(deposed))
}

fn holds(world: &World, name: &str) -> bool {
    !world.history.broken.contains(&name)
}

fn reached(world: &World, what: &str) -> bool {
    world.history.past.has(what)
}

impl Game {
    /// Returns whether the state breaks a property that this setting requires.
    pub fn is_broken(&self, world: &World) -> bool {
        let broken = |name: &&'static str| !holds(world, name) || (*name == "I6" && !i6(world));
        self.setting.always.iter().any(broken)
    }
}

/// S1: another candidate is elected after a crash.
fn s1(world: &World) -> bool {
    let crashed = world.history.crashed;
    let elected =
        |leads: Option<(Number, NonceNumber)>| leads.is_some_and(|(epoch, _)| epoch > crashed);
    crashed > 0 && world.processes.iter().any(|process| !process.reborn && elected(process.leads))
}

/// S2: a candidate is elected after a resigned epoch. The resignation seals the epoch, so the
/// candidate does not wait for a lapse.
fn s2(world: &World) -> bool {
    let resigned = |body: Body| body.ended() == Some(EpochEnd::Resigned);
    world.history.granted().any(|grant| world.store.get(grant.epoch - 1).is_some_and(resigned))
}

fn three_grants(world: &World) -> bool {
    let epochs: Vec<Number> = world.history.granted().map(|grant| grant.epoch).collect();
    epochs.windows(3).any(|three| three[2] == three[0] + 2)
}

/// Returns the properties that this setting requires.
pub fn properties(setting: &Setting) -> Vec<Property<Game>> {
    let all: Vec<Property<Game>> = vec![
        Property::<Game>::always("I1", |_, world| holds(world, "I1")),
        Property::<Game>::always("I2", |_, world| holds(world, "I2")),
        Property::<Game>::always("I3", |_, world| holds(world, "I3")),
        Property::<Game>::always("I4", |_, world| holds(world, "I4")),
        Property::<Game>::always("I5", |_, world| holds(world, "I5")),
        Property::<Game>::always("I6", |_, world| i6(world)),
        // The reason that a leader reports for its loss agrees with the objects in the store.
        Property::<Game>::always("honest", |_, world| holds(world, "honest")),
        // A campaign recognises the epoch object that it created.
        Property::<Game>::always("own", |_, world| holds(world, "own")),
        Property::<Game>::always("no failure", |_, world| holds(world, "no failure")),
        // An observer writes nothing.
        Property::<Game>::always("observer", |_, world| holds(world, "observer")),
        // From each state of a random walk, a candidate is elected if no further fault occurs.
        Property::<Game>::always("no dead end", |game, world| game.goes_on(world)),
        // A renewal extends the lease only while no greater epoch exists.
        Property::<Game>::always("verified", |_, world| holds(world, "verified")),
        Property::<Game>::sometimes("S1", |_, world| s1(world)),
        Property::<Game>::sometimes("S2", |_, world| s2(world)),
        Property::<Game>::sometimes("three grants in a row", |_, world| three_grants(world)),
        Property::<Game>::sometimes("a deposition succeeded", |_, world| {
            deposition_succeeded(world)
        }),
        Property::<Game>::sometimes("a predecessor's epoch reclaimed", |_, world| {
            reached(world, "a predecessor's epoch reclaimed")
        }),
        Property::<Game>::sometimes("a loss", |_, world| reached(world, "a loss")),
        Property::<Game>::sometimes("an earlier write adopted", |_, world| {
            reached(world, "an earlier write adopted")
        }),
        Property::<Game>::sometimes("a campaign not confirmed", |_, world| {
            reached(world, "a campaign not confirmed")
        }),
    ];
    let wanted = |name| setting.always.contains(&name) || setting.sometimes.contains(&name);
    all.into_iter().filter(|property| wanted(property.name)).collect()
}
