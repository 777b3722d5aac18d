//! An election in either layout, on a store with faults.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tenure::store::{DirStore, GetOutcome, MemoryStore};
use tenure::{Deposed, Election, ElectionBuilder, Epoch, Error, Layout, Leadership};

use tenure_testkit::fault_store::{Fault, FaultStore, overwrite};
use tenure_testkit::time::{TestClock, process, wait};
use tenure_testkit::world::{VALIDITY, elect};

pub const LAYOUTS: [Layout; 2] = [Layout::EpochFiles, Layout::SingleObject];

pub async fn depose(ann: &Election, dead: bool, only: Option<Epoch>) -> Result<Deposed, Error> {
    match dead {
        true => ann.depose_dead(only).await,
        false => ann.depose(only).await,
    }
}

pub struct Scene {
    pub store: FaultStore,
    pub clock: TestClock,
    pub layout: Layout,
    _dir: Option<tempfile::TempDir>,
}

impl Scene {
    pub fn new(layout: Layout) -> Scene {
        let clock = TestClock::new();
        let memory = MemoryStore::with_clock(Arc::new(clock.clone()));
        Scene { store: FaultStore::new(Arc::new(memory)), clock, layout, _dir: None }
    }

    pub fn in_a_directory(layout: Layout) -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let store = FaultStore::new(Arc::new(DirStore::open(dir.path()).unwrap()));
        Scene { store, clock: TestClock::new(), layout, _dir: Some(dir) }
    }

    pub fn node(&self, name: &str) -> ElectionBuilder {
        self.behind(&self.store, name)
    }

    /// Returns a candidate that uses the connection `way` to the same objects. The connection has
    /// its own faults.
    pub fn behind(&self, way: &FaultStore, name: &str) -> ElectionBuilder {
        let seed = name.bytes().fold(7, |seed, byte| seed * 31 + u64::from(byte));
        Election::builder(Arc::new(way.clone()), "app")
            .layout(self.layout)
            .name(name)
            .validity(VALIDITY)
            .check_store(false)
            .process(process(&self.clock, seed))
    }

    pub fn another_way(&self) -> FaultStore {
        FaultStore::new(Arc::clone(self.store.inner()))
    }

    pub fn election(&self, name: &str) -> Election {
        self.node(name).build().unwrap()
    }

    /// Returns a leader that is cut off from the store after this time.
    pub async fn cut_off_leader(&self, after: Duration) -> Leadership {
        let way = self.another_way();
        let leader = elect(&self.behind(&way, "a").build().unwrap()).await;
        wait(after).await;
        way.always(Fault::Hang);
        leader
    }

    pub async fn leader(&self, name: &str) -> Leadership {
        elect(&self.election(name)).await
    }

    pub fn key(&self, epoch: u64) -> String {
        match self.layout {
            Layout::EpochFiles => format!("app/lock-{epoch:010}.json"),
            _ => "app/lock.json".to_owned(),
        }
    }

    /// Reads the record of an epoch from the inner store, which has no faults. Returns null if the
    /// object does not exist.
    pub async fn record(&self, epoch: u64) -> Value {
        match self.store.inner().get(&self.key(epoch), None, 1 << 20).await.unwrap() {
            GetOutcome::Found(object) => serde_json::from_slice(&object.body).unwrap_or_default(),
            _ => Value::Null,
        }
    }

    pub async fn put(&self, epoch: u64, body: impl Into<Vec<u8>>) {
        let body = Bytes::from(body.into());
        overwrite(&**self.store.inner(), &self.key(epoch), body).await;
    }

    pub async fn edit(&self, epoch: u64, change: impl FnOnce(&mut Value)) {
        let mut record = self.record(epoch).await;
        change(&mut record);
        self.put(epoch, record.to_string()).await;
    }

    /// Writes a renewal with the nonce of the holder.
    pub async fn renew(&self, epoch: u64) {
        let next = |record: &mut Value| {
            record["heartbeat"] = json!(record["heartbeat"].as_u64().unwrap() + 1);
        };
        self.edit(epoch, next).await;
    }
}

pub fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

/// Returns whether the record shows that its epoch has ended.
pub fn is_sealed(record: &Value) -> bool {
    record["expired"] == true || record["expires_at"] == 0.0
}
