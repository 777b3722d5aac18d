//! Counts the requests of an election, each once: a store around the one that was given.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use metrics::{counter, gauge, histogram};

use super::on::Meter;
use crate::clock::Moment;
use crate::process::Process;
use crate::store::{
    DeleteOutcome, ETag, GetOutcome, Happened, Page, PutOutcome, Store, StoreError,
};

/// What a role asks of a store, and what it may be answered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Candidate,
    Observer,
    Compactor,
}

const LIST: (&str, &[&str]) = ("list", &["done", "unknown", "failed"]);
const GET: (&str, &[&str]) = ("get", &["done", "not_modified", "missing", "unknown", "failed"]);
const CREATE: (&str, &[&str]) = ("create", &["done", "refused", "unknown", "failed"]);
const REPLACE: (&str, &[&str]) = ("replace", &["done", "refused", "missing", "unknown", "failed"]);
const DELETE: (&str, &[&str]) = ("delete", &["done", "unknown", "failed"]);

impl Role {
    /// From the start at 0: a counter that appears with its first event has no increase.
    pub(super) fn register(self, meter: &Meter) {
        let kinds: &[(&'static str, &[&'static str])] = match self {
            Role::Candidate => &[LIST, GET, CREATE, REPLACE],
            Role::Observer => &[LIST, GET],
            Role::Compactor => &[LIST, DELETE],
        };
        for (kind, outcomes) in kinds {
            for outcome in *outcomes {
                count(meter, kind, outcome, 0);
            }
        }
    }
}

/// A store that counts and times what it is asked.
#[derive(Debug)]
pub(super) struct Counted {
    inner: Arc<dyn Store>,
    meter: Meter,
    process: Process,
}

impl Counted {
    pub(super) fn new(inner: Arc<dyn Store>, meter: Meter, process: Process) -> Counted {
        Counted { inner, meter, process }
    }

    fn send(&self, kind: &'static str) -> Sent<'_> {
        Sent { store: self, kind, at: self.process.now(), answered: false }
    }
}

/// A request on its way. Dropped before its answer, nobody knows what becomes of it.
struct Sent<'a> {
    store: &'a Counted,
    kind: &'static str,
    at: Moment,
    answered: bool,
}

impl Sent<'_> {
    fn answered(self, outcome: &'static str) {
        self.dated(outcome, None);
    }

    /// The answer says what time it is at the store.
    fn dated(mut self, outcome: &'static str, date: Option<DateTime<Utc>>) {
        let now = self.store.process.now();
        if let Some(date) = date {
            let skew = least_skew(date.timestamp(), self.at.wall, now.wall);
            let election = self.store.meter.election();
            gauge!("tenure_store_clock_skew_seconds", "election" => election).set(skew);
        }
        self.ends(outcome, now);
    }

    /// It was none: the store has no such call.
    fn was_none(mut self) {
        self.answered = true;
    }

    fn ends(&mut self, outcome: &'static str, now: Moment) {
        self.answered = true;
        let meter = &self.store.meter;
        count(meter, self.kind, outcome, 1);
        let took = now.boot.saturating_sub(self.at.boot);
        let election = meter.election();
        histogram!("tenure_request_seconds", "election" => election, "kind" => self.kind)
            .record(took);
    }
}

impl Drop for Sent<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.ends("unknown", self.store.process.now());
        }
    }
}

fn count(meter: &Meter, kind: &'static str, outcome: &'static str, by: u64) {
    let election = meter.election();
    counter!("tenure_requests_total", "election" => election, "kind" => kind, "outcome" => outcome)
        .increment(by);
}

/// By how much the store's clock is ahead of this machine's at the least, in seconds.
///
/// The date has whole seconds, and was written at some moment between the sending and the receipt.
/// So the difference lies between two bounds, and what is told is the one closer to 0, or 0 if that
/// lies between them: never more than the answer proves.
fn least_skew(date: i64, sent: Duration, received: Duration) -> f64 {
    // Exact to the microsecond for the next thousands of years.
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

fn failed(error: &StoreError) -> &'static str {
    match error.happened() {
        Happened::No => "failed",
        Happened::Maybe => "unknown",
    }
}

