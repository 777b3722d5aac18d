//! What a member that does not coordinate does: it looks whether the coordinator still plans.

use std::collections::BTreeMap;
use std::time::Duration;

use super::member::MemberTask;
use super::objects::Seen;
use crate::protocol::group::Session;
use crate::protocol::group::coordinator::Answer;
use crate::protocol::group::looks::LookTime;
use crate::protocol::group::standby::{Place, Standby};

impl MemberTask {
    /// Takes note of who coordinates by now.
    pub(super) fn follow_coordinator(&mut self) {
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

    /// Looks at the coordinator. Zero: it is over, and it is this member's turn to plan; otherwise
    /// how soon to look again, if sooner than at the next poll.
    pub(super) async fn stand_by(&mut self) -> Option<Duration> {
        let process = self.shared.cx.process.clone();
        let place = self.place();
        let now = process.now();
        if self.standby.is_due(place, now)
            && let Some(coordinator) = self.standby.coordinator()
        {
            let unless = self.standby.tag().cloned();
            let (seen, when) = self.objects.read_session(coordinator.id, unless).await;
            match seen {
                Seen::Unchanged => {
                    self.standby.unchanged(when);
                    if let Some(tag) = self.standby.tag() {
                        self.looks.unchanged(coordinator.id, tag, when);
                    }
                }
                Seen::Unknown => self.unread = true,
                // What a coordinator would have learned, so that this one need not see it lapse
                // anew.
                seen => match self.note(coordinator.id, seen, when) {
                    Answer::Found(_, record) => self.standby.read(Some(&record), when),
                    _ => self.standby.read(None, when),
                },
            }
        }
        if self.standby.lists(place, now) {
            self.watch_members();
            self.list_all().await;
        }
        let place = match place {
            // As if it were the first of them.
            Place::Joining if self.standby.is_over() && !self.deputies_live().await => Place::First,
            place => place,
        };
        let poll = self.shared.cx.config.poll_interval;
        match self.standby.ahead_in(place, poll, self.delay, process.now()) {
            Some(Duration::ZERO) if self.shared.is_leaving() => None,
            Some(Duration::ZERO) => {
                self.shared.state().participant.go_ahead();
                Some(Duration::ZERO)
            }
            None => self.standby.until_lapse(place, now),
            // Of many with one place the first is done by the next poll of the others.
            ahead => ahead.filter(|_| matches!(place, Place::Deputy(_))),
        }
    }

    fn place(&self) -> Place {
        let state = self.shared.state();
        match state.participant.known() {
            None => Place::First,
            Some(known) if known.member(self.shared.session).is_none() => Place::Joining,
            Some(known) => known.deputy(self.shared.session).map_or(Place::Other, Place::Deputy),
        }
    }

    /// Whether some deputy of a coordinator that is over may go ahead. One that could not be read
    /// may.
    async fn deputies_live(&mut self) -> bool {
        let known = self.shared.state().participant.known().cloned();
        let members = known.iter().flat_map(|it| it.members.iter().map(move |m| (it, m.session)));
        let deputies = members.filter(|(known, session)| known.deputy(*session).is_some());
        let ids: Vec<_> = deputies.map(|(_, session)| session.id).collect();
        let mut live = false;
        for (id, seen, when) in self.objects.read_sessions(ids).await {
            live |= match self.note(id, seen, when) {
                Answer::Found(_, record) => {
                    record.ended.is_none() && self.looks.lapsed(id).is_none()
                }
                Answer::Missing(_) => false,
                _ => true,
            };
        }
        live
    }

    /// So that the timers of those that died together with the coordinator run.
    async fn list_all(&mut self) {
        let (mut after, mut listing, mut sent) = (None, BTreeMap::new(), None);
        while let Some(page) = self.objects.list_sessions(after).await {
            let sent = *sent.get_or_insert(page.when.sent);
            after = page.sessions.last().map(|(id, _)| *id);
            listing.extend(page.sessions);
            if !page.truncated {
                self.looks.listed(&listing, LookTime { sent, received: page.when.received });
                return;
            }
        }
    }
}
