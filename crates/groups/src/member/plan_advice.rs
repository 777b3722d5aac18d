//! The facts that a coordinator remembers for its plans. Each member keeps these facts only in
//! memory, so a new coordinator begins without the facts of its predecessor. No invariant depends
//! on them.

use std::time::Duration;

use super::crash_loops::CrashLoops;
use super::failing_partitions::FailingPartitions;
use super::known_sessions::KnownSessions;
use crate::config::GroupConfig;
use crate::protocol::Session;
use crate::protocol::participant::Participant;
use crate::protocol::plan::Evidence;
use crate::protocol::session::SessionRecord;
use tenure::{EpochEnd, Moment};

/// The facts that a coordinator remembers from earlier rounds, for its next plan.
#[derive(Debug, Default)]
pub(super) struct PlanAdvice {
    pub(super) failing: FailingPartitions,
    pub(super) crash_loops: CrashLoops,
    /// Time at which the joining members began to wait for other joining members.
    joining_since: Option<Moment>,
}

impl PlanAdvice {
    /// Adds the remembered facts to the evidence for a plan. Joining members wait for other joining
    /// members, up to the rebalance delay. Returns the remaining wait.
    pub(super) fn add_to(
        &mut self,
        evidence: &mut Evidence,
        participant: &Participant,
        sessions: &KnownSessions,
        (config, now): (&GroupConfig, Moment),
    ) -> Option<Duration> {
        self.delay_crash_loops(evidence, participant, sessions, (config.validity(), now));
        let known = participant.known().map(|known| &**known);
        self.failing.forget(now, known);
        evidence.failures = self.failing.failures(now);
        evidence.kept_enough = self.failing.kept_enough(now, known);
        let joins = !evidence.joining.is_empty();
        let since = joins.then(|| self.joining_since.unwrap_or(now));
        let left = since.map(|since| config.rebalance_delay.saturating_sub(now.since(since)));
        // If a member has died, the joining members do not wait, because they can take over the
        // partitions of the dead member.
        let waits = left.filter(|left| !left.is_zero() && evidence.ended.is_empty());
        self.joining_since = since.filter(|_| waits.is_some());
        if waits.is_some() {
            evidence.joining.clear();
        }
        waits
    }

    /// Removes the joining sessions that must wait: silent sessions, and sessions of a name whose
    /// earlier sessions ended soon after they were added (GC7).
    fn delay_crash_loops(
        &mut self,
        evidence: &mut Evidence,
        participant: &Participant,
        sessions: &KnownSessions,
        (validity, now): (Duration, Moment),
    ) {
        let known = participant.known();
        let (own, loops, timers) =
            (participant.own_session(), &mut self.crash_loops, &sessions.timers);
        if let Some(known) = known {
            let sessions = participant.sessions();
            let resigned = |record: &SessionRecord| record.ended == Some(EpochEnd::Resigned);
            let ended_unresigned = |session: Session| {
                sessions.has_ended(session) && !sessions.record(session.id).is_some_and(resigned)
            };
            loops.note(known, ended_unresigned, validity, now);
        }
        let joining = &evidence.joining;
        loops.forget_all_but(|session| joining.iter().any(|it| it.session == session));
        // If partitions are reserved for the name of a joining session, the session does not wait,
        // because these partitions would move to other members during the wait. If many earlier
        // sessions of the name ended soon after they were added, the session waits nevertheless,
        // and the partitions may move.
        let is_kept_for = |name: &str| {
            let mut kept =
                known.iter().flat_map(|it| &it.partitions).filter_map(|it| it.kept.as_ref());
            kept.any(|(kept, _)| **kept == *name)
        };
        evidence.joining.retain(|it| {
            let waits = |loops: &mut CrashLoops| {
                timers.is_silent(it.session.id)
                    || loops.delays(it.session, &it.name, validity, now)
                        && (!is_kept_for(&it.name) || loops.are_frequent(&it.name))
            };
            it.session == own || !waits(loops)
        });
    }
}
