//! The task of a member: follows the assignment, and plans where it is its turn.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::config::GroupConfig;
use super::membership::MembershipEvent;
use super::memory::Memory;
use super::objects::{Bodies, Objects, Seen};
use super::shared::Shared;
use crate::driver::FAILURES_BEFORE_GIVING_UP;
use crate::epoch::Epoch;
use crate::etag::ETag;
use crate::leadership::{Leadership, LeadershipEvent, Loss};
use crate::moment::Moment;
use crate::protocol::group::coordinator::{Answer, Request};
use crate::protocol::group::looks::{Looks, When};
use crate::protocol::group::participant::Step;
use crate::protocol::group::standby::{Place, Standby};
use crate::protocol::group::{Session, SessionId};
use crate::timer::sleep;

/// Every reader lists as often at least: its next number may have come and been compacted while it
/// slept (docs/groups.md, section 3).
pub(super) const LIST_EVERY: Duration = Duration::from_secs(600);

/// Follows the assignment for one member, and plans.
pub(super) struct MemberTask {
    pub(super) shared: Arc<Shared>,
    pub(super) config: Arc<GroupConfig>,
    pub(super) objects: Objects,
    pub(super) looks: Looks,
    standby: Standby,
    /// Before it goes ahead of a coordinator that is over: random, as before a seal.
    delay: Duration,
    pub(super) bodies: Bodies,
    /// The pages of the listing that is under way.
    listing: Option<(BTreeMap<SessionId, Option<ETag>>, Moment)>,
    /// The greatest assignment epoch that any session has said to have seen.
    seen: Option<Epoch>,
    /// When it listed the assignments last.
    listed: Moment,
    /// Since when members wait to be added.
    pub(super) joining_since: Option<Moment>,
    /// Whom not to give a partition, and until when.
    pub(super) memory: Memory,
    /// The last look was completed: others can tell one that is wedged.
    pub(super) looked: bool,
    /// The failure that was told last, since a look was completed.
    told: Option<String>,
}

impl MemberTask {
    pub(super) fn new(shared: &Arc<Shared>, config: &Arc<GroupConfig>) -> MemberTask {
        let cx = &shared.cx;
        let (now, validity) = (cx.process.now(), config.validity());
        MemberTask {
            shared: Arc::clone(shared),
            config: Arc::clone(config),
            objects: Objects::new(cx),
            looks: Looks::new(cx.config.drift),
            standby: Standby::new(None, validity, cx.config.drift, now),
            delay: cx.process.jitter(cx.config.poll_interval),
            bodies: Bodies::new(),
            listing: None,
            seen: None,
            listed: now,
            joining_since: None,
            memory: Memory::default(),
            looked: false,
            told: None,
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
            () = self.follow(&leadership) => None,
        };
        let loss = match loss {
            Some(loss) => loss,
            None => {
                let park = shared.park();
                if let Err(error) = leadership.resign_and_park(park).await {
                    let group = shared.cx.keys.prefix();
                    tracing::warn!(group, %error, "could not resign the session; it lapses");
                }
                Loss::Resigned
            }
        };
        shared.lost(loss);
    }

    /// Ends the sessions of predecessors of the same name, whose process is gone by the promise that
    /// names are unique, and asks for what they owned.
    async fn reclaim(&mut self) {
        let own = self.shared.session;
        let known = self.shared.state().participant.known().cloned();
        let name = self.shared.cx.config.name.clone();
        let members = known.iter().flat_map(|known| &known.members);
        let namesakes = members.filter(|it| *it.name == *name && it.session != own);
        let namesakes: Vec<_> = namesakes.map(|it| it.session).collect();
        let ids: Vec<_> = namesakes.iter().map(|it| it.id).collect();
        for (id, seen, when) in self.objects.read_sessions(ids).await {
            let live = matches!(&seen, Seen::Session(body) if body.record().ended.is_none());
            self.note(id, seen, when);
            if let Some(session) = namesakes.iter().find(|it| it.id == id && live) {
                self.seal(*session, Some(&name)).await;
            }
        }
    }

    /// Returns once it has left.
    async fn follow(&mut self, leadership: &Leadership) {
        let process = self.shared.cx.process.clone();
        if self.shared.cx.config.name_is_unique && self.drive().await {
            self.reclaim().await;
        }
        loop {
            let began = process.now();
            self.looked = false;
            let again = self.look().await;
            if self.looked {
                self.shared.state().looks += 1;
                self.told = None;
            }
            self.shared.carry(leadership);
            if self.shared.has_left() {
                return;
            }
            let poll = self.shared.cx.config.poll_interval;
            let next = began.boot.saturating_add(again.map_or(poll, |again| again.min(poll)));
            let delay = next.saturating_sub(process.now().boot);
            tokio::select! {
                biased;
                () = self.shared.wake.notified() => {
                    if self.shared.has_left() {
                        return;
                    }
                }
                () = sleep(&process, delay) => {}
            }
        }
    }

