//! The shared state of one run: the stores, the processes, the random numbers and the checks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure_model::clock::SimClock;
use tenure_model::gate::Gate;
pub use tenure_model::sim::Who;
use tenure_model::sim::suite::{Outcome, Recovery};
use tenure_model::sim::{Common, in_paused_time};
use tenure_model::time::{now, sleep};
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
    "faults between a store and a process",
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
    "writes spoiled",
];

#[derive(Debug)]
pub struct World {
    pub plan: Plan,
    state: Mutex<State>,
    /// Notified if a violation ends the run early.
    over: Notify,
}

#[derive(Debug)]
pub struct State {
    pub common: Common,
    pub stores: Vec<Place>,
    pub machines: Vec<Machine>,
    /// The current faults. The key is the number of the fault.
    pub troubles: BTreeMap<u64, Trouble>,
    numbers: u64,
    /// Number of requests that were sent during the faults and may still take effect.
    pub in_flight: u64,
    pub book: Book,
}

/// One store.
#[derive(Debug, Default)]
pub struct Place {
    pub bucket: Bucket,
    /// An older state of the bucket.
    pub before: Bucket,
    /// Number of times that the store has lost its contents.
    pub losses: u32,
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
    /// The last accepted renewal at any store, for [`Broken::GreatestLease`].
    pub renewed: Option<(u64, Duration)>,
}

impl State {
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

tenure_model::simulated_world!();

/// Runs one seed.
pub fn run(plan: Plan) -> Outcome<Plan> {
    let (world, recovered) = in_paused_time(async {
        let world = World::new(plan.clone());
        let recovered = tokio::select! {
            biased;
            () = world.over.notified() => None,
            recovered = live(Arc::clone(&world)) => recovered,
        };
        (world, recovered)
    });
    let Common { counts, violation, trace, .. } =
        std::mem::replace(&mut world.state().common, Common::new(0, &[]));
    Outcome { plan, counts, violation, trace, recovered, drawing: () }
}

/// Runs the phase with faults, and then the calm phase.
async fn live(world: Arc<World>) -> Option<Recovery> {
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
            common: Common::new(plan.seed ^ 0xac05_5000_0000_0000, plan.only),
            stores: (0..of).map(place).collect(),
            machines: Vec::new(),
            troubles: BTreeMap::new(),
            numbers: 0,
            in_flight: 0,
            book: Book::default(),
        };
        Arc::new(World { plan, state: Mutex::new(state), over: Notify::new() })
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
