//! The memory of one caller of requests.

use std::time::Duration;

use super::Requests;
use crate::driver::FAILURES_BEFORE_GIVING_UP;
use crate::error::{Error, ErrorKind};
use crate::protocol::message::Answer;
use crate::store::{StoreError, StoreErrorKind};

/// The requests of one caller.
#[doc(hidden)]
impl Requests {
    /// Failures in a row before a call that does not wait gives up.
    pub const FAILURES_BEFORE_GIVING_UP: u32 = FAILURES_BEFORE_GIVING_UP;

    /// The store has answered.
    pub fn answered(&mut self) {
        self.count(&Answer::Missing);
    }

    /// A request failed. `None`: the failure may pass, or the effect is unknown.
    /// [`ErrorKind::UnsafeStore`]: the store broke a promise. Any other kind: the store denied it.
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

    /// Notes an object that cannot be read as the last error.
    pub fn cannot_read(&mut self, error: Error) {
        self.last_error = Some(error);
    }

    /// Returns the last error, once.
    pub fn take_error(&mut self) -> Option<Error> {
        self.last_error.take()
    }

    /// The pause before the next attempt after an error that denies access. `None`: the error is
    /// final, or the denials have lasted too long.
    pub fn outlasts(&mut self, error: &Error) -> Option<Duration> {
        let cx = self.context();
        self.denial.pause(&cx, error)
    }

    /// Denials from here on are counted from the beginning.
    pub fn forget_denials(&mut self) {
        self.denial.over();
    }
}
