//! Counts the requests of an election, and measures their durations.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::future::BoxFuture;

use super::meter::Meter;
use crate::env::moment::Moment;
use crate::env::process::Process;
use crate::store::{Determinacy, ETag, GetOutcome, Page, PutOutcome, Store, StoreError};

/// A store that counts its requests and measures their durations. It allocates no additional
/// memory.
#[derive(Debug)]
pub(crate) struct Counted {
    inner: Arc<dyn Store>,
    meter: Meter,
    process: Process,
}

impl Meter {
    /// Wraps a store. The wrapper counts the requests to this store and measures their durations.
    pub(crate) fn counted(&self, store: &Arc<dyn Store>, process: &Process) -> Arc<Counted> {
        Arc::new(Counted::new(Arc::clone(store), self.clone(), process.clone()))
    }
}

impl Counted {
    fn new(inner: Arc<dyn Store>, meter: Meter, process: Process) -> Counted {
        Counted { inner, meter, process }
    }

    pub(crate) fn list<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        limit: usize,
    ) -> Sending<'a, Page> {
        self.send("list", self.inner.list(prefix, after, limit))
    }

    pub(crate) fn list_last<'a>(
        &'a self,
        prefix: &'a str,
        after: &'a str,
        limit: usize,
    ) -> Sending<'a, Option<Page>> {
        self.send("list", self.inner.list_last(prefix, after, limit))
    }

    pub(crate) fn get<'a>(
        &'a self,
        key: &'a str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Sending<'a, GetOutcome> {
        self.send("get", self.inner.get(key, unless, max_len))
    }

    pub(crate) fn create<'a>(&'a self, key: &'a str, body: Bytes) -> Sending<'a, PutOutcome> {
        self.send("create", self.inner.create(key, body))
    }

    pub(crate) fn replace<'a>(
        &'a self,
        key: &'a str,
        body: Bytes,
        etag: ETag,
    ) -> Sending<'a, PutOutcome> {
        self.send("replace", self.inner.replace(key, body, etag))
    }

    pub(crate) fn delete(&self, keys: Vec<String>) -> Sending<'_, Vec<(String, StoreError)>> {
        self.send("delete", self.inner.delete(keys))
    }

    pub(crate) fn describe(&self) -> String {
        self.inner.describe()
    }

    fn send<'a, T>(
        &'a self,
        kind: &'static str,
        call: BoxFuture<'a, Result<T, StoreError>>,
    ) -> Sending<'a, T> {
        Sending { call, sent: Sent { store: self, kind, at: None } }
    }
}

/// A request. The request is counted when its answer arrives, or when this value is dropped after
/// the start of the request.
#[must_use]
pub(crate) struct Sending<'a, T> {
    call: BoxFuture<'a, Result<T, StoreError>>,
    sent: Sent<'a>,
}

impl<T: Outcome> Future for Sending<'_, T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.sent.begins();
        let answer = ready!(self.call.as_mut().poll(cx));
        match &answer {
            Ok(answer) => match answer.outcome() {
                Some(outcome) => self.sent.ends(outcome, answer.date()),
                None => self.sent.was_none(),
            },
            Err(error) => self.sent.ends(failed(error), None),
        }
        Poll::Ready(answer)
    }
}

/// A request that has no answer yet. If this value is dropped without an answer, the request is
/// counted with the outcome `unknown`.
struct Sent<'a> {
    store: &'a Counted,
    kind: &'static str,
    /// Send time, or `None` before the request starts and after its answer.
    at: Option<Moment>,
}

impl Sent<'_> {
    fn begins(&mut self) {
        let process = &self.store.process;
        self.at.get_or_insert_with(|| process.now());
    }

    /// Notes that the store does not support the call and has sent no request.
    fn was_none(&mut self) {
        self.at = None;
    }

    /// Records the answer, and the store's clock if the answer has a date.
    fn ends(&mut self, outcome: &'static str, date: Option<DateTime<Utc>>) {
        let Some(at) = self.at.take() else { return };
        let Sent { store, kind, .. } = *self;
        let (now, keys) = (store.process.now(), store.meter.keys());
        if let Some(date) = date {
            let skew = least_skew(date.timestamp(), at.wall, now.wall);
            keys.gauge("tenure_store_clock_skew_seconds", &[]).set(skew);
        }
        let labels = [("kind", kind), ("outcome", outcome)];
        keys.counter("tenure_requests_total", &labels).increment(1);
        let took = now.boot.saturating_sub(at.boot);
        keys.histogram("tenure_request_seconds", &[("kind", kind)]).record(took);
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        self.ends("unknown", None);
    }
}

