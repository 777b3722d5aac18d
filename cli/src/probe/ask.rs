//! Sends the requests of a probe, bounded in time, and keeps account of them: how long each took,
//! what the store's clock said, and which keys there may be to delete in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use tenure::Process;
use tenure::store::{
    Determinacy, ETag, GetOutcome, Object, Page, PutOutcome, Store, StoreError, StoreErrorKind,
};
use tokio_util::sync::CancellationToken;

use super::clock::Sighting;
use crate::exit::Failure;
use crate::lock::lock;
use crate::timer::pause;

/// How long an answer is waited for: beyond it nobody knows what became of the request.
const LIMIT: Duration = Duration::from_secs(10);
/// How long after an unclear answer the same is tried again.
pub const RETRY_AFTER: Duration = Duration::from_millis(200);
/// The pause before a key is written again, once a write had no clear answer: some stores allow one
/// write a second to a key.
const PACE: Duration = Duration::from_millis(1_100);
/// Bodies of the probe are far shorter.
const MAX_BODY: usize = 64 * 1024;
pub const PAGE: usize = 1_000;
/// Times of one kind that are kept, so that a probe of days does not grow.
const SAMPLES: usize = 200_000;

/// Why a check ends before its end.
#[derive(Debug)]
pub enum Ends {
    /// The store has broken a promise.
    Broken(String),
    /// A request had no clear answer; it may be tried again on other keys.
    Unclear(StoreError),
    /// Nothing more can be asked: access is denied, the bucket is not there.
    Failed(StoreError),
    /// A signal.
    Stopped,
}

pub type Check<T = ()> = Result<T, Ends>;

/// What is asked, as it is accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
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

impl Kind {
    /// Among the latencies, and among the counts of requests.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::Create => ("create", "writes"),
            Kind::Replace => ("replace", "writes"),
            Kind::Read => ("read", "reads"),
            Kind::List => ("list", "lists"),
            Kind::Delete => ("delete", "deletes"),
            Kind::CreateRace => ("create, 32 at once", "writes"),
            Kind::ReplaceRace => ("replace, 32 at once", "writes"),
            Kind::LongWrite => ("write, long", "writes"),
            Kind::Settings => ("settings", "settings"),
        }
    }
}

#[derive(Debug, Default)]
pub struct Account {
    /// How many requests of each kind were sent.
    pub requests: BTreeMap<Kind, u64>,
    /// How long each answer took, by kind.
    pub took: BTreeMap<Kind, Vec<Duration>>,
    pub sightings: Vec<Sighting>,
    /// Writes of which nobody knows whether they took effect, or will.
    pub in_doubt: u64,
    /// What may have to be deleted.
    keys: BTreeSet<String>,
}

/// An object; without its body if that is longer than [`MAX_BODY`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub etag: ETag,
    pub body: Option<Bytes>,
    pub len: u64,
}

impl Seen {
    /// Whether this body was written; a long one is known by its length.
    pub fn shows(&self, body: &Bytes) -> bool {
        match &self.body {
            Some(seen) => seen == body,
            None => self.len == body.len() as u64,
        }
    }
}

#[derive(Debug)]
pub struct Asker {
    store: Arc<dyn Store>,
    start: String,
    stop: CancellationToken,
    serial: AtomicU64,
    /// Set once a write had no clear answer.
    paced: AtomicBool,
    account: Mutex<Account>,
}

impl Asker {
    /// Asks this store about keys under the prefix, empty or ending in a slash. After `stop` only
    /// deletions are sent.
    pub fn new(store: Arc<dyn Store>, prefix: &str, stop: CancellationToken) -> Asker {
        let nonce = fastrand::u64(..);
        // No slash after the nonce: an empty folder of a directory would remain.
        let start = format!("{prefix}probe-{nonce:016x}-");
        let (serial, paced) = (AtomicU64::new(0), AtomicBool::new(false));
        Asker { store, start, stop, serial, paced, account: Mutex::default() }
    }