    /// One look at the store. Returns how soon to look again, if sooner than at the next poll.
    async fn look(&mut self) -> Option<Duration> {
        let now = self.shared.cx.process.now();
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
        if !self.shared.state().participant.coordinates() && !self.stand_by().await {
            self.looked = true;
            return None;
        }
        self.round().await
    }

    /// Lists the assignments, if a session has said that it has seen a greater one than the polls
    /// show: the next number came and was compacted while this process slept.
    async fn catch_up(&mut self) -> bool {
        {
            let mut state = self.shared.state();
            let known = state.participant.known().map(|known| known.epoch);
            if known.is_none() || known >= self.seen {
                return true;
            }
            state.participant.confirm();
        }
        self.listed = self.shared.cx.process.now();
        self.drive().await
    }

    /// Carries out what the machine asks for. False: something failed for now.
    pub(super) async fn drive(&mut self) -> bool {
        loop {
            let step = self.shared.state().participant.step();
            match step {
                Step::Idle => return true,
                Step::Nonce => {
                    let nonce = self.shared.cx.process.nonce();
                    self.shared.state().participant.nonce(nonce);
                }
                Step::Pause => {
                    if self.objects.have_failed(FAILURES_BEFORE_GIVING_UP) {
                        self.report();
                        self.shared.state().participant.give_up();
                        if self.shared.state().participant.step() != Step::Pause {
                            return false;
                        }
                    }
                    sleep(&self.shared.cx.process, self.objects.retry_delay()).await;
                    self.shared.state().participant.resume();
                }
                Step::Failed(failure) => {
                    let error = self.objects.explain(failure);
                    self.tell(error);
                    self.shared.state().participant.restart();
                    return false;
                }
                Step::Assignment(request) => match self.objects.assignment(&request).await {
                    Some(answer) => {
                        let mut state = self.shared.state();
                        let (_, changes) = state.participant.assignment(answer);
                        self.shared.apply(&mut state, changes);
                    }
                    None => {
                        self.shared.state().participant.discard();
                        self.report();
                        return false;
                    }
                },
                Step::Sessions(request) => {
                    if !self.sessions(request).await {
                        return false;
                    }
                }
            }
        }
    }

    fn report(&mut self) {
        if let Some(error) = self.objects.failure() {
            self.tell(error);
        }
    }

    pub(super) fn tell(&mut self, error: crate::Error) {
        let words = error.to_string();
        if self.told.as_ref() != Some(&words) {
            self.told = Some(words);
            self.shared.failed(error);
        }
    }

    /// Asks about the sessions. False: something failed for now, and the next round begins anew.
    async fn sessions(&mut self, request: Request) -> bool {
        match request {
            Request::List(after) => self.list(after).await,
            Request::Get(ids) => {
                for (id, seen, when) in self.objects.read_sessions(ids).await {
                    let answer = self.note(id, seen, when);
                    let known = answer != Answer::Unknown;
                    self.shared.state().participant.session(answer);
                    if !known {
                        return false;
                    }
                }
                true
            }
            Request::Seal { session, .. } => {
                let answer = self.seal(session, None).await;
                let done = answer == Answer::Done;
                self.shared.state().participant.session(answer);
                // What is not known is read back.
                if !done {
                    sleep(&self.shared.cx.process, self.objects.retry_delay()).await;
                }
                true
            }
        }
    }

    async fn list(&mut self, after: Option<SessionId>) -> bool {
        let Some(page) = self.objects.list_sessions(after).await else {
            self.shared.state().participant.session(Answer::Unknown);
            return false;
        };
        if after.is_none() {
            self.listing = Some((BTreeMap::new(), page.when.sent));
        }
        if let Some((listing, sent)) = &mut self.listing {
            listing.extend(page.sessions.iter().cloned());
            if !page.truncated {
                let when = When { sent: *sent, received: page.when.received };
                self.looks.listed(listing, when);
                let listed: BTreeSet<_> = listing.keys().copied().collect();
                self.shared.state().participant.forget(&listed);
                let state = self.shared.state();
                let known = state.participant.known();
                let members = known.iter().flat_map(|it| &it.members).map(|it| it.session.id);
                let members: BTreeSet<_> = members.collect();
                self.bodies.retain(|id, _| listed.contains(id) || members.contains(id));
                // What has ended and is no member is not read again.
                let ended = |id: &&SessionId| {
                    self.bodies.get(*id).is_some_and(|body| body.record().ended.is_some())
                };
                let live = listed.iter().filter(|id| !ended(id)).copied();
                self.looks.keep(&live.chain(members.iter().copied()).collect());
            }
        }
        let (sessions, truncated) = (page.sessions, page.truncated);
        self.shared.state().participant.session(Answer::Listed { sessions, truncated });
        true
    }

