//! Simulated processes: candidates with their applications, an observer, compactors, an operator,
//! and a process with a wrong list of stores.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tenure::{
    CampaignOutcome, Compactor, Election, ElectionBuilder, ErrorKind, Leadership, Observation,
};
use tenure_model::clock::SimClock;
use tenure_model::gate::Gate;
use tenure_model::sim::{machine, process, spawn};
use tenure_model::time::{now, sleep};

use super::checks;
use super::plan::{Knobs, Wrong};
use super::store::{self, SimStore};
use super::world::{Machine, Who, World};

/// A machine that runs candidates, one after another.
#[derive(Debug)]
pub struct Slot {
    pub number: usize,
    pub clock: Arc<SimClock>,
    pub who: Who,
}

/// The operator of the stores.
#[derive(Debug)]
pub struct Operator {
    pub who: Who,
    pub election: Election,
}

fn join(world: &World, clock: &Arc<SimClock>) -> Who {
    let mut state = world.state();
    let who = Who(state.machines.len());
    state.machines.push(Machine {
        gates: [Arc::<Gate>::default(), Arc::<Gate>::default()],
        clock: Arc::clone(clock),
        alive: true,
        stopped: false,
        is_wrong: false,
        renewed: None,
    });
    who
}

fn builder(world: &Arc<World>, who: Who, name: &str) -> ElectionBuilder {
    builder_of(store::all(world, who), world, who, name)
}

fn builder_of(
    stores: Vec<Arc<dyn tenure::Store>>,
    world: &Arc<World>,
    who: Who,
    name: &str,
) -> ElectionBuilder {
    let clock = Arc::clone(&world.state().machines[who.0].clock);
    let its_world = Arc::clone(world);
    let process = process(world, &clock).with_spawner(move |task| spawn(&its_world, who, 1, task));
    Election::across(stores, "app")
        .name(name)
        .process(process)
        .validity(world.plan.validity)
        .clock_drift_max(world.plan.drift)
        .check_store(false)
}

pub fn start(world: &Arc<World>, number: usize) -> Slot {
    let clock = machine(&**world, world.plan.candidates[number].rate);
    let who = start_on(world, number, &clock);
    Slot { number, clock, who }
}

/// Starts the candidate `number` and its application on the machine that has this clock.
pub fn start_on(world: &Arc<World>, number: usize, clock: &Arc<SimClock>) -> Who {
    let who = join(world, clock);
    let knobs = world.plan.candidates[number].clone();
    let election = builder(world, who, &knobs.name)
        .validity(knobs.validity)
        .poll_interval(knobs.poll)
        .resign_on_drop(knobs.resign_on_drop)
        .build()
        .expect("the settings are valid");
    spawn(world, who, 0, live(Arc::clone(world), who, election, knobs));
    who
}

async fn live(world: Arc<World>, who: Who, election: Election, knobs: Knobs) {
    loop {
        let began = now();
        let elected = match knobs.tries {
            true => election.try_campaign().await.map(|outcome| match outcome {
                CampaignOutcome::Elected(leadership) => Some(leadership),
                _ => None,
            }),
            false => election.campaign().await.map(Some),
        };
        match elected {
            Ok(Some(leadership)) => lead(&world, who, leadership, began, &knobs).await,
            Ok(None) => sleep(knobs.poll).await,
            Err(error) => {
                world.note(who, || format!("fails: {error}"));
                world.count(match error.kind() {
                    ErrorKind::Unavailable => "campaigns without a majority",
                    _ => "campaigns refused",
                });
                world.rest(knobs.validity / 2).await;
            }
        }
    }
}

/// Leads for a while, and then resigns, drops the leadership, or ignores its loss for a while.
async fn lead(world: &World, who: Who, leadership: Leadership, began: Duration, knobs: &Knobs) {
    world.note(who, || format!("LEADS with epoch {}", leadership.epoch()));
    checks::granted(world, who, began, leadership.lease(), knobs.validity);
    loop {
        let calm = !world.state().faults;
        let most = knobs.validity * if calm { 1_000_000 } else { 8 };
        let work = world.state().part(most);
        tokio::select! {
            biased;
            loss = leadership.lost() => {
                world.note(who, || format!("LOST: {loss:?}"));
                return world.count("leaderships lost");
            }
            () = sleep(work) => {}
        }
        if world.state().faults {
            break;
        }
    }
    let choice = world.state().rng.u32(0..3);
    world.note(who, || format!("ends its leadership ({choice})"));
    match choice {
        0 => drop(leadership),
        1 => {
            if leadership.resign().await.is_ok() {
                world.count("resignations");
            }
        }
        _ => {
            let _ = leadership.resign_to("c1").await;
        }
    }
    world.rest(knobs.validity).await;
}

