//! The failures and denials that one caller of the store remembers.

use std::time::Duration;

use super::Requests;
use crate::driver::FAILURES_BEFORE_GIVING_UP;
use crate::error::{Error, ErrorKind};
use crate::protocol::message::Answer;
use crate::store::{StoreError, StoreErrorKind};

/// Methods that record the results of requests, and return the pause before the next attempt.
#[doc(hidden)]
impl Requests {
    /// After this number of consecutive failures, a call that does not wait returns an error.
    pub const FAILURES_BEFORE_GIVING_UP: u32 = FAILURES_BEFORE_GIVING_UP;

    /// Records that the store has answered.
    pub fn answered(&mut self) {
        self.count(&Answer::Missing);
    }

    /// Records a failed request. Returns `None` if a retry may succeed or the effect is unknown.
    /// Returns [`ErrorKind::UnsafeStore`] if the store broke a guarantee, and another kind if it
    /// denied the request.
    pub fn fails(&mut self, doing: &str, error: StoreError) -> Option<ErrorKind> {
        let kind = error.kind();
        let answer = self.failed(doing, error);
        self.count(&answer);
        match answer {
            Answer::Unsafe => Some(StoreErrorKind::Unsupported.into()),
            Answer::Denied => Some(kind.into()),
            _ => None,
        }
    }

    /// Records the error of an unreadable object as the last error.
    pub fn cannot_read(&mut self, error: Error) {
        self.last_error = Some(error);
    }

    /// Returns the last error, and clears it.
    pub fn take_error(&mut self) -> Option<Error> {
        self.last_error.take()
    }

    /// Returns the pause before the next attempt after a denial, or `None` if the error is final or
    /// the denials have lasted too long.
    pub fn outlasts(&mut self, error: &Error) -> Option<Duration> {
        let cx = self.context();
        self.denial.pause(&cx, error)
    }

    /// Restarts the time limit for denials.
    pub fn forget_denials(&mut self) {
        self.denial.over();
    }
}
