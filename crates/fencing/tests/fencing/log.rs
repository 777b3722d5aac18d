//! Tests of the cost of each call of a log, of long logs, and of concurrent calls. The concurrent
//! writers, trims and readers use a store that loses, delays and repeats requests.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{Determinacy, ETag, Entry, Page, PutOutcome, StoreError, StoreErrorKind};
use tenure_fencing::LogEntry;

use super::*;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{millis, wait};

#[tokio::test(start_paused = true)]
async fn each_call_sends_the_documented_requests() {
    let faults = FaultStore::new(Arc::new(MemoryStore::new()));
    let store: Arc<dyn Store> = Arc::new(faults.clone());
    let costs = |expected: &[Call]| assert_eq!(faults.take_calls(), expected);
    use Call::{Create, Delete, Get, List, Replace};

    let log = log_of(&store);
    let mut writer = log.open(e(1)).await.unwrap();
    costs(&[List, Create, List]);
    for _ in 0..3 {
        writer.append("x").await.unwrap();
        costs(&[Create]);
    }
    log.latest().await.unwrap();
    costs(&[List, Get, Get]);
    writer.latest().await.unwrap();
    costs(&[Get]);
    let mut next = log.open(e(2)).await.unwrap();
    costs(&[List, Get, Create, List]);
    log.latest().await.unwrap();
    costs(&[List, Get, Get, Get]);
    next.append("x").await.unwrap();
    costs(&[Create]);
    refused(writer.append("x").await, 1, 2);
    costs(&[Create, Get, Get]);
    all(&log, 1).await;
    costs(&[List, Get, Get, Get, Get, Get, Get, Get]);
    log.trim(3).await.unwrap();
    costs(&[Get, List, Get, Get, Get, Get, Create, List, Delete, List, Get, Replace]);

    let object = object_of(&store);
    let mut writer = object.open(e(1)).await.unwrap();
    costs(&[Get, Create]);
    writer.write("x").await.unwrap();
    costs(&[Replace]);
    let mut next = object.open(e(2)).await.unwrap();
    costs(&[Get, Replace]);
    refused(writer.write("x").await, 1, 2);
    costs(&[Replace, Get]);
    next.write("x").await.unwrap();
    object.read().await.unwrap();
    costs(&[Replace, Get]);

    let gate = gate_of(&store);
    gate.admit(e(2)).await.unwrap();
    costs(&[Get, Create]);
    gate.admit(e(2)).await.unwrap();
    costs(&[Get]);
    gate.admit(e(3)).await.unwrap();
    costs(&[Replace]);
    refused(gate.admit(e(2)).await, 2, 3);
    costs(&[Get]);
    gate.sole_instance().admit(e(3)).await.unwrap();
    costs(&[]);
}

/// A log with `entries` entries. To save memory, the store lists all entries, but has only the
/// object of the last entry.
#[derive(Debug)]
struct Long {
    entries: u64,
    end: MemoryStore,
    requests: Mutex<usize>,
}

#[async_trait]
impl Layer for Long {
    fn inner(&self) -> &dyn Store {
        &self.end
    }

    async fn before(&self, _: Call) {
        *self.requests.lock().unwrap() += 1;
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let after: u64 = after[prefix.len()..].parse().expect("a number");
        let first = after.saturating_add(1);
        let there = first..first.saturating_add(limit as u64).min(self.entries);
        let key = |number: u64| format!("{prefix}{number:020}");
        let entry = |number| Entry::new(key(number), 9);
        let mut entries: Vec<_> = there.clone().map(entry).collect();
        let truncated = entries.len() == limit;
        if !truncated {
            let after = key(after.max(self.entries - 1));
            entries.extend(self.end.list(prefix, &after, limit).await?.entries);
        }
        Ok(Page::new(entries, truncated))
    }
}

#[tokio::test]
async fn the_end_of_a_million_entries_is_found_in_tens_of_requests() {
    for entries in [1_000, 123_456, 1_000_000, 1_000_000_000] {
        let last =
            format!("{{\"tenure_log\":1,\"epoch\":1,\"nonce\":\"{:032x}\",\"claim\":1}}\nlast", 7);
        let end = MemoryStore::new();
        end.create(&format!("log/{entries:020}"), last.into()).await.unwrap();
        let store = Arc::new(Layered(Long { entries, end, requests: Mutex::default() }));
        let requests = || std::mem::take(&mut *store.0.requests.lock().unwrap());
        let log = FencedLog::new(Arc::clone(&store) as Arc<dyn Store>, "log").unwrap();
        assert_eq!(log.latest().await.unwrap().unwrap().number, entries);
        let cold = requests();
        log.latest().await.unwrap();
        assert_eq!(requests(), 3, "the log remembers its end");
        let opened = FencedLog::new(Arc::clone(&store) as Arc<dyn Store>, "log").unwrap();
        opened.open(e(2)).await.unwrap();
        let open = requests();
        println!("{entries} entries: latest {cold}, open {open} requests");
        assert!(cold <= 60 && open <= 61, "{cold} {open}");
        assert!(entries > 1_000_000 || (cold <= 30 && open <= 31), "{cold} {open}");
    }
}

