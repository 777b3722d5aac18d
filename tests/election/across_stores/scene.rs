//! The stores of one election across stores, with faults.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use serde_json::{Value, json};
use tenure::store::{GetOutcome, MemoryStore, Store};
use tenure::{Election, ElectionBuilder, Leadership};
use tenure_testkit::fault_store::{Call, FaultStore, overwrite};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{TestClock, millis, process, within};
use tenure_testkit::world::{VALIDITY, elect, key};

pub struct Scene {
    pub stores: Vec<FaultStore>,
    clock: TestClock,
    seed: AtomicU64,
}

impl Scene {
    /// Returns this number of empty stores.
    pub fn new(stores: usize) -> Scene {
        Scene::on((0..stores).map(|_| Arc::new(MemoryStore::new()) as _))
    }

    pub fn on(stores: impl Iterator<Item = Arc<dyn Store>>) -> Scene {
        let (clock, seed) = (TestClock::new(), AtomicU64::new(1));
        Scene { stores: stores.map(FaultStore::new).collect(), clock, seed }
    }

    /// Returns stores with the markers of one set.
    pub async fn with_set(stores: usize) -> Scene {
        let scene = Scene::new(stores);
        scene.operator().init_stores().await.unwrap();
        scene.stores.iter().for_each(|store| drop(store.take_log()));
        scene
    }

    pub fn across(&self, stores: Vec<Arc<dyn Store>>) -> ElectionBuilder {
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        let process = process(&self.clock, seed);
        Election::across(stores, "app").name("ann").validity(VALIDITY).process(process)
    }

    /// Returns the election of an operator, in a separate process.
    pub fn operator(&self) -> Election {
        self.operator_of(&self.stores)
    }

    pub fn operator_of(&self, stores: &[FaultStore]) -> Election {
        let stores = stores.iter().map(|store| Arc::new(store.clone()) as _);
        self.across(stores.collect()).build().unwrap()
    }

    /// Runs the call of an operator that dies before the request with this number. Returns true if
    /// the call returns before that request.
    pub async fn crash<T>(
        &self,
        requests: usize,
        stores: &[FaultStore],
        call: impl AsyncFnOnce(Election, Arc<Fuse>) -> T,
    ) -> bool {
        let fuse = Arc::new(Fuse(AtomicUsize::new(requests)));
        let stores = stores.iter().map(|store| fuse.store(store));
        let election = self.across(stores.collect()).build().unwrap();
        within(millis(1), call(election, fuse)).await.is_some()
    }

    /// Elects a leader with this name.
    pub async fn elect(&self, name: &str) -> Leadership {
        elect(&self.candidate(name)).await
    }

    pub fn candidate(&self, name: &str) -> Election {
        let stores = self.stores.iter().map(|store| Arc::new(store.clone()) as _);
        self.across(stores.collect()).name(name).build().unwrap()
    }

    pub async fn keys(&self, store: usize) -> Vec<String> {
        let page = self.stores[store].inner().list("app/", "", 1_000).await.unwrap();
        page.entries.into_iter().map(|entry| entry.key).collect()
    }

    /// Returns the record of an epoch in a store, or null.
    pub async fn record(&self, store: usize, epoch: u64) -> Value {
        match self.stores[store].inner().get(&key(epoch), None, 1 << 20).await.unwrap() {
            GetOutcome::Found(object) => serde_json::from_slice(&object.body).unwrap_or_default(),
            _ => Value::Null,
        }
    }

    pub async fn put(&self, store: usize, key: &str, body: &Value) {
        overwrite(&**self.stores[store].inner(), key, body.to_string().into()).await;
    }

    /// Writes the unsealed epoch of a leader to these stores.
    pub async fn leads(&self, epoch: u64, stores: &[usize]) {
        for store in stores {
            self.put(*store, &key(epoch), &unsealed(epoch)).await;
        }
    }

    /// Deletes all objects of a store.
    pub async fn wipe(&self, store: usize) {
        self.stores[store].inner().delete(self.keys(store).await).await.unwrap();
    }
}

/// The record of a leader named `a`. The nonce follows from the epoch.
pub fn unsealed(epoch: u64) -> Value {
    json!({
        "expired": false, "validity_ms": 10_000, "format": 2, "candidate": "a",
        "nonce": format!("{epoch:032x}"), "heartbeat": 1,
    })
}

/// The number of requests that an operator sends before it dies.
#[derive(Debug)]
pub struct Fuse(AtomicUsize);

impl Fuse {
    pub fn store(self: &Arc<Fuse>, store: &FaultStore) -> Arc<dyn Store> {
        Arc::new(Layered(Fused { inner: store.clone(), fuse: Arc::clone(self) }))
    }
}

#[derive(Debug)]
struct Fused {
    inner: FaultStore,
    fuse: Arc<Fuse>,
}

#[async_trait]
impl Layer for Fused {
    fn inner(&self) -> &dyn Store {
        &self.inner
    }

    async fn before(&self, _: Call) {
        let left = |left: usize| left.checked_sub(1);
        if self.fuse.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_err() {
            pending::<()>().await;
        }
    }
}
