//! The task of a member: follows the assignment, and plans where it is its turn.

mod coordinator;
mod crash_loops;
mod failing_partitions;
mod sessions;
mod succession;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::mpsc;

use crate::Group;
use crate::config::GroupConfig;
use crate::ended_sessions::EndedSessions;
use crate::membership::MembershipEvent;
use crate::objects::{Bodies, Objects, Seen};
use crate::ownership::Ownership;
use crate::protocol::message::{News, ParticipantStep, SessionAnswer};
use crate::protocol::session_timers::SessionTimers;
use crate::protocol::standby::Standby;
use crate::protocol::{Session, SessionId};
use crate::telemetry::GroupSight;
use crash_loops::CrashLoops;
use failing_partitions::FailingPartitions;
use sessions::SessionEnd;
use tenure::Epoch;
use tenure::Moment;
use tenure::internals::groups::Requests;
use tenure::store::ETag;
use tenure::{Leadership, LeadershipEvent, Loss};

/// Every reader lists as often at least: its next number may have come and been compacted while it
/// slept (docs/design/groups.md, section 3).
pub(super) const LIST_EVERY: Duration = Duration::from_secs(600);

/// Follows the assignment for one member, and plans.
pub(super) struct MemberTask {
    // The member and its surroundings.
    shared: Arc<Ownership>,
    config: Arc<GroupConfig>,
    /// Sessions that this process lost, and whose work has returned.
    former: Vec<Session>,
    objects: Objects,

    // Time.
    looks: SessionTimers,
    standby: Standby,
    /// Random delay before it takes over from a coordinator that has ended.
    delay: Duration,
    /// Time of the last listing of the assignments.
    listed: Moment,
    /// Start of the wait of members that are not added yet.
    joining_since: Option<Moment>,

    // The sessions of the last listings and reads.
    /// The sessions that were read, except ended ones of other processes than members.
    bodies: Bodies,
    /// The ended sessions that any membership of this process has read.
    ended: Arc<EndedSessions>,
    /// The pages of the listing that is under way.
    listing: Option<(BTreeMap<SessionId, Option<ETag>>, Moment)>,
    /// The greatest assignment epoch that any session has seen.
    seen: Option<Epoch>,
    /// Sessions with a failed read since the last read that was answered.
    unreadable: BTreeSet<SessionId>,
    /// Sessions that have lapsed and could not be sealed, the next to be tried first.
    stuck: VecDeque<Session>,
    /// Objects among the sessions that are no sessions, with their tags at the read.
    foreign: BTreeMap<SessionId, ETag>,

    // Advice for the plan.
    /// Failures of partitions at members.
    memory: FailingPartitions,
    relapses: CrashLoops,

    // Outcome of the last look, and reports.
    /// The last look was completed: other members can detect one that is wedged.
    looked: bool,
    /// A session could not be read or sealed in this look.
    unread: bool,
    /// Looks in a row with such a session.
    unread_looks: u32,
    /// The last assignment was too large to be written.
    too_large: bool,
    /// The failure that was reported last, since a look was completed.
    told: Option<String>,
    sight: GroupSight,
}

impl MemberTask {
    pub(super) fn new(shared: &Arc<Ownership>, group: &Group, former: Vec<Session>) -> MemberTask {
        let (cx, config) = (&shared.cx, &group.config);
        let (now, drift) = (cx.now(), cx.drift());
        let (validity, poll) = (config.validity(), cx.poll_interval());
        MemberTask {
            shared: Arc::clone(shared),
            config: Arc::clone(config),
            former,
            objects: Objects::new(cx),
            looks: SessionTimers::new(drift, poll),
            standby: Standby::new(None, validity, poll, drift, now),
            delay: cx.jitter(cx.poll_interval()),
            bodies: Bodies::new(),
            ended: Arc::clone(&group.ended),
            listing: None,
            seen: None,
            listed: now,
            joining_since: None,
            memory: FailingPartitions::default(),
            relapses: CrashLoops::default(),
            looked: false,
            unread: false,
            unread_looks: 0,
            unreadable: BTreeSet::new(),
            stuck: VecDeque::new(),
            foreign: BTreeMap::new(),
            too_large: false,
            told: None,
            sight: group.followers.member(cx.meter()),
        }
    }

