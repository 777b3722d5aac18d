//! The effects of an action on a state of the group model.

use tenure::protocol::message::Input;
use tenure::protocol::message::{Answer, Nonce, Request};
use tenure_groups::protocol::message::ParticipantStep;
use tenure_groups::protocol::operation::Operation;
use tenure_groups::protocol::participant::Participant;
use tenure_groups::protocol::plan::check;
use tenure_groups::protocol::{Assignment, Release, Session, SessionId};
use tenure_model::hashed_arc::HashedArc;

use super::setting::{Broken, Group};
use super::store::Data;
use super::store::{End, Object, Wire};
use super::world::{Action, Serving, World};

impl Group {
    pub fn act(&self, world: &mut World, action: Action) {
        match action {
            Action::Lease(who, serving) => {
                if world.processes[who].request().is_none() {
                    world.processes[who].tell(Input::RenewDue);
                }
                self.lease(world, who, serving);
            }
            Action::Resign(who, serving) => {
                world.processes[who].resigning = true;
                world.processes[who].tell(Input::Resign);
                self.lease(world, who, serving);
            }
            Action::Ask(who, serving) => self.ask(world, who, serving),
            Action::Poll(who) => participant(world, who, Participant::poll),
            Action::List(who) => participant(world, who, Participant::confirm),
            Action::GoAhead(who) => {
                let first = world.store.newest().is_none();
                world.left.ahead = world.left.ahead.saturating_sub(u8::from(!first));
                participant(world, who, Participant::go_ahead);
            }
            Action::Round(who) => {
                let due = world.processes[who].due(&world.store.sessions);
                participant(world, who, |it| it.round(due));
            }
            Action::Stopped(who, release) => {
                let process = &world.processes[who];
                let known = process.participant.as_ref().and_then(|it| it.known());
                let revoked = known.is_some_and(|it| it.is_revoked(release.partition));
                world.left.gives -= u8::from(!revoked && !process.leaving);
                let session = session_of(world, who);
                world.processes[who].stop(release, self.broken == Broken::TakesBack);
                world.ghost.stopped.insert((session, release));
            }
            Action::Lapsed(who, session) => self.lapsed(world, who, session),
            Action::Waited(who, session) => participant(world, who, |it| it.waited(session)),
            Action::LeaseEnds(who) => {
                world.left.ends = world.left.ends.saturating_sub(1);
                world.processes[who].tell(Input::LeaseEnded);
            }
            Action::Leave(who) => {
                world.left.leaves -= 1;
                world.processes[who].leaving = true;
            }
            Action::Crash(who) => {
                world.left.crashes -= 1;
                let id = world.processes[who].id.bits();
                let id = if self.reuses_ids { id } else { id + 4 };
                let mut again = world.processes[who].again(SessionId::from_bits(id));
                if self.remembers && self.broken != Broken::Forgets {
                    again.remembers = world.processes[who].greatest();
                }
                world.processes[who] = HashedArc::new(again);
            }
            other => self.elsewhere(world, other),
        }
        self.settle(world);
        if self.broken == Broken::IdsAlone {
            world.note_beliefs();
        }
        if self.budget.swept > 0 {
            world.note_ends();
        }
    }

