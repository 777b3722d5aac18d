//! The stores and the processes of a test.

use std::sync::Arc;

use serde_json::Value;
use tenure::store::{GetOutcome, MemoryStore};
use tenure::{Election, ElectionBuilder, Store};
use tenure_testkit::fault_store::{Fault, FaultStore, overwrite};
use tenure_testkit::time::{TestClock, process};

pub struct Scene {
    pub stores: Vec<Arc<FaultStore>>,
    pub clock: TestClock,
}

impl Scene {
    /// Creates stores with markers.
    pub async fn new(stores: usize) -> Scene {
        let scene = Scene::unmarked(stores);
        for (store, number) in scene.stores.iter().zip(1..) {
            let marker =
                format!("app/lock-set-00000000000000ab-{number}of{stores}-0000000001.json");
            store.create(&marker, "{}".into()).await.unwrap();
        }
        scene
    }

    pub fn unmarked(stores: usize) -> Scene {
        let clock = TestClock::new();
        let store = |_| {
            let objects = MemoryStore::with_clock(Arc::new(clock.clone()));
            Arc::new(FaultStore::new(Arc::new(objects)))
        };
        Scene { stores: (0..stores).map(store).collect(), clock }
    }

    /// Returns the connections of another process: the same objects with separate faults.
    pub fn view(&self) -> Scene {
        let store = |it: &Arc<FaultStore>| Arc::new(FaultStore::new(it.inner().clone()));
        Scene { stores: self.stores.iter().map(store).collect(), clock: self.clock.clone() }
    }

    /// Overwrites an epoch object of one store.
    pub async fn put(&self, store: usize, epoch: u64, body: &str) {
        let key = format!("app/lock-{epoch:010}.json");
        overwrite(&**self.stores[store].inner(), &key, body.to_owned().into()).await;
    }

    pub fn builder(&self, number: u64) -> ElectionBuilder {
        let stores = self.stores.iter().map(|store| store.clone() as Arc<dyn Store>);
        Election::across(stores, "app")
            .name(format!("node-{number}"))
            .process(process(&self.clock, number))
    }

    pub fn node(&self, number: u64) -> Election {
        self.builder(number).build().unwrap()
    }

    /// Makes a store unreachable.
    pub fn down(&self, store: usize) {
        self.stores[store].always(Fault::Hang);
    }

    pub fn up(&self, store: usize) {
        self.stores[store].heal();
    }

    /// Returns the `ended` of the epoch at each store.
    pub async fn ended(&self, epoch: u64) -> Vec<Option<String>> {
        let mut ended = Vec::new();
        for store in &self.stores {
            let key = format!("app/lock-{epoch:010}.json");
            let got = store.inner().get(&key, None, 65_536).await.unwrap();
            ended.push(match got {
                GetOutcome::Found(object) => {
                    let record: Value = serde_json::from_slice(&object.body).unwrap();
                    record["ended"].as_str().map(str::to_owned)
                }
                _ => None,
            });
        }
        ended
    }
}
