//! Random losses, replacements, moves, depositions and faults while candidates campaign and lead.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use fastrand::Rng;
use tenure::store::{ETag, GetOutcome, MemoryStore, Page, PutOutcome, Store, StoreError};
use tenure::{Election, Lease};
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::time::{millis, secs, wait, within};
use tenure_testkit::world::VALIDITY;
use tenure_testkit::write_faults::WRITE_FAULTS;

use super::scene::Scene;

const CANDIDATES: usize = 3;

/// The store that one candidate uses at one index. An operator changes the settings of the
/// candidates one after another.
#[derive(Debug, Clone)]
struct Way(Arc<Mutex<FaultStore>>);

impl Way {
    fn to(store: &FaultStore) -> Way {
        Way(Arc::new(Mutex::new(store.clone())))
    }

    fn now(&self) -> FaultStore {
        self.0.lock().unwrap().clone()
    }
}

#[async_trait]
impl Store for Way {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        self.now().list(prefix, after, limit).await
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        self.now().get(key, unless, max_len).await
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        self.now().create(key, body).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        self.now().replace(key, body, etag).await
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.now().delete(keys).await
    }

    fn describe(&self) -> String {
        "a store that may move".to_owned()
    }
}

/// The grants so far, and the last lease of each candidate.
#[derive(Default)]
struct Board {
    granted: Vec<u64>,
    leases: [Option<Lease>; CANDIDATES],
}

impl Board {
    fn grant(&mut self, candidate: usize, lease: Lease) {
        let epoch = lease.epoch().get();
        assert!(!self.granted.contains(&epoch), "I1: epoch {epoch} is granted twice");
        self.granted.push(epoch);
        self.leases[candidate] = Some(lease);
    }

    fn leaders(&self) -> usize {
        self.leases.iter().flatten().filter(|lease| lease.check().is_ok()).count()
    }
}

/// Campaigns, leads for a random time, and then resigns or dies.
async fn live(election: Election, number: usize, seed: u64, board: Arc<Mutex<Board>>) {
    let mut random = Rng::with_seed(seed);
    loop {
        let Ok(leadership) = election.campaign().await else {
            wait(secs(1)).await;
            continue;
        };
        board.lock().unwrap().grant(number, leadership.lease());
        let _ = within(secs(random.u64(1..40)), leadership.lost()).await;
        if random.bool() {
            let _ = leadership.resign().await;
        }
    }
}

/// Repeats the call of an operator until it succeeds.
async fn repeat(call: impl AsyncFn() -> bool) {
    for _ in 0..50 {
        if call().await {
            return;
        }
        wait(secs(2)).await;
    }
    panic!("the call of an operator fails again and again");
}

/// Makes the next writes at a random store fail.
fn disturb(scene: &Scene, random: &mut Rng) {
    let store = &scene.stores[random.usize(..scene.stores.len())];
    for call in [Call::Create, Call::Replace, Call::List, Call::Get] {
        let fault = match random.u64(0..4) {
            0 => Fault::Slow(millis(random.u64(1..4_000))),
            1 => Fault::AnswerLate(millis(random.u64(1..4_000))),
            _ if matches!(call, Call::List | Call::Get) => Fault::FailBefore,
            _ => WRITE_FAULTS[random.usize(..WRITE_FAULTS.len())],
        };
        store.on(call).skip(random.usize(0..3)).times(random.usize(1..3)).fault(fault);
    }
}

async fn act(scene: &mut Scene, ways: &[Vec<Way>], random: &mut Rng) {
    let index = random.usize(..scene.stores.len());
    match random.u64(0..6) {
        0 => {
            scene.wipe(index).await;
            wait(millis(random.u64(0..15_000))).await;
            let replace = async || scene.operator().replace_store(index, VALIDITY).await.is_ok();
            repeat(replace).await;
        }
        1 => {
            let new = FaultStore::new(Arc::new(MemoryStore::new()));
            let old = std::mem::replace(&mut scene.stores[index], new.clone());
            let call = async || {
                let old = Arc::new(old.clone());
                scene.operator().move_store(old, index, VALIDITY).await.is_ok()
            };
            repeat(call).await;
            for way in ways {
                wait(millis(random.u64(0..10_000))).await;
                *way[index].0.lock().unwrap() = new.clone();
            }
        }
        2 => drop(scene.operator().depose(None).await),
        3 => {
            scene.stores[index].always(Fault::Hang);
            wait(millis(random.u64(0..30_000))).await;
            scene.stores[index].heal();
        }
        _ => disturb(scene, random),
    }
}

async fn walk(stores: usize, seed: u64) -> usize {
    let mut scene = Scene::with_set(stores).await;
    let mut random = Rng::with_seed(seed);
    let board = Arc::<Mutex<Board>>::default();
    let mut ways: Vec<Vec<Way>> = Vec::new();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CANDIDATES {
        let to: Vec<Way> = scene.stores.iter().map(Way::to).collect();
        let of = to.iter().map(|way| Arc::new(way.clone()) as _).collect();
        let election = scene.across(of).name(format!("c{number}")).build().unwrap();
        tasks.spawn(live(election, number, random.u64(..), Arc::clone(&board)));
        ways.push(to);
    }
    let watched = Arc::clone(&board);
    tasks.spawn(async move {
        loop {
            let leaders = watched.lock().unwrap().leaders();
            assert!(leaders <= 1, "I8: {leaders} processes lead (seed {seed})");
            wait(millis(50)).await;
        }
    });
    let check = |tasks: &mut tokio::task::JoinSet<()>| {
        if let Some(ended) = tasks.try_join_next() {
            ended.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    };
    for _ in 0..40 {
        act(&mut scene, &ways, &mut random).await;
        wait(millis(random.u64(0..8_000))).await;
        check(&mut tasks);
    }
    scene.stores.iter().for_each(|store| store.heal());
    let before = board.lock().unwrap().granted.len();
    wait(secs(200)).await;
    check(&mut tasks);
    let granted = board.lock().unwrap().granted.len();
    assert!(granted > before, "Live: no candidate is elected (seed {seed})");
    granted
}

#[tokio::test(start_paused = true)]
async fn no_two_processes_lead_while_stores_are_lost_replaced_and_moved() {
    for seed in 0..10 {
        let granted = walk(if seed % 3 == 0 { 5 } else { 3 }, seed).await;
        assert!(granted > 5, "{granted} grants (seed {seed})");
    }
}
