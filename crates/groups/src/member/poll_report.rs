//! The outcome of each poll of a member, and the failures that it reports.

use crate::telemetry::GroupSight;
use tenure::internals::groups::Requests;

/// The outcome of the current poll, and the failures of earlier polls.
pub(super) struct PollReport {
    /// Whether the poll was completed. Other members replace a coordinator that completes no poll.
    pub(super) completed: bool,
    /// Whether a read or a seal of a session failed in this poll.
    pub(super) unread: bool,
    /// Whether the planned assignment was too large.
    pub(super) too_large: bool,
    /// Number of consecutive polls in which a read or a seal of a session failed.
    unread_polls: u32,
    /// The last failure that was reported since the last completed poll.
    reported: Option<String>,
    pub(super) sight: GroupSight,
}

impl PollReport {
    pub(super) fn new(sight: GroupSight) -> PollReport {
        let (completed, unread, too_large) = (false, false, false);
        PollReport { completed, unread, too_large, unread_polls: 0, reported: None, sight }
    }

    pub(super) fn begin(&mut self) {
        (self.completed, self.unread, self.too_large) = (false, false, false);
    }

    /// Ends a poll. Returns true if the member must report an unreadable session, because reads or
    /// seals have failed in several consecutive polls.
    pub(super) fn end(&mut self) -> bool {
        if self.unread {
            self.unread_polls += 1;
        } else if self.completed {
            self.unread_polls = 0;
            if !self.too_large {
                self.reported = None;
            }
        }
        self.sight.polled(self.completed && !self.unread && !self.too_large);
        self.unread && self.unread_polls >= Requests::FAILURES_BEFORE_GIVING_UP
    }

    /// Returns whether the failure differs from the last reported failure.
    pub(super) fn is_news(&mut self, error: &tenure::Error) -> bool {
        let text = error.to_string();
        let news = self.reported.as_ref() != Some(&text);
        self.reported = Some(text);
        news
    }
}