fn written(answer: &Result<PutOutcome, StoreError>) -> &'static str {
    match answer {
        Ok(PutOutcome::Done { etag: Some(_) }) => "done",
        Ok(PutOutcome::Done { etag: None }) => "unknown",
        Ok(PutOutcome::Refused) => "refused",
        Ok(PutOutcome::Missing) => "missing",
        Err(error) => failed(error),
    }
}

// Every call of the trait stands here, those with a default too: they are the inner store's.
#[async_trait]
impl Store for Counted {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let sent = self.send("list");
        let answer = self.inner.list(prefix, after, limit).await;
        match &answer {
            Ok(page) => sent.dated("done", page.served_at),
            Err(error) => sent.answered(failed(error)),
        }
        answer
    }

    async fn list_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        let sent = self.send("list");
        let answer = self.inner.list_last(prefix, after, limit).await;
        match &answer {
            Ok(Some(page)) => sent.dated("done", page.served_at),
            Ok(None) => sent.was_none(),
            Err(error) => sent.answered(failed(error)),
        }
        answer
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let sent = self.send("get");
        let answer = self.inner.get(key, unless, max_len).await;
        match &answer {
            Ok(GetOutcome::Found(object)) => sent.dated("done", object.served_at),
            Ok(GetOutcome::TooLarge { .. }) => sent.answered("done"),
            Ok(GetOutcome::NotModified) => sent.answered("not_modified"),
            Ok(GetOutcome::Missing) => sent.answered("missing"),
            Err(error) => sent.answered(failed(error)),
        }
        answer
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        let sent = self.send("create");
        let answer = self.inner.create(key, body).await;
        sent.answered(written(&answer));
        answer
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let sent = self.send("replace");
        let answer = self.inner.replace(key, body, etag).await;
        sent.answered(written(&answer));
        answer
    }

    async fn delete(&self, keys: Vec<String>) -> Result<DeleteOutcome, StoreError> {
        let sent = self.send("delete");
        let answer = self.inner.delete(keys).await;
        sent.answered(answer.as_ref().map_or_else(failed, |_| "done"));
        answer
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn send_unquoted_etags(&self) -> bool {
        self.inner.send_unquoted_etags()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skew(date: i64, sent_ms: u64, received_ms: u64) -> f64 {
        least_skew(date, Duration::from_millis(sent_ms), Duration::from_millis(received_ms))
    }

    #[test]
    fn a_skew_is_told_only_as_far_as_whole_seconds_prove_it() {
        // Two clocks that agree, whatever the part of a second that the date leaves out.
        for now in [100_000, 100_001, 100_500, 100_999] {
            assert_eq!(skew(100, now, now), 0.0, "{now} ms");
        }
        // The answer takes 700 ms, and the date is that of either end.
        assert_eq!(skew(100, 100_600, 101_300), 0.0);
        assert_eq!(skew(101, 100_600, 101_300), 0.0);
        // 10 s ahead, and 10 s behind: short of it by at most the second and the way.
        assert!((skew(110, 100_200, 100_400) - 9.6).abs() < 1e-6);
        assert!((skew(90, 100_200, 100_400) + 9.2).abs() < 1e-6);
        assert_eq!(skew(0, 0, 0), 0.0);
    }

    #[test]
    fn an_unknown_write_is_not_a_failed_one() {
        let error = |happened| {
            let kind = crate::store::StoreErrorKind::Transient;
            written(&Err(StoreError::new(kind, happened, "")))
        };
        assert_eq!((error(Happened::No), error(Happened::Maybe)), ("failed", "unknown"));
        assert_eq!(written(&Ok(PutOutcome::Done { etag: None })), "unknown");
    }
}
