//! The rounds of a member that coordinates: what it reads of the sessions, and what it plans.

use std::collections::BTreeSet;
use std::time::Duration;

use super::MemberTask;
use super::crash_loops::CrashLoops;
use crate::objects::Bodies;
use crate::operate::UNFINISHED;
use crate::protocol::plan::{Evidence, Planner};
use crate::protocol::session::SessionRecord;
use crate::protocol::{Assignment, Member, Session, SessionId};
use tenure::EpochEnd;
use tenure::Moment;
use tenure::store::ETag;
use tenure::{Error, ErrorKind};

/// Why the coordinator is to be succeeded, although the store answers.
const NOT_CREATED: &str = "the next assignment was not created: the store answered each attempt, and \
    holds none. It may yet appear. The next poll tries again, and another member coordinates if \
    that goes on. Check what stands between this process and the store";

impl MemberTask {
    /// A round of the coordinator: reads the sessions, seals those that lapsed, and plans.
    pub(super) async fn round(&mut self) -> Option<Duration> {
        self.watch_members();
        let now = self.shared.cx.now();
        let mut due = self.looks.due(now);
        // What this member has released it need not learn from the pace of its own writes.
        if !self.shared.state().participant.holdings().releasing().is_empty() {
            due.insert(self.shared.session.id);
        }
        self.shared.state().participant.round(due);
        if !self.drive().await {
            return None;
        }
        if !self.shared.state().participant.plans() {
            // Somebody else coordinates by now.
            self.looked = !self.shared.state().participant.coordinates();
            return None;
        }
        let predecessors = self.predecessors();
        if !predecessors.is_empty() {
            self.shared.state().participant.round(predecessors);
            if !self.drive().await {
                return None;
            }
        }
        self.end_sessions().await;
        let again = self.plan().await;
        // One session may be broken. A process that can read none is to be succeeded.
        self.looked &= self.unreadable.len() < 2;
        if self.retry_ends().await { Some(Duration::ZERO) } else { again }
    }

    /// The members whose names others come back under: they may have resigned since they were read
    /// last, and then nothing needs to move.
    fn predecessors(&self) -> BTreeSet<SessionId> {
        let state = self.shared.state();
        let known = state.participant.known().cloned();
        let evidence = state.participant.evidence(|id, record| joining(&self.bodies, id, record));
        let names: BTreeSet<_> = evidence.joining.into_iter().map(|member| member.name).collect();
        let members = known.iter().flat_map(|known| &known.members);
        let same = members.filter(|it| names.contains(&it.name));
        same.filter(|it| !state.participant.sessions().has_ended(it.session))
            .map(|it| it.session.id)
            .collect()
    }

    pub(super) fn watch_members(&mut self) {
        let known = self.shared.state().participant.known().cloned();
        for member in known.iter().flat_map(|known| &known.members) {
            let body = self.bodies.get(&member.session.id);
            let validity = body.map_or(member.validity, |body| body.validity());
            self.looks.watch(member.session.id, validity);
        }
    }

    /// Seals the sessions that have lapsed, and notes the waits that have ended.
    async fn end_sessions(&mut self) {
        let known = self.shared.state().participant.known().cloned();
        let members = known.iter().flat_map(|known| &known.members).map(|it| it.session);
        let read = self.bodies.iter().map(|(id, body)| body.session(*id));
        let sessions: BTreeSet<Session> = members.chain(read).collect();
        for session in sessions {
            let now = self.shared.cx.now();
            if !self.stuck.contains(&session)
                && let Some(tag) = self.lapsed_tag(session)
                && !self.end(session, tag).await
            {
                self.stuck.push_back(session);
            }
            let named = known.as_ref().is_some_and(|known| known.member(session).is_some());
            if named && self.looks.waited(session.id, now) {
                self.shared.state().participant.waited(session);
            }
        }
    }

    /// The tag under which this session has lapsed, if it is to be sealed.
    fn lapsed_tag(&self, session: Session) -> Option<ETag> {
        let tag = self.looks.lapsed(session.id).filter(|_| session != self.shared.session)?;
        let state = self.shared.state();
        let record = state.participant.sessions().record(session.id);
        let ended = |it: &SessionRecord| it.nonce == session.nonce && it.ended.is_some();
        let over = state.participant.sessions().has_ended(session) || record.is_some_and(ended);
        (!over).then(|| tag.clone())
    }

    /// Reads a session that has lapsed, and seals it if it still has this tag. False: it could not
    /// be read or sealed, so nothing has changed.
    async fn end(&mut self, session: Session, tag: ETag) -> bool {
        self.shared.state().participant.lapsed(session, tag);
        self.drive().await;
        self.lapsed_tag(session).is_none()
    }

    /// Repeats the seals that failed before, after the plan and up to the first failure: an object
    /// that cannot be written delays a round by one request. True: one of them has ended.
    async fn retry_ends(&mut self) -> bool {
        let mut some = false;
        while let Some(session) = self.stuck.pop_front() {
            let Some(tag) = self.lapsed_tag(session) else { continue };
            if !self.end(session, tag).await {
                self.stuck.push_back(session);
                break;
            }
            some = true;
        }
        some
    }

    /// Creates the next assignment, if something is to change.
    async fn plan(&mut self) -> Option<Duration> {
        let now = self.shared.cx.now();
        let (mut evidence, again) = self.evidence(now);
        // What does not fit is mostly what members say of themselves: the least goes first.
        evidence.joining.sort_by_key(|it| it.data.as_ref().map_or(0, |data| data.len()));
        loop {
            let before = std::mem::take(&mut self.too_large);
            self.create_next(&evidence).await;
            let fits = !self.too_large;
            self.too_large |= before;
            if fits || evidence.joining.is_empty() {
                return again;
            }
            // Members that do not fit must not keep the others from what is theirs.
            evidence.joining.truncate(evidence.joining.len() / 2);
        }
    }

