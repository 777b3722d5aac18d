//! Simulated processes: candidates with their applications, observers and compactors.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tenure::{Compactor, Election, ErrorKind, Observation, Process};
use tenure_model::clock::SimClock;
use tenure_model::gate::Gate;
use tenure_model::sim;
use tenure_model::sim::connection::Connection;
use tenure_model::time::sleep;

use super::application::Candidate;
use super::plan::{Broken, CompactorKnobs, Knobs};
use super::store::{LEADS, SimStore};
use super::world::Member;
use super::world::{Who, World};

/// Adds a process on the machine with this clock. A machine keeps its clock when its process ends
/// and another process starts.
pub fn join(world: &Arc<World>, label: &str, clock: Arc<SimClock>) -> Who {
    let mut state = world.state();
    let who = Who(state.members.len());
    state.members.push(Member {
        label: format!("{who}/{label}"),
        gates: [Arc::<Gate>::default(), Arc::<Gate>::default()],
        clock,
        outage: None,
        alive: true,
        stopped: false,
        near: false,
        watched: None,
        lost_at: None,
        slot: None,
    });
    who
}

/// Creates a machine that has been up for a while, with an arbitrary wall clock.
pub fn machine(world: &World, rate: u64) -> Arc<SimClock> {
    let clock = sim::machine(world, rate);
    if world.plan.broken == Broken::RawRepeatsBoot {
        clock.repeat_boot();
    }
    clock
}

pub fn spawn(
    world: &Arc<World>,
    who: Who,
    gate: usize,
    task: impl Future<Output = ()> + Send + 'static,
) {
    sim::spawn(world, who, gate, world.interruptible(who, task));
}

fn process(world: &Arc<World>, who: Who) -> Process {
    let clock = Arc::clone(&world.state().members[who.0].clock);
    let process = sim::process(world, &clock);
    let world = Arc::clone(world);
    // The library spawns tasks only for leaders. So each spawned task is marked as the task of a
    // leader.
    process.with_spawner(move |task| spawn(&world, who, 1, LEADS.scope((), task)))
}

/// Creates the election of an operator. A deposition counts as a fault, so each call of the
/// operator must end soon after the faults. The settings have short timeouts for this purpose.
pub fn operators(store: Arc<Connection<SimStore>>) -> Election {
    let (world, who) = (Arc::clone(&store.0.world), store.0.who);
    let builder = Election::builder(store, "app").layout(world.plan.layout).name("operator");
    let builder = builder.validity(world.plan.longest_validity() / 4);
    builder.process(process(&world, who)).build().expect("the settings are valid")
}

fn election(world: &Arc<World>, who: Who, knobs: &Knobs) -> Election {
    election_at(SimStore::new(world, who), knobs)
}

fn election_at(store: Arc<Connection<SimStore>>, knobs: &Knobs) -> Election {
    let (world, who) = (Arc::clone(&store.0.world), store.0.who);
    let mut builder = Election::builder(store, "app")
        .layout(world.plan.layout)
        .process(process(&world, who))
        .name(&knobs.name)
        .name_is_unique(knobs.name_is_unique)
        .validity(knobs.validity)
        .poll_interval((!knobs.at_lapse).then_some(knobs.poll))
        .priority_delay(knobs.priority_delay)
        .takeover_delay(match world.plan.broken {
            Broken::TakeoverDelayIgnored => Duration::ZERO,
            _ => knobs.takeover_delay,
        })
        .verify_renewals(knobs.verify_renewals)
        .check_store(knobs.check_store)
        .machine_is_never_paused(world.plan.never_paused)
        .resign_on_drop(knobs.resign_on_drop)
        .clock_drift_max(world.plan.drift);
    if knobs.backs_off {
        builder = builder.poll_backoff(knobs.validity);
    }
    if let Some(renew) = knobs.renew {
        builder = builder.renew_interval(renew);
    }
    if let Some(margin) = knobs.store_clock_margin {
        builder = builder.store_clock_margin(margin);
    }
    builder.build().expect("the settings are valid")
}

