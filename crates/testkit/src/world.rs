//! A store, a clock, and the candidates of one election.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};
use tenure::store::{GetOutcome, MemoryStore, PutOutcome};
use tenure::{CampaignOutcome, Election, ElectionBuilder, Leader, Leadership};

use super::fault_store::{FaultStore, overwrite};
use super::time::{TestClock, process, secs};

/// Validity of leases in these tests. Leaders renew every 3.3 s, and followers poll every 1.7 s.
/// The request timeout is 2 s.
pub const VALIDITY: Duration = Duration::from_secs(10);
/// Maximum time between the death of a leader and the election of the next leader. This time
/// includes the validity, the drift, 10 % jitter and some retries.
pub const TAKEOVER: Duration = Duration::from_millis(12_500);

/// The objects and clocks of one election under the prefix `app`.
pub struct World {
    pub store: FaultStore,
    pub clock: TestClock,
    seed: AtomicU64,
}

impl World {
    pub fn new() -> World {
        let clock = TestClock::new();
        let memory = MemoryStore::with_clock(Arc::new(clock.clone()));
        World { store: FaultStore::new(Arc::new(memory)), clock, seed: AtomicU64::new(1) }
    }

    /// Returns the builder of a candidate in a separate process. The machine of this process has
    /// the same clock as the store. The candidate does not check the store, so that tests can count
    /// requests.
    pub fn node(&self, name: &str) -> ElectionBuilder {
        self.node_on(&self.clock, name)
    }

    /// Returns the builder of a candidate on a machine with this clock.
    pub fn node_on(&self, clock: &TestClock, name: &str) -> ElectionBuilder {
        self.node_behind(&self.store, clock, name)
    }

    /// Returns another store with the same objects but separate faults.
    pub fn another_way(&self) -> FaultStore {
        FaultStore::new(Arc::clone(self.store.inner()))
    }

    pub fn node_behind(
        &self,
        store: &FaultStore,
        clock: &TestClock,
        name: &str,
    ) -> ElectionBuilder {
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        Election::builder(Arc::new(store.clone()), "app")
            .name(name)
            .validity(VALIDITY)
            .check_store(false)
            .process(process(clock, seed))
    }

    /// Elects a leader with the default settings.
    pub async fn leader(&self, name: &str) -> Leadership {
        elect(&self.node(name).build().unwrap()).await
    }

    /// Writes `app/<name>` unconditionally. The faults of the store do not apply to this write.
    pub async fn put(&self, name: &str, body: impl Into<Vec<u8>>) {
        overwrite(&**self.store.inner(), &format!("app/{name}"), body.into().into()).await;
    }

    /// Returns the record of an epoch, or null if the epoch does not exist. The faults of the store
    /// do not apply to this read.
    pub async fn record(&self, epoch: u64) -> Value {
        match self.store.inner().get(&key(epoch), None, usize::MAX).await.unwrap() {
            GetOutcome::Found(object) => serde_json::from_slice(&object.body).unwrap(),
            _ => Value::Null,
        }
    }

    /// Changes fields in the record of an epoch.
    pub async fn edit(&self, epoch: u64, changes: Value) {
        let mut record = self.record(epoch).await;
        for (field, value) in changes.as_object().unwrap() {
            record[field] = value.clone();
        }
        self.put(&name(epoch), record.to_string()).await;
    }

    /// Seals an epoch as another process would.
    pub async fn seal(&self, epoch: u64, ended: &str) {
        let heartbeat = self.record(epoch).await["heartbeat"].as_u64().unwrap_or(0) + 1;
        let seal =
            json!({ "expired": true, "ended": ended, "sealed_by": "x", "heartbeat": heartbeat });
        self.edit(epoch, seal).await;
    }

    pub async fn delete(&self, name: &str) {
        self.store.inner().delete(vec![format!("app/{name}")]).await.unwrap();
    }

    /// Returns the existing epochs. The faults of the store do not apply to this listing.
    pub async fn epochs(&self) -> Vec<u64> {
        let page = self.store.inner().list("app/lock-", "", 1_000).await.unwrap();
        let number = |key: &str| key.strip_prefix("app/lock-")?.strip_suffix(".json")?.parse().ok();
        page.entries.iter().filter_map(|entry| number(&entry.key)).collect()
    }

    /// Creates an object. Panics if the object already exists.
    pub async fn create(&self, name: &str, body: impl Into<Vec<u8>>) {
        let body = body.into().into();
        let outcome = self.store.inner().create(&format!("app/{name}"), body).await.unwrap();
        assert!(matches!(outcome, PutOutcome::Done { .. }), "{name} exists");
    }
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}

pub fn name(epoch: u64) -> String {
    format!("lock-{epoch:010}.json")
}

pub fn key(epoch: u64) -> String {
    format!("app/{}", name(epoch))
}

/// Campaigns. Panics after five minutes.
pub async fn elect(election: &Election) -> Leadership {
    let campaign = super::time::within(secs(300), election.campaign());
    campaign.await.expect("elected within five minutes").expect("elected")
}

pub fn elected(attempt: CampaignOutcome) -> Leadership {
    let CampaignOutcome::Elected(leadership) = attempt else { panic!("{attempt:?}") };
    leadership
}

pub fn held(attempt: CampaignOutcome) -> Leader {
    let CampaignOutcome::Held(leader) = attempt else { panic!("{attempt:?}") };
    leader
}

/// Returns the items that are ready in the stream, without waiting.
pub async fn ready<T>(stream: &mut (impl Stream<Item = T> + Unpin)) -> Vec<T> {
    let mut all = Vec::new();
    while let Some(Some(item)) = futures::FutureExt::now_or_never(stream.next()) {
        all.push(item);
    }
    all
}