    /// Runs until the session is over: lost, or resigned after a leave.
    pub(super) async fn run(mut self, leadership: Leadership, mut alive: mpsc::Receiver<()>) {
        let shared = Arc::clone(&self.shared);
        let mut news = leadership.events();
        let loss = tokio::select! {
            biased;
            loss = leadership.lost() => Some(loss),
            () = shared.write(&leadership) => None,
            () = report_risks(&shared, &mut news) => None,
            // The application has let go of its membership.
            _ = alive.recv() => return shared.lost(Loss::Resigned),
            () = shared.left() => None,
            followed = AssertUnwindSafe(self.follow(&leadership)).catch_unwind() => match followed {
                Err(_) => return panicked(&shared, leadership).await,
            },
        };
        let loss = match loss {
            Some(loss) => loss,
            None => {
                let park = shared.park();
                // The seal keeps the greatest assignment that this member has seen.
                shared.carry(&leadership);
                if let Err(error) = leadership.resign_reserving(park).await {
                    let group = shared.cx.prefix();
                    tracing::warn!(group, %error, "could not resign the session; it lapses");
                }
                Loss::Resigned
            }
        };
        shared.lost(loss);
    }

    /// Ends the former sessions of this process, and the sessions of predecessors of the same name:
    /// by the promise that names are unique their processes are gone, and this one asks for their
    /// partitions. False: something failed for now.
    async fn end_predecessors(&mut self) -> bool {
        let (own, unique) = (self.shared.session, self.shared.cx.name_is_unique());
        let known = self.shared.state().participant.known().cloned();
        let name = self.shared.cx.name().to_owned();
        let members = known.iter().flat_map(|known| &known.members).filter(|_| unique);
        let namesakes = members.filter(|it| *it.name == name && it.session != own);
        let former = self.former.iter().map(|it| (*it, SessionEnd::Resigned));
        let reclaimed = namesakes.map(|it| (it.session, SessionEnd::Reclaimed));
        let ends: BTreeMap<Session, SessionEnd> = former.chain(reclaimed).collect();
        let ids: Vec<_> = ends.keys().map(|it| it.id).collect();
        let mut done = true;
        for (id, seen, when) in self.objects.read_sessions(ids).await {
            let live = match &seen {
                Seen::Session(body) => body.record().ended.is_none().then(|| body.session(id)),
                _ => None,
            };
            done &= self.note(id, seen, when) != SessionAnswer::Unknown;
            // Another nonce there is another session.
            if let Some(session) = live
                && let Some(end) = ends.get(&session)
            {
                done &= self.seal(session, *end).await == SessionAnswer::Done;
            }
        }
        done
    }

    /// Never returns.
    async fn follow(&mut self, leadership: &Leadership) -> Infallible {
        let cx = Arc::clone(&self.shared.cx);
        let mut has_predecessors = self.shared.cx.name_is_unique() || !self.former.is_empty();
        loop {
            if has_predecessors && self.drive().await {
                has_predecessors = !self.end_predecessors().await;
            }
            let began = cx.now();
            self.looked = false;
            let again = self.look().await;
            if self.looked {
                self.shared.state().looks += 1;
            }
            if self.unread {
                self.unread_looks += 1;
                if self.unread_looks >= Requests::FAILURES_BEFORE_GIVING_UP {
                    self.report();
                }
            } else if self.looked {
                self.unread_looks = 0;
                if !self.too_large {
                    self.told = None;
                }
            }
            self.shared.count_coordinator();
            self.sight.polled(self.looked && !self.unread && !self.too_large);
            self.shared.carry(leadership);
            let poll = self.shared.cx.poll_interval();
            let next = began.boot.saturating_add(again.map_or(poll, |again| again.min(poll)));
            let delay = next.saturating_sub(cx.now().boot);
            tokio::select! {
                biased;
                () = self.shared.wake.notified() => {}
                () = cx.sleep(delay) => {}
            }
        }
    }

