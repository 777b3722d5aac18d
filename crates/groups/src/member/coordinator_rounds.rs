//! The rounds of the coordinator. Each round reads the sessions, seals the lapsed ones, and then
//! plans the next assignment.

use std::collections::BTreeSet;
use std::time::Duration;

use super::MemberTask;
use crate::objects::Bodies;
use crate::operate::UNFINISHED;
use crate::protocol::plan::{Evidence, Planner};
use crate::protocol::session::SessionRecord;
use crate::protocol::{Member, Session, SessionId};
use tenure::store::ETag;
use tenure::{Error, ErrorKind, Moment};

/// Error of a coordinator that cannot create assignments although the store answers. Another member
/// replaces this coordinator.
const NOT_CREATED: &str = "the store answered each attempt to create the next assignment, but \
    does not have the assignment. The assignment may still appear. The next poll tries again, and \
    another member coordinates if the attempts keep failing. Check the proxies between this \
    process and the store";

impl MemberTask {
    /// Runs a round of the coordinator: reads the sessions, seals lapsed sessions, and plans.
    pub(super) async fn round(&mut self) -> Option<Duration> {
        self.sessions.watch_members(self.participant.known().map(|it| &**it));
        let mut due = self.sessions.timers.due(self.cx.now());
        // If this member has releases that no assignment shows, read its session, even if no timer
        // requires the read.
        if !self.ownership.is_released() {
            due.insert(self.ownership.session.id);
        }
        self.participant.round(due);
        if !self.drive().await {
            return None;
        }
        if !self.participant.plans() {
            // The poll counts as completed if another member is the coordinator now.
            self.report.completed = !self.participant.coordinates();
            return None;
        }
        let predecessors = self.predecessors();
        if !predecessors.is_empty() {
            self.participant.round(predecessors);
            if !self.drive().await {
                return None;
            }
        }
        self.end_sessions().await;
        let again = self.plan().await;
        // A round with one unreadable session counts as completed. With more unreadable sessions,
        // another member replaces this coordinator.
        self.report.completed &= self.sessions.unreadable.len() < 2;
        if self.retry_ends().await { Some(Duration::ZERO) } else { again }
    }

    /// Returns the sessions of the members that have the same name as a joining session. A round
    /// reads these sessions again, because a member of this name may have resigned its session and
    /// reserved its partitions for the name.
    fn predecessors(&self) -> BTreeSet<SessionId> {
        let participant = &self.participant;
        let evidence =
            participant.evidence(|id, record| joining(&self.sessions.bodies, id, record));
        let names: BTreeSet<_> = evidence.joining.into_iter().map(|member| member.name).collect();
        let members = participant.known().into_iter().flat_map(|known| &known.members);
        let same = members.filter(|it| names.contains(&it.name));
        same.filter(|it| !participant.sessions().has_ended(it.session))
            .map(|it| it.session.id)
            .collect()
    }

    /// Seals the sessions that have lapsed. Also records the deposed and missing sessions for which
    /// the coordinator has waited long enough (GA1, GA2).
    async fn end_sessions(&mut self) {
        let known = self.participant.known().cloned();
        let members = known.iter().flat_map(|known| &known.members).map(|it| it.session);
        let read = self.sessions.bodies.iter().map(|(id, body)| body.session(*id));
        let sessions: BTreeSet<Session> = members.chain(read).collect();
        for session in sessions {
            let now = self.cx.now();
            if !self.sessions.stuck.contains(&session)
                && let Some(tag) = self.lapsed_tag(session)
                && !self.end(session, tag).await
            {
                self.sessions.stuck.push_back(session);
            }
            let named = known.as_ref().is_some_and(|known| known.member(session).is_some());
            if named && self.sessions.timers.waited(session.id, now) {
                self.participant.waited(session);
            }
        }
    }

    /// Returns the ETag of this session's object if the session has lapsed and must be sealed.
    fn lapsed_tag(&self, session: Session) -> Option<ETag> {
        let tag = self.sessions.timers.lapsed(session.id);
        let tag = tag.filter(|_| session != self.ownership.session)?;
        let read = self.participant.sessions();
        let ended = |it: &SessionRecord| it.nonce == session.nonce && it.ended.is_some();
        let over = read.has_ended(session) || read.record(session.id).is_some_and(ended);
        (!over).then(|| tag.clone())
    }

    /// Reads a lapsed session, and seals it if its object still has the ETag `tag` (GC5). Returns
    /// false if the read or the seal failed.
    async fn end(&mut self, session: Session, tag: ETag) -> bool {
        self.participant.lapsed(session, tag);
        self.drive().await;
        self.lapsed_tag(session).is_none()
    }

