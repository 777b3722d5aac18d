//! A store that passes requests on, bounded in time, and keeps account of them: the duration of
//! each, the dates of the store's clock, and the keys to delete in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use tenure::Process;
use tenure::store::{
    Capabilities, Determinacy, ETag, GetOutcome, Page, PutOutcome, Store, StoreError,
    StoreErrorKind,
};
use tokio_util::sync::CancellationToken;

use super::clock_skew::Sighting;
use crate::exit::Failure;
use crate::process::lock::lock;
use crate::process::timer::pause;

/// How long an answer is waited for: beyond it nobody knows what became of the request.
const LIMIT: Duration = Duration::from_secs(10);
/// The pause before a key is written again, once a write had no clear answer: some stores allow one
/// write a second to a key.
const PACE: Duration = Duration::from_millis(1_100);
/// A longer body is counted as long.
const LONG: usize = 64 * 1024;
const PAGE: usize = 1_000;
/// Times of one kind that are kept, so that a probe of days does not grow.
const SAMPLES: usize = 200_000;

/// What is asked, as it is accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    Create,
    Replace,
    Read,
    List,
    Delete,
    /// One of 32 at once.
    CreateRace,
    ReplaceRace,
    /// Of a long body, alone or beside short ones.
    LongWrite,
    /// Of the bucket's settings.
    #[cfg_attr(not(feature = "s3"), allow(dead_code, reason = "only S3 is asked"))]
    Settings,
}

impl RequestKind {
    /// Among the latencies, and among the counts of requests.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            RequestKind::Create => ("create", "writes"),
            RequestKind::Replace => ("replace", "writes"),
            RequestKind::Read => ("read", "reads"),
            RequestKind::List => ("list", "lists"),
            RequestKind::Delete => ("delete", "deletes"),
            RequestKind::CreateRace => ("create, 32 at once", "writes"),
            RequestKind::ReplaceRace => ("replace, 32 at once", "writes"),
            RequestKind::LongWrite => ("write, long", "writes"),
            RequestKind::Settings => ("settings", "settings"),
        }
    }
}

#[derive(Debug, Default)]
pub struct Account {
    /// How many requests of each kind were sent.
    pub requests: BTreeMap<RequestKind, u64>,
    /// How long each answer took, by kind.
    pub took: BTreeMap<RequestKind, Vec<Duration>>,
    pub sightings: Vec<Sighting>,
    /// Writes of which nobody knows whether they took effect, or will.
    pub in_doubt: u64,
    /// What may have to be deleted.
    keys: BTreeSet<String>,
}

/// Counts the requests of a probe.
#[derive(Debug)]
pub struct Meter {
    store: Arc<dyn Store>,
    start: String,
    stop: CancellationToken,
    /// Set once a write had no clear answer.
    paced: AtomicBool,
    account: Mutex<Account>,
}

impl Meter {
    /// Passes requests on to this store, for keys under the prefix, empty or ending in a slash.
    /// After `stop` it refuses all but its own deletions.
    pub fn new(store: Arc<dyn Store>, prefix: &str, stop: CancellationToken) -> Meter {
        let nonce = fastrand::u64(..);
        // No slash after the nonce: an empty folder of a directory would remain.
        let start = format!("{prefix}probe-{nonce:016x}-");
        Meter { store, start, stop, paced: AtomicBool::new(false), account: Mutex::default() }
    }

    /// The beginning of every key of this probe.
    pub fn start(&self) -> &str {
        &self.start
    }