    /// Applies an action that changes only the store, and no process of the group.
    fn elsewhere(&self, world: &mut World, action: Action) {
        match action {
            Action::Depose(id) => {
                world.left.depositions -= 1;
                let object = world.store.sessions.get_mut(&id).expect("the session exists");
                *object =
                    HashedArc::new(object.sealed(End::Deposed, self.broken == Broken::SealsForget));
            }
            Action::Vanish(id) => {
                world.left.vanish -= 1;
                world.store.sessions.remove(&id);
            }
            Action::Sweep(id) => {
                world.left.swept -= 1;
                world.store.sessions.remove(&id);
            }
            Action::Compact(epoch) => {
                world.left.compactions -= 1;
                world.store.assignments.remove(&epoch);
            }
            Action::OperatorReads => {
                world.left.operations -= 1;
                world.operator = world.store.newest().cloned();
            }
            Action::OperatorWrites(mark, serving) => {
                let first = world.operator.as_ref().and_then(|it| it.partitions.first());
                let numbers = first.map(|it| it.number).into_iter().collect();
                self.operate(world, &Operation::Mark(numbers, mark), serving);
            }
            Action::OperatorAdds => {
                self.operate(world, &Operation::Add(vec!["new".into()]), Serving::Once);
            }
            Action::Delete => {
                world.left.deletions -= 1;
                world.store.assignments.pop_last();
            }
            Action::Wipe => {
                world.left.wipes -= 1;
                world.store.assignments.clear();
            }
            Action::Lose => {
                world.left.losses -= 1;
                world.store.assignments.clear();
                world.store.sessions.clear();
            }
            Action::Hold(serving) => self.hold(world, serving),
            Action::Swept(id) => {
                let object = world.store.sessions.get_mut(&id).expect("the session exists");
                *object = HashedArc::new(object.sealed(End::Deposed, false));
            }
            Action::Release(serving) => self.release(world, serving),
            Action::Arrives(which) => {
                let wire = world.wires.remove(which);
                self.write(world, wire);
            }
            _ => unreachable!("all other actions belong to a process"),
        }
    }

    fn operate(&self, world: &mut World, operation: &Operation, serving: Serving) {
        let Some(read) = world.operator.take() else { return };
        let nonce = Nonce::from_bits(1_000 + u128::from(world.left.operations));
        if let Ok(Some(next)) = operation.apply(&read, nonce) {
            self.serve_write(world, Wire::Assignment(HashedArc::new(next)), serving);
        }
    }

    /// Applies a write to the store, and checks the invariants of the resulting change.
    pub fn write(&self, world: &mut World, wire: Wire) -> bool {
        let newest = world.store.newest().cloned();
        let created = match &wire {
            Wire::Assignment(it) if Some(it.epoch) > newest.as_ref().map(|it| it.epoch) => {
                Some(it.clone())
            }
            _ => None,
        };
        if !world.store.write(wire) {
            return false;
        }
        if let Some(after) = created {
            world.ghost.greatest = world.ghost.greatest.max(Some(after.epoch));
            if let Some(before) = newest {
                self.changed(world, &before, &after);
            }
        }
        true
    }

    fn changed(&self, world: &mut World, before: &Assignment, after: &Assignment) {
        let may_leave = |session: Session, release: Release| {
            let object = world.store.sessions.get(&session.id);
            let object = object.filter(|it| it.nonce == session.nonce);
            let runs = world.runs(session).is_some();
            world.ghost.stopped.contains(&(session, release))
                || world.ghost.ended.contains_key(&session)
                || match object.map(|it| it.ended) {
                    Some(Some(End::Resigned | End::Lapsed)) => true,
                    Some(Some(End::Deposed)) | None => !runs,
                    Some(None) => false,
                }
        };
        let verdict = check(before, after, may_leave);
        let added = after.members.iter().filter(|it| before.member(it.session).is_none());
        let mut ends = added.filter_map(|it| world.ghost.ended.get(&it.session));
        if ends.any(|newest| *newest < Some(before.epoch)) {
            world.ghost.broken.insert("R3");
        }
        let resigned = |session: Session| {
            let object = world.store.sessions.get(&session.id);
            object.is_some_and(|it| it.ended == Some(End::Resigned))
        };
        let mut seen = Vec::new();
        for (now, then) in before.partitions.iter().zip(&after.partitions) {
            let (from, to) = (now.owner, then.owner);
            if from.is_some() && to.is_some() && from != to {
                let stopped = now.token.is_some_and(|token| {
                    let release = Release { partition: now.number, token };
                    from.is_some_and(|from| world.ghost.stopped.contains(&(from, release)))
                });
                seen.extend(stopped.then_some("moved"));
                seen.extend(from.is_some_and(resigned).then_some("GS2"));
            }
        }
        world.ghost.seen.extend(seen.into_iter().filter(|it| self.sometimes.contains(it)));
        if verdict.is_err() {
            world.ghost.broken.insert("G4");
        }
    }

