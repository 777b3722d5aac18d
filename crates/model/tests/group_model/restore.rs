//! Deletions by other programs, and an operator that restores the group.

use std::collections::BTreeSet;

use tenure::protocol::message::Nonce;
use tenure_groups::protocol::message::{AssignmentRequest, ParticipantStep};
use tenure_groups::protocol::participant::Participant;
use tenure_groups::protocol::{Assignment, Session, operation};
use tenure_model::hashed_arc::HashedArc;

use super::process::Process;
use super::setting::{Broken, Group};
use super::store::Wire;
use super::world::{Action, Serving, World};

/// A restore that an operator has begun and must still complete.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Restoring {
    held: HashedArc<Assignment>,
    /// Sessions that existed when the held assignment was confirmed. The held assignment is the
    /// first assignment of the restore (rule D9 of docs/design/groups.md).
    listed: BTreeSet<Session>,
}

impl Group {
    /// Lets all members join. The first member then assigns the partitions, and writes the number
    /// of its assignment into its session.
    pub fn assign(&self, world: &mut World) {
        for who in 0..world.processes.len() {
            while world.processes[who].written.is_none() {
                self.act(world, Action::Lease(who, Serving::Once));
            }
        }
        self.act(world, Action::GoAhead(0));
        loop {
            let mut actions = Vec::new();
            self.group_actions(world, 0, &mut actions);
            let goes_on = |it: &Action| {
                matches!(it, Action::Ask(_, Serving::Once) | Action::Poll(_) | Action::Round(_))
            };
            let Some(action) = actions.into_iter().find(goes_on) else { break };
            self.act(world, action);
        }
        self.act(world, Action::Lease(0, Serving::Once));
        assert!(world.processes[0].has_said() && world.store.newest().is_some());
    }

    pub fn deletion_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let there = world.store.newest().is_some();
        if there && world.left.deletes() && world.is_settled() {
            let mut sessions = world.store.sessions.values();
            let shown = sessions.any(|it| it.seen() >= world.ghost.greatest);
            actions.extend((shown && world.left.deletions > 0).then_some(Action::Delete));
            actions.extend((shown && world.left.wipes > 0).then_some(Action::Wipe));
            let remembered = world.processes.iter().all(|it| it.greatest() >= world.ghost.greatest);
            let loses = remembered && self.remembers && world.left.losses > 0;
            actions.extend(loses.then_some(Action::Lose));
        }
        self.restore_actions(world, actions);
    }

    fn restore_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let Some(restoring) = &world.restoring else {
            let lost = world.store.newest().map(|it| it.epoch) < world.ghost.greatest;
            let fits = world.ghost.greatest.is_some_and(|it| it.get() + 2 <= self.last);
            if lost && fits && world.left.restores > 0 {
                actions.extend(self.serve(world, true, Action::Hold));
            }
            return;
        };
        let session = |it: &Session| {
            let object = world.store.sessions.get(&it.id);
            object.filter(|object| object.nonce == it.nonce)
        };
        let knows = |it: &Session| {
            let data = session(it).and_then(|object| object.data.as_ref());
            data.is_some_and(|data| data.seen >= Some(restoring.held.epoch))
        };
        let live = |it: &&Session| session(it).is_some_and(|object| object.ended.is_none());
        let spares = self.broken == Broken::NoSweep;
        let left = restoring.listed.iter().filter(live).filter(|it| !knows(it) && !spares);
        let left: Vec<_> = left.collect();
        actions.extend(left.iter().map(|it| Action::Swept(it.id)));
        // In these two broken variants, the restore continues although leases run. In the variant
        // `NoWaitForOwners` it ignores the leases. In `NoSweep` it deposes no member, so the
        // members renew their leases during the wait.
        let ends = [Broken::NoWaitForOwners, Broken::NoSweep].contains(&self.broken);
        let over = |it: &Session| world.runs(*it).is_none() || knows(it) || ends;
        let releases = self.broken != Broken::NeverReleases;
        if releases && left.is_empty() && restoring.listed.iter().all(over) {
            actions.extend(self.serve(world, true, Action::Release));
        }
    }

    pub fn hold(&self, world: &mut World, serving: Serving) {
        let above = world.ghost.greatest.expect("an assignment was created");
        let at = match self.broken {
            Broken::RestoresBelow => above,
            _ => above.next().expect("a greater number exists"),
        };
        let nonce = Nonce::from_bits(2_000);
        let first = || {
            let names = (0..self.partitions).map(|it| it.to_string().into()).collect();
            Assignment::first(nonce, names)
        };
        let newest = world.store.newest().map_or_else(first, |it| Assignment::clone(it));
        let mut held = operation::hold(newest, at, nonce, Default::default());
        if self.broken == Broken::HoldsNothing {
            held.restoring = None;
        }
        let held = HashedArc::new(held);
        self.serve_write(world, Wire::Assignment(held.clone()), serving);
        // After any answer to the write of the held assignment, the operator reads it and confirms
        // it. So only the state of the store matters here.
        if world.store.newest().is_some_and(|it| **it == *held) {
            world.left.restores -= 1;
            let sessions = world.store.sessions.iter();
            let listed = sessions.map(|(id, object)| Session { id: *id, nonce: object.nonce });
            world.restoring = Some(Restoring { held, listed: listed.collect() });
        }
    }

    pub fn release(&self, world: &mut World, serving: Serving) {
        let Some(restoring) = &world.restoring else { return };
        let next = operation::release(&restoring.held, Nonce::from_bits(2_001));
        let next = HashedArc::new(next.expect("a greater number exists"));
        let at = next.epoch;
        self.serve_write(world, Wire::Assignment(next), serving);
        if world.store.assignments.contains_key(&at) {
            world.restoring = None;
        }
    }
}

impl World {
    /// Returns whether members must detect the deletion if the newest assignment is deleted now (D1
    /// to D12). Members must detect it if three conditions hold. Each process knows this
    /// assignment, or has not begun to read sessions or to create an assignment. No operator has
    /// read an assignment. No late write of an assignment is pending.
    fn is_settled(&self) -> bool {
        let knows = |it: &Participant| it.known().map(|it| it.epoch) == self.ghost.greatest;
        let has_read = |it: &Participant| {
            let mut ids = self.store.sessions.keys();
            ids.any(|id| it.sessions().record(*id).is_some())
                || !it.sessions().in_doubt().is_empty()
        };
        let creates = |it: &Participant| {
            use ParticipantStep::{Assignment, Sessions};
            let asks = |it: &AssignmentRequest| {
                matches!(it, AssignmentRequest::Create(_) | AssignmentRequest::Get(_))
            };
            match it.step() {
                Assignment(request) => asks(&request),
                step => matches!(step, Sessions(_)),
            }
        };
        let innocent = |it: &HashedArc<Process>| {
            let idle = |it: &Participant| knows(it) || !has_read(it) && !creates(it);
            it.participant.as_ref().is_none_or(|it| idle(it))
        };
        let late = |wire: &Wire| matches!(wire, Wire::Assignment(_));
        let operates = self.operator.is_some();
        !operates && self.processes.iter().all(innocent) && !self.wires.iter().any(late)
    }
}