/// A result with an outcome label.
pub(crate) trait Outcome {
    /// Returns the outcome, or `None` if no request was sent.
    fn outcome(&self) -> Option<&'static str>;

    /// Returns the date of the answer. This date comes from the store's clock.
    fn date(&self) -> Option<DateTime<Utc>> {
        None
    }
}

impl Outcome for Page {
    fn outcome(&self) -> Option<&'static str> {
        Some("done")
    }

    fn date(&self) -> Option<DateTime<Utc>> {
        self.served_at
    }
}

impl Outcome for Option<Page> {
    fn outcome(&self) -> Option<&'static str> {
        self.as_ref().and_then(Page::outcome)
    }

    fn date(&self) -> Option<DateTime<Utc>> {
        self.as_ref().and_then(Page::date)
    }
}

impl Outcome for GetOutcome {
    fn outcome(&self) -> Option<&'static str> {
        Some(match self {
            GetOutcome::Found(_) | GetOutcome::TooLarge { .. } => "done",
            GetOutcome::NotModified => "not_modified",
            GetOutcome::NotFound => "missing",
        })
    }

    fn date(&self) -> Option<DateTime<Utc>> {
        match self {
            GetOutcome::Found(object) => object.served_at,
            _ => None,
        }
    }
}

impl Outcome for PutOutcome {
    fn outcome(&self) -> Option<&'static str> {
        Some(match self {
            PutOutcome::Done { etag: Some(_) } => "done",
            PutOutcome::Done { etag: None } => "unknown",
            PutOutcome::PreconditionFailed => "refused",
            PutOutcome::NotFound => "missing",
        })
    }
}

impl Outcome for Vec<(String, StoreError)> {
    fn outcome(&self) -> Option<&'static str> {
        Some("done")
    }
}

fn failed(error: &StoreError) -> &'static str {
    match error.determinacy() {
        Determinacy::Determinate => "failed",
        Determinacy::Indeterminate => "unknown",
    }
}

/// Returns the least possible difference between the store's clock and this machine's clock, in
/// seconds. The result is positive if the store's clock is ahead.
///
/// The store wrote the date, in whole seconds, after the request was sent and before the response
/// was received. So the difference lies between two bounds. The result is the bound closer to 0, or
/// 0 if the bounds have different signs.
fn least_skew(date: i64, sent: Duration, received: Duration) -> f64 {
    // The conversion is exact to the microsecond for thousands of years.
    let date = date as f64;
    let least = date - received.as_secs_f64();
    let most = date + 1.0 - sent.as_secs_f64();
    if least > 0.0 {
        least
    } else if most < 0.0 {
        most
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skew(date: i64, sent_ms: u64, received_ms: u64) -> f64 {
        least_skew(date, Duration::from_millis(sent_ms), Duration::from_millis(received_ms))
    }

    #[test]
    fn the_reported_skew_is_a_lower_bound() {
        // The clocks agree. The date omits the fraction of the second, and the result is 0 for any
        // such fraction.
        for now in [100_000, 100_001, 100_500, 100_999] {
            assert_eq!(skew(100, now, now), 0.0, "{now} ms");
        }
        // The answer takes 700 ms. The store wrote the date at the start or at the end of that
        // time.
        assert_eq!(skew(100, 100_600, 101_300), 0.0);
        assert_eq!(skew(101, 100_600, 101_300), 0.0);
        // The store's clock is 10 s ahead, or 10 s behind. The result is closer to 0 than the true
        // difference, by at most one second plus the latency.
        assert!((skew(110, 100_200, 100_400) - 9.6).abs() < 1e-6);
        assert!((skew(90, 100_200, 100_400) + 9.2).abs() < 1e-6);
        assert_eq!(skew(0, 0, 0), 0.0);
    }

    #[test]
    fn an_unknown_write_is_not_a_failed_write() {
        let error = |determinacy| {
            let kind = crate::store::StoreErrorKind::Transient;
            failed(&StoreError::new(kind, determinacy, ""))
        };
        assert_eq!(
            (error(Determinacy::Determinate), error(Determinacy::Indeterminate)),
            ("failed", "unknown")
        );
        assert_eq!(PutOutcome::Done { etag: None }.outcome(), Some("unknown"));
    }
}