    /// Serves the request that a process sends for the lease of its session.
    fn lease(&self, world: &mut World, who: usize, serving: Serving) {
        let process = &mut world.processes[who];
        let Some(request) = process.request() else { return };
        let wire = match request {
            Request::Get { .. } => {
                let answer = match world.store.sessions.get(&process.id) {
                    Some(object) => Answer::Found { sighting: object.sighting(), touched: false },
                    None => Answer::Missing,
                };
                return process.tell(Input::Answer(answer));
            }
            Request::Create { write, .. } => {
                let data = (self.broken == Broken::JoinsByCreate).then(Data::default);
                let object = Object::new(write.nonce, write.heartbeat, None, data);
                Wire::Session(process.id, None, object)
            }
            Request::Renew { etag, write, .. } => {
                let data = Some(process.send(write.heartbeat));
                let object = Object::new(write.nonce, write.heartbeat, None, data);
                Wire::Session(process.id, Some(etag), object)
            }
            Request::Seal { etag, nonce, heartbeat, .. } => {
                let nonce = nonce.expect("every session has a nonce");
                let said = Some(process.data());
                let object = Object::new(nonce, heartbeat - 1, None, said)
                    .sealed(End::Resigned, self.broken == Broken::SealsForget);
                Wire::Session(process.id, Some(etag), object)
            }
            other => unreachable!("the machine of a session requests {other:?}"),
        };
        let answer = self.serve_write(world, wire, serving);
        let process = &mut world.processes[who];
        let lost = answer == Answer::Unknown;
        process.tell(Input::Answer(answer));
        if lost && self.broken == Broken::TakesBack {
            process.take_back();
        }
    }

    fn lapsed(&self, world: &mut World, who: usize, session: Session) {
        participant(world, who, |it| {
            let etag = it.sessions().record(session.id).map(|record| record.etag.clone());
            if let Some(etag) = etag {
                it.lapsed(session, etag);
            }
        });
    }

    /// Lets each process continue as long as it has only one possible step. Drops the pending
    /// writes that can never take effect.
    fn settle(&self, world: &mut World) {
        for who in 0..world.processes.len() {
            loop {
                match world.processes[who].participant.as_ref().map(|it| it.step()) {
                    Some(ParticipantStep::Nonce) => {
                        let nonce = world.processes[who].draw();
                        participant(world, who, |it| it.nonce(nonce));
                    }
                    Some(ParticipantStep::Pause) => participant(world, who, Participant::resume),
                    Some(ParticipantStep::Failed(_)) => {
                        // The member has failed, because another program deleted the newest
                        // assignment. The member may start again if a greater assignment exists
                        // now.
                        let greatest = world.processes[who].greatest();
                        if world.store.newest().map(|it| it.epoch) <= greatest {
                            world.ghost.broken.insert("failed");
                            break;
                        }
                        participant(world, who, Participant::restart);
                    }
                    _ => break,
                }
            }
        }
        let store = &world.store;
        // A late create of an existing assignment can take effect only after a compactor has
        // deleted this assignment.
        let compacts = world.left.compactions > 0;
        world.wires.retain(|wire| match wire {
            Wire::Assignment(_) => compacts || store.accepts(wire),
            Wire::Session(..) => true,
        });
        world.wires.dedup();
    }
}

fn participant(world: &mut World, who: usize, with: impl FnOnce(&mut Participant)) {
    if let Some(participant) = &mut world.processes[who].participant {
        with(participant);
    }
}

fn session_of(world: &World, who: usize) -> Session {
    let participant = world.processes[who].participant.as_ref();
    participant.expect("an owner has joined").own_session()
}
