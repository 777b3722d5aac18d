//! The store's answers to the requests of a process. In a broken variant, the process changes some
//! of these answers.

use tenure::protocol::message::Answer;
use tenure_groups::protocol::Assignment;
use tenure_groups::protocol::message::{
    AssignmentAnswer, AssignmentRequest, News, ParticipantStep, SessionAnswer, SessionRequest,
};
use tenure_model::hashed_arc::HashedArc;

use super::setting::{Broken, Group};
use super::store::{End, Wire};
use super::world::{Serving, World};

impl Group {
    pub fn serve_write(&self, world: &mut World, wire: Wire, serving: Serving) -> Answer {
        match serving {
            Serving::Lost => {
                world.left.lost -= 1;
                world.wires.push(wire);
                Answer::Unknown
            }
            Serving::Once | Serving::Twice => {
                if serving == Serving::Twice {
                    world.left.twice -= 1;
                    world.wires.push(wire.clone());
                }
                let etag = match &wire {
                    Wire::Session(_, _, object) => object.etag(),
                    Wire::Assignment(it) => tenure::store::ETag::new(it.nonce.to_string()),
                };
                match (self.write(world, wire.clone()), wire) {
                    (true, _) => Answer::Done { etag },
                    (false, Wire::Session(id, Some(_), _))
                        if !world.store.sessions.contains_key(&id) =>
                    {
                        Answer::Missing
                    }
                    (false, _) => Answer::Refused,
                }
            }
        }
    }

    /// Serves the request of process `who` about an assignment or a session.
    pub fn ask(&self, world: &mut World, who: usize, serving: Serving) {
        let Some(participant) = &world.processes[who].participant else { return };
        match participant.step() {
            ParticipantStep::Assignment(request) => {
                self.ask_assignment(world, who, request, serving)
            }
            ParticipantStep::Sessions(request) => {
                let answer = self.ask_session(world, who, request, serving);
                let process = &mut world.processes[who];
                let Some(participant) = &mut process.participant else { return };
                participant.session(answer);
                if participant.plans() {
                    process.plan(self.partitions, self.broken == Broken::AnyToken);
                }
            }
            _ => {}
        }
    }

    fn ask_assignment(
        &self,
        world: &mut World,
        who: usize,
        request: AssignmentRequest,
        serving: Serving,
    ) {
        let answer = match request {
            AssignmentRequest::List(_) if self.broken == Broken::NoConfirm => {
                let known = world.processes[who].participant.as_ref().and_then(|it| it.known());
                let listing = world.store.list(&tenure::protocol::find::After::Number(0));
                let epochs = listing.epochs.filter(|_| known.is_none());
                AssignmentAnswer::Listed(tenure::protocol::find::Listing { epochs, rest: None })
            }
            AssignmentRequest::List(after) => AssignmentAnswer::Listed(world.store.list(&after)),
            AssignmentRequest::Get(epoch) => match world.store.assignments.get(&epoch) {
                Some(found) => AssignmentAnswer::Found(found.shared()),
                None => AssignmentAnswer::Missing,
            },
            AssignmentRequest::Create(assignment) => {
                let assignment = HashedArc::from(self.distorted(world, assignment));
                match self.serve_write(world, Wire::Assignment(assignment), serving) {
                    Answer::Done { .. } => AssignmentAnswer::Done,
                    Answer::Unknown => AssignmentAnswer::Unknown,
                    _ => AssignmentAnswer::Refused,
                }
            }
        };
        let process = &mut world.processes[who];
        let Some(participant) = &mut process.participant else { return };
        let (news, _) = participant.assignment(answer);
        if news == Some(News::Confirmed)
            && let Some(known) = participant.known().cloned()
        {
            self.confirmed(world, &known);
        }
    }

    /// Records the grants of a confirmed assignment. Checks that each token of a partition is
    /// granted to at most one session (G1), and that the tokens of a partition increase with each
    /// grant (G2).
    fn confirmed(&self, world: &mut World, assignment: &Assignment) {
        let ghost = &mut world.ghost;
        for partition in &assignment.partitions {
            let (Some(owner), Some(token)) = (partition.owner, partition.token) else { continue };
            let grant = (partition.number, token);
            match ghost.granted.get(&grant) {
                Some(before) if *before == owner => {}
                Some(_) => {
                    ghost.broken.insert("G1");
                }
                None => {
                    let mut tokens = ghost.granted.keys().filter(|it| it.0 == partition.number);
                    if tokens.any(|it| it.1 >= token) {
                        ghost.broken.insert("G2");
                    }
                    ghost.granted.insert(grant, owner);
                }
            }
        }
    }

    fn ask_session(
        &self,
        world: &mut World,
        who: usize,
        request: SessionRequest,
        serving: Serving,
    ) -> SessionAnswer {
        match request {
            SessionRequest::List(_) => {
                let sessions = world.store.sessions.iter();
                let sessions = sessions.map(|(id, it)| (*id, Some(it.etag()))).collect();
                SessionAnswer::Listed { sessions, truncated: false }
            }
            SessionRequest::Get(ids) => {
                let id = *ids.first().expect("a request names at least one session");
                if serving == Serving::Lost {
                    world.left.unread -= 1;
                    return self.unread(world, who, id);
                }
                match world.store.sessions.get(&id) {
                    Some(object) => SessionAnswer::Found(id, self.read(world, who, id, object)),
                    None => SessionAnswer::Missing(id),
                }
            }
            SessionRequest::Seal { .. } if self.broken == Broken::NoSeal => SessionAnswer::Done,
            SessionRequest::Seal { session, record } => {
                let object = world.store.sessions.get(&session.id);
                let same = object.filter(|it| it.etag() == record.etag);
                let Some(sealed) =
                    same.map(|it| it.sealed(End::Lapsed, self.broken == Broken::SealsForget))
                else {
                    return SessionAnswer::Refused;
                };
                world.store.sessions.insert(session.id, HashedArc::new(sealed));
                SessionAnswer::Done
            }
        }
    }
}