#[tokio::test(start_paused = true)]
async fn long_logs_are_read_page_by_page() {
    let faults = FaultStore::new(Arc::new(MemoryStore::new()));
    let store: Arc<dyn Store> = Arc::new(faults.clone());
    let log = log_of(&store);
    let mut writer = log.open(e(1)).await.unwrap();
    for number in 2..=1_300 {
        assert_eq!(writer.append(format!("{number}")).await.unwrap(), number);
    }
    let expected: Vec<_> = (2..=1_300).map(|number| (number, 1, number.to_string())).collect();
    assert_eq!(all(&log, 0).await, expected);
    faults.on(Call::List).always().fault(Fault::Pages(7));
    assert_eq!(all(&log, 1_000).await, expected[998..]);
    let cold = log_of(&store);
    assert_eq!(cold.latest().await.unwrap().unwrap().number, 1_300);
    assert_eq!(cold.trim(1_290).await.unwrap(), 1_290);
    assert_eq!(all(&log, 1_290).await, expected[1_288..]);
    let left = faults.inner().list("log/", "", 1_000).await.unwrap().entries.len();
    assert_eq!(left, 1 + 11 + 1, "the claim, 11 entries, and the marker");
}

/// A store that loses, delays and repeats requests at random, from a seed. It records the first
/// object at each number.
#[derive(Debug)]
struct Chaos {
    inner: Arc<MemoryStore>,
    rng: Mutex<fastrand::Rng>,
    first: Arc<Mutex<BTreeMap<String, Bytes>>>,
}

impl Chaos {
    fn draw(&self, most: u64) -> u64 {
        self.rng.lock().unwrap().u64(..most)
    }

    async fn pause(&self) {
        // A few requests are delayed for a long time.
        let long = self.draw(12) == 0;
        wait(millis(self.draw(if long { 3_000 } else { 30 }))).await;
    }

    async fn created(
        inner: &MemoryStore,
        first: &Mutex<BTreeMap<String, Bytes>>,
        key: &str,
        body: Bytes,
    ) -> Result<PutOutcome, StoreError> {
        let outcome = inner.create(key, body.clone()).await?;
        if let PutOutcome::Done { .. } = outcome {
            first.lock().unwrap().entry(key.to_owned()).or_insert(body);
        }
        Ok(outcome)
    }
}

#[async_trait]
impl Layer for Chaos {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn before(&self, call: Call) {
        if call != Call::Delete {
            self.pause().await;
        }
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let page = self.inner.list(prefix, after, limit.min(5)).await;
        self.pause().await;
        page
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let got = self.inner.get(key, unless, max_len).await;
        self.pause().await;
        got
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        if self.draw(8) == 0 {
            // A copy of the request arrives later. In half of these cases the original request is
            // lost.
            let (inner, first) = (Arc::clone(&self.inner), Arc::clone(&self.first));
            let (key, body, delay) = (key.to_owned(), body.clone(), self.draw(4_000));
            tokio::spawn(async move {
                wait(millis(delay)).await;
                Chaos::created(&inner, &first, &key, body).await
            });
            if self.draw(2) == 0 {
                let why = "the request or its response was lost";
                return Err(StoreError::new(
                    StoreErrorKind::Transient,
                    Determinacy::Indeterminate,
                    why,
                ));
            }
        }
        let outcome = Chaos::created(&self.inner, &self.first, key, body).await?;
        self.pause().await;
        if self.draw(10) == 0 {
            return Err(StoreError::new(
                StoreErrorKind::Transient,
                Determinacy::Indeterminate,
                "lost",
            ));
        }
        Ok(outcome)
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        // Deletes the keys one after another with pauses, because a batch deletion of a real store
        // is not atomic.
        for key in &keys {
            self.pause().await;
            self.inner.delete(vec![key.clone()]).await?;
        }
        Ok(Vec::new())
    }
}

