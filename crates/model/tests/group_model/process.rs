//! One member in the model: the real state machines of its session and its membership, and the
//! parts of the driver that affect the model.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

use tenure::Epoch;
use tenure::protocol::message::{Answer, Nonce, Request, Step, Wait};
use tenure::protocol::message::{Event, Input, Rules};
use tenure::protocol::single::SingleCandidate;
use tenure_groups::protocol::assignor::StickyAssignor;
use tenure_groups::protocol::holdings::{Change, Holdings};
use tenure_groups::protocol::message::{AssignmentAnswer, News};
use tenure_groups::protocol::participant::Participant;
use tenure_groups::protocol::plan::Planner;
use tenure_groups::protocol::session::SessionRecord;
use tenure_groups::protocol::{Member, Release, Session, SessionId};
use tenure_model::hashed_arc::HashedArc;

use super::store::{Data, Object};

const RULES: Rules = Rules { observer: false, verify_renewals: false, takeover_delay: false };

/// The state machines of a membership: they read and plan assignments, and keep the owned
/// partitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Machines {
    participant: Participant,
    holdings: Holdings,
}

impl Machines {
    fn new(session: Session, greatest: Option<Epoch>) -> Machines {
        let participant = Participant::new(session, greatest);
        Machines { participant, holdings: Holdings::new(session) }
    }

    pub fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    pub fn assignment(&mut self, answer: AssignmentAnswer) -> (Option<News>, Vec<Change>) {
        self.participant.assignment(answer, &mut self.holdings)
    }
}

impl Deref for Machines {
    type Target = Participant;

    fn deref(&self) -> &Participant {
        &self.participant
    }
}

