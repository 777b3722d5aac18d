//! What an election takes from the process it runs in: time, randomness, background tasks, and the
//! nonces it has sent.

use std::collections::HashSet;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::entropy::{Entropy, SystemEntropy};
use crate::moment::Moment;
use crate::mutex::unpoisoned;
use crate::protocol::message::Nonce;

/// A task that runs in the background.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where an election takes its time and its random numbers from, and where it runs its tasks.
///
/// The default is the process itself; a simulation runs many processes in one and gives each its
/// own. Clones are the same process.
#[derive(Debug, Clone)]
pub struct Process {
    parts: Arc<Parts>,
}

#[derive(Debug, Clone)]
struct Parts {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// Nonces that this process has sent: an epoch object with one of them was not left by a
    /// predecessor. 16 bytes for every create, kept for ever.
    nonces: Arc<Mutex<HashSet<Nonce>>>,
    /// The elections in which it has campaigned.
    campaigned: Arc<Mutex<HashSet<(String, String)>>>,
    spawner: Spawner,
}

#[derive(Clone)]
struct Spawner(Arc<dyn Fn(Task) + Send + Sync>);

impl Process {
    /// A process with this clock and these random numbers.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Process {
        let spawner = Spawner(Arc::new(|task| drop(tokio::spawn(task))));
        let (nonces, campaigned) = Default::default();
        Process { parts: Arc::new(Parts { clock, entropy, nonces, campaigned, spawner }) }
    }

    /// The same process, whose background tasks (one for each leadership) are handed to `spawn`
    /// instead of to tokio: a simulation stops them together with the rest of the process.
    #[must_use]
    pub fn with_spawner(mut self, spawn: impl Fn(Task) + Send + Sync + 'static) -> Process {
        Arc::make_mut(&mut self.parts).spawner = Spawner(Arc::new(spawn));
        self
    }

    /// The process that this code runs in.
    #[must_use]
    pub fn system() -> Process {
        static SYSTEM: LazyLock<Process> =
            LazyLock::new(|| Process::new(Arc::new(SystemClock), Arc::new(SystemEntropy)));
        SYSTEM.clone()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        (self.parts.spawner.0)(Box::pin(task));
    }

    pub(crate) fn now(&self) -> Moment {
        self.parts.clock.now()
    }

    pub(crate) fn unique(&self) -> u128 {
        self.parts.entropy.unique()
    }

    /// A fresh nonce, remembered as this process's own.
    pub(crate) fn nonce(&self) -> Nonce {
        let nonce = Nonce::from_bits(self.parts.entropy.unique());
        unpoisoned(self.parts.nonces.lock()).insert(nonce);
        nonce
    }

    pub(crate) fn has_sent(&self, nonce: Nonce) -> bool {
        unpoisoned(self.parts.nonces.lock()).contains(&nonce)
    }

    /// Whether no campaign of this process has been made in this election before.
    pub(crate) fn first_campaign(&self, store: &str, prefix: &str) -> bool {
        let mut campaigned = unpoisoned(self.parts.campaigned.lock());
        campaigned.insert((store.to_owned(), prefix.to_owned()))
    }

    /// A random part of `most`.
    pub(crate) fn jitter(&self, most: Duration) -> Duration {
        most.mul_f64(self.parts.entropy.fraction().clamp(0.0, 1.0))
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Spawner")
    }
}