/// Runs one process. For each of these epochs, the process opens the log, appends entries, and
/// trims the log.
async fn lives(store: Arc<dyn Store>, epochs: Vec<u64>, acked: Arc<Mutex<Vec<LogEntry>>>) {
    let log = log_of(&store);
    for epoch in epochs {
        let Ok(mut writer) = log.open(e(epoch)).await else { continue };
        for i in 0..6 {
            let body = format!("{epoch} {i}");
            match writer.append(body.clone()).await {
                Ok(number) => {
                    let entry = LogEntry::new(number, e(epoch), body);
                    acked.lock().unwrap().push(entry);
                }
                Err(FencingError::Failed(error)) => assert!(error.may_have_happened(), "{error}"),
                Err(_) => break,
            }
            if i == 3 {
                let _ = log.trim(writer.last().unwrap_or(1)).await;
            }
        }
    }
}

async fn round(seed: u64) -> (usize, u64, usize) {
    let store = Arc::new(Layered(Chaos {
        inner: Arc::default(),
        rng: Mutex::new(fastrand::Rng::with_seed(seed)),
        first: Arc::default(),
    }));
    let (acked, read) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let shared = || Arc::clone(&store) as Arc<dyn Store>;
    let writers: Vec<_> = [vec![1, 4, 7], vec![2, 5, 8], vec![3, 6, 6]]
        .into_iter()
        .map(|epochs| tokio::spawn(lives(shared(), epochs, Arc::clone(&acked))))
        .collect();
    let (log, seen) = (log_of(&shared()), Arc::clone(&read));
    let reader = tokio::spawn(async move {
        for _ in 0..12 {
            wait(millis(300)).await;
            let from = log.oldest().await.unwrap();
            if let Ok(entries) = log.read_from(from).try_collect::<Vec<_>>().await {
                seen.lock().unwrap().extend(entries);
            }
            if let Ok(Some(latest)) = log.latest().await {
                seen.lock().unwrap().push(latest);
            }
        }
    });
    for task in writers.into_iter().chain([reader]) {
        task.await.unwrap();
    }
    wait(secs(10)).await;
    let first = store.0.first.lock().unwrap().clone();
    let there: BTreeMap<u64, (Epoch, Bytes, bool)> = first
        .iter()
        .filter_map(|(key, bytes)| {
            let number = key.strip_prefix("log/")?.parse().ok()?;
            let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
            let line: serde_json::Value = serde_json::from_slice(&bytes[..end]).unwrap();
            let epoch = e(line["epoch"].as_u64().unwrap());
            let fence = line.get("fence_after").is_some();
            Some((number, (epoch, bytes.slice(end + 1..), fence)))
        })
        .collect();
    // Writers pass the fences of older writers, so fences may be between entries. Fences may also
    // be above the newest entry or claim.
    let log: Vec<_> = there.iter().filter(|(_, (.., fence))| !fence).collect();
    let end = log.last().map_or(0, |(number, _)| **number);
    assert!((1..=end).all(|number| there.contains_key(&number)), "seed {seed}: the log has gaps");
    assert!(log.is_sorted_by_key(|(_, (epoch, ..))| *epoch), "seed {seed}: epochs decrease");
    let fences = there.len() - log.len();
    let acked = acked.lock().unwrap().clone();
    for entry in acked.iter().chain(&*read.lock().unwrap()) {
        let first = (entry.epoch, entry.body.clone(), false);
        assert_eq!(there.get(&entry.number), Some(&first), "seed {seed}: {entry:?}");
    }
    let marker = FencedLog::new(Arc::clone(&store.0.inner) as Arc<dyn Store>, "log").unwrap();
    (acked.len(), marker.oldest().await.unwrap(), fences)
}

/// The environment variable `SEEDS` sets the number of seeds. A failure reports its seed.
#[tokio::test(start_paused = true)]
async fn the_log_is_correct_under_concurrent_writers_trims_and_readers() {
    let seeds = std::env::var("SEEDS").map_or(60, |seeds| seeds.parse().expect("a number"));
    let (mut acked, mut trimmed, mut fences) = (0, 0, 0);
    for seed in 0..seeds {
        let (appends, oldest, fenced) = round(seed).await;
        fences += fenced as u64;
        acked += appends;
        trimmed += u64::from(oldest > 1);
    }
    println!("{seeds} seeds: {acked} appends, {fences} fences, trims in {trimmed} seeds");
    assert!(acked as u64 > 10 * seeds && trimmed > seeds / 2, "{acked} {trimmed}");
    assert!(fences > seeds / 2, "{fences} fences");
}
