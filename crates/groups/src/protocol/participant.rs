//! The protocol of one member of a group: it reads assignments and, if it coordinates, plans them.
//!
//! The [`Reader`] requests assignments, and a round requests the sessions that a plan needs. A
//! request of the reader and a round are never in progress at the same time. The requests of the
//! reader come first.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::assignment::{Assignment, Member};
use super::holdings::{Change, Holdings};
use super::message::{AssignmentAnswer, News, ParticipantStep, ReaderStep};
use super::message::{RoundProgress, SessionAnswer};
use super::plan::{Evidence, Planner};
use super::reader::Reader;
use super::session::{Session, SessionId, SessionRecord};
use super::session_reader::SessionReader;
use tenure::Epoch;
use tenure::internals::groups::Nonce;
use tenure::store::ETag;

/// The state machine of a member of a group, without the member's timers.
///
/// # Contract
///
/// - *Orders*: [`poll`](Participant::poll) and [`confirm`](Participant::confirm), and for a
///   coordinator [`round`](Participant::round), [`lapsed`](Participant::lapsed), and
///   [`plan`](Participant::plan) once [`plans`](Participant::plans) returns true.
/// - *Inputs*, each for one [`step`](Participant::step): [`assignment`](Participant::assignment)
///   answers [`ParticipantStep::Assignment`], [`session`](Participant::session) answers
///   [`ParticipantStep::Sessions`], [`nonce`](Participant::nonce) answers
///   [`ParticipantStep::Nonce`], [`resume`](Participant::resume) or
///   [`give_up`](Participant::give_up) answers [`ParticipantStep::Pause`],
///   [`restart`](Participant::restart) answers [`ParticipantStep::Failed`].
/// - The driver keeps one [`Holdings`] for the session, and passes it to each call of `assignment`.
///   Other code may release partitions of these holdings between two inputs.
/// - The changes that `assignment` returns take effect in their order, before the next input and
///   before the next release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Participant {
    session: Session,
    reader: Reader,
    sessions: SessionReader,
    /// Whether this process plans even though the newest assignment names another coordinator.
    ahead: bool,
    /// Whether a round is complete: the process has read the sessions that a plan needs. If so, the
    /// driver must call [`Participant::plan`].
    plans: bool,
}

impl Participant {
    /// Returns the state of a new member with this session. The epoch `greatest` is the greatest
    /// assignment epoch that the process knows.
    pub fn new(session: Session, greatest: Option<Epoch>) -> Participant {
        Participant {
            session,
            reader: Reader::new(greatest),
            sessions: SessionReader::default(),
            ahead: false,
            plans: false,
        }
    }

    pub fn known(&self) -> Option<&Arc<Assignment>> {
        self.reader.known()
    }

    /// Returns the greatest assignment epoch that is known to have existed.
    pub fn greatest(&self) -> Option<Epoch> {
        self.reader.greatest()
    }

    /// Records that another process has seen the assignment with this epoch.
    pub fn expect(&mut self, seen: Option<Epoch>) {
        self.reader.expect(seen);
    }

    /// Returns whether this process must still find the newest assignment.
    pub fn is_behind(&self) -> bool {
        self.reader.is_behind()
    }

    pub fn own_session(&self) -> Session {
        self.session
    }

    pub fn sessions(&self) -> &SessionReader {
        &self.sessions
    }

    /// Returns whether this process coordinates: the newest assignment names it, or it acts because
    /// the group has no live coordinator.
    pub fn coordinates(&self) -> bool {
        let own = Some(self.session);
        self.ahead || self.known().is_some_and(|known| known.coordinator == own)
    }

    /// Returns whether a round is complete: the process has read the sessions that a plan needs. If
    /// so, the driver must call [`Participant::plan`].
    pub fn plans(&self) -> bool {
        self.plans
    }

    /// Polls for the next assignment.
    pub fn poll(&mut self) {
        self.reader.poll();
    }

    /// Lists the assignments after the known assignment, to confirm that it is the newest.
    pub fn confirm(&mut self) {
        self.reader.confirm();
    }

    /// Makes this process act as the coordinator, because the group has no live coordinator.
    pub fn go_ahead(&mut self) {
        self.ahead = true;
    }

    /// Begins a round, which reads sessions. The round also reads the sessions in `due`.
    pub fn round(&mut self, due: BTreeSet<SessionId>) {
        self.plans = false;
        self.sessions.begin(due);
    }