    /// Takes note of one look at a session.
    fn note(&mut self, id: SessionId, seen: Seen, when: When) -> Answer {
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
                self.bodies.insert(id, *body);
                Answer::Found(id, record)
            }
            Seen::Foreign => {
                self.looks.foreign(id, when);
                self.bodies.remove(&id);
                Answer::Missing(id)
            }
            Seen::Missing => {
                if let Some(session) = session {
                    self.looks.read(session, None, when);
                }
                self.bodies.remove(&id);
                Answer::Missing(id)
            }
            Seen::Unchanged | Seen::Unknown => Answer::Unknown,
        }
    }

    /// The session of this id, as the assignment names it.
    fn expected(&self, id: SessionId) -> Option<Session> {
        self.shared.state().participant.known().and_then(|known| known.session(id))
    }

    /// Ends a session as lapsed, as it was read last.
    async fn seal(&mut self, session: Session, successor: Option<&str>) -> Answer {
        let Some(body) = self.bodies.get(&session.id) else { return Answer::Refused };
        let (etag, cx) = (body.record().etag, &self.shared.cx);
        let sealed = body.sealed(&cx.config.name, successor, cx.process.now().time_of_day());
        match self.objects.seal(session.id, sealed, etag).await {
            crate::protocol::group::reader::Answer::Done => Answer::Done,
            crate::protocol::group::reader::Answer::Refused => Answer::Refused,
            _ => Answer::Unknown,
        }
    }

    /// Takes note of who coordinates by now.
    fn follow_coordinator(&mut self) {
        let known = self.shared.state().participant.known().cloned();
        let coordinator = known.as_ref().and_then(|known| known.coordinator);
        if self.standby.coordinator() != coordinator {
            let cx = &self.shared.cx;
            let member = |it: &Session| known.as_ref().and_then(|known| known.member(*it)).cloned();
            let validity = coordinator.as_ref().and_then(member).map(|it| it.validity);
            let validity = validity.unwrap_or_else(|| self.config.validity());
            let now = cx.process.now();
            self.standby = Standby::new(coordinator, validity, cx.config.drift, now);
            self.delay = cx.process.jitter(cx.config.poll_interval);
        }
    }

    /// Looks at the coordinator. True: it is over, and it is this member's turn to plan.
    async fn stand_by(&mut self) -> bool {
        let process = self.shared.cx.process.clone();
        let place = self.place();
        let now = process.now();
        if self.standby.is_due(place, now)
            && let Some(coordinator) = self.standby.coordinator()
        {
            let unless = self.standby.tag().cloned();
            let (seen, when) = self.objects.read_session(coordinator.id, unless).await;
            match seen {
                Seen::Unchanged => self.standby.unchanged(when),
                Seen::Session(body) => {
                    let record = body.record();
                    self.seen = self.seen.max(record.data.as_ref().and_then(|data| data.seen));
                    self.standby.read(Some(&record), when);
                }
                Seen::Foreign | Seen::Missing => self.standby.read(None, when),
                Seen::Unknown => {}
            }
        }
        if self.standby.lists(place, now) {
            self.watch_members();
            self.list_all().await;
        }
        let poll = self.shared.cx.config.poll_interval;
        let ahead = self.standby.ahead_in(place, poll, self.delay, process.now());
        let turn = ahead == Some(Duration::ZERO) && !self.shared.is_leaving();
        if turn {
            self.shared.state().participant.go_ahead();
        }
        turn
    }

    fn place(&self) -> Place {
        let state = self.shared.state();
        match state.participant.known() {
            // Nobody is behind anybody yet; the random delay tells them apart.
            None => Place::Deputy(0),
            Some(known) => known.deputy(self.shared.session).map_or(Place::Other, Place::Deputy),
        }
    }

    /// So that the timers of those that died together with the coordinator run.
    async fn list_all(&mut self) {
        let (mut after, mut listing, mut sent) = (None, BTreeMap::new(), None);
        while let Some(page) = self.objects.list_sessions(after).await {
            let sent = *sent.get_or_insert(page.when.sent);
            after = page.sessions.last().map(|(id, _)| *id);
            listing.extend(page.sessions);
            if !page.truncated {
                self.looks.listed(&listing, When { sent, received: page.when.received });
                return;
            }
        }
    }
}

/// Tells the application of each risk. Never returns.
async fn report_risks(
    shared: &Shared,
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
