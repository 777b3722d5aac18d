//! The sessions that one member has listed and read.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::ended_sessions::EndedSessions;
use crate::objects::{Bodies, Seen, SessionPage};
use crate::protocol::message::SessionAnswer;
use crate::protocol::session_timers::{RequestTimes, SessionTimers};
use crate::protocol::{Assignment, Session, SessionId};
use crate::session_record::SessionBody;
use tenure::store::ETag;
use tenure::{Epoch, Moment};

/// The listed sessions, each with the ETag of its object if the store lists ETags.
pub(super) type Listed = BTreeMap<SessionId, Option<ETag>>;

/// The results of the listings and reads of one member.
pub(super) struct KnownSessions {
    pub(super) timers: SessionTimers,
    /// The sessions that were read, except ended sessions that no assignment names.
    pub(super) bodies: Bodies,
    /// The last listing, or its pages so far, and the time at which the first request of the
    /// listing was sent.
    pub(super) listing: Option<(Listed, Moment)>,
    /// The greatest assignment epoch that any session has seen.
    pub(super) seen: Option<Epoch>,
    /// Sessions that could not be read. Once the store answers a read of any session, this set is
    /// empty.
    pub(super) unreadable: BTreeSet<SessionId>,
    /// Lapsed sessions that could not be sealed. The next retry begins with the first of them.
    pub(super) stuck: VecDeque<Session>,
    /// The ended sessions that any membership of this process has read.
    ended: Arc<EndedSessions>,
    /// Objects that are not sessions, with the ETags that the listing showed at the time of the
    /// read.
    foreign: BTreeMap<SessionId, ETag>,
    /// The assumed validity of a session that was never read.
    validity: Duration,
}

impl KnownSessions {
    pub(super) fn new(
        timers: SessionTimers,
        ended: Arc<EndedSessions>,
        validity: Duration,
    ) -> KnownSessions {
        KnownSessions {
            timers,
            bodies: Bodies::new(),
            listing: None,
            seen: None,
            unreadable: BTreeSet::new(),
            stuck: VecDeque::new(),
            ended,
            foreign: BTreeMap::new(),
            validity,
        }
    }

    /// Starts a timer for each member that the assignment names.
    pub(super) fn watch_members(&mut self, known: Option<&Assignment>) {
        for member in known.iter().flat_map(|known| &known.members) {
            let body = self.bodies.get(&member.session.id);
            let validity = body.map_or(member.validity, SessionBody::validity);
            self.timers.watch(member.session.id, validity);
        }
    }

    /// Adds a page to the listing. If this page is the last one, returns all listed sessions.
    pub(super) fn listed(
        &mut self,
        after: Option<SessionId>,
        page: &SessionPage,
    ) -> Option<BTreeSet<SessionId>> {
        let first = after.is_none().then(|| (Listed::new(), page.when.sent));
        let (mut listing, sent) = first.or_else(|| self.listing.take())?;
        listing.extend(page.sessions.iter().cloned());
        let when = RequestTimes { sent, received: page.when.received };
        let complete = (!page.truncated).then(|| {
            self.timers.listed(&listing, when);
            listing.keys().copied().collect()
        });
        self.listing = Some((listing, sent));
        complete
    }

    /// Forgets the sessions that a complete listing did not show, except the sessions of members.
    pub(super) fn keep(&mut self, listed: &BTreeSet<SessionId>, known: Option<&Assignment>) {
        self.foreign.retain(|id, _| listed.contains(id));
        self.ended.keep(listed);
        let members = known.iter().flat_map(|it| &it.members).map(|it| it.session.id);
        // An ended session that the assignment does not name is not read again.
        let live = listed.iter().copied().filter(|id| !self.ended.contains(*id));
        let needed: BTreeSet<_> = live.chain(members).collect();
        self.bodies.retain(|id, _| needed.contains(id));
        self.timers.keep(&needed);
    }

    /// Records the result of one read, and returns the answer for the state machine.
    pub(super) fn note(
        &mut self,
        (id, seen, when): (SessionId, Seen, RequestTimes),
        known: Option<&Assignment>,
    ) -> SessionAnswer {
        let member = known.and_then(|known| known.session(id));
        match seen {
            Seen::Session(body) => {
                let record = body.record();
                self.timers.watch(id, body.validity());
                self.timers.read(member.unwrap_or_else(|| body.session(id)), Some(&record), when);
                self.seen = self.seen.max(record.data.as_ref().and_then(|data| data.seen));
                self.ended.note(id, &record);
                self.bodies.insert(id, *body);
                SessionAnswer::Found(id, record)
            }
            Seen::Corrupt if known.is_none() => {
                self.bodies.remove(&id);
                SessionAnswer::Unreadable(id)
            }
            Seen::Foreign | Seen::Corrupt => {
                self.timers.foreign(id, when);
                self.bodies.remove(&id);
                let tag = self.listed_tag(id).cloned();
                self.foreign.extend(tag.map(|tag| (id, tag)));
                SessionAnswer::Missing(id)
            }
            Seen::Missing => {
                if let Some(session) = member {
                    self.timers.read(session, None, when);
                }
                self.bodies.remove(&id);
                SessionAnswer::Missing(id)
            }
            Seen::Unchanged | Seen::Unknown => {
                if member.is_none() {
                    let validity = self.bodies.get(&id).map(SessionBody::validity);
                    self.timers.watch(id, validity.unwrap_or(self.validity));
                }
                self.timers.failed(id, when.received);
                SessionAnswer::Unknown
            }
        }
    }

    fn listed_tag(&self, id: SessionId) -> Option<&ETag> {
        self.listing.as_ref()?.0.get(&id)?.as_ref()
    }

    /// Returns the answer to a read that needs no request: an earlier read found an ended session
    /// or no session, and the listing still shows the ETag of that read. Returns `None` for the
    /// sessions of members, because the answer to such a read must come from the store.
    pub(super) fn known_answer(
        &self,
        id: SessionId,
        known: Option<&Assignment>,
    ) -> Option<SessionAnswer> {
        if known.is_some_and(|known| known.session(id).is_some()) {
            return None;
        }
        let listed = self.listed_tag(id)?;
        if self.foreign.get(&id).is_some_and(|tag| tag.names_the_same(listed)) {
            return Some(SessionAnswer::Missing(id));
        }
        self.ended.record(id, listed).map(|record| SessionAnswer::Found(id, record))
    }
}
