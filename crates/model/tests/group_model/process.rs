//! One member: the shipped machines of its session and of its part in the group, and the little
//! that a driver adds.

use std::collections::{BTreeMap, BTreeSet};

use tenure::Epoch;
use tenure::protocol::message::{Answer, Nonce, Request, Step, Wait};
use tenure::protocol::message::{Event, Input, Rules};
use tenure::protocol::single::SingleCandidate;
use tenure_groups::protocol::assignor::StickyAssignor;
use tenure_groups::protocol::participant::Participant;
use tenure_groups::protocol::plan::Planner;
use tenure_groups::protocol::session::SessionRecord;
use tenure_groups::protocol::{Member, Release, Session, SessionId};
use tenure_model::part::Part;

use super::store::{Data, Object};

const RULES: Rules = Rules { observer: false, verify_renewals: false, takeover_delay: false };

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Process {
    pub id: SessionId,
    /// Its session, as a leadership of an election of its own.
    pub lease: SingleCandidate,
    /// How many nonces it has drawn.
    drawn: u8,
    /// The nonces of its attempts to create the session.
    sent: Vec<Nonce>,
    /// The heartbeat from which its lease counts, as long as that runs.
    pub runs: Option<u64>,
    /// The nonce of its session, from the grant on.
    pub nonce: Option<Nonce>,
    /// It takes sessions for the same that have the same id, as a broken one does.
    pub ids_alone: bool,
    /// From the grant of its session on.
    pub participant: Option<Participant>,
    /// What its session says, as far as it knows.
    pub written: Option<Data>,
    /// What it has sent, with the heartbeats.
    wrote: Vec<(u64, Data)>,
    /// Its holdings before the last release, where a broken one goes back to them.
    before: Option<Box<Participant>>,
    pub leaving: bool,
    /// The greatest assignment that this process has seen under former sessions.
    pub remembers: Option<Epoch>,
    /// It has sent the seal of its own session.
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

    /// The one after this, with the same id or with another.
    pub fn again(&self, id: SessionId) -> Process {
        let mut next = Process::new(0, self.drawn);
        (next.id, next.ids_alone) = (id, self.ids_alone);
        next.crashed = true;
        next
    }

    /// The greatest assignment that this process knows to have existed.
    pub fn greatest(&self) -> Option<Epoch> {
        self.participant.as_ref().and_then(Participant::greatest).max(self.remembers)
    }

    /// Returns true if its session shows the greatest assignment that it has seen.
    pub fn has_said(&self) -> bool {
        self.written.as_ref().and_then(|it| it.seen) == self.data().seen
    }

    /// One that nobody else draws.
    pub fn draw(&mut self) -> Nonce {
        self.drawn += 1;
        let id = self.id.bits() % 4;
        Nonce::from_bits(id * 100 + u128::from(self.drawn))
    }

    /// Tells its lease's machine what waits for nothing that matters here.
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
                let attempt = usize::try_from(heartbeat).expect("attempts are few") - 1;
                let nonce = self.sent[attempt];
                self.runs = Some(heartbeat);
                self.nonce = Some(nonce);
                let nonce = if self.ids_alone { Nonce::from_bits(0) } else { nonce };
                self.participant =
                    Some(Participant::new(Session { id: self.id, nonce }, self.remembers));
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

    /// The request of its lease's machine.
    pub fn request(&self) -> Option<Request> {
        match self.lease.step() {
            Step::Request(request) => Some(request),
            _ => None,
        }
    }

    /// Whether its lease waits for an order.
    pub fn may_renew(&self) -> bool {
        self.lease.step() == Step::Wait(Wait::Lead)
    }

    /// What its session should say.
    pub fn data(&self) -> Data {
        let Some(participant) = &self.participant else { return Data::default() };
        let releases = participant.holdings().releasing().iter().map(|(it, _)| *it).collect();
        let seen = participant.known().map(|known| known.epoch).max(self.remembers);
        Data { releases, leaving: self.leaving, seen }
    }

    /// What the write with this heartbeat says.
    pub fn send(&mut self, heartbeat: u64) -> Data {
        let data = self.data();
        self.wrote.push((heartbeat, data.clone()));
        data
    }

    /// Releases, once the work has stopped.
    pub fn stop(&mut self, release: Release, takes_back: bool) {
        if takes_back {
            self.before = self.participant.clone().map(Box::new);
        }
        if let Some(participant) = &mut self.participant {
            participant.holdings_mut().release(release, Default::default());
        }
    }

    /// Forgets the last release.
    pub fn take_back(&mut self) {
        self.participant = self.before.take().map(|it| *it).or_else(|| self.participant.take());
    }

    /// Whether its session says less than it should. That it has seen another assignment alone is
    /// no reason to write.
    pub fn has_news(&self) -> bool {
        let said = |it: &Data| (it.releases.clone(), it.leaving);
        self.written.as_ref().map(said) != Some(said(&self.data()))
    }

    pub fn believes(&self, release: Release) -> bool {
        let owns = |it: &Participant| it.holdings().token(release.partition);
        self.runs.is_some() && self.participant.as_ref().and_then(owns) == Some(release.token)
    }

    /// A round has ended: plans. `any_token`: takes the release of any token for that of the
    /// newest.
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
        // Without one, the nonce was not used.
        if !planned {
            self.drawn -= 1;
        }
    }

    /// Whether a round would tell it anything, or lead to a plan.
    pub fn has_to_look(&self, sessions: &BTreeMap<SessionId, Part<Object>>) -> bool {
        let Some(participant) = &self.participant else { return false };
        let news = |(id, object): (&SessionId, &Part<Object>)| {
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

    /// The sessions whose tag has changed: in time each of them is read.
    pub fn due(&self, sessions: &BTreeMap<SessionId, Part<Object>>) -> BTreeSet<SessionId> {
        let Some(participant) = &self.participant else { return BTreeSet::new() };
        let changed = |(id, object): &(&SessionId, &Part<Object>)| {
            participant.sessions().record(**id).is_some_and(|it| it.etag != object.etag())
        };
        sessions.iter().filter(changed).map(|(id, _)| *id).collect()
    }
}

fn planner(participant: &Participant) -> Planner<'static> {
    let coordinator = participant.holdings().session();
    let named = participant.known().and_then(|known| known.coordinator);
    let goes_ahead = named.is_some_and(|named| named != coordinator);
    Planner { assignor: &StickyAssignor, coordinator, only_ownerless: false, goes_ahead }
}

fn join(id: SessionId, record: &SessionRecord) -> Option<Member> {
    Some(Member::new(Session { id, nonce: record.nonce }, id.bits().to_string()))
}
