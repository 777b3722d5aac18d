//! Sends the requests of a member's state machine, and passes the answers to it.

use std::collections::BTreeSet;

use super::MemberTask;
use crate::objects::Seen;
use crate::protocol::message::{AssignmentAnswer, News, ParticipantStep};
use crate::protocol::message::{SessionAnswer, SessionRequest};
use crate::protocol::session::SessionRecord;
use crate::protocol::session_timers::RequestTimes;
use crate::protocol::{Session, SessionId};
use tenure::EpochEnd;
use tenure::internals::groups::Requests;

/// Maximum number of sessions that are read before the next poll of the assignment (GC4).
pub(super) const READ_BETWEEN_POLLS: usize = 512;

impl MemberTask {
    /// Sends the requests of the state machine until it is idle. Returns false if a request failed.
    /// After a failure the next poll starts from the first request.
    pub(super) async fn drive(&mut self) -> bool {
        loop {
            match self.participant.step() {
                ParticipantStep::Idle => return true,
                ParticipantStep::Nonce => self.participant.nonce(self.cx.nonce()),
                ParticipantStep::Pause => {
                    if self.objects.have_failed(Requests::FAILURES_BEFORE_GIVING_UP) {
                        self.report_failure();
                        self.participant.give_up();
                        return false;
                    }
                    self.cx.sleep(self.objects.retry_delay()).await;
                    self.participant.resume();
                }
                ParticipantStep::Failed(failure) => {
                    let error = self.objects.explain(failure);
                    self.tell(error);
                    self.participant.restart();
                    return false;
                }
                ParticipantStep::Assignment(request) => {
                    let Some(answer) = self.objects.assignment(&request).await else {
                        self.participant.discard();
                        self.report.too_large = true;
                        self.report_failure();
                        return false;
                    };
                    let news = self.ownership.answer(&mut self.participant, answer);
                    if let (Some(News::Read | News::Confirmed), Some(known)) =
                        (news, self.participant.known())
                    {
                        self.report.sight.sees(known);
                    }
                }
                ParticipantStep::Sessions(request) => {
                    if !self.answer_about_sessions(request).await {
                        return false;
                    }
                }
            }
        }
    }

    async fn answer_about_sessions(&mut self, request: SessionRequest) -> bool {
        match request {
            SessionRequest::List(after) => return self.list(after).await,
            SessionRequest::Get(ids) => self.get(ids).await,
            SessionRequest::Seal { session, .. } => {
                let answer = self.seal(session, EpochEnd::Lapsed, None).await;
                self.report.unread |= answer != SessionAnswer::Done;
                self.participant.session(answer);
            }
        }
        true
    }

    /// Reads sessions, up to [`READ_BETWEEN_POLLS`]. The next call reads the remaining sessions.
    async fn get(&mut self, ids: BTreeSet<SessionId>) {
        let now = self.cx.now();
        let mut unread = Vec::new();
        for id in ids {
            let known = self.participant.known().map(|it| &**it);
            let answer = self.sessions.known_answer(id, known);
            let rests = answer.is_none() && self.sessions.timers.rests(id, now);
            self.report.unread |= rests;
            match answer.or(rests.then_some(SessionAnswer::Unreadable(id))) {
                Some(answer) => self.participant.session(answer),
                None => unread.push(id),
            }
        }
        let some = unread.iter().take(READ_BETWEEN_POLLS).copied();
        for (id, seen, when) in self.objects.read_sessions(some).await {
            let answer = match self.note(id, seen, when) {
                SessionAnswer::Unknown => {
                    self.report.unread = true;
                    self.sessions.unreadable.insert(id);
                    SessionAnswer::Unreadable(id)
                }
                answer => {
                    self.sessions.unreadable.clear();
                    answer
                }
            };
            self.participant.session(answer);
        }
        // Poll the assignment before the remaining reads. If another member has planned in the
        // meantime, the remaining sessions are not read (GC4).
        if unread.len() > READ_BETWEEN_POLLS {
            self.participant.poll();
        }
    }

    async fn list(&mut self, after: Option<SessionId>) -> bool {
        let Some(page) = self.objects.list_sessions(after).await else {
            self.report.unread = true;
            self.participant.session(SessionAnswer::Unknown);
            return false;
        };
        if let Some(listed) = self.sessions.listed(after, &page) {
            self.participant.forget(&listed);
            self.sessions.keep(&listed, self.participant.known().map(|it| &**it));
        }
        let (sessions, truncated) = (page.sessions, page.truncated);
        self.participant.session(SessionAnswer::Listed { sessions, truncated });
        true
    }

    /// Records the result of one read of a session.
    pub(super) fn note(&mut self, id: SessionId, seen: Seen, when: RequestTimes) -> SessionAnswer {
        let known = self.participant.known().map(|it| &**it);
        let answer = self.sessions.note((id, seen, when), known);
        if let SessionAnswer::Found(_, SessionRecord { data: Some(data), .. }) = &answer
            && let Some(body) = self.sessions.bodies.get(&id)
        {
            self.advice.failing.released(body.name(), data, when.received);
        }
        answer
    }

    /// Seals a session if its object has not changed since the last read. A `successor` of the same
    /// name takes over the partitions of the session.
    pub(super) async fn seal(
        &mut self,
        session: Session,
        end: EpochEnd,
        successor: Option<&str>,
    ) -> SessionAnswer {
        let Some(body) = self.sessions.bodies.get(&session.id) else {
            return SessionAnswer::Refused;
        };
        let etag = body.record().etag;
        let sealed = body.sealed(end, self.cx.name(), successor, self.cx.now());
        match self.objects.seal(session.id, sealed, etag).await {
            AssignmentAnswer::Done => SessionAnswer::Done,
            AssignmentAnswer::Refused => SessionAnswer::Refused,
            _ => SessionAnswer::Unknown,
        }
    }
}