    /// What every key of this probe starts with.
    pub fn start(&self) -> &str {
        &self.start
    }

    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub fn account(&self) -> MutexGuard<'_, Account> {
        lock(&self.account)
    }

    /// A key that was not used before.
    pub fn key(&self, what: &str) -> String {
        format!("{}{what}-{:06}", self.start, self.serial.fetch_add(1, Ordering::Relaxed))
    }

    /// A body that was not written before.
    pub fn body(&self, what: &str) -> Bytes {
        let nonce = fastrand::u128(..);
        format!("{{\"tenure\":\"probe of the store\",\"{what}\":\"{nonce:032x}\"}}\n").into()
    }

    /// A body of this length that was not written before.
    pub fn long_body(&self, len: usize) -> Bytes {
        let mut body = self.body("a long write").to_vec();
        let padding = len.saturating_sub(body.len());
        body.truncate(len);
        body.extend_from_slice(" ".repeat(padding).as_bytes());
        body.into()
    }

    pub async fn create(&self, kind: Kind, key: &str, body: Bytes) -> Check<PutOutcome> {
        self.pace(kind, key).await;
        self.ask(kind, Determinacy::Indeterminate, self.store.create(key, body)).await
    }

    pub async fn replace(
        &self,
        kind: Kind,
        key: &str,
        body: Bytes,
        etag: &ETag,
    ) -> Check<PutOutcome> {
        self.pace(kind, key).await;
        self.ask(kind, Determinacy::Indeterminate, self.store.replace(key, body, etag.clone()))
            .await
    }

    /// Notes a key that is written, and waits if it was written before on a store that may limit
    /// that. The writers of a race do not wait.
    async fn pace(&self, kind: Kind, key: &str) {
        let again = !self.account().keys.insert(key.to_owned());
        let alone = matches!(kind, Kind::Create | Kind::Replace);
        if again && alone && self.paced.load(Ordering::Relaxed) {
            pause(PACE).await;
        }
    }

    /// The object at a key, or `None`.
    pub async fn read(&self, key: &str) -> Check<Option<Object>> {
        match self.poll(key, None).await? {
            GetOutcome::Found(object) => Ok(Some(object)),
            GetOutcome::NotFound => Ok(None),
            GetOutcome::TooLarge { len, .. } => {
                Err(Ends::Broken(format!("shows {len} bytes at {key}, which were not written")))
            }
            // An object was asked for without an ETag.
            _ => Err(Ends::Broken(not_modified(key))),
        }
    }

    /// The object at a key, of any length.
    pub async fn look(&self, key: &str) -> Check<Option<Seen>> {
        Ok(match self.poll(key, None).await? {
            GetOutcome::TooLarge { etag, len } => Some(Seen { etag, body: None, len }),
            GetOutcome::Found(Object { etag, body, .. }) => {
                let len = body.len() as u64;
                Some(Seen { etag, body: Some(body), len })
            }
            GetOutcome::NotFound => None,
            _ => return Err(Ends::Broken(not_modified(key))),
        })
    }

    pub async fn poll(&self, key: &str, unless: Option<&ETag>) -> Check<GetOutcome> {
        let call = self.store.get(key, unless.cloned(), MAX_BODY);
        let sent = Process::system().now().wall;
        let outcome = self.ask(Kind::Read, Determinacy::Determinate, call).await?;
        if let GetOutcome::Found(object) = &outcome {
            self.saw(sent, object.served_at);
        }
        Ok(outcome)
    }

    /// A page of the keys that start with this.
    pub async fn list(&self, prefix: &str, after: &str, limit: usize) -> Check<Page> {
        let sent = Process::system().now().wall;
        let call = self.store.list(prefix, after, limit);
        let page = self.ask(Kind::List, Determinacy::Determinate, call).await?;
        self.saw(sent, page.served_at);
        Ok(page)
    }

    pub async fn delete(&self, keys: &[String]) -> Check {
        let call = self.store.delete(keys.to_vec());
        let outcome = self.ask(Kind::Delete, Determinacy::Indeterminate, call).await?;
        match outcome.first() {
            None => Ok(()),
            Some((key, error)) => {
                let (kind, why) = (error.kind(), format!("deleting {key}: {error}"));
                let failed = StoreError::new(kind, Determinacy::Determinate, why);
                Err(match kind {
                    StoreErrorKind::Transient => Ends::Unclear(failed),
                    _ => Ends::Failed(failed),
                })
            }
        }
    }

    /// Deletes keys that no write is under way to, before the end of a probe of many rounds.
    pub async fn forget(&self, keys: Vec<String>) -> Check {
        for some in keys.chunks(PAGE) {
            match self.delete(some).await {
                Ok(()) => some.iter().for_each(|key| {
                    self.account().keys.remove(key);
                }),
                // They are deleted in the end.
                Err(Ends::Unclear(_)) => {}
                Err(ends) => return Err(ends),
            }
        }
        Ok(())
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
        kind: Kind,
        if_late: Determinacy,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Check<T> {
        if self.stop.is_cancelled() {
            return Err(Ends::Stopped);
        }
        self.send(kind, if_late, call).await
    }

    async fn send<T>(
        &self,
        kind: Kind,
        if_late: Determinacy,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Check<T> {
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
        let note = |account: &mut Account| {
            let times = account.took.entry(kind).or_default();
            if times.len() < SAMPLES {
                times.push(took);
            }
        };
        outcome.inspect(|_| note(&mut self.account())).map_err(|error| {
            let doubtful = error.determinacy() == Determinacy::Indeterminate;
            self.account().in_doubt += u64::from(doubtful);
            if matches!(kind, Kind::Create | Kind::Replace) {
                self.paced.store(true, Ordering::Relaxed);
            }
            match error.kind() {
                StoreErrorKind::Transient => Ends::Unclear(error),
                _ if doubtful => Ends::Unclear(error),
                _ => Ends::Failed(error),
            }
        })
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
                let _ = self.send(Kind::Delete, Determinacy::Indeterminate, call).await;
            }
            let call = self.store.list(&self.start, "", PAGE);
            match self.send(Kind::List, Determinacy::Determinate, call).await {
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
            let call = self.store.get(key, None, MAX_BODY);
            let gone = self.send(Kind::Read, Determinacy::Determinate, call).await;
            if !matches!(gone, Ok(GetOutcome::NotFound)) {
                left.push(key.clone());
            }
        }
        left
    }
}

fn not_modified(key: &str) -> String {
    format!("answers \"not modified\" to a read without a condition, of {key}")
}

const CLEANINGS: u32 = 4;
const AGAIN: Duration = Duration::from_millis(500);

/// The message of a failure that ends the probe.
pub fn failure(asker: &Asker, error: StoreError) -> Failure {
    let denied = error.kind() == StoreErrorKind::AccessDenied;
    let mut failure = Failure::from(error);
    if denied {
        failure.why.push_str("; a probe reads, writes, lists and deletes under the prefix");
    }
    let store = asker.store().describe();
    // Most stores name themselves.
    let of = if failure.why.contains(&store) { String::new() } else { format!(" {store}") };
    failure.why = format!("probing{of}: {}", failure.why);
    failure
}