impl DerefMut for Machines {
    fn deref_mut(&mut self) -> &mut Participant {
        &mut self.participant
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Process {
    pub id: SessionId,
    /// The state machine of the member's session. A session is the leadership of a separate
    /// election.
    pub lease: SingleCandidate,
    /// Number of nonces that the process has drawn.
    drawn: u8,
    /// Nonces of the attempts to create the session.
    sent: Vec<Nonce>,
    /// Heartbeat of the last write that extended the lease. `None` before the session was granted,
    /// and after the end of the lease.
    pub runs: Option<u64>,
    /// Nonce of the session. `None` before the session was granted.
    pub nonce: Option<Nonce>,
    /// True in a broken variant: the process treats sessions with the same id as the same session.
    pub ids_alone: bool,
    /// The state machines of the membership. `None` before the session was granted.
    pub participant: Option<Machines>,
    /// The contents of the session's object in the last write that the store has confirmed.
    pub written: Option<Data>,
    /// Contents that the process has sent in writes of the session's object, each with the
    /// heartbeat of its write.
    wrote: Vec<(u64, Data)>,
    /// The state of the membership before the last release. In a broken variant, the process can
    /// return to this state.
    before: Option<Box<Machines>>,
    pub leaving: bool,
    /// The greatest assignment that this process has seen in former sessions.
    pub remembers: Option<Epoch>,
    /// True if the process has sent the seal of its session.
    pub resigning: bool,
    pub crashed: bool,
}

impl Process {
    pub fn new(id: u8, drawn: u8) -> Process {
        let mut process = Process {
            id: SessionId::from_bits(id.into()),
            lease: SingleCandidate::new(RULES, None),
            drawn,
            sent: Vec::new(),
            runs: None,
            nonce: None,
            ids_alone: false,
            participant: None,
            written: None,
            wrote: Vec::new(),
            before: None,
            leaving: false,
            remembers: None,
            resigning: false,
            crashed: false,
        };
        process.lease.handle(Input::Answer(Answer::Missing));
        process.settle();
        process
    }

    /// Returns the process after a restart. Its next session uses this id.
    pub fn again(&self, id: SessionId) -> Process {
        let mut next = Process::new(0, self.drawn);
        (next.id, next.ids_alone) = (id, self.ids_alone);
        next.crashed = true;
        next
    }

    /// Returns the greatest assignment that this process has seen, in this session or in a former
    /// one.
    pub fn greatest(&self) -> Option<Epoch> {
        self.participant.as_ref().and_then(|it| it.greatest()).max(self.remembers)
    }

    /// Returns whether the last write of the session shows the greatest assignment that the process
    /// has seen.
    pub fn has_said(&self) -> bool {
        self.written.as_ref().and_then(|it| it.seen) == self.data().seen
    }

    /// Draws a nonce that no process has drawn before.
    pub fn draw(&mut self) -> Nonce {
        self.drawn += 1;
        let id = self.id.bits() % 4;
        Nonce::from_bits(id * 100 + u128::from(self.drawn))
    }

    /// Performs the steps of the state machine `lease` that have no effect in this model: the draw
    /// of a nonce, and the pause before a retry.
    fn settle(&mut self) {
        loop {
            match self.lease.step() {
                Step::Nonce => {
                    let nonce = self.draw();
                    self.sent.push(nonce);
                    self.lease.handle(Input::Nonce(nonce));
                }
                Step::Wait(Wait::Retry) => {
                    self.lease.handle(Input::Resume);
                }
                _ => return,
            }
        }
    }

    pub fn tell(&mut self, input: Input) {
        match self.lease.handle(input) {
            Some(Event::Granted { heartbeat, .. }) => {
                let attempt =
                    usize::try_from(heartbeat).expect("the number of attempts is small") - 1;
                let nonce = self.sent[attempt];
                self.runs = Some(heartbeat);
                self.nonce = Some(nonce);
                let nonce = if self.ids_alone { Nonce::from_bits(0) } else { nonce };
                self.participant =
                    Some(Machines::new(Session { id: self.id, nonce }, self.remembers));
            }
            Some(Event::Extended { heartbeat }) => {
                self.runs = Some(heartbeat);
                let said = self.wrote.iter().find(|(sent, _)| *sent == heartbeat);
                self.written = said.map(|(_, data)| data.clone());
                self.wrote.retain(|(sent, _)| *sent > heartbeat);
            }
            Some(Event::Lost(_)) => self.runs = None,
            _ => {}
        }
        self.settle();
    }

    /// Returns the request that the process must send next for the lease of its session.
    pub fn request(&self) -> Option<Request> {
        match self.lease.step() {
            Step::Request(request) => Some(request),
            _ => None,
        }
    }

    /// Returns whether the process may renew its lease: the lease runs, and no request for the
    /// lease is in progress.
    pub fn may_renew(&self) -> bool {
        self.lease.step() == Step::Wait(Wait::Lead)
    }

    /// Returns the contents that the next write of the session must have.
    pub fn data(&self) -> Data {
        let Some(participant) = &self.participant else { return Data::default() };
        let releases = participant.holdings().releasing().iter().map(|(it, _)| *it).collect();
        let seen = participant.known().map(|known| known.epoch).max(self.remembers);
        Data { releases, leaving: self.leaving, seen }
    }

    /// Records that the process sends a write with this heartbeat. Returns the contents of the
    /// write.
    pub fn send(&mut self, heartbeat: u64) -> Data {
        let data = self.data();
        self.wrote.push((heartbeat, data.clone()));
        data
    }

    /// Releases a partition after the work has stopped. `takes_back` is true in a broken variant,
    /// in which the member can withdraw the release.
    pub fn stop(&mut self, release: Release, takes_back: bool) {
        if takes_back {
            self.before = self.participant.clone().map(Box::new);
        }
        if let Some(participant) = &mut self.participant {
            participant.holdings.release(release, Default::default());
        }
    }

    /// Withdraws the last release: restores the state before it.
    pub fn take_back(&mut self) {
        self.participant = self.before.take().map(|it| *it).or_else(|| self.participant.take());
    }

    /// Returns whether the process must write its session, because the session's object does not
    /// yet contain a release or the wish to leave. A newly seen assignment alone does not cause a
    /// write.
    pub fn has_news(&self) -> bool {
        let said = |it: &Data| (it.releases.clone(), it.leaving);
        self.written.as_ref().map(said) != Some(said(&self.data()))
    }

    pub fn believes(&self, release: Release) -> bool {
        let owns = |it: &Machines| it.holdings().token(release.partition);
        self.runs.is_some() && self.participant.as_ref().and_then(owns) == Some(release.token)
    }

    /// Plans an assignment after the process has read the sessions. `any_token` is true in a broken
    /// variant, in which the plan treats a release under any token as a release under the newest
    /// token.
    pub fn plan(&mut self, partitions: u8, any_token: bool) {
        let nonce = self.draw();
        let Some(participant) = &mut self.participant else { return };
        let (planner, mut evidence) = (planner(participant), participant.evidence(join));
        if let Some(known) = participant.known().filter(|_| any_token) {
            let token = |it: &Release| known.partition(it.partition).and_then(|it| it.token);
            let newest = |(session, it): (Session, Release)| {
                (session, Release { token: token(&it).unwrap_or(it.token), ..it })
            };
            evidence.released = evidence.released.into_iter().map(newest).collect();
        }
        let names = || (0..partitions).map(|it| it.to_string().into()).collect();
        let planned = participant.plan(&planner, &evidence, names, nonce);
        // If no assignment was planned, the nonce is unused, so the next call may draw it again.
        if !planned {
            self.drawn -= 1;
        }
    }

    /// Returns whether reads of the sessions would give the process new information, or would lead
    /// to a new assignment.
    pub fn has_to_look(&self, sessions: &BTreeMap<SessionId, HashedArc<Object>>) -> bool {
        let Some(participant) = &self.participant else { return false };
        let news = |(id, object): (&SessionId, &HashedArc<Object>)| {
            let Some(record) = participant.sessions().record(*id) else { return true };
            let session = Session { id: *id, nonce: record.nonce };
            let member = participant.known().is_some_and(|it| it.member(session).is_some());
            record.etag != object.etag() || record.may_join() && !member
        };
        sessions.iter().any(news) || self.would_plan()
    }

    fn would_plan(&self) -> bool {
        let Some(participant) = &self.participant else { return false };
        let planner = planner(participant);
        let next = |known| planner.next(known, &participant.evidence(join), Nonce::from_bits(0));
        participant.known().is_none_or(|known| next(known).is_some())
    }

    /// Returns the sessions with a tag that has changed since the process read them. The process
    /// reads these sessions in its next round.
    pub fn due(&self, sessions: &BTreeMap<SessionId, HashedArc<Object>>) -> BTreeSet<SessionId> {
        let Some(participant) = &self.participant else { return BTreeSet::new() };
        let changed = |(id, object): &(&SessionId, &HashedArc<Object>)| {
            participant.sessions().record(**id).is_some_and(|it| it.etag != object.etag())
        };
        sessions.iter().filter(changed).map(|(id, _)| *id).collect()
    }
}

fn planner(participant: &Participant) -> Planner<'static> {
    let coordinator = participant.own_session();
    let named = participant.known().and_then(|known| known.coordinator);
    let goes_ahead = named.is_some_and(|named| named != coordinator);
    Planner { assignor: &StickyAssignor, coordinator, only_ownerless: false, goes_ahead }
}

fn join(id: SessionId, record: &SessionRecord) -> Option<Member> {
    Some(Member::new(Session { id, nonce: record.nonce }, id.bits().to_string()))
}