    /// One look at the store. Returns how soon to look again, if sooner than at the next poll.
    async fn look(&mut self) -> Option<Duration> {
        (self.too_large, self.unread) = (false, false);
        let now = self.shared.cx.now();
        let coordinates = self.shared.state().participant.coordinates();
        let every = if coordinates { self.config.validity() } else { LIST_EVERY };
        if now.since(self.listed) >= every.min(LIST_EVERY) {
            self.shared.state().participant.confirm();
            self.listed = now;
        } else {
            self.shared.state().participant.poll();
        }
        if !self.drive().await || !self.catch_up().await {
            return None;
        }
        self.follow_coordinator();
        if !self.shared.state().participant.coordinates() {
            self.relapses.stop();
            self.unreadable.clear();
            let again = self.stand_by().await;
            if again != Some(Duration::ZERO) {
                self.looked = true;
                return again;
            }
        }
        let again = self.round().await;
        [again, self.looks.until_lapse(now)].into_iter().flatten().min()
    }

    /// Lists the assignments, if a session has said that it has seen a greater one than the polls
    /// show: the next number came and was compacted while this process slept.
    async fn catch_up(&mut self) -> bool {
        {
            let mut state = self.shared.state();
            state.participant.expect(self.seen);
            if state.participant.greatest().is_none() || !state.participant.is_behind() {
                return true;
            }
            state.participant.confirm();
        }
        self.listed = self.shared.cx.now();
        self.drive().await
    }

    /// Carries out what the machine asks for. False: something failed for now.
    pub(super) async fn drive(&mut self) -> bool {
        loop {
            let step = self.shared.state().participant.step();
            match step {
                ParticipantStep::Idle => return true,
                ParticipantStep::Nonce => {
                    let nonce = self.shared.cx.nonce();
                    self.shared.state().participant.nonce(nonce);
                }
                ParticipantStep::Pause => {
                    if self.objects.have_failed(Requests::FAILURES_BEFORE_GIVING_UP) {
                        self.report();
                        self.shared.state().participant.give_up();
                        return false;
                    }
                    self.shared.cx.sleep(self.objects.retry_delay()).await;
                    self.shared.state().participant.resume();
                }
                ParticipantStep::Failed(failure) => {
                    let error = self.objects.explain(failure);
                    self.tell(error);
                    self.shared.state().participant.restart();
                    return false;
                }
                ParticipantStep::Assignment(request) => {
                    match self.objects.assignment(&request).await {
                        Some(answer) => {
                            let mut state = self.shared.state();
                            let (news, changes) = state.participant.assignment(answer);
                            self.shared.cx.learn(state.participant.greatest());
                            if let (Some(News::Read | News::Confirmed), Some(known)) =
                                (news, state.participant.known())
                            {
                                self.sight.sees(known);
                            }
                            self.shared.apply(&mut state, changes);
                        }
                        None => {
                            self.shared.state().participant.discard();
                            self.too_large = true;
                            self.report();
                            return false;
                        }
                    }
                }
                ParticipantStep::Sessions(request) => {
                    if !self.sessions(request).await {
                        return false;
                    }
                }
            }
        }
    }

    pub(super) fn report(&mut self) {
        if let Some(error) = self.objects.failure() {
            self.tell(error);
        }
    }

    pub(super) fn tell(&mut self, error: tenure::Error) {
        let words = error.to_string();
        if self.told.as_ref() != Some(&words) {
            self.told = Some(words);
            self.shared.failed(error);
        }
    }
}

/// A bug, such as one of the assignor. Work may still be running, so the session lapses; the
/// application joins anew only then, and not again and again.
async fn panicked(shared: &Ownership, leadership: Leadership) {
    tracing::error!(group = shared.cx.prefix(), "the task of a member panicked: it is lost");
    drop(leadership);
    shared.cx.sleep(shared.cx.validity()).await;
    shared.lost(Loss::Resigned);
}

/// Tells the application of each risk. Never returns.
async fn report_risks(
    shared: &Ownership,
    news: &mut (impl futures::Stream<Item = LeadershipEvent> + Unpin),
) {
    use futures::StreamExt as _;
    while let Some(event) = news.next().await {
        if let LeadershipEvent::AtRisk { remaining, .. } = event {
            shared.tell(MembershipEvent::AtRisk { remaining });
        }
    }
    std::future::pending().await
}