/// Starts a candidate with its application.
pub fn start_candidate(world: &Arc<World>, knobs: &Knobs, clock: Arc<SimClock>) -> Who {
    let who = join(world, &knobs.name, clock);
    world.state().members[who.0].slot = Some(knobs.number);
    let candidate = Candidate {
        election: election(world, who, knobs),
        world: Arc::clone(world),
        who,
        knobs: knobs.clone(),
    };
    if knobs.watches {
        spawn(world, who, 0, watch(Arc::clone(world), who, candidate.election.clone()));
    }
    if knobs.hears {
        spawn(world, who, 0, hear(Arc::clone(world), candidate.election.clone(), knobs.clone()));
    }
    if let Some(every) = knobs.calls {
        spawn(world, who, 0, candidate.clone().call(every));
    }
    if knobs.doubled {
        spawn(world, who, 0, candidate.clone().live());
    }
    spawn(world, who, 0, candidate.live());
    who
}

/// Periodically makes the followers of this `Election` poll, as an application may do.
async fn hear(world: Arc<World>, election: Election, knobs: Knobs) {
    loop {
        let part = {
            let mut state = world.state();
            state.part(knobs.validity)
        };
        sleep(part.max(Duration::from_millis(1))).await;
        election.refresh();
    }
}

/// Starts an observer. The epochs of the leaders that the observer sees must not decrease.
pub fn start_observer(world: &Arc<World>, knobs: &Knobs) -> Who {
    let who = join(world, "observer", machine(world, knobs.rate));
    let store = SimStore::new(world, who);
    if world.plan.broken == Broken::ObserverBehindACache {
        spawn(world, who, 0, watch_anew(store, knobs.clone()));
    } else {
        spawn(world, who, 0, watch(Arc::clone(world), who, election_at(store, knobs)));
    }
    who
}

/// Creates a new `Election` for every observation. So no observation remembers an epoch of an
/// earlier observation.
async fn watch_anew(store: Arc<Connection<SimStore>>, knobs: Knobs) {
    loop {
        if let Some(Ok(Observation::Leader(leader))) =
            election_at(Arc::clone(&store), &knobs).observe().next().await
        {
            store.0.world.observed(store.0.who, "watch", leader.epoch.get());
        }
        sleep(knobs.poll).await;
    }
}

async fn watch(world: Arc<World>, who: Who, election: Election) {
    let mut seen = election.observe();
    world.watches(who, None);
    while let Some(observation) = seen.next().await {
        world.note(who, || format!("observes {observation:?}"));
        match observation {
            Ok(Observation::Leader(leader)) => {
                world.observed(who, "watch", leader.epoch.get());
                world.watches(who, Some(leader.epoch.get()));
            }
            Ok(_) => world.watches(who, None),
            Err(error) => return world.fail("observer", format!("{who}: {error:?}")),
        }
    }
    world.fail("observer", format!("{who} stopped observing"));
}

/// Starts a compactor that runs repeatedly.
pub fn start_compactor(world: &Arc<World>, knobs: &CompactorKnobs) -> Who {
    let who = join(world, "compactor", machine(world, 1_000_000));
    let compactor = Compactor::builder(SimStore::new(world, who), "app")
        .keep_epochs(knobs.keep)
        .min_age(knobs.min_age)
        .request_timeout(world.plan.longest_validity())
        .build()
        .expect("the settings are valid");
    let (its_world, interval) = (Arc::clone(world), knobs.interval);
    spawn(world, who, 0, async move {
        loop {
            match compactor.run_once().await {
                Ok(report) => {
                    let mut state = its_world.state();
                    *state.counts.entry("epochs compacted").or_default() += report.deleted;
                    state.note(who, &report.to_string());
                }
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(error) => return its_world.fail("compactor", format!("{error:?}")),
            }
            sleep(interval).await;
        }
    });
    who
}
