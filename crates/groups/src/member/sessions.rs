//! What a member asks about the sessions, and what it remembers of the answers.

use std::collections::{BTreeMap, BTreeSet};

use super::MemberTask;
use crate::objects::Seen;
use crate::protocol::message::{AssignmentAnswer, SessionAnswer, SessionRequest};
use crate::protocol::session_timers::RequestTimes;
use crate::protocol::{Session, SessionId};
use crate::session_record::SessionBody;
use tenure::EpochEnd;
use tenure::store::ETag;

/// Sessions that are read before the next look at the time and the assignment.
pub(super) const READ_BETWEEN_POLLS: usize = 512;

/// The word that ends a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SessionEnd {
    Lapsed,
    /// As lapsed, and this process of the same name takes over its partitions.
    Reclaimed,
    /// This process held it, and its work has returned.
    Resigned,
}

impl MemberTask {
    /// Asks about the sessions. False: something failed for now, and the next round begins anew.
    pub(super) async fn sessions(&mut self, request: SessionRequest) -> bool {
        match request {
            SessionRequest::List(after) => self.list(after).await,
            SessionRequest::Get(ids) => {
                self.get(ids).await;
                true
            }
            SessionRequest::Seal { session, .. } => {
                let answer = self.seal(session, SessionEnd::Lapsed).await;
                self.unread |= answer != SessionAnswer::Done;
                self.shared.state().participant.session(answer);
                true
            }
        }
    }

    /// Reads sessions, and leaves the rest to the next request where there are many.
    async fn get(&mut self, ids: BTreeSet<SessionId>) {
        let now = self.shared.cx.now();
        let mut unread = Vec::new();
        for id in ids {
            let answer = self.known_answer(id);
            let rests = answer.is_none() && self.looks.rests(id, now);
            self.unread |= rests;
            match answer.or(rests.then_some(SessionAnswer::Unreadable(id))) {
                Some(answer) => self.shared.state().participant.session(answer),
                None => unread.push(id),
            }
        }
        let some = unread.iter().take(READ_BETWEEN_POLLS).copied();
        for (id, seen, when) in self.objects.read_sessions(some).await {
            let answer = match self.note(id, seen, when) {
                SessionAnswer::Unknown => {
                    self.unread = true;
                    self.unreadable.insert(id);
                    SessionAnswer::Unreadable(id)
                }
                answer => {
                    self.unreadable.clear();
                    answer
                }
            };
            self.shared.state().participant.session(answer);
        }
        // Another member may have planned meanwhile: then the rest need not be read.
        if unread.len() > READ_BETWEEN_POLLS {
            self.shared.state().participant.poll();
        }
    }

    async fn list(&mut self, after: Option<SessionId>) -> bool {
        let Some(page) = self.objects.list_sessions(after).await else {
            self.unread = true;
            self.shared.state().participant.session(SessionAnswer::Unknown);
            return false;
        };
        if after.is_none() {
            self.listing = Some((BTreeMap::new(), page.when.sent));
        }
        if let Some((listing, sent)) = &mut self.listing {
            listing.extend(page.sessions.iter().cloned());
            if !page.truncated {
                let when = RequestTimes { sent: *sent, received: page.when.received };
                self.looks.listed(listing, when);
                let listed: BTreeSet<_> = listing.keys().copied().collect();
                self.foreign.retain(|id, _| listed.contains(id));
                self.shared.state().participant.forget(&listed);
                let state = self.shared.state();
                let known = state.participant.known();
                let members = known.iter().flat_map(|it| &it.members).map(|it| it.session.id);
                let members: BTreeSet<_> = members.collect();
                // What has ended and is no member is not read again.
                self.ended.keep(&listed);
                let live = listed.into_iter().filter(|id| !self.ended.contains(*id));
                let needed: BTreeSet<_> = live.chain(members).collect();
                self.bodies.retain(|id, _| needed.contains(id));
                self.looks.keep(&needed);
            }
        }
        let (sessions, truncated) = (page.sessions, page.truncated);
        self.shared.state().participant.session(SessionAnswer::Listed { sessions, truncated });
        true
    }

    /// Takes note of one look at a session.
    pub(super) fn note(&mut self, id: SessionId, seen: Seen, when: RequestTimes) -> SessionAnswer {
        let session = self.expected(id);
        match seen {
            Seen::Session(body) => {
                let record = body.record();
                self.looks.watch(id, body.validity());
                self.looks.read(session.unwrap_or_else(|| body.session(id)), Some(&record), when);
                if let Some(data) = &record.data {
                    self.seen = self.seen.max(data.seen);
                    self.memory.released(body.name(), data, when.received);
                }
                self.ended.note(id, &record);
                self.bodies.insert(id, *body);
                SessionAnswer::Found(id, record)
            }
            Seen::Corrupt if self.shared.state().participant.known().is_none() => {
                self.bodies.remove(&id);
                SessionAnswer::Unreadable(id)
            }
            Seen::Foreign | Seen::Corrupt => {
                self.looks.foreign(id, when);
                self.bodies.remove(&id);
                let tag = self.listed_tag(id).cloned();
                self.foreign.extend(tag.map(|tag| (id, tag)));
                SessionAnswer::Missing(id)
            }
            Seen::Missing => {
                if let Some(session) = session {
                    self.looks.read(session, None, when);
                }
                self.bodies.remove(&id);
                SessionAnswer::Missing(id)
            }
            Seen::Unchanged | Seen::Unknown => {
                if session.is_none() {
                    let known = self.bodies.get(&id).map(SessionBody::validity);
                    self.looks.watch(id, known.unwrap_or_else(|| self.config.validity()));
                }
                self.looks.failed(id, when.received);
                SessionAnswer::Unknown
            }
        }
    }

    fn listed_tag(&self, id: SessionId) -> Option<&ETag> {
        self.listing.as_ref()?.0.get(&id)?.as_ref()
    }

    /// The answer of a read, if the listing shows its outcome: an object with the tag under which
    /// it was read as an ended session, or as no session. Members are always read.
    pub(super) fn known_answer(&self, id: SessionId) -> Option<SessionAnswer> {
        if self.expected(id).is_some() {
            return None;
        }
        let listed = self.listed_tag(id)?;
        if self.foreign.get(&id).is_some_and(|tag| tag.names_the_same(listed)) {
            return Some(SessionAnswer::Missing(id));
        }
        self.ended.record(id, listed).map(|record| SessionAnswer::Found(id, record))
    }

    /// The session of this id, as the assignment names it.
    fn expected(&self, id: SessionId) -> Option<Session> {
        self.shared.state().participant.known().and_then(|known| known.session(id))
    }

    /// Ends a session, on the condition that it has not changed since the last read.
    pub(super) async fn seal(&mut self, session: Session, end: SessionEnd) -> SessionAnswer {
        let Some(body) = self.bodies.get(&session.id) else { return SessionAnswer::Refused };
        let (etag, cx) = (body.record().etag, &self.shared.cx);
        let (by, at) = (cx.name(), cx.now());
        let sealed = match end {
            SessionEnd::Lapsed => body.sealed(EpochEnd::Lapsed, by, None, at),
            SessionEnd::Reclaimed => body.sealed(EpochEnd::Lapsed, by, Some(by), at),
            SessionEnd::Resigned => body.sealed(EpochEnd::Resigned, by, None, at),
        };
        match self.objects.seal(session.id, sealed, etag).await {
            AssignmentAnswer::Done => SessionAnswer::Done,
            AssignmentAnswer::Refused => SessionAnswer::Refused,
            _ => SessionAnswer::Unknown,
        }
    }
}