pub fn start_observer(world: &Arc<World>) -> Who {
    let who = join(world, &machine(&**world, 1_000_000));
    let election = builder(world, who, "observer").build().expect("the settings are valid");
    let its_world = Arc::clone(world);
    spawn(world, who, 0, async move {
        let mut seen = election.observe();
        while let Some(observation) = seen.next().await {
            its_world.note(who, || format!("observes {observation:?}"));
            match observation {
                Ok(Observation::Leader(leader)) => checks::observed(&its_world, who, &leader),
                Ok(_) => its_world.state().book.observed = None,
                // Too few stores gave this observer a usable answer, for example during a
                // replacement.
                Err(_) => {
                    its_world.count("observers refused");
                    its_world.rest(its_world.plan.validity).await;
                    seen = election.observe();
                }
            }
        }
    });
    who
}

pub fn start_compactor(world: &Arc<World>, store: usize) {
    let who = join(world, &machine(&**world, 1_000_000));
    let keep = world.state().rng.usize(1..=3);
    let compactor = Compactor::builder(SimStore::new(world, who, store), "app")
        .keep_epochs(keep)
        .min_age(Duration::ZERO)
        .request_timeout(world.plan.validity)
        .build()
        .expect("the settings are valid");
    let its_world = Arc::clone(world);
    spawn(world, who, 0, async move {
        loop {
            if let Ok(report) = compactor.run_once().await {
                let mut state = its_world.state();
                *state.counts.entry("epochs compacted").or_default() += report.deleted;
            }
            its_world.rest(its_world.plan.validity * 4).await;
        }
    });
}

/// Starts a process with a wrong list of stores, which the library must refuse.
pub fn start_wrong(world: &Arc<World>, wrong: Wrong) {
    let who = join(world, &machine(&**world, 1_000_000));
    world.state().machines[who.0].is_wrong = true;
    let mut stores = store::all(world, who);
    match wrong {
        Wrong::Rotated => stores.rotate_left(1),
        Wrong::ThreeOfFive => stores.truncate(3),
    }
    let election = builder_of(stores, world, who, "wrong").build().expect("the settings are valid");
    let its_world = Arc::clone(world);
    spawn(world, who, 0, async move {
        loop {
            match election.campaign().await {
                Ok(leadership) => {
                    let what = format!("{who} leads with {} and a wrong list", leadership.epoch());
                    return its_world.fail("order", what);
                }
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    its_world.count("refusals of a wrong list");
                }
                Err(_) => {}
            }
            its_world.rest(its_world.plan.validity).await;
        }
    });
}

pub fn operator(world: &Arc<World>) -> Operator {
    let who = join(world, &machine(&**world, 1_000_000));
    let election = builder(world, who, "operator").build().expect("the settings are valid");
    Operator { who, election }
}

impl Operator {
    /// Repeats the replacement of a store until a call succeeds. Sometimes abandons a call, as a
    /// crash would.
    pub async fn replaces(&self, world: &Arc<World>, store: usize) {
        let validity = world.plan.longest_validity();
        loop {
            let may_crash = world.state().faults && world.chance(0.3);
            let patience = match may_crash {
                true => world.state().part(world.plan.validity / 4),
                false => world.plan.validity * 100,
            };
            let call = self.election.replace_store(store, validity);
            let replaced = tokio::select! {
                biased;
                replaced = call => replaced,
                () = sleep(patience) => continue,
            };
            world.note(self.who, || format!("replaces store {store}: {replaced:?}"));
            if replaced.is_ok() {
                return;
            }
            world.rest(world.plan.validity / 2).await;
        }
    }

    pub async fn deposes(&self, world: &Arc<World>) {
        let deposed = self.election.depose(None).await;
        world.note(self.who, || format!("deposes: {deposed:?}"));
        if deposed.is_ok() {
            world.count("depositions");
        }
    }
}
