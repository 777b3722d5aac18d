//! Converts the store's responses for one driver, and counts failures.

use std::sync::Arc;
use std::time::Duration;

use super::{Context, Denial, spans};
use crate::env::moment::Moment;
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::message::{Answer, Request};
use crate::store::{Determinacy, PutOutcome, StoreError, StoreErrorKind, Written};
use crate::store::{answer_within, listing_within};

/// If this number of consecutive reads does not find a listed epoch, the driver reports that reads
/// and listings contradict each other. After a compaction only one read fails to find an epoch,
/// because the next listing shows a greater epoch.
const READS_OF_A_MISSING_EPOCH: u32 = 3;

/// The failures and denials of the requests so far.
#[derive(Debug)]
pub struct Requests {
    cx: Arc<Context>,
    pub(crate) last_error: Option<Error>,
    /// Number of consecutive failed requests.
    failures: u32,
    /// Number of consecutive failed writes of a campaign. Successful reads do not reset this count.
    failed_writes: u32,
    /// Epoch that the last listing showed but the last read did not find. The number counts the
    /// consecutive reads that did not find this epoch.
    missing: Option<(Epoch, u32)>,
    /// True if the driver is an observer, which never writes.
    of_observer: bool,
    /// End of the last request, on the boot clock.
    pub(super) polled: Duration,
    /// Consecutive denials of a caller in `tenure-groups`. A campaign counts its denials in its
    /// driver.
    pub(crate) denial: Denial,
    /// Time of the last answer of the store.
    pub(super) answered: Option<Moment>,
}

impl Requests {
    /// Creates the counters, all at zero.
    pub fn new(cx: &Arc<Context>) -> Requests {
        let (cx, polled) = (Arc::clone(cx), cx.process.now().boot);
        Requests {
            cx,
            last_error: None,
            failures: 0,
            failed_writes: 0,
            missing: None,
            of_observer: false,
            denial: Denial::default(),
            polled,
            answered: None,
        }
    }

    pub(crate) fn context(&self) -> Arc<Context> {
        Arc::clone(&self.cx)
    }

    pub(super) fn of_observer(self, of_observer: bool) -> Requests {
        Requests { of_observer, ..self }
    }

    pub(crate) async fn send<T>(
        &mut self,
        limit: Duration,
        call: &mut (impl Future<Output = Result<T, StoreError>> + Unpin),
    ) -> Result<T, StoreError> {
        let outcome = answer_within(&self.cx.process, limit, call).await;
        self.polled = self.cx.process.now().boot;
        outcome
    }

    /// Sends a listing. `limit` is the time limit of each page.
    pub(super) async fn send_listing<T>(
        &mut self,
        limit: Duration,
        listing: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let outcome = listing_within(&self.cx.process, limit, listing).await;
        self.polled = self.cx.process.now().boot;
        outcome
    }

    /// Counts the outcome of a request.
    pub(crate) fn count(&mut self, answer: &Answer) {
        self.failures = match answer {
            Answer::Unknown | Answer::Denied | Answer::Unsafe => self.failures + 1,
            _ => 0,
        };
        if self.failures == 0 {
            let now = self.cx.process.now();
            self.answered = Some(now);
            self.cx.answered(now.boot);
        }
    }

    /// Counts the outcome of a write of a campaign. Writes have a separate count, because the
    /// driver may read the object after a failed write, and a successful read resets the count of
    /// failed requests.
    pub(super) fn count_write(&mut self, request: &Request, answer: &Answer) {
        self.failed_writes = match (request, answer) {
            (Request::List(_) | Request::Get { .. }, _) => return,
            (_, Answer::Unknown | Answer::Denied | Answer::Unsafe) => self.failed_writes + 1,
            _ => 0,
        };
    }

    /// Counts the outcome of a read of a listed epoch. After several consecutive reads that do not
    /// find the epoch, this function reports the contradiction.
    pub(super) fn read(&mut self, epoch: Epoch, answer: &Answer) {
        if !matches!(answer, Answer::Missing) {
            if !matches!(answer, Answer::Unknown) {
                self.missing = None;
            }
            return;
        }
        let before = self.missing.filter(|(missing, _)| *missing == epoch);
        self.missing = Some((epoch, before.map_or(1, |(_, times)| times.saturating_add(1))));
        if self.is_contradicted() {
            let why = "the store lists this epoch and does not find it, so no candidate can be \
                       elected until listings, writes and reads agree. Check for a cache or a \
                       replica in front of the store, or a damaged index of the store. If the \
                       error persists, restore the election above this epoch (`tenure restore`)";
            let error = StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why);
            let _ = self.failed(&format!("reading epoch {epoch}"), error);
        }
    }

    /// Returns true if several consecutive reads did not find an epoch that the store lists.
    pub(super) fn is_contradicted(&self) -> bool {
        self.missing.is_some_and(|(_, times)| times >= READS_OF_A_MISSING_EPOCH)
    }

    fn failures(&self) -> u32 {
        let missed = self.missing.map_or(0, |(_, times)| times);
        let failures = self.failures.max(self.failed_writes);
        if self.is_contradicted() { failures.max(missed) } else { failures }
    }

    /// Returns true if at least `times` consecutive requests have failed.
    pub fn have_failed(&self, times: u32) -> bool {
        self.failures() >= times
    }

    /// Returns the pause before the next attempt, at most `cap`.
    pub fn retry_delay(&self, cap: Duration) -> Duration {
        self.cx.retry_delay(self.failures(), cap)
    }

    /// Converts the store's outcome of a write to an answer for the machine.
    pub(super) fn written(
        &mut self,
        doing: &str,
        epoch: Epoch,
        outcome: Result<PutOutcome, StoreError>,
    ) -> Answer {
        match self.cx.writes.read(outcome) {
            Written::Done(etag) => {
                self.cx.wrote();
                Answer::Done { etag }
            }
            Written::Refused => Answer::Refused,
            Written::Missing => Answer::Missing,
            Written::Unknown(error) | Written::Failed(error) => {
                self.failed(&format!("{doing} epoch {epoch}"), error)
            }
        }
    }

    /// Notes the error of a failed request. Returns the input for the machine.
    pub(crate) fn failed(&mut self, doing: &str, error: StoreError) -> Answer {
        let is_fit = self.cx.has_written() || self.of_observer && self.cx.has_worked();
        let answer = match (error.kind(), error.determinacy()) {
            // A store that has returned the ETag of a write is fit, so a proxy may have sent this
            // response (E18).
            (StoreErrorKind::Unsupported, _) if is_fit => Answer::Unknown,
            (StoreErrorKind::Unsupported, _) => Answer::Unsafe,
            (StoreErrorKind::Transient, _) | (_, Determinacy::Indeterminate) => Answer::Unknown,
            _ => Answer::Denied,
        };
        let error = Error::from_store(doing, &self.cx.store.describe(), error);
        tracing::warn!(
            election = self.cx.keys.prefix(),
            candidate = self.cx.config.name,
            outcome = spans::outcome(&answer),
            %error,
            "a request failed"
        );
        self.cx.failing(&error);
        self.last_error = Some(error);
        answer
    }
}
