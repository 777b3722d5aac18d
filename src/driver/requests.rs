//! How the store answers the requests of one driver.

use std::sync::Arc;
use std::time::Duration;

use super::{Context, Denial, spans};
use crate::env::moment::Moment;
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::message::{Answer, Request};
use crate::store::{Determinacy, PutOutcome, StoreError, StoreErrorKind, Written};
use crate::store::{answer_within, listing_within};

/// Reads in a row that may miss an epoch that the store has shown. An epoch that was compacted
/// meanwhile is missed once, as the next listing shows a greater one.
const READS_OF_A_MISSING_EPOCH: u32 = 3;

/// What is known of the requests so far.
#[derive(Debug)]
pub struct Requests {
    cx: Arc<Context>,
    pub(crate) last_error: Option<Error>,
    /// Requests that failed in a row.
    failures: u32,
    /// The writes of a campaign in a row that failed, whatever the reads between them came to.
    failed_writes: u32,
    /// The epoch that listings show and reads do not find, and the number of such reads in a row.
    missing: Option<(Epoch, u32)>,
    /// They never write.
    of_observer: bool,
    /// When a request last ended, on the boot clock.
    pub(super) polled: Duration,
    /// The denials in a row, of a caller that counts them here.
    pub(crate) denial: Denial,
    /// When the store last gave an answer.
    pub(super) answered: Option<Moment>,
}

impl Requests {
    /// No failure so far.
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

    /// The same for a listing, with `limit` for each of its pages.
    pub(super) async fn send_listing<T>(
        &mut self,
        limit: Duration,
        listing: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let outcome = listing_within(&self.cx.process, limit, listing).await;
        self.polled = self.cx.process.now().boot;
        outcome
    }

    /// Counts what a request came to.
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

    /// Counts what a write of a campaign came to. One that is unknown is read back, and the next
    /// one is tried: without this count the answers to reads would end each row of failures.
    pub(super) fn count_write(&mut self, request: &Request, answer: &Answer) {
        self.failed_writes = match (request, answer) {
            (Request::List(_) | Request::Get { .. }, _) => return,
            (_, Answer::Unknown | Answer::Denied | Answer::Unsafe) => self.failed_writes + 1,
            _ => 0,
        };
    }

    /// Takes the answer to a read of an epoch that the store has shown. Reports the epoch once the
    /// store contradicts itself.
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
            let why = "the store shows it and then does not find it: nobody can be elected until \
                       listings, writes and reads agree. Is a cache or a replica in between, or \
                       is the index of the store damaged? If it stays, restore the election above \
                       this epoch (`tenure restore`)";
            let error = StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why);
            let _ = self.failed(&format!("reading epoch {epoch}"), error);
        }
    }

    /// Returns true once several reads in a row have missed an epoch that the store shows.
    pub(super) fn is_contradicted(&self) -> bool {
        self.missing.is_some_and(|(_, times)| times >= READS_OF_A_MISSING_EPOCH)
    }

    fn failures(&self) -> u32 {
        let missed = self.missing.map_or(0, |(_, times)| times);
        let failures = self.failures.max(self.failed_writes);
        if self.is_contradicted() { failures.max(missed) } else { failures }
    }

    /// Returns whether this number of requests in a row has failed.
    pub fn have_failed(&self, times: u32) -> bool {
        self.failures() >= times
    }

    /// A pause before the next attempt, of at most `cap`.
    pub fn retry_delay(&self, cap: Duration) -> Duration {
        self.cx.retry_delay(self.failures(), cap)
    }

    /// What a write came to.
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

    /// A request failed: remembers why. Returns what the machine may know of it.
    pub(crate) fn failed(&mut self, doing: &str, error: StoreError) -> Answer {
        let is_fit = self.cx.has_written() || self.of_observer && self.cx.has_worked();
        let answer = match (error.kind(), error.determinacy()) {
            // A store that has answered a write with an ETag is fit: something in between answers.
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
