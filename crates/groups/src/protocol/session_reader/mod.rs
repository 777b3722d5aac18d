//! Reading the sessions, on which each plan is based.
//!
//! A *round* lists the sessions and reads the sessions with possible news. The lapse of a session
//! and the end of a wait are inputs: [`session_timers`](super::session_timers) has the arithmetic.

use std::collections::{BTreeMap, BTreeSet};

use super::assignment::{Assignment, Member};
use super::message::{RoundProgress, SessionAnswer, SessionRequest};
use super::plan::Evidence;
use super::session::{Session, SessionRecord};
use super::session_id::SessionId;
use tenure::store::ETag;
use tenure::{Epoch, EpochEnd};

/// Reads the sessions of a group, and keeps the facts of the last reads.
///
/// # Contract
///
/// - *Getters*: [`record`](SessionReader::record), [`has_ended`](SessionReader::has_ended),
///   [`in_doubt`](SessionReader::in_doubt), [`evidence`](SessionReader::evidence),
///   [`request`](SessionReader::request).
/// - *Orders*: [`begin`](SessionReader::begin) starts a round, [`lapsed`](SessionReader::lapsed)
///   a seal, and [`stop`](SessionReader::stop) ends either. An order while something is under way
///   changes nothing, except `stop`.
/// - *Inputs*: [`handle`](SessionReader::handle) answers each request, in any order for the ids of
///   one [`SessionRequest::Get`]. [`waited`](SessionReader::waited) and
///   [`forget`](SessionReader::forget) fit at any time.
///
/// The driver repeats `request` and `handle` until no request is left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SessionReader {
    facts: BTreeMap<SessionId, Fact>,
    /// These ended, for good.
    ended: BTreeSet<Session>,
    /// Of these a release was awaited, and they have not said since that they know better.
    awaited: BTreeSet<SessionId>,
    /// Listed in this round, and unreadable.
    in_doubt: BTreeSet<SessionId>,
    /// A seal of these was refused or not answered. The next round reads them.
    unsealed: BTreeSet<SessionId>,
    task: Task,
}

/// What was read of a session, last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Fact {
    record: SessionRecord,
    /// The assignment that was known before it was asked for.
    after: Option<Epoch>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
enum Task {
    #[default]
    Idle,
    List {
        after: Option<SessionId>,
        /// To read, also if their tags are as they were.
        due: BTreeSet<SessionId>,
        read: BTreeSet<SessionId>,
    },
    Read {
        left: BTreeSet<SessionId>,
    },
    /// GET one that lapsed: does it still have this tag?
    Look {
        lapsed: Session,
        etag: ETag,
    },
    Seal {
        lapsed: Session,
        record: SessionRecord,
    },
}

impl SessionReader {
    /// Begins a round, unless something is under way. It reads those that are `due`, too.
    pub fn begin(&mut self, due: BTreeSet<SessionId>) {
        if self.task == Task::Idle {
            self.in_doubt.clear();
            self.task = Task::List { after: None, due, read: BTreeSet::new() };
        }
    }

    /// The timer of this session has run out under this tag.
    pub fn lapsed(&mut self, lapsed: Session, etag: ETag) {
        if self.task == Task::Idle {
            self.task = Task::Look { lapsed, etag };
        }
    }

    /// Its holder cannot believe in it any more: it was deposed, or its object is gone, and that
    /// was waited for.
    pub fn waited(&mut self, session: Session) {
        self.ended.insert(session);
    }

    /// Stops: somebody else coordinates. What was read is forgotten, so that all is read anew if
    /// this process coordinates again; what has ended stays so.
    pub fn stop(&mut self) {
        self.task = Task::Idle;
        self.facts.clear();
        self.awaited.clear();
        self.in_doubt.clear();
        self.unsealed.clear();
    }

    #[cfg(test)]
    pub fn is_idle(&self) -> bool {
        self.task == Task::Idle
    }

    /// The session's record as it was read last.
    pub fn record(&self, id: SessionId) -> Option<&SessionRecord> {
        self.facts.get(&id).map(|fact| &fact.record)
    }

    pub fn has_ended(&self, session: Session) -> bool {
        self.ended.contains(&session)
    }

