//! The failures of one store of an election across stores, and the pauses after them.

use std::time::Duration;

use super::StorePart;
use crate::driver::FAILURES_BEFORE_GIVING_UP;
use crate::error::{Error, ErrorKind};
use crate::protocol::message::Answer;

/// Number of consecutive pauses after which a call with `Patience::Once` gives up a store, even if
/// the store answers between them.
const PAUSES_BEFORE_GIVING_UP: u32 = 8;

impl StorePart {
    pub(in crate::driver::across) fn answered(&mut self, answer: &Answer) {
        self.link.requests.count(answer);
        if !self.denies_writes {
            self.denial.over();
        }
        self.failure = None;
        self.is_given_up = false;
    }

    pub(in crate::driver::across) fn fails(&mut self, answer: &Answer) {
        let counted = if *answer == Answer::Unreadable { Answer::Denied } else { answer.clone() };
        self.link.requests.count(&counted);
        self.failure.clone_from(&self.link.requests.last_error);
        let Some(error) = self.failure.clone().filter(|_| *answer != Answer::Unknown) else {
            return;
        };
        let now = self.link.cx.process.now().boot;
        let pause = match error.kind() {
            ErrorKind::Unavailable => return,
            _ => self.denial.pause(&self.link.cx, &error),
        };
        self.is_given_up = pause.is_none();
        self.retry_at = pause.map(|pause| now.saturating_add(pause));
    }

    /// Returns true if a call that does not wait gives up this store.
    pub(in crate::driver::across) fn fails_once(&self) -> bool {
        self.is_given_up
            || self.pauses >= PAUSES_BEFORE_GIVING_UP
            || self.link.requests.have_failed(FAILURES_BEFORE_GIVING_UP)
    }

    /// Returns the failure of the store. If no request has failed, the store was given up because
    /// its answers contradict each other.
    pub(in crate::driver::across) fn why_given_up(&self) -> Error {
        self.failure.clone().unwrap_or_else(|| self.refuses_writes())
    }

    pub(super) fn refuses_writes(&self) -> Error {
        let why = "refuses writes whose conditions hold, or does not find objects that it lists. \
                   Check for a cache or a replica in front of the store";
        let store = self.link.cx.store.describe();
        Error::new(ErrorKind::Unavailable, format!("{store} {why}"))
    }

    /// Notes that the store answers, but does not count towards the majority.
    pub(in crate::driver::across) fn distrusted(&mut self, error: Error) {
        self.link.cx.failing(&error);
        self.is_given_up = true;
        self.failure = Some(error);
    }

    /// Notes that the store needs no request for some time.
    pub(in crate::driver::across) fn rests(&mut self) {
        self.pauses = 0;
        if std::mem::take(&mut self.denies_writes) {
            self.denial.over();
        }
    }

    /// Returns the time until the pause after a failed request ends.
    pub(in crate::driver::across) fn retries_in(&mut self, longest: Duration) -> Duration {
        let (now, cx) = (self.link.cx.process.now().boot, &self.link.cx);
        let (failures, pauses) = (&self.link.requests, &mut self.pauses);
        let at = *self.retry_at.get_or_insert_with(|| {
            let delay = failures.retry_delay(longest).max(cx.retry_delay(*pauses, longest));
            *pauses = pauses.saturating_add(1);
            now.saturating_add(delay)
        });
        at.saturating_sub(now)
    }
}
