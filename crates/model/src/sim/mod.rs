//! The parts that the simulations of elections and groups share.

pub mod connection;
pub mod suite;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tenure::{Entropy, Process};

use crate::clock::SimClock;
use crate::gate::{Gate, Pausable, TaskEnd};
use crate::time::{self, now};

/// The number of a process. A restarted process gets another number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Who(pub usize);

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// A violation of an invariant.
#[derive(Debug, Clone)]
pub struct Violation {
    pub checker: &'static str,
    pub what: String,
    pub at: Duration,
}

/// Number of occurrences of each event, by its name.
pub type Counts = BTreeMap<&'static str, u64>;

/// The state that each simulated world has.
#[derive(Debug)]
pub struct Common {
    pub rng: fastrand::Rng,
    pub trace: String,
    pub counts: Counts,
    pub violation: Option<Violation>,
    /// True during the phase with faults, and false in the calm phase.
    pub faults: bool,
    /// Names of the active checkers. An empty list means all checkers.
    only: &'static [&'static str],
    uniques: u64,
}

impl Common {
    pub fn new(seed: u64, only: &'static [&'static str]) -> Common {
        let rng = fastrand::Rng::with_seed(seed);
        let (trace, counts) = (String::new(), Counts::new());
        Common { rng, trace, counts, violation: None, faults: true, only, uniques: 0 }
    }

    /// Returns whether this checker is active.
    pub fn is_active(&self, checker: &str) -> bool {
        self.only.is_empty() || self.only.contains(&checker)
    }

    /// Records the first violation of an active checker. Returns true if no violation was recorded
    /// before.
    pub fn fail(&mut self, checker: &'static str, what: String) -> bool {
        let is_first = self.violation.is_none() && self.is_active(checker);
        if is_first {
            self.violation = Some(Violation { checker, what, at: now() });
        }
        is_first
    }

    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.f64() < probability
    }

    /// Returns a random part of `most`.
    pub fn part(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64())
    }

    /// Returns a random duration up to `most`. Most durations are short, and some are long.
    pub fn tail(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64().powi(3))
    }
}

/// The state of one run, which its processes share.
pub trait World: fmt::Debug + Send + Sync + 'static {
    fn common<T>(&self, use_it: impl FnOnce(&mut Common) -> T) -> T;

    /// Returns a gate of a process: 0 for the tasks of the application, 1 for the tasks of the
    /// library.
    fn gate(&self, who: Who, number: usize) -> Arc<Gate>;

    /// Records a violation of an invariant. The first violation ends the run.
    fn fail(&self, checker: &'static str, what: String);
}

/// Creates a machine that has been up for a while, with an arbitrary wall clock.
pub fn machine(world: &impl World, rate: u64) -> Arc<SimClock> {
    let [boot, wall] = world.common(|it| [10_000_000, 200_000_000].map(|most| it.rng.u64(0..most)));
    let wall = Duration::from_millis(1_800_000_000_000 + wall);
    SimClock::new(Duration::from_millis(boot), wall, rate)
}

/// Starts a task of a process. A panic of the task is a violation.
pub fn spawn<W: World>(
    world: &Arc<W>,
    who: Who,
    gate: usize,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let (gate, world) = (world.gate(who, gate), Arc::clone(world));
    tokio::spawn(async move {
        if let TaskEnd::Panicked(message) = Pausable::new(gate, task).await {
            world.fail("panic", format!("{who}: {message}"));
        }
    });
}

/// Returns the clock and the random numbers of a process, for the library.
pub fn process(world: &Arc<impl World>, clock: &Arc<SimClock>) -> Process {
    let entropy = Arc::new(Seeded(Arc::clone(world)));
    Process::system().with_clock(Arc::clone(clock) as Arc<_>).with_entropy(entropy)
}

/// Gives the library random numbers that the seed determines.
#[derive(Debug)]
struct Seeded<W>(Arc<W>);

impl<W: World> Entropy for Seeded<W> {
    fn unique(&self) -> u128 {
        self.0.common(|it| {
            it.uniques += 1;
            (u128::from(it.rng.u64(..)) << 64) | u128::from(it.uniques)
        })
    }

    fn fraction(&self) -> f64 {
        self.0.common(|it| it.rng.f64())
    }
}

/// Runs a simulation in paused time, on one thread. Its simulated time begins at zero.
pub fn in_paused_time<T>(run: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO can be built");
    runtime.block_on(async {
        time::start();
        run.await
    })
}

/// Implements the parts of a world that the simulations of groups and of several stores share. The
/// struct `World` has the fields `plan`, `state` and `over`. The struct `State` has the fields
/// `common` and `machines`.
#[macro_export]
macro_rules! simulated_world {
    () => {
        impl World {
            pub fn state(&self) -> std::sync::MutexGuard<'_, State> {
                self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
            }

            /// Writes a line into the timeline if the plan enables the timeline.
            pub fn note(&self, who: Who, what: impl FnOnce() -> String) {
                if self.plan.traced {
                    let line = format!("{:>12.3?} {who} {}\n", $crate::time::now(), what());
                    self.state().trace.push_str(&line);
                }
            }

            pub fn fail(&self, checker: &'static str, what: String) {
                if self.state().common.fail(checker, what) {
                    self.over.notify_one();
                }
            }

            pub fn count(&self, what: &'static str) {
                self.state().count(what);
            }

            pub fn chance(&self, probability: f64) -> bool {
                self.state().chance(probability)
            }

            pub fn part(&self, of: std::time::Duration) -> std::time::Duration {
                self.state().part(of)
            }
        }

        impl $crate::sim::World for World {
            fn common<T>(&self, use_it: impl FnOnce(&mut $crate::sim::Common) -> T) -> T {
                use_it(&mut self.state().common)
            }

            fn gate(&self, who: Who, number: usize) -> Arc<$crate::gate::Gate> {
                Arc::clone(&self.state().machines[who.0].gates[number])
            }

            fn fail(&self, checker: &'static str, what: String) {
                World::fail(self, checker, what);
            }
        }

        impl std::ops::Deref for State {
            type Target = $crate::sim::Common;

            fn deref(&self) -> &Self::Target {
                &self.common
            }
        }

        impl std::ops::DerefMut for State {
            fn deref_mut(&mut self) -> &mut Self::Target {
                &mut self.common
            }
        }
    };
}