    /// The unreadable sessions of this round: one of them may have seen an assignment that somebody
    /// deleted.
    pub fn in_doubt(&self) -> &BTreeSet<SessionId> {
        &self.in_doubt
    }

    /// The greatest assignment epoch that any session says it has seen.
    pub fn greatest_seen(&self) -> Option<Epoch> {
        let data = self.facts.values().filter_map(|fact| fact.record.data.as_ref());
        data.filter_map(|data| data.seen).max()
    }

    pub fn request(&self) -> Option<SessionRequest> {
        Some(match &self.task {
            Task::Idle => return None,
            Task::List { after, .. } => SessionRequest::List(*after),
            Task::Read { left } => SessionRequest::Get(left.clone()),
            Task::Look { lapsed, .. } => SessionRequest::Get(BTreeSet::from([lapsed.id])),
            Task::Seal { lapsed, record } => {
                SessionRequest::Seal { session: *lapsed, record: record.clone() }
            }
        })
    }

    /// Takes an answer. `known` is the assignment that was known before the request was sent.
    pub fn handle(&mut self, known: Option<&Assignment>, answer: SessionAnswer) -> RoundProgress {
        match (std::mem::take(&mut self.task), answer) {
            (Task::List { due, read, .. }, SessionAnswer::Listed { sessions, truncated }) => {
                self.listed(known, due, read, &sessions, truncated)
            }
            (
                Task::Read { mut left },
                answer @ (SessionAnswer::Found(..)
                | SessionAnswer::Missing(_)
                | SessionAnswer::Unreadable(_)),
            ) => {
                left.remove(&self.note(known, answer));
                self.read(left)
            }
            (Task::Look { lapsed, etag }, answer @ SessionAnswer::Found(..)) => {
                self.note(known, answer);
                self.seal(lapsed, &etag)
            }
            (Task::Look { .. }, answer @ SessionAnswer::Missing(_)) => {
                self.note(known, answer);
                RoundProgress::RoundOver
            }
            (Task::Look { .. }, SessionAnswer::Unreadable(_)) => RoundProgress::RoundOver,
            (Task::Seal { lapsed, record }, SessionAnswer::Done) => {
                let sealed = SessionRecord { ended: Some(EpochEnd::Lapsed), ..record };
                if let Some(fact) = self.facts.get_mut(&lapsed.id) {
                    fact.record = sealed;
                }
                self.ended.insert(lapsed);
                RoundProgress::RoundOver
            }
            // It renewed, or somebody else sealed it, or the outcome is unknown. No plan waits for
            // the next attempt.
            (Task::Seal { lapsed, .. }, SessionAnswer::Refused | SessionAnswer::Unknown) => {
                self.unsealed.insert(lapsed.id);
                RoundProgress::RoundOver
            }
            _ => RoundProgress::Failed,
        }
    }

    fn listed(
        &mut self,
        known: Option<&Assignment>,
        due: BTreeSet<SessionId>,
        mut read: BTreeSet<SessionId>,
        sessions: &[(SessionId, Option<ETag>)],
        truncated: bool,
    ) -> RoundProgress {
        if let Some(known) = known {
            self.note_awaited(known);
        }
        let wanted = |(id, tag): &&(SessionId, Option<ETag>)| {
            due.contains(id) || self.tells_something(known, *id, tag.as_ref())
        };
        read.extend(sessions.iter().filter(wanted).map(|(id, _)| *id));
        match sessions.last() {
            Some((last, _)) if truncated => {
                self.task = Task::List { after: Some(*last), due, read };
                RoundProgress::More
            }
            _ => self.read(read),
        }
    }

    /// A release that was awaited may have been written although it is awaited no more: until its
    /// member has seen the assignment that took it back.
    fn note_awaited(&mut self, known: &Assignment) {
        let awaiting = known.awaiting();
        let seen = |id: &SessionId| self.record(*id)?.data.as_ref()?.seen;
        let settled = |id: &SessionId| !awaiting.contains(id) && seen(id) >= Some(known.epoch);
        let before = self.awaited.iter().filter(|id| !settled(id)).copied();
        self.awaited = before.chain(awaiting.iter().copied()).collect();
    }

