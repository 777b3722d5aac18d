//! The task of a member. The task reads each new assignment, and plans assignments while the member
//! is the coordinator.

mod coordinator_rounds;
mod coordinator_succession;
mod crash_loops;
mod failing_partitions;
mod known_sessions;
mod plan_advice;
mod poll_report;
mod requests;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::mpsc;

use crate::Group;
use crate::config::GroupConfig;
use crate::objects::{LIST_EVERY, Objects, Seen};
use crate::ownership::{Notice, Ownership};
use crate::protocol::Session;
use crate::protocol::message::SessionAnswer;
use crate::protocol::participant::Participant;
use crate::protocol::session_timers::SessionTimers;
use crate::protocol::standby::Standby;
use known_sessions::KnownSessions;
use plan_advice::PlanAdvice;
use poll_report::PollReport;
use tenure::internals::groups::Context;
use tenure::{EpochEnd, Leadership, LeadershipEvent, Loss, Moment};

/// The task of one member. Only this task reads the assignments and the sessions, and plans. It
/// shares only the [`Ownership`] with the application's handles.
pub(super) struct MemberTask {
    cx: Arc<Context>,
    config: Arc<GroupConfig>,
    ownership: Arc<Ownership>,
    /// Lost sessions of this process. All work under them has returned.
    former: Vec<Session>,
    objects: Objects,

    // The state machines.
    participant: Participant,
    standby: Standby,
    sessions: KnownSessions,
    advice: PlanAdvice,

    /// Random delay before a takeover, for a member that is not in the order of succession.
    delay: Duration,
    /// Time of the last listing of the assignments.
    listed: Moment,
    report: PollReport,
    /// Whether this member has logged that it waits for another member to create the group.
    waits: bool,
}

impl MemberTask {
    pub(super) fn new(
        ownership: &Arc<Ownership>,
        group: &Group,
        former: Vec<Session>,
    ) -> MemberTask {
        let (cx, config) = (&ownership.cx, &group.config);
        let (now, drift) = (cx.now(), cx.drift());
        let (validity, poll) = (config.validity(), cx.poll_interval());
        let timers = SessionTimers::new(drift, poll);
        MemberTask {
            cx: Arc::clone(cx),
            config: Arc::clone(config),
            ownership: Arc::clone(ownership),
            former,
            objects: Objects::new(cx),
            participant: Participant::new(ownership.session, cx.greatest()),
            standby: Standby::new(None, validity, poll, drift, now),
            sessions: KnownSessions::new(timers, Arc::clone(&group.ended), validity),
            advice: PlanAdvice::default(),
            delay: cx.jitter(poll),
            listed: now,
            report: PollReport::new(group.followers.member(cx.meter())),
            waits: false,
        }
    }

    /// Runs until the session is lost, or resigned after a leave.
    pub(super) async fn run(mut self, leadership: Leadership, mut alive: mpsc::Receiver<()>) {
        let ownership = Arc::clone(&self.ownership);
        let mut news = leadership.events();
        let loss = tokio::select! {
            biased;
            loss = leadership.lost() => Some(loss),
            () = ownership.write(&leadership) => None,
            () = report_risks(&ownership, &mut news) => None,
            // The application has dropped its membership.
            _ = alive.recv() => return ownership.lost(Loss::Resigned),
            () = ownership.left() => None,
            followed = AssertUnwindSafe(self.follow(&leadership)).catch_unwind() => match followed {
                Err(_) => return panicked(&ownership, leadership).await,
            },
        };
        let loss = match loss {
            Some(loss) => loss,
            None => {
                let park = ownership.park();
                // Update the data of the session before the resignation, because the seal keeps the
                // greatest assignment that this member has seen.
                ownership.carry(&leadership);
                if let Err(error) = leadership.resign_reserving(park).await {
                    let group = ownership.cx.prefix();
                    tracing::warn!(group, %error, "could not resign the session, which lapses instead");
                }
                Loss::Resigned
            }
        };
        ownership.lost(loss);
    }