    async fn create_next(&mut self, evidence: &Evidence) {
        let nonce = self.shared.cx.nonce();
        let planned = {
            let mut state = self.shared.state();
            if state.participant.known().is_none() && evidence.joining.is_empty() {
                self.looked = true;
                return;
            }
            let known = state.participant.known();
            let planner = Planner {
                assignor: &*self.config.assignor,
                coordinator: self.shared.session,
                goes_ahead: known.is_some_and(|it| it.coordinator != Some(self.shared.session)),
                only_ownerless: known.is_some_and(|known| self.config.differs(known)),
            };
            let partitions = || self.config.partitions.clone();
            state.participant.expect(self.shared.cx.greatest());
            state.participant.plan(&planner, evidence, partitions, nonce)
        };
        let in_doubt = {
            let state = self.shared.state();
            let first = state.participant.known().is_none();
            state.participant.sessions().in_doubt().first().copied().filter(|_| first)
        };
        if self.shared.state().participant.known().is_some_and(|it| it.restoring.is_some()) {
            self.tell(Error::new(ErrorKind::Unavailable, UNFINISHED));
        }
        // A read that failed is reported if it fails again.
        if let Some(id) = in_doubt {
            if !self.unread {
                self.tell(self.objects.blocks_the_first(id));
            }
            self.unread = true;
        }
        if !planned {
            self.looked = true;
            return;
        }
        let before = self.shared.state().participant.greatest();
        if self.drive().await {
            // A process that can create none is to be succeeded.
            self.looked = self.shared.state().participant.greatest() > before;
            if !self.looked {
                self.tell(Error::new(ErrorKind::Unavailable, NOT_CREATED));
            }
        }
    }

    /// What the plan may rest on. Members that join wait for others that do.
    fn evidence(&mut self, now: Moment) -> (Evidence, Option<Duration>) {
        let bodies = &self.bodies;
        let state = self.shared.state();
        let known = state.participant.known().cloned();
        let mut evidence = state.participant.evidence(|id, record| joining(bodies, id, record));
        drop(state);
        // Its partitions move once it is sealed. Until then it must not be given more.
        let own = self.shared.session;
        let members = known.iter().flat_map(|known| &known.members).map(|it| it.session);
        let ending = members.filter(|it| *it != own && self.looks.is_ending(it.id));
        evidence.leaving.extend(ending);
        self.leave_out_those_that_wait(&mut evidence, known.as_deref(), now);
        self.memory.forget(now, known.as_deref());
        evidence.failures = self.memory.failures(now);
        evidence.kept_enough = self.memory.kept_enough(now, known.as_deref());
        let reclaimed = self.shared.cx.poll_interval() * 2;
        let parked = self.bodies.iter();
        let parked = parked.filter_map(|(id, it)| Some((it.session(*id), it.parked(reclaimed)?)));
        evidence.parked = parked.collect();
        if evidence.joining.is_empty() {
            self.joining_since = None;
            return (evidence, None);
        }
        let since = *self.joining_since.get_or_insert(now);
        let left = self.config.rebalance_delay.saturating_sub(now.since(since));
        // A death is not waited for, and a member that joins fills the gap.
        if left.is_zero() || !evidence.ended.is_empty() {
            self.joining_since = None;
            return (evidence, None);
        }
        evidence.joining.clear();
        (evidence, Some(left))
    }
}

impl MemberTask {
    /// Leaves out the sessions that are not to be added yet: silent ones, and those of a name whose
    /// sessions ended soon after they were added.
    fn leave_out_those_that_wait(
        &mut self,
        evidence: &mut Evidence,
        known: Option<&Assignment>,
        now: Moment,
    ) {
        let (own, validity) = (self.shared.session, self.config.validity());
        let (relapses, looks) = (&mut self.relapses, &self.looks);
        if let Some(known) = known {
            let state = self.shared.state();
            let sessions = state.participant.sessions();
            let resigned = |record: &SessionRecord| record.ended == Some(EpochEnd::Resigned);
            let ended_unresigned = |session: Session| {
                sessions.has_ended(session) && !sessions.record(session.id).is_some_and(resigned)
            };
            relapses.note(known, ended_unresigned, validity, now);
        }
        let joining = &evidence.joining;
        relapses.forget_all_but(|session| joining.iter().any(|it| it.session == session));
        // What is kept for a name moves if it waits for longer. It is to do so if its processes
        // crash again and again.
        let is_kept_for = |name: &str| {
            let mut kept =
                known.iter().flat_map(|it| &it.partitions).filter_map(|it| it.kept.as_ref());
            kept.any(|(kept, _)| **kept == *name)
        };
        evidence.joining.retain(|it| {
            let waits = |relapses: &mut CrashLoops| {
                looks.is_silent(it.session.id)
                    || relapses.delays(it.session, &it.name, validity, now)
                        && (!is_kept_for(&it.name) || relapses.are_frequent(&it.name))
            };
            it.session == own || !waits(relapses)
        });
    }
}

/// The member that a session would be, as it was read.
fn joining(bodies: &Bodies, id: SessionId, record: &SessionRecord) -> Option<Member> {
    let body = bodies.get(&id).filter(|body| body.session(id).nonce == record.nonce)?;
    Some(body.member(id))
}
