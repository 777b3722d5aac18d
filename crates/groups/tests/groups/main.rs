//! Partition groups through the public API, in paused time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::store::MemoryStore;
use tenure_groups::{Group, GroupBuilder, Membership, MembershipEvent, Partition};
use tenure_testkit::fault_store::FaultStore;
use tenure_testkit::time::{TestClock, process, wait};
use tokio::sync::mpsc;

mod compaction;
mod deaths;
mod deleted;
mod failing;
mod joining;
pub mod limits;
mod metrics;
mod operators;
mod overdue;
mod paths;
mod restored;
mod run;
mod sessions;
mod sharing;
mod trouble;
mod writes;

pub const VALIDITY: Duration = Duration::from_secs(30);
pub const POLL: Duration = Duration::from_secs(5);

/// A store, a clock, and the processes of one group.
pub struct Fleet {
    pub store: FaultStore,
    pub clock: TestClock,
    partitions: u32,
    seed: AtomicU64,
}

impl Fleet {
    pub fn new(partitions: u32) -> Fleet {
        let clock = TestClock::new();
        let memory = MemoryStore::with_clock(Arc::new(clock.clone()));
        Fleet {
            store: FaultStore::new(Arc::new(memory)),
            clock,
            partitions,
            seed: AtomicU64::new(1),
        }
    }

    /// Returns the settings of a new process. These settings turn off the store check, so tests
    /// need not count its requests.
    pub fn node(&self, name: &str) -> GroupBuilder {
        self.node_behind(&self.store, name)
    }

    /// Returns the settings of a new process that accesses the store of the fleet through `store`.
    pub fn node_behind(&self, store: &FaultStore, name: &str) -> GroupBuilder {
        let process = process(&self.clock, self.seed.fetch_add(1, Ordering::Relaxed));
        Group::builder(Arc::new(store.clone()), "app")
            .name(name)
            .partitions(0..self.partitions)
            .check_store(false)
            .process(process)
    }

    pub fn group(&self, name: &str) -> Group {
        self.node(name).build().unwrap()
    }

    /// Joins a member that releases each revoked partition immediately.
    pub async fn member(&self, name: &str) -> Node {
        Node::of(self.group(name).join().await.unwrap())
    }
}

/// A member, and a task that handles its events.
pub struct Node {
    owned: Arc<Mutex<BTreeMap<String, Partition>>>,
    leaves: mpsc::UnboundedSender<Option<Duration>>,
    pub task: tokio::task::JoinHandle<Vec<String>>,
}

impl Node {
    pub fn of(membership: Membership) -> Node {
        let (leaves, left) = mpsc::unbounded_channel();
        let owned = Arc::default();
        let task = tokio::spawn(follow(membership, Arc::clone(&owned), left));
        Node { owned, leaves, task }
    }

    pub fn leave(&self) {
        self.leaves.send(None).unwrap();
    }

    pub fn leave_for(&self, delay: Duration) {
        self.leaves.send(Some(delay)).unwrap();
    }

    /// Returns the partitions for which `check` succeeds, each with its token.
    pub fn owned(&self) -> BTreeMap<String, u64> {
        let owned = self.owned.lock().unwrap();
        let checked = owned.iter().filter_map(|(name, partition)| {
            let token = partition.check().ok()?;
            assert_eq!(token, partition.token());
            Some((name.clone(), token.get()))
        });
        checked.collect()
    }

    /// Ends all tasks of the member, as if its process died.
    pub fn kill(self) {
        self.task.abort();
    }
}

/// Handles the events of a membership until it ends. Returns the texts of all events except grants
/// and revocations.
async fn follow(
    mut membership: Membership,
    owned: Arc<Mutex<BTreeMap<String, Partition>>>,
    mut leaves: mpsc::UnboundedReceiver<Option<Duration>>,
) -> Vec<String> {
    let mut events = Vec::new();
    loop {
        let event = tokio::select! {
            event = membership.next() => event,
            Some(delay) = leaves.recv() => {
                delay.map_or_else(|| membership.leave(), |delay| membership.leave_for(delay));
                continue;
            }
        };
        match event {
            Some(MembershipEvent::Granted(partition)) => {
                let name = partition.name().to_owned();
                owned.lock().unwrap().insert(name, partition);
            }
            Some(MembershipEvent::Revoked { name, .. }) => {
                let revoked = owned.lock().unwrap().remove(&name);
                let revoked = revoked.expect("a revoked partition was granted before");
                assert!(revoked.revoked().is_cancelled());
                revoked.release();
            }
            Some(event) => events.push(format!("{event:?}")),
            None => return events,
        }
    }
}

/// Returns the owner and the token of each owned partition. Asserts that no partition has two
/// owners.
pub fn owners(nodes: &[&Node]) -> BTreeMap<String, (usize, u64)> {
    let mut owners = BTreeMap::new();
    for (place, node) in nodes.iter().enumerate() {
        for (name, token) in node.owned() {
            let before = owners.insert(name.clone(), (place, token));
            assert_eq!(before, None, "{name} is owned twice");
        }
    }
    owners
}

/// Waits until `nodes` own all partitions in equal shares. Returns the duration of the wait.
pub async fn balanced(nodes: &[&Node], partitions: u32, within: Duration) -> Duration {
    let step = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    loop {
        let owners = owners(nodes);
        let counts = |place| owners.values().filter(|(owner, _)| *owner == place).count();
        let counts: BTreeSet<usize> = (0..nodes.len()).map(counts).collect();
        let spread = counts.last().unwrap() - counts.first().unwrap();
        if owners.len() == partitions as usize && spread <= 1 {
            return waited;
        }
        assert!(waited < within, "{} of {partitions} owned, counts {counts:?}", owners.len());
        wait(step).await;
        waited += step;
    }
}