    /// After the plan, repeats the seals that failed in this round or an earlier one, until one of
    /// them fails again (GC12). So sessions that cannot be sealed delay a later round by only one
    /// attempt. Returns true if at least one of the sessions has ended.
    async fn retry_ends(&mut self) -> bool {
        let mut some = false;
        while let Some(session) = self.sessions.stuck.pop_front() {
            let Some(tag) = self.lapsed_tag(session) else { continue };
            if !self.end(session, tag).await {
                self.sessions.stuck.push_back(session);
                break;
            }
            some = true;
        }
        some
    }

    /// Creates the next assignment if the plan changes the known assignment.
    async fn plan(&mut self) -> Option<Duration> {
        let now = self.cx.now();
        let (mut evidence, again) = self.evidence(now);
        // If an assignment is too long, the usual cause is the data of its members. So add the
        // members with the shortest data first.
        evidence.joining.sort_by_key(|it| it.data.as_ref().map_or(0, |data| data.len()));
        loop {
            let before = std::mem::take(&mut self.report.too_large);
            self.create_next(&evidence).await;
            let fits = !self.report.too_large;
            self.report.too_large |= before;
            if fits || evidence.joining.is_empty() {
                return again;
            }
            // Try again with half of the joining members: members that do not fit must not delay
            // grants to other members.
            evidence.joining.truncate(evidence.joining.len() / 2);
        }
    }

    async fn create_next(&mut self, evidence: &Evidence) {
        let (nonce, participant) = (self.cx.nonce(), &mut self.participant);
        let known = participant.known();
        let without = known.is_none() && self.config.partitions.is_empty();
        if without && !std::mem::replace(&mut self.waits, true) {
            tracing::warn!(
                group = self.cx.prefix(),
                "the group has no partitions, and this member sets none: it waits until a member \
                 that sets `partitions` creates the group"
            );
        }
        if without || known.is_none() && evidence.joining.is_empty() {
            self.report.completed = true;
            return;
        }
        let planner = Planner {
            assignor: &*self.config.assignor,
            coordinator: self.ownership.session,
            goes_ahead: known.is_some_and(|it| it.coordinator != Some(self.ownership.session)),
            only_ownerless: known.is_some_and(|known| self.config.differs(known)),
        };
        let partitions = || self.config.partitions.clone();
        participant.expect(self.cx.greatest());
        let planned = participant.plan(&planner, evidence, partitions, nonce);
        let first = participant.known().is_none();
        let in_doubt = participant.sessions().in_doubt().first().copied().filter(|_| first);
        if self.participant.known().is_some_and(|it| it.restoring.is_some()) {
            self.tell(Error::new(ErrorKind::Unavailable, UNFINISHED));
        }
        // A session that could not be read blocks the first assignment. Report this session now
        // only if no read failed in this poll. Otherwise it is reported at the end of a poll, after
        // reads have failed in several consecutive polls.
        if let Some(id) = in_doubt {
            if !self.report.unread {
                self.tell(self.objects.blocks_the_first(id));
            }
            self.report.unread = true;
        }
        if !planned {
            self.report.completed = true;
            return;
        }
        let before = self.participant.greatest();
        if self.drive().await {
            // If no assignment was created, the poll does not count as completed: other members
            // replace a coordinator that completes no poll.
            self.report.completed = self.participant.greatest() > before;
            if !self.report.completed {
                self.tell(Error::new(ErrorKind::Unavailable, NOT_CREATED));
            }
        }
    }

    /// Returns the evidence for a plan, and the time for which the plan still waits for joining
    /// members.
    fn evidence(&mut self, now: Moment) -> (Evidence, Option<Duration>) {
        let (participant, sessions, advice) = (&self.participant, &self.sessions, &mut self.advice);
        let known = participant.known().map(|it| &**it);
        let mut evidence = participant.evidence(|id, record| joining(&sessions.bodies, id, record));
        // The partitions of a lapsed member move after its session is sealed. Until then the member
        // gets no more partitions.
        let own = participant.own_session();
        let members = known.iter().flat_map(|known| &known.members).map(|it| it.session);
        let ending = members.filter(|it| *it != own && sessions.timers.is_ending(it.id));
        evidence.leaving.extend(ending);
        let wait = advice.add_to(&mut evidence, participant, sessions, (&self.config, now));
        let reclaimed = self.cx.poll_interval() * 2;
        let parked = sessions.bodies.iter();
        let parked = parked.filter_map(|(id, it)| Some((it.session(*id), it.parked(reclaimed)?)));
        evidence.parked = parked.collect();
        (evidence, wait)
    }
}

/// Returns the member that this session describes. Returns `None` if the object of the session was
/// not read, or has another nonce.
fn joining(bodies: &Bodies, id: SessionId, record: &SessionRecord) -> Option<Member> {
    let body = bodies.get(&id).filter(|body| body.session(id).nonce == record.nonce)?;
    Some(body.member(id))
}
