//! A store that forwards requests to another store, with a time limit. It records the duration of
//! each request, the dates in the answers, and the keys to delete at the end of the probe.

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

/// Time limit of a request. After this time the outcome of the request is unknown.
const LIMIT: Duration = Duration::from_secs(10);
/// Pause before another write to the same key, because some stores allow only one write per second
/// and key. The pauses begin after the first write without a clear answer.
const PACE: Duration = Duration::from_millis(1_100);
/// Maximum length in bytes of the body of a short write. A write of a longer body is a `LongWrite`.
const LONG: usize = 64 * 1024;
const PAGE: usize = 1_000;
/// Maximum number of latencies that are kept for each kind of request. It bounds the memory of a
/// long probe.
const SAMPLES: usize = 200_000;

/// The kind of a request in the [`Account`] of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    Create,
    Replace,
    Read,
    List,
    Delete,
    /// One of 32 concurrent creates of a key.
    CreateRace,
    ReplaceRace,
    /// A write of a long body, in a race or alone.
    LongWrite,
    /// A read of the settings of the bucket.
    #[cfg_attr(not(feature = "s3"), allow(dead_code, reason = "only S3 has settings"))]
    Settings,
}

impl RequestKind {
    /// Returns two names of this kind of request. The report uses the first for latencies, and the
    /// second for the numbers of requests.
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
    /// Number of sent requests of each kind.
    pub requests: BTreeMap<RequestKind, u64>,
    /// Latencies of the answered requests of each kind.
    pub took: BTreeMap<RequestKind, Vec<Duration>>,
    pub sightings: Vec<Sighting>,
    /// Number of keys in all delete requests.
    pub deleted_keys: u64,
    /// Number of requests with an unknown outcome.
    pub in_doubt: u64,
    /// Keys that the probe must delete at its end.
    keys: BTreeSet<String>,
}

/// A store that counts the requests of a probe and measures their latencies.
#[derive(Debug)]
pub struct Meter {
    store: Arc<dyn Store>,
    start: String,
    stop: CancellationToken,
    /// True after a write without a clear answer. While it is true, this store pauses before a
    /// repeated write to a key.
    paced: AtomicBool,
    account: Mutex<Account>,
}

impl Meter {
    /// Returns a meter that forwards requests to the store. Keys of the probe start with `prefix`,
    /// which is empty or ends in a slash. After `stop` is cancelled, the meter sends only the
    /// requests of the cleanup.
    pub fn new(store: Arc<dyn Store>, prefix: &str, stop: CancellationToken) -> Meter {
        let nonce = fastrand::u64(..);
        // No slash follows the nonce. With a slash, a store in a directory would create a folder,
        // and keep the empty folder after the probe.
        let start = format!("{prefix}probe-{nonce:016x}-");
        Meter { store, start, stop, paced: AtomicBool::new(false), account: Mutex::default() }
    }

    /// Returns the text with which every key of this probe begins.
    pub fn start(&self) -> &str {
        &self.start
    }

    pub fn account(&self) -> MutexGuard<'_, Account> {
        lock(&self.account)
    }

    /// Records a key that is about to be written. If the key was written before, and the store may
    /// limit the rate of writes to one key, pauses first. Does not pause the writers of a race.
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

    /// Deletes all keys that this probe may have written. Returns the keys that are left.
    pub async fn clean_up(&self) -> Vec<String> {
        let mut keys: BTreeSet<String> = self.account().keys.clone();
        let mut left = Vec::new();
        for attempt in 0..CLEANINGS {
            if attempt > 0 || self.account().in_doubt > 0 {
                // During this pause, a write with an unknown outcome may take effect, or a failing
                // store may recover.
                pause(AGAIN).await;
            }
            let sought: Vec<String> = keys.iter().cloned().collect();
            for some in sought.chunks(PAGE) {
                self.account().deleted_keys += some.len() as u64;
                let call = self.store.delete(some.to_vec());
                let _ = self.send(RequestKind::Delete, Determinacy::Indeterminate, call).await;
            }
            let call = self.store.list(&self.start, "", PAGE);
            match self.send(RequestKind::List, Determinacy::Determinate, call).await {
                Ok(page) => keys = page.entries.into_iter().map(|entry| entry.key).collect(),
                // If the listing fails, all keys that were to be deleted count as left.
                Err(_) => keys = sought.into_iter().collect(),
            }
            left = self.still_there(&keys).await;
            if left.is_empty() {
                break;
            }
        }
        left
    }

    /// Returns the keys that still exist. A stale listing may show deleted keys, so this function
    /// reads each key.
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
        self.account().deleted_keys += keys.len() as u64;
        let call = self.store.delete(keys.clone());
        let failed = self.ask(RequestKind::Delete, Determinacy::Indeterminate, call).await?;
        if failed.is_empty() {
            let mut account = self.account();
            // Only the keys of races are removed from the account. The other keys remain, because
            // further writes to them must be paced. They are few.
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

/// Converts the error of a request to the failure that ends the probe.
pub fn failure(meter: &Meter, error: StoreError) -> Failure {
    let denied = error.kind() == StoreErrorKind::AccessDenied;
    let mut failure = Failure::from(error);
    if denied {
        failure.why.push_str("; a probe reads, writes, lists and deletes under the prefix");
    }
    let store = meter.describe();
    // The errors of most stores already contain the description of the store.
    let of = if failure.why.contains(&store) { String::new() } else { format!(" {store}") };
    failure.why = format!("probing{of}: {}", failure.why);
    failure
}