    pub fn account(&self) -> MutexGuard<'_, Account> {
        lock(&self.account)
    }

    /// Notes a key that is written, and waits if it was written before on a store that may limit
    /// that. The writers of a race do not wait.
    async fn pace(&self, kind: RequestKind, key: &str) {
        let again = !self.account().keys.insert(key.to_owned());
        let alone = matches!(kind, RequestKind::Create | RequestKind::Replace);
        if again && alone && self.paced.load(Ordering::Relaxed) {
            pause(PACE).await;
        }
    }

    fn saw(&self, sent: Duration, date: Option<DateTime<Utc>>) {
        let received = Process::system().now().wall;
        let sighting = date.and_then(|date| Sighting::new(sent, received, date));
        let mut account = self.account();
        if account.sightings.len() < SAMPLES {
            account.sightings.extend(sighting);
        }
    }

    async fn ask<T>(
        &self,
        kind: RequestKind,
        if_late: Determinacy,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if self.stop.is_cancelled() {
            let (kind, determinacy) = (StoreErrorKind::Unsupported, Determinacy::Determinate);
            return Err(StoreError::new(kind, determinacy, "the probe is stopped"));
        }
        self.send(kind, if_late, call).await
    }

    async fn send<T>(
        &self,
        kind: RequestKind,
        if_late: Determinacy,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        *self.account().requests.entry(kind).or_default() += 1;
        let sent = Process::system().now().boot;
        let outcome = tokio::select! {
            biased;
            outcome = call => outcome,
            () = pause(LIMIT) => {
                let why = format!("no answer within {LIMIT:?}");
                Err(StoreError::new(StoreErrorKind::Transient, if_late, why))
            }
        };
        let took = Process::system().now().boot.saturating_sub(sent);
        let mut account = self.account();
        match &outcome {
            Ok(_) => {
                let times = account.took.entry(kind).or_default();
                if times.len() < SAMPLES {
                    times.push(took);
                }
            }
            Err(error) => {
                let doubtful = error.determinacy() == Determinacy::Indeterminate;
                account.in_doubt += u64::from(doubtful);
                if matches!(kind, RequestKind::Create | RequestKind::Replace) {
                    self.paced.store(true, Ordering::Relaxed);
                }
            }
        }
        outcome
    }

    /// Deletes what this probe may have written. What is still there is named.
    pub async fn clean_up(&self) -> Vec<String> {
        let mut keys: BTreeSet<String> = self.account().keys.clone();
        let mut left = Vec::new();
        for attempt in 0..CLEANINGS {
            if attempt > 0 || self.account().in_doubt > 0 {
                // A write that was given up on may come late, and a store that fails may recover.
                pause(AGAIN).await;
            }
            let sought: Vec<String> = keys.iter().cloned().collect();
            for some in sought.chunks(PAGE) {
                let call = self.store.delete(some.to_vec());
                let _ = self.send(RequestKind::Delete, Determinacy::Indeterminate, call).await;
            }
            let call = self.store.list(&self.start, "", PAGE);
            match self.send(RequestKind::List, Determinacy::Determinate, call).await {
                Ok(page) => keys = page.entries.into_iter().map(|entry| entry.key).collect(),
                // Not to know is no reason to say that it is clean.
                Err(_) => keys = sought.into_iter().collect(),
            }
            left = self.still_there(&keys).await;
            if left.is_empty() {
                break;
            }
        }
        left
    }

    /// A listing that lags behind shows what is gone already.
    async fn still_there(&self, keys: &BTreeSet<String>) -> Vec<String> {
        let mut left = Vec::new();
        for key in keys {
            let call = self.store.get(key, None, LONG);
            let gone = self.send(RequestKind::Read, Determinacy::Determinate, call).await;
            if !matches!(gone, Ok(GetOutcome::NotFound)) {
                left.push(key.clone());
            }
        }
        left
    }
}

#[async_trait]
impl Store for Meter {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let sent = Process::system().now().wall;
        let call = self.store.list(prefix, after, limit);
        let page = self.ask(RequestKind::List, Determinacy::Determinate, call).await?;
        self.saw(sent, page.served_at);
        Ok(page)
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let sent = Process::system().now().wall;
        let call = self.store.get(key, unless, max_len);
        let outcome = self.ask(RequestKind::Read, Determinacy::Determinate, call).await?;
        if let GetOutcome::Found(object) = &outcome {
            self.saw(sent, object.served_at);
        }
        Ok(outcome)
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        let kind = match () {
            () if body.len() > LONG => RequestKind::LongWrite,
            () if key.contains("create-race") => RequestKind::CreateRace,
            () => RequestKind::Create,
        };
        self.pace(kind, key).await;
        self.ask(kind, Determinacy::Indeterminate, self.store.create(key, body)).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let kind = match () {
            () if body.len() > LONG => RequestKind::LongWrite,
            () if key.contains("replace-race") => RequestKind::ReplaceRace,
            () => RequestKind::Replace,
        };
        self.pace(kind, key).await;
        self.ask(kind, Determinacy::Indeterminate, self.store.replace(key, body, etag)).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        let call = self.store.delete(keys.clone());
        let failed = self.ask(RequestKind::Delete, Determinacy::Indeterminate, call).await?;
        if failed.is_empty() {
            let mut account = self.account();
            // The others are few, and a new write of one is paced.
            for key in keys.iter().filter(|key| key.contains("-race-")) {
                account.keys.remove(key);
            }
        }
        Ok(failed)
    }

    fn describe(&self) -> String {
        self.store.describe()
    }

    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
}

const CLEANINGS: u32 = 4;
const AGAIN: Duration = Duration::from_millis(500);

/// The message of a failure that ends the probe.
pub fn failure(meter: &Meter, error: StoreError) -> Failure {
    let denied = error.kind() == StoreErrorKind::AccessDenied;
    let mut failure = Failure::from(error);
    if denied {
        failure.why.push_str("; a probe reads, writes, lists and deletes under the prefix");
    }
    let store = meter.describe();
    // Most stores name themselves.
    let of = if failure.why.contains(&store) { String::new() } else { format!(" {store}") };
    failure.why = format!("probing{of}: {}", failure.why);
    failure
}
