//! The process of an election: its clocks, random numbers, background tasks, and sent nonces.

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use crate::env::clock::{Clock, SystemClock};
use crate::env::entropy::{Entropy, Seeded, SystemEntropy};
use crate::env::moment::Moment;
use crate::env::mutex::unpoisoned;
use crate::env::nonce::Nonce;

/// A task that runs in the background.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The clocks, random numbers and background tasks of an election.
///
/// By default an election uses the real process, [`system`](Process::system). A test or a
/// simulation can have several `Process` values: each call of [`with_clock`](Process::with_clock)
/// or [`with_seed`](Process::with_seed) creates another process. A clone is the same process.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{CampaignOutcome, Election, Process, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// let store = Arc::new(MemoryStore::new());
/// // One test with two processes. A repeated run with these seeds draws the same random numbers.
/// let machine = |seed| {
///     let process = Process::system().with_seed(seed);
///     Election::builder(store.clone(), "test").process(process).build()
/// };
/// let leadership = machine(1)?.campaign().await?;
/// assert!(matches!(machine(2)?.try_campaign().await?, CampaignOutcome::Held(_)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Process {
    parts: Arc<Parts>,
}

#[derive(Debug, Clone)]
struct Parts {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// Nonces that this process has sent. With these nonces, a process can tell its own epoch
    /// objects from the epoch objects of an earlier process with the same name. Each create adds 16
    /// bytes, which are kept until the process ends.
    nonces: Arc<Mutex<HashSet<Nonce>>>,
    /// Elections in which this process has campaigned.
    campaigned: Arc<Mutex<HashSet<(String, String)>>>,
    spawner: Spawner,
}

#[derive(Clone)]
struct Spawner(Arc<dyn Fn(Task) + Send + Sync>);

impl Process {
    /// Returns the real process, with the machine's clocks, the operating system's random numbers,
    /// and Tokio's tasks.
    #[must_use]
    pub fn system() -> Process {
        static SYSTEM: LazyLock<Process> = LazyLock::new(|| {
            let spawner = Spawner(Arc::new(|task| drop(tokio::spawn(task))));
            let (nonces, campaigned) = Default::default();
            let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
            Process { parts: Arc::new(Parts { clock, entropy, nonces, campaigned, spawner }) }
        });
        SYSTEM.clone()
    }

    /// Returns another process with this clock.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Process {
        self.another(|parts| parts.clock = clock)
    }

    /// Returns another process that draws all its random numbers from this seed. So a run can be
    /// repeated. Use it only in simulations and tests.
    ///
    /// Give each process a different seed. Two processes with one seed draw the same nonces, and
    /// each would mistake the other's writes for its own writes.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Process {
        self.another(|parts| parts.entropy = Arc::new(Seeded::new(seed)))
    }

    /// Returns another process that draws its random numbers from `entropy`. In a simulation, all
    /// processes use the same `entropy`.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    #[must_use]
    pub fn with_entropy(self, entropy: Arc<dyn Entropy>) -> Process {
        self.another(|parts| parts.entropy = entropy)
    }

    fn another(mut self, change: impl FnOnce(&mut Parts)) -> Process {
        let parts = Arc::make_mut(&mut self.parts);
        (parts.nonces, parts.campaigned) = Default::default();
        change(parts);
        self
    }

    /// Returns the same process with another executor. The function `spawn` runs the background
    /// tasks instead of Tokio: one task for each leadership. So a simulation can stop these tasks
    /// with the rest of the process.
    #[must_use]
    pub fn with_spawner(mut self, spawn: impl Fn(Task) + Send + Sync + 'static) -> Process {
        Arc::make_mut(&mut self.parts).spawner = Spawner(Arc::new(spawn));
        self
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        (self.parts.spawner.0)(Box::pin(task));
    }

    /// Reads the clocks of this process.
    #[must_use]
    pub fn now(&self) -> Moment {
        self.parts.clock.now()
    }

    pub(crate) fn unique(&self) -> u128 {
        self.parts.entropy.unique()
    }

    /// Draws a nonce, and records it as a nonce of this process.
    pub(crate) fn nonce(&self) -> Nonce {
        let nonce = Nonce::from_bits(self.parts.entropy.unique());
        unpoisoned(self.parts.nonces.lock()).insert(nonce);
        nonce
    }

    pub(crate) fn has_sent(&self, nonce: Nonce) -> bool {
        unpoisoned(self.parts.nonces.lock()).contains(&nonce)
    }

    /// Returns true if this process has not campaigned in this election before, and notes this
    /// campaign.
    pub(crate) fn first_campaign(&self, store: &str, prefix: &str) -> bool {
        let mut campaigned = unpoisoned(self.parts.campaigned.lock());
        campaigned.insert((store.to_owned(), prefix.to_owned()))
    }

    /// Returns a random duration up to `most`.
    pub(crate) fn jitter(&self, most: Duration) -> Duration {
        most.mul_f64(self.parts.entropy.fraction().clamp(0.0, 1.0))
    }
}

impl Clock for Process {
    fn now(&self) -> Moment {
        self.now()
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawner")
    }
}
