//! The shared state of one run: the stores, the processes, the random numbers and the checks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tenure::Entropy;
use tenure_model::clock::SimClock;
use tenure_model::gate::Gate;
use tenure_model::time::{self, now, sleep};
use tokio::sync::Notify;

use super::bucket::Bucket;
use super::checks::{self, Book};
use super::faults;
use super::network::Trouble;
use super::plan::Plan;
use super::process;

/// Events that the first seeds must show at least once.
pub const ALL_HAPPEN: [&str; 17] = [
    "blackouts",
    "crashes",
    "depositions",
    "epochs compacted",
    "grants",
    "leaders observed",
    "leaderships lost",
    "outages",
    "pauses",
    "refusals of a wrong list",
    "replacements",
    "resignations",
    "stores rolled back",
    "stores wiped",
    "suspends",
    "troubles of a store and a process",
    "writes spoiled",
];

/// The number of a process. A restarted process gets another number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Who(pub usize);

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

#[derive(Debug)]
pub struct World {
    pub plan: Plan,
    state: Mutex<State>,
    /// Notified if a violation ends the run early.
    over: Notify,
}

#[derive(Debug, Clone)]
pub struct Violation {
    pub checker: &'static str,
    pub what: String,
    pub at: Duration,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    pub seed: u64,
    pub plan: Plan,
    pub counts: BTreeMap<&'static str, u64>,
    pub violation: Option<Violation>,
    pub trace: String,
    /// Time from the last fault until the last grant, divided by its bound.
    pub recovered: Option<f64>,
}

#[derive(Debug)]
pub struct State {
    pub rng: fastrand::Rng,
    trace: String,
    pub counts: BTreeMap<&'static str, u64>,
    pub stores: Vec<Place>,
    pub machines: Vec<Machine>,
    /// The current faults. The key is the number of the fault.
    pub troubles: BTreeMap<u64, Trouble>,
    numbers: u64,
    pub faults: bool,
    /// Number of requests that may still take effect, and were sent during the faults.
    pub in_flight: u64,
    pub book: Book,
    violation: Option<Violation>,
    uniques: u64,
}

/// One store.
#[derive(Debug, Default)]
pub struct Place {
    pub bucket: Bucket,
    /// An older state of the bucket.
    pub before: Bucket,
    /// Number of contents that the store has had.
    pub contents: u32,
    /// The marker of the contents that were lost last.
    pub marker: Option<String>,
    /// True from the loss of the contents until the end of the replacement.
    pub is_lost: bool,
}

/// The state that the simulation keeps for each process.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Gates that stop the tasks of the process. The first gate is for the tasks of the
    /// application, and the second gate is for the tasks of the library.
    pub gates: [Arc<Gate>; 2],
    pub clock: Arc<SimClock>,
    pub alive: bool,
    pub stopped: bool,
    /// True if the process has a wrong list of stores, so it must not write an epoch.
    pub is_wrong: bool,
    /// Numbers of LIST, GET and PUT.
    pub requests: [usize; 3],
    /// The last accepted renewal at any store, for [`Broken::GreatestLease`].
    pub renewed: Option<(u64, Duration)>,
}

impl State {
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.rng.f64() < probability
    }

    pub fn part(&mut self, of: Duration) -> Duration {
        of.mul_f64(self.rng.f64())
    }

    /// Returns a random duration that is usually short.
    pub fn tail(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.rng.f64().powi(3))
    }

    pub fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

/// Runs one seed.
pub fn run(plan: Plan) -> Outcome {
    run_with(plan, live)
}

pub fn run_with<F>(plan: Plan, live: impl FnOnce(Arc<World>) -> F) -> Outcome
where
    F: Future<Output = Option<f64>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO can be built");
    let (world, recovered) = runtime.block_on(async {
        time::start();
        let world = World::new(plan.clone());
        let recovered = tokio::select! {
            biased;
            () = world.over.notified() => None,
            recovered = live(Arc::clone(&world)) => recovered,
        };
        (world, recovered)
    });
    drop(runtime);
    let mut state = world.state();
    Outcome {
        seed: plan.seed,
        plan,
        counts: std::mem::take(&mut state.counts),
        violation: state.violation.take(),
        trace: std::mem::take(&mut state.trace),
        recovered,
    }
}

/// Runs the phase with faults, and then the calm phase.
async fn live(world: Arc<World>) -> Option<f64> {
    let world = &world;
    let mut slots: Vec<_> =
        (0..world.plan.candidates.len()).map(|number| process::start(world, number)).collect();
    let observer = process::start_observer(world);
    if world.plan.compacts {
        (0..world.plan.stores()).for_each(|store| process::start_compactor(world, store));
    }
    if let Some(wrong) = world.plan.wrong {
        process::start_wrong(world, wrong);
    }
    let operator = Arc::new(process::operator(world));
    faults::inject(world, &mut slots, observer, &operator).await;
    faults::end(world).await;
    faults::prepare_calm(world, &slots);
    checks::calm(world).await
}

impl World {
    fn new(plan: Plan) -> Arc<World> {
        let of = plan.stores();
        let place = |store: usize| {
            let mut place = Place::default();
            let key = marker(store, of, 1);
            place.bucket.put(&key, bytes::Bytes::from_static(b"{}"), now());
            place
        };
        let state = State {
            // The XOR makes this generator differ from the generator of the plan.
            rng: fastrand::Rng::with_seed(plan.seed ^ 0xac05_5000_0000_0000),
            trace: String::new(),
            counts: BTreeMap::new(),
            stores: (0..of).map(place).collect(),
            machines: Vec::new(),
            troubles: BTreeMap::new(),
            numbers: 0,
            faults: true,
            in_flight: 0,
            book: Book::default(),
            violation: None,
            uniques: 0,
        };
        Arc::new(World { plan, state: Mutex::new(state), over: Notify::new() })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn note(&self, who: Who, what: impl FnOnce() -> String) {
        if self.plan.traced {
            let line = format!("{:>12.3?} {who} {}\n", now(), what());
            self.state().trace.push_str(&line);
        }
    }

    pub fn fail(&self, checker: &'static str, what: String) {
        if !self.plan.only.is_empty() && !self.plan.only.contains(&checker) {
            return;
        }
        let mut state = self.state();
        let at = now();
        state.violation.get_or_insert(Violation { checker, what, at });
        drop(state);
        self.over.notify_one();
    }

    pub fn count(&self, what: &'static str) {
        self.state().count(what);
    }

    pub fn chance(&self, probability: f64) -> bool {
        self.state().chance(probability)
    }

    /// Waits for a random part of this time.
    pub async fn rest(&self, most: Duration) {
        let rest = self.state().part(most);
        sleep(rest).await;
    }
}

/// Returns the key of a marker.
pub fn marker(store: usize, of: usize, generation: u32) -> String {
    format!("app/lock-set-00000000000000ab-{}of{of}-{generation:010}.json", store + 1)
}

/// Gives the library random numbers that the seed determines.
impl Entropy for World {
    fn unique(&self) -> u128 {
        let mut state = self.state();
        state.uniques += 1;
        (u128::from(state.rng.u64(..)) << 64) | u128::from(state.uniques)
    }

    fn fraction(&self) -> f64 {
        self.state().rng.f64()
    }
}
