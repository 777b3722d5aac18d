//! Groups of partitions: what they cost, and how long a partition is without an owner.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure::Process;
use tenure::store::Store;
use tenure_groups::{Group, Partition};
use tokio::task::JoinHandle;

mod kcl;
mod large;
mod moves;
mod steady;

pub use large::measure as large;
pub use moves::measure as moves;
pub use steady::measure as steady;

pub const VALIDITY: Duration = Duration::from_secs(30);

/// A member that owns what it is granted and gives up at once what is revoked.
pub struct Worker {
    group: Group,
    owned: Arc<Mutex<BTreeMap<String, Arc<Partition>>>>,
    task: JoinHandle<()>,
}

/// A group of so many partitions, and its settings.
#[derive(Debug, Clone)]
pub struct Fleet {
    pub store: Arc<dyn Store>,
    pub partitions: u32,
    pub validity: Duration,
}

impl Fleet {
    pub fn start(&self, name: &str, process: Process) -> Worker {
        let group = self.group(name, process);
        let owned = Arc::<Mutex<BTreeMap<_, _>>>::default();
        let task = tokio::spawn(run(group.clone(), Arc::clone(&owned)));
        Worker { group, owned, task }
    }

    pub fn group(&self, name: &str, process: Process) -> Group {
        Group::builder(Arc::clone(&self.store), "app")
            .name(name)
            .partitions(0..self.partitions)
            .validity(self.validity)
            .check_store(false)
            .process(process)
            .build()
            .expect("these settings fit together")
    }

    /// Waits until all partitions have owners and each worker has its share. Looks this often.
    pub async fn balanced(&self, workers: &[Worker], look: Duration) {
        let share = self.partitions as usize / workers.len();
        let fair = |worker: &Worker| (share..=share + 1).contains(&worker.count());
        while self.owned(workers) < self.partitions as usize || !workers.iter().all(fair) {
            tokio::time::sleep(look).await;
        }
    }

    pub fn owned(&self, workers: &[Worker]) -> usize {
        workers.iter().map(Worker::count).sum()
    }
}

async fn run(group: Group, owned: Arc<Mutex<BTreeMap<String, Arc<Partition>>>>) {
    let lock = || owned.lock().unwrap_or_else(PoisonError::into_inner);
    let work = async |partition: Partition| {
        let (name, partition) = (partition.name().to_owned(), Arc::new(partition));
        lock().insert(name.clone(), Arc::clone(&partition));
        partition.revoked().cancelled().await;
        lock().remove(&name);
        Ok(())
    };
    group.run(work).await.expect("the store answers");
}

impl Worker {
    fn owned(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Partition>>> {
        self.owned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn count(&self) -> usize {
        self.owned().len()
    }

    pub fn names(&self) -> Vec<String> {
        self.owned().keys().cloned().collect()
    }

    /// What is left of its session, by its own clock.
    pub fn remaining(&self) -> Duration {
        self.owned().values().next().map_or(Duration::ZERO, |it| it.remaining())
    }

    /// As if its process had died.
    pub fn kill(self) {
        self.task.abort();
    }

    pub async fn leave_for(self, delay: Duration) {
        self.group.leave_for(delay);
        self.task.await.expect("it leaves");
    }
}