    /// Whether a session must be read: it is new, or something is awaited of it and its tag has
    /// changed. Without tags the driver says what is due.
    fn tells_something(
        &self,
        known: Option<&Assignment>,
        id: SessionId,
        tag: Option<&ETag>,
    ) -> bool {
        let Some(Fact { record, after }) = self.facts.get(&id) else { return true };
        if self.unsealed.contains(&id) {
            return true;
        }
        let changed = tag.is_some_and(|tag| !tag.names_the_same(&record.etag));
        if known.and_then(|known| known.session(id)).is_none() {
            // Not a member yet: it must be read after the assignment that it is added to (R3).
            return changed || record.may_join() && *after < known.map(|known| known.epoch);
        }
        changed && self.awaited.contains(&id)
    }

    fn read(&mut self, left: BTreeSet<SessionId>) -> RoundProgress {
        if left.is_empty() {
            return RoundProgress::RoundOver;
        }
        self.task = Task::Read { left };
        RoundProgress::More
    }

    /// Keeps what was read; says of which session.
    fn note(&mut self, known: Option<&Assignment>, answer: SessionAnswer) -> SessionId {
        match answer {
            SessionAnswer::Found(id, record) => {
                self.unsealed.remove(&id);
                let session = Session { id, nonce: record.nonce };
                // Sealed, so it stays so. A word that must be waited for is none of these.
                if matches!(record.ended, Some(EpochEnd::Resigned | EpochEnd::Lapsed)) {
                    self.ended.insert(session);
                }
                self.facts.insert(id, Fact { record, after: known.map(|known| known.epoch) });
                id
            }
            SessionAnswer::Missing(id) => {
                self.facts.remove(&id);
                id
            }
            // Evidence only says that something was read, so a failed read proves nothing. The next
            // round reads it again.
            SessionAnswer::Unreadable(id) => {
                if known.and_then(|known| known.session(id)).is_none() {
                    self.facts.remove(&id);
                }
                self.in_doubt.insert(id);
                id
            }
            _ => unreachable!("only answers about one session are noted"),
        }
    }

    fn seal(&mut self, lapsed: Session, etag: &ETag) -> RoundProgress {
        match self.facts.get(&lapsed.id) {
            Some(Fact { record, .. })
                if record.etag.names_the_same(etag)
                    && record.nonce == lapsed.nonce
                    && record.ended.is_none() =>
            {
                self.task = Task::Seal { lapsed, record: record.clone() };
                RoundProgress::More
            }
            // It shows a sign of life, or has ended meanwhile.
            _ => RoundProgress::RoundOver,
        }
    }

    /// What a plan from this assignment may rest on. `join` makes a member of a session that may be
    /// added, if that can be one.
    pub fn evidence(
        &self,
        known: Option<&Assignment>,
        join: impl Fn(SessionId, &SessionRecord) -> Option<Member>,
    ) -> Evidence {
        let mut evidence = Evidence::default();
        for member in known.map_or(&[][..], |known| &known.members) {
            let session = member.session;
            if self.ended.contains(&session) {
                evidence.ended.insert(session);
            }
            let fact = self.facts.get(&session.id).filter(|it| it.record.nonce == session.nonce);
            let Some(data) = fact.and_then(|fact| fact.record.data.as_ref()) else { continue };
            evidence.released.extend(data.releases.keys().map(|release| (session, *release)));
            if data.leaving {
                evidence.leaving.insert(session);
            }
        }
        for (id, fact) in &self.facts {
            let session = Session { id: *id, nonce: fact.record.nonce };
            let fresh = fact.after >= known.map(|known| known.epoch) && fact.record.may_join();
            let new = known.is_none_or(|known| known.member(session).is_none());
            if fresh && new && !self.ended.contains(&session) {
                evidence.joining.extend(join(*id, &fact.record));
            }
        }
        evidence
    }

    /// Forgets the sessions that a complete listing did not show and no assignment names.
    pub fn forget(&mut self, listed: &BTreeSet<SessionId>, known: &Assignment) {
        let named = |id: &SessionId| listed.contains(id) || known.session(*id).is_some();
        self.facts.retain(|id, _| named(id));
        self.ended.retain(|session| named(&session.id));
        self.awaited.retain(named);
        self.unsealed.retain(named);
    }
}

#[cfg(test)]
mod tests;
