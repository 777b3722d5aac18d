//! The succession: each member watches the coordinator, and one of them replaces a dead coordinator
//! (GN1 to GN5).

use std::sync::Arc;
use std::time::Duration;

use super::MemberTask;
use super::requests::READ_BETWEEN_POLLS;
use crate::objects::Seen;
use crate::protocol::Session;
use crate::protocol::message::SessionAnswer;
use crate::protocol::standby::{Place, Standby};

/// Number of sessions that a member reads at the same time after the coordinator's end. The member
/// reads them to find out whether live members precede it in the order of succession.
const READ_BEFORE: usize = 3;

impl MemberTask {
    /// Records the coordinator of the newest assignment.
    pub(super) fn follow_coordinator(&mut self) {
        let known = self.participant.known();
        let coordinator = known.and_then(|known| known.coordinator);
        if self.standby.coordinator() != coordinator {
            let cx = &self.cx;
            let member = coordinator.and_then(|it| known?.member(it));
            let validity = member.map_or(self.config.validity(), |it| it.validity);
            let (now, poll, drift) = (cx.now(), cx.poll_interval(), cx.drift());
            self.standby = Standby::new(coordinator, validity, poll, drift, now);
            self.delay = cx.jitter(cx.poll_interval());
        }
    }

    /// Reads the coordinator's session if a read is due. Returns zero if this member must plan now.
    /// If the next read comes before the next poll, returns the time until that read.
    pub(super) async fn stand_by(&mut self) -> Option<Duration> {
        let cx = Arc::clone(&self.cx);
        let place = self.place();
        // Read the clock before the requests. So if the session lapses during the requests, the
        // next read follows without a pause.
        let began = cx.now();
        if self.standby.is_due(place, began)
            && let Some(coordinator) = self.standby.coordinator()
        {
            let unless = self.standby.tag().cloned();
            let (seen, when) = self.objects.read_session(coordinator.id, unless).await;
            match seen {
                Seen::Unchanged => {
                    self.standby.unchanged(when);
                    if let Some(tag) = self.standby.tag() {
                        self.sessions.timers.unchanged(coordinator.id, tag, when);
                    }
                }
                Seen::Unknown => self.report.unread = true,
                // Record this read in the timers. If this member later becomes the coordinator, its
                // first round uses these timers.
                seen => match self.note(coordinator.id, seen, when) {
                    SessionAnswer::Found(_, record) => self.standby.read(Some(&record), when),
                    _ => self.standby.read(None, when),
                },
            }
        }
        let mut before = self.before();
        // If the coordinator has lapsed and this member is the first in the order of succession,
        // this function sends no LIST. The member makes a plan now, and the first step of a plan
        // reads the sessions.
        let turn = self.standby.is_over() && before.is_empty();
        if self.standby.is_silent(cx.now()) && !turn {
            self.sessions.watch_members(self.participant.known().map(|it| &**it));
            self.list_all().await;
            if let Some(coordinator) = self.standby.coordinator()
                && self.sessions.timers.lapsed(coordinator.id).is_some()
            {
                self.standby.lapsed(cx.now());
            }
            if before.iter().all(|session| self.sessions.timers.is_silent(session.id)) {
                self.read_ahead().await;
            }
            if self.standby.is_over() {
                before = self.living(before).await;
            }
        }
        match self.standby.ahead_in(place, before.len(), self.delay, cx.now()) {
            Some(Duration::ZERO) if self.ownership.is_leaving() => None,
            Some(Duration::ZERO) => {
                self.participant.go_ahead();
                Some(Duration::ZERO)
            }
            None => self.standby.next_look(began),
            // Joining members share one place in the order of succession, so they wait for their
            // next poll. The first of them that polls makes a plan, and the others then read its
            // assignment.
            ahead => ahead.filter(|_| matches!(place, Place::Deputy | Place::Other)),
        }
    }

    /// Returns the members that precede this member in the order of succession.
    fn before(&self) -> Vec<Session> {
        let (own, known) = (self.ownership.session, self.participant.known());
        let successors = known.into_iter().flat_map(|known| known.successors());
        successors.take_while(|session| *session != own).collect()
    }

    /// Removes from `before` the members that are not alive. The timer of a session does not show a
    /// resignation: a resigned member counts as alive until its next renewal would be overdue. So
    /// this function reads the sessions of the first remaining members.
    async fn living(&mut self, mut before: Vec<Session>) -> Vec<Session> {
        let now = self.cx.now();
        loop {
            before.retain(|session| !self.sessions.timers.is_silent(session.id));
            let first = before.iter().map(|session| session.id).take(READ_BEFORE);
            let first: Vec<_> = first.filter(|id| !self.sessions.timers.rests(*id, now)).collect();
            for (id, seen, when) in self.objects.read_sessions(first.clone()).await {
                self.note(id, seen, when);
            }
            // A member in `first` that is not silent takes over before this member.
            if first.is_empty() || first.iter().any(|id| !self.sessions.timers.is_silent(*id)) {
                return before;
            }
        }
    }

    /// Reads the sessions that the first round of this member would need. The reads happen before
    /// the coordinator lapses, because a group may have many ended sessions, and reading them takes
    /// time. After one poll interval, this function stops, even if some sessions are not read.
    async fn read_ahead(&mut self) {
        let cx = Arc::clone(&self.cx);
        let began = cx.now();
        let known = self.participant.known().map(|it| &**it);
        let listed = self.sessions.listing.iter().flat_map(|(listing, _)| listing.keys().copied());
        let listed: Vec<_> = listed.filter(|id| !self.sessions.bodies.contains_key(id)).collect();
        let unread =
            listed.into_iter().filter(|id| self.sessions.known_answer(*id, known).is_none());
        let unread: Vec<_> = unread.filter(|id| !self.sessions.timers.rests(*id, began)).collect();
        for some in unread.chunks(READ_BETWEEN_POLLS) {
            if cx.now().since(began) >= cx.poll_interval() {
                return;
            }
            for (id, seen, when) in self.objects.read_sessions(some.iter().copied()).await {
                self.note(id, seen, when);
            }
        }
    }

    fn place(&self) -> Place {
        match self.participant.known() {
            None => Place::First,
            Some(known) if known.member(self.ownership.session).is_none() => Place::Joining,
            Some(known) if known.is_deputy(self.ownership.session) => Place::Deputy,
            Some(_) => Place::Other,
        }
    }

    /// Lists all sessions. The listing starts the timers of the sessions, because other members may
    /// have died at the same time as the coordinator.
    async fn list_all(&mut self) {
        let mut after = None;
        while let Some(page) = self.objects.list_sessions(after).await {
            let complete = self.sessions.listed(after, &page).is_some();
            after = page.sessions.last().map(|(id, _)| *id);
            if complete {
                return;
            }
        }
    }
}