    /// Begins to seal a session that has lapsed. `etag` is the ETag of the session's object, which
    /// has not changed for the whole validity.
    pub fn lapsed(&mut self, session: Session, etag: ETag) {
        self.sessions.lapsed(session, etag);
    }

    /// Records that the wait for a deposed or missing session has ended (GA1, GA2).
    pub fn waited(&mut self, session: Session) {
        self.sessions.waited(session);
    }

    pub fn resume(&mut self) {
        self.reader.resume();
    }

    /// Reads the assignments again after a failure of the reader.
    pub fn restart(&mut self) {
        self.reader.restart();
    }

    /// Gives up a read of the assignments, because it keeps failing.
    pub fn give_up(&mut self) {
        self.reader.give_up();
    }

    /// Gives up the creation of an assignment that cannot be encoded. No request was sent.
    pub fn discard(&mut self) {
        self.reader.discard();
    }

    /// Forgets all sessions except those in `listed`, a complete listing, and those in the known
    /// assignment.
    pub fn forget(&mut self, listed: &BTreeSet<SessionId>) {
        if let Some(known) = self.reader.known() {
            self.sessions.forget(listed, known);
        }
    }

    pub fn nonce(&mut self, nonce: Nonce) {
        self.reader.nonce(nonce);
    }

    pub fn step(&self) -> ParticipantStep {
        match self.reader.step() {
            ReaderStep::Request(request) => ParticipantStep::Assignment(request),
            ReaderStep::Nonce => ParticipantStep::Nonce,
            ReaderStep::Pause => ParticipantStep::Pause,
            ReaderStep::Failed(failure) => ParticipantStep::Failed(failure),
            ReaderStep::Idle => {
                self.sessions.request().map_or(ParticipantStep::Idle, ParticipantStep::Sessions)
            }
        }
    }

    /// Handles the answer about an assignment, and applies the assignment to the member's holdings.
    pub fn assignment(
        &mut self,
        answer: AssignmentAnswer,
        holdings: &mut Holdings,
    ) -> (Option<News>, Vec<Change>) {
        let news = self.reader.handle(answer);
        let Some(known) = self.reader.known() else { return (news, Vec::new()) };
        let changes = match news {
            Some(News::Read) => {
                self.plans = false;
                // This process continues to plan only if the newer assignment names it. If two
                // coordinators raced to create the assignment, the loser stops planning (GC14).
                self.ahead = false;
                if known.coordinator != Some(self.session) {
                    self.sessions.stop();
                }
                holdings.note(known, false)
            }
            Some(News::Confirmed) => holdings.note(known, true),
            _ => Vec::new(),
        };
        if holdings.gains(known) {
            self.reader.confirm();
        }
        (news, changes)
    }

    /// Handles the answer to a request of [`ParticipantStep::Sessions`].
    pub fn session(&mut self, answer: SessionAnswer) {
        let known = self.reader.known().map(|known| &**known);
        match self.sessions.handle(known, answer) {
            RoundProgress::RoundOver => self.plans = self.coordinates(),
            RoundProgress::More | RoundProgress::Failed => {}
        }
    }

    /// Returns the facts about the sessions for a plan that starts from the known assignment.
    pub fn evidence(&self, join: impl Fn(SessionId, &SessionRecord) -> Option<Member>) -> Evidence {
        self.sessions.evidence(self.known().map(|known| &**known), join)
    }

    /// Plans after a round, and creates the next assignment if the plan changes the known
    /// assignment. Returns true if the driver must send a request. If the group has no assignment,
    /// the first assignment contains `partitions`.
    ///
    /// If a session has seen a greater assignment, the [`Reader`] first sends a LIST. If the LIST
    /// does not show that assignment, it was deleted, and the `Reader` fails (D3). The first
    /// assignment of a group waits until each listed session has been read (D4).
    pub fn plan(
        &mut self,
        planner: &Planner<'_>,
        evidence: &Evidence,
        partitions: impl FnOnce() -> Vec<Arc<str>>,
        nonce: Nonce,
    ) -> bool {
        self.plans = false;
        if !self.coordinates() {
            return false;
        }
        self.reader.expect(self.sessions.greatest_seen());
        if self.reader.greatest().is_some() && self.reader.is_behind() {
            self.reader.poll();
            return true;
        }
        let next = match self.known() {
            Some(known) => planner.next(known, evidence, nonce),
            None if !self.sessions.in_doubt().is_empty() => None,
            None => Some(planner.first(Assignment::first(nonce, partitions()), evidence)),
        };
        next.is_some_and(|next| self.reader.create(next))
    }
}