    /// Seals the former sessions of this process. If names are unique, all other processes with the
    /// name of this member are dead, so this function also seals their sessions. The partitions of
    /// these sessions are then reserved for this name (GW7). Returns false if a request failed and
    /// the next poll must try again.
    async fn end_predecessors(&mut self) -> bool {
        let (own, cx) = (self.ownership.session, Arc::clone(&self.cx));
        let members = self.participant.known().into_iter().flat_map(|known| &known.members);
        let namesakes = members.filter(|it| *it.name == *cx.name() && it.session != own);
        let namesakes = namesakes.filter(|_| cx.name_is_unique());
        let reclaimed = namesakes.map(|it| (it.session, (EpochEnd::Lapsed, Some(cx.name()))));
        let former = self.former.iter().map(|it| (*it, (EpochEnd::Resigned, None)));
        let ends: BTreeMap<Session, _> = former.chain(reclaimed).collect();
        let ids: Vec<_> = ends.keys().map(|it| it.id).collect();
        let mut done = true;
        for (id, seen, when) in self.objects.read_sessions(ids).await {
            let live = match &seen {
                Seen::Session(body) => body.record().ended.is_none().then(|| body.session(id)),
                _ => None,
            };
            done &= self.note(id, seen, when) != SessionAnswer::Unknown;
            // An object with the expected id but another nonce belongs to another session. Do not
            // seal it.
            if let Some(session) = live
                && let Some((end, successor)) = ends.get(&session)
            {
                done &= self.seal(session, *end, *successor).await == SessionAnswer::Done;
            }
        }
        done
    }

    /// Polls the store. Never returns.
    async fn follow(&mut self, leadership: &Leadership) -> Infallible {
        let cx = Arc::clone(&self.cx);
        let mut has_predecessors = cx.name_is_unique() || !self.former.is_empty();
        let mut compared = false;
        loop {
            if has_predecessors && self.drive().await {
                has_predecessors = !self.end_predecessors().await;
            }
            let began = cx.now();
            self.report.begin();
            let again = self.poll().await;
            if !compared && let Some(known) = self.participant.known() {
                self.config.compare_partitions(cx.prefix(), known);
                compared = true;
            }
            if self.report.end() {
                self.report_failure();
            }
            self.ownership.polled(self.report.completed, self.participant.coordinates());
            self.ownership.carry(leadership);
            let poll = cx.poll_interval();
            let next = began.boot.saturating_add(again.map_or(poll, |again| again.min(poll)));
            let delay = next.saturating_sub(cx.now().boot);
            tokio::select! {
                biased;
                () = self.ownership.wake.notified() => {}
                () = cx.sleep(delay) => {}
            }
        }
    }

    /// Polls the store once. Returns the time until the next poll, if the next poll must come
    /// before the end of the poll interval.
    async fn poll(&mut self) -> Option<Duration> {
        let now = self.cx.now();
        let coordinates = self.participant.coordinates();
        let every = if coordinates { self.config.validity() } else { LIST_EVERY };
        if now.since(self.listed) >= every.min(LIST_EVERY) {
            self.participant.confirm();
            self.listed = now;
        } else {
            self.participant.poll();
        }
        if !self.drive().await || !self.catch_up().await {
            return None;
        }
        self.follow_coordinator();
        if !self.participant.coordinates() {
            self.advice.crash_loops.stop();
            self.sessions.unreadable.clear();
            let again = self.stand_by().await;
            if again != Some(Duration::ZERO) {
                self.report.completed = true;
                return again;
            }
        }
        let again = self.round().await;
        [again, self.sessions.timers.until_lapse(now)].into_iter().flatten().min()
    }

    /// Lists the assignments if a session has seen a greater assignment than the polls show. In
    /// this case the next assignment was created and compacted between two polls.
    async fn catch_up(&mut self) -> bool {
        self.participant.expect(self.sessions.seen);
        if self.participant.greatest().is_none() || !self.participant.is_behind() {
            return true;
        }
        self.participant.confirm();
        self.listed = self.cx.now();
        self.drive().await
    }

    /// Reports the failure of the last request.
    fn report_failure(&mut self) {
        if let Some(error) = self.objects.failure() {
            self.tell(error);
        }
    }

    fn tell(&mut self, error: tenure::Error) {
        if self.report.is_news(&error) {
            self.ownership.tell(Notice::StoreFailed(error));
        }
    }
}

/// Handles a panic of the task, for example in the assignor. Work may still run, so the session
/// lapses. The application joins again only after the lapse, which limits the rate of new sessions.
async fn panicked(ownership: &Ownership, leadership: Leadership) {
    tracing::error!(
        group = ownership.cx.prefix(),
        "the task of the member panicked: its session lapses"
    );
    drop(leadership);
    ownership.cx.sleep(ownership.cx.validity()).await;
    ownership.lost(Loss::Resigned);
}

/// Reports to the application each time the lease is at risk. Never returns.
async fn report_risks(
    ownership: &Ownership,
    news: &mut (impl futures::Stream<Item = LeadershipEvent> + Unpin),
) {
    use futures::StreamExt as _;
    while let Some(event) = news.next().await {
        if let LeadershipEvent::AtRisk { remaining, .. } = event {
            ownership.tell(Notice::AtRisk(remaining));
        }
    }
    std::future::pending().await
}
