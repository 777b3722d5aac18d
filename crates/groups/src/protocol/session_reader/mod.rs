//! Reads the sessions of a group, and collects from them the [`Evidence`] for a plan.
//!
//! A *round* lists the sessions and reads the sessions that rule GC2 selects.
//! [`session_timers`](super::session_timers) determines the sessions that have lapsed and the waits
//! that have ended, and the driver reports them to this machine.

use std::collections::{BTreeMap, BTreeSet};

use super::assignment::{Assignment, Member};
use super::message::{RoundProgress, SessionAnswer, SessionRequest};
use super::plan::Evidence;
use super::session::{Session, SessionId, SessionRecord};
use tenure::store::ETag;
use tenure::{Epoch, EpochEnd};

/// Reads the sessions of a group, and keeps the result of the last read of each session.
///
/// # Contract
///
/// - *Getters*: [`record`](SessionReader::record), [`has_ended`](SessionReader::has_ended),
///   [`in_doubt`](SessionReader::in_doubt), [`evidence`](SessionReader::evidence),
///   [`request`](SessionReader::request).
/// - *Orders*: [`begin`](SessionReader::begin) starts a round, [`lapsed`](SessionReader::lapsed)
///   starts a seal, and [`stop`](SessionReader::stop) ends a round or a seal. `begin` and `lapsed`
///   have no effect while a round or a seal is in progress.
/// - *Inputs*: [`handle`](SessionReader::handle) answers each request. The answers for the ids of
///   one [`SessionRequest::Get`] may come in any order. [`waited`](SessionReader::waited) and
///   [`forget`](SessionReader::forget) are permitted at any time.
///
/// The driver repeats `request` and `handle` until `request` returns `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SessionReader {
    facts: BTreeMap<SessionId, Fact>,
    /// Sessions that have ended and can never be renewed.
    ended: BTreeSet<Session>,
    /// Sessions that must release a partition. If an assignment cancels the revocation, the session
    /// stays in this set until its member has seen that assignment.
    awaited: BTreeSet<SessionId>,
    /// Sessions that this round listed but could not read.
    in_doubt: BTreeSet<SessionId>,
    /// Sessions whose seal was refused or not answered. The next round reads these sessions.
    unsealed: BTreeSet<SessionId>,
    task: Task,
}

/// The result of the last read of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Fact {
    record: SessionRecord,
    /// The epoch of the newest assignment that this process knew when it sent the read.
    after: Option<Epoch>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
enum Task {
    #[default]
    Idle,
    List {
        after: Option<SessionId>,
        /// Sessions to read even if their tags have not changed.
        due: BTreeSet<SessionId>,
        read: BTreeSet<SessionId>,
    },
    Read {
        left: BTreeSet<SessionId>,
    },
    /// GET of a lapsed session. If the session has not changed, the process seals it.
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
    /// Begins a round, unless a round or a seal is in progress. The round also reads the sessions
    /// in `due`.
    pub fn begin(&mut self, due: BTreeSet<SessionId>) {
        if self.task == Task::Idle {
            self.in_doubt.clear();
            self.task = Task::List { after: None, due, read: BTreeSet::new() };
        }
    }

    /// Begins to seal a session that has lapsed. `etag` is the ETag of the session's object, which
    /// has not changed for the whole validity.
    pub fn lapsed(&mut self, lapsed: Session, etag: ETag) {
        if self.task == Task::Idle {
            self.task = Task::Look { lapsed, etag };
        }
    }

    /// Records that the wait for a deposed or missing session has ended (GA1, GA2). After this wait
    /// the member no longer believes that its lease runs.
    pub fn waited(&mut self, session: Session) {
        self.ended.insert(session);
    }

    /// Stops the round or the seal, because another member coordinates. Forgets all records except
    /// the ended sessions, so that the next round of this process reads all sessions again.
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

    /// Returns the session with this id, as the last read found it.
    pub fn record(&self, id: SessionId) -> Option<&SessionRecord> {
        self.facts.get(&id).map(|fact| &fact.record)
    }

    pub fn has_ended(&self, session: Session) -> bool {
        self.ended.contains(&session)
    }

    /// Returns the sessions that this round could not read. Any such session may have seen an
    /// assignment that was deleted (D4).
    pub fn in_doubt(&self) -> &BTreeSet<SessionId> {
        &self.in_doubt
    }

    /// Returns the greatest assignment epoch that any session has seen.
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

    /// Handles an answer. `known` is the newest assignment that this process knew when it sent the
    /// request.
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
            // The member renewed the session, another process sealed it, or the outcome is unknown.
            // The plan does not wait for another attempt to seal the session (GC12).
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

    /// Records the sessions that must release a partition. If an assignment cancels a revocation,
    /// the member may still write the release until it has seen this assignment (GC2).
    fn note_awaited(&mut self, known: &Assignment) {
        let awaiting = known.awaiting();
        let seen = |id: &SessionId| self.record(*id)?.data.as_ref()?.seen;
        let settled = |id: &SessionId| !awaiting.contains(id) && seen(id) >= Some(known.epoch);
        let before = self.awaited.iter().filter(|id| !settled(id)).copied();
        self.awaited = before.chain(awaiting.iter().copied()).collect();
    }

    /// Returns whether this round must read a session. A session must be read if it is new, or if
    /// its seal failed. A session that belongs to no member must also be read if it has changed or
    /// may join. A session that must release a partition is read if its tag has changed. If the
    /// store lists no tags, only `due` selects the sessions of members.
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
            // The session does not belong to a member. It can join only if this process reads it
            // after the known assignment (R3).
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

    /// Records the result of a read. Returns the id of the session that was read.
    fn note(&mut self, known: Option<&Assignment>, answer: SessionAnswer) -> SessionId {
        match answer {
            SessionAnswer::Found(id, record) => {
                self.unsealed.remove(&id);
                let session = Session { id, nonce: record.nonce };
                // A resigned or lapsed session has ended, and no wait is needed (R1).
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
            // After a failed read, the record of a member stays as it is. The next round reads the
            // session again (GC11).
            SessionAnswer::Unreadable(id) => {
                if known.and_then(|known| known.session(id)).is_none() {
                    self.facts.remove(&id);
                }
                self.in_doubt.insert(id);
                id
            }
            _ => unreachable!("the caller passes only answers about one session"),
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
            // The session has changed: its member has renewed it, or it has ended.
            _ => RoundProgress::RoundOver,
        }
    }

    /// Returns the evidence for a plan that starts from the assignment `known`. `join` returns the
    /// member of a session, or `None` if the session cannot be a member.
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

    /// Forgets all sessions except those in `listed`, a complete listing, and those in `known`.
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
