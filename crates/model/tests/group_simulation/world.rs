//! The shared state of one run: the processes, the bucket, the random numbers and the checks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tenure::Epoch;
use tenure_groups::Partition;
use tenure_model::gate::Gate;
pub use tenure_model::sim::Who;
use tenure_model::sim::suite::Outcome;
use tenure_model::sim::{Common, in_paused_time};
use tokio::sync::Notify;

use super::bucket::Bucket;
use super::checks::Book;
use super::plan::{Broken, Plan};
use super::trouble::Trouble;
use super::{fault_effects, process};

/// Events that the first hundred seeds must show at least once.
pub const ALL_HAPPEN: [&str; 26] = [
    "assignments",
    "calms that balanced",
    "compactions of sessions",
    "compactions",
    "crashes",
    "deaths in the calm phase",
    "deaths with an unreadable session",
    "deletions of all assignments",
    "deletions of the prefix",
    "faults of a key",
    "faults of a process",
    "grants",
    "joins in the calm phase",
    "leaves in the calm phase",
    "newest assignments deleted",
    "operations",
    "pauses",
    "restarts in the calm phase",
    "restores given up",
    "restores",
    "sessions deleted",
    "sessions resigned",
    "sessions sealed as lapsed",
    "suspends",
    "works that failed",
    "writes spoiled",
];

#[derive(Debug)]
pub struct World {
    pub plan: Plan,
    state: Mutex<State>,
    /// Notified if a violation of an invariant ends the run early.
    over: Notify,
}

#[derive(Debug)]
pub struct State {
    pub common: Common,
    pub bucket: Bucket,
    pub book: Book,
    pub machines: Vec<Machine>,
    pub handles: Vec<Handle>,
    /// The current faults of single objects and processes. In the calm phase, only the function
    /// `unread` adds such a fault.
    pub troubles: BTreeMap<u64, Trouble>,
    /// The keys of the creates and deletions that may still take effect, by the number of the
    /// request.
    pub under_way: BTreeMap<u64, Vec<String>>,
    numbers: u64,
    /// The time at which the last delayed request reaches the bucket.
    pub held_up_until: Duration,
}

tenure_model::simulated_world!();

/// The state that the simulation keeps for each process.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Gates that stop the tasks of the process. The first gate is for the tasks of the
    /// application, and the second gate is for the tasks of the library.
    pub gates: [Arc<Gate>; 2],
    pub outage: bool,
    pub alive: bool,
    pub stopped: bool,
    /// True for a member, false for a compactor or an operator.
    pub is_member: bool,
    /// Number of calls in progress, if the process is a compactor or an operator.
    pub calls: u32,
    /// The epoch of the greatest assignment that the process has read or created.
    pub seen: Option<Epoch>,
}

impl State {
    /// Returns a number that is unique in this run.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub fn add_trouble(&mut self, trouble: Trouble) -> u64 {
        let number = self.number();
        self.troubles.insert(number, trouble);
        number
    }
}

/// A partition that the application of a process works on.
#[derive(Debug, Clone)]
pub struct Handle {
    pub who: Who,
    pub number: u32,
    pub partition: Weak<Partition>,
}

/// Runs one seed.
pub fn run(plan: Plan) -> Outcome<Plan> {
    let world = in_paused_time(async {
        let world = World::new(plan.clone());
        tokio::select! {
            biased;
            () = world.over.notified() => {}
            () = live(&world) => {}
        }
        world
    });
    let Common { counts, violation, trace, .. } =
        std::mem::replace(&mut world.state().common, Common::new(0, &[]));
    Outcome { plan, counts, violation, trace, recovered: None, drawing: () }
}

/// Runs the phase with faults, and then the calm phase.
async fn live(world: &Arc<World>) {
    let mut slots: Vec<_> =
        (0..world.plan.members).map(|number| process::start(world, number)).collect();
    if world.plan.broken == Broken::NewestCompacted {
        tokio::spawn(fault_effects::compact_wrongly(Arc::clone(world)));
    } else if world.plan.compacts {
        process::start_compactor(world);
    }
    if world.plan.operates {
        process::start_operator(world);
    }
    let restorer = world.plan.has_restorer().then(|| process::operator(world, "restorer"));
    fault_effects::inject(world, &mut slots, restorer.as_ref()).await;
    fault_effects::calm(world, slots, restorer.as_ref()).await;
}

impl World {
    fn new(plan: Plan) -> Arc<World> {
        let state = State {
            // The XOR makes this generator differ from the generator of the plan.
            common: Common::new(plan.seed ^ 0x5eed_0000_0000_0000, plan.only),
            bucket: Bucket::default(),
            book: Book::default(),
            machines: Vec::new(),
            handles: Vec::new(),
            troubles: BTreeMap::new(),
            under_way: BTreeMap::new(),
            numbers: 0,
            held_up_until: Duration::ZERO,
        };
        Arc::new(World { plan, state: Mutex::new(state), over: Notify::new() })
    }

    /// Records that a compactor or an operator begins a call of the library.
    pub fn call_begins(&self, who: Who) {
        self.state().machines[who.0].calls += 1;
    }

    pub fn call_ends(&self, who: Who) {
        self.state().machines[who.0].calls -= 1;
    }

    /// Returns whether other programs have deleted assignments in this run.
    pub fn has_lost(&self) -> bool {
        self.state().book.deleted.is_some()
    }

    /// Returns the handles of running processes for which `of` returns true, each with its
    /// partition.
    pub fn running(&self, of: impl Fn(&Handle) -> bool) -> Vec<(Handle, Arc<Partition>)> {
        let state = self.state();
        let runs = |handle: &&Handle| {
            let machine = &state.machines[handle.who.0];
            of(handle) && machine.alive && !machine.stopped
        };
        let handles = state.handles.iter().filter(runs);
        handles.filter_map(|it| Some((it.clone(), it.partition.upgrade()?))).collect()
    }

    /// Returns the owner of each owned partition: the process in which `Partition::check` succeeds.
    pub fn owners(&self) -> BTreeMap<u32, Who> {
        let owned =
            self.running(|_| true).into_iter().filter(|(_, partition)| partition.check().is_ok());
        owned.map(|(handle, _)| (handle.number, handle.who)).collect()
    }
}
