//! The faults of stores and processes.

use std::sync::Arc;
use std::time::Duration;

use tenure_model::clock::Power;
use tenure_model::faults::Fault;
use tenure_model::time::{now, sleep};

use tenure_model::sim::connection::{Reply, Request};

use super::bucket::Bucket;
use super::checks;
use super::network::{Kind, Trouble};
use super::plan::Broken;
use super::process::{Operator, Slot, start_on};
use super::world::{Who, World, marker};

/// Injects faults for the duration of the plan.
pub async fn inject(
    world: &Arc<World>,
    slots: &mut [Slot],
    observer: Who,
    operator: &Arc<Operator>,
) {
    while now() < world.plan.length {
        world.rest(world.plan.every * 2).await;
        world.take_snapshots();
        let Some(fault) = world.plan.faults.draw(&mut world.state().rng) else { continue };
        let chosen = world.state().rng.usize(..=slots.len());
        let store = world.state().rng.usize(..world.plan.stores());
        let who = slots.get(chosen).map_or(observer, |slot| slot.who);
        match fault {
            Fault::Pause | Fault::Suspend | Fault::MachinePause => stop(world, who, fault),
            Fault::Crash => {
                if let Some(slot) = slots.get_mut(chosen) {
                    restart(world, slot).await;
                }
            }
            Fault::Outage => trouble(world, Some(who), None, "outages"),
            Fault::Blackout => trouble(world, None, Some(store), "blackouts"),
            Fault::Trouble => {
                trouble(world, Some(who), Some(store), "faults between a store and a process");
            }
            Fault::WallForward | Fault::WallBack => {
                let by = world.state().tail(Duration::from_secs(3_600));
                let clock = Arc::clone(&world.state().machines[who.0].clock);
                clock.step_wall(fault == Fault::WallForward, by);
                world.count("wall clock steps");
            }
            Fault::Depose => {
                let (world, operator) = (Arc::clone(world), Arc::clone(operator));
                tokio::spawn(async move { operator.deposes(&world).await });
            }
            Fault::Restore => lose(world, store, operator),
            _ => unreachable!("the plan has no fault of groups"),
        }
    }
}

/// Ends the faults. Waits until no process is stopped, each lost store is replaced, and all delayed
/// requests have arrived.
pub async fn end(world: &World) {
    world.state().faults = false;
    loop {
        let is_quiet = {
            let state = world.state();
            let stopped = state.machines.iter().any(|it| it.alive && it.stopped);
            let lost = state.stores.iter().any(|place| place.is_lost);
            state.in_flight == 0 && state.troubles.is_empty() && !stopped && !lost
        };
        if is_quiet {
            return;
        }
        sleep(world.plan.validity / 100).await;
    }
}

/// Stops some stores and candidates for the rest of the run. A majority of the stores remains.
pub fn prepare_calm(world: &Arc<World>, slots: &[Slot]) {
    if world.plan.has_survivor {
        slots[1..].iter().for_each(|slot| kill(world, slot.who));
    }
    let mut state = world.state();
    for _ in 0..world.plan.dead_stores {
        // The same store may be drawn twice. Then fewer stores are down.
        let store = Some(state.rng.usize(..world.plan.stores()));
        let number = state.number();
        state.troubles.insert(number, Trouble { who: None, store, kind: Kind::RequestsLost });
    }
}

impl World {
    /// Sometimes remembers the contents of a store for a later rollback.
    fn take_snapshots(&self) {
        let mut state = self.state();
        for store in 0..self.plan.stores() {
            if state.chance(0.2) {
                let place = &mut state.stores[store];
                place.before = place.bucket.clone();
            }
        }
    }
}

/// Returns a random duration: usually up to two validities, and sometimes minutes.
fn length(world: &World) -> Duration {
    let mut state = world.state();
    let most = *state.rng.choice([1, 2, 2, 4, 10].iter()).expect("not empty");
    state.part(world.plan.longest_validity() * most)
}

fn stop(world: &Arc<World>, who: Who, fault: Fault) {
    let duration = length(world);
    let (gates, clock) = {
        let mut state = world.state();
        let machine = &mut state.machines[who.0];
        if machine.stopped || !machine.alive {
            return;
        }
        machine.stopped = true;
        let (gates, clock) = (machine.gates.clone(), Arc::clone(&machine.clock));
        state.count(if fault == Fault::Suspend { "suspends" } else { "pauses" });
        (gates, clock)
    };
    world.note(who, || format!("STOPPED ({fault:?}) for {duration:.3?}"));
    gates.iter().for_each(|gate| gate.close());
    clock.power(fault.power());
    let world = Arc::clone(world);
    tokio::spawn(async move {
        sleep(duration).await;
        clock.power(Power::Runs);
        if world.plan.broken == Broken::ClockStopsInSuspend && fault == Fault::Suspend {
            clock.stood_still(duration);
        }
        world.state().machines[who.0].stopped = false;
        world.note(who, || "continues".to_owned());
        gates[0].open();
        checks::one_leader(&world);
        // Timers fire late after a stop, so the tasks of the library continue later than the
        // application.
        world.rest(Duration::from_secs(1)).await;
        gates[1].open();
    });
}

async fn restart(world: &Arc<World>, slot: &mut Slot) {
    kill(world, slot.who);
    world.count("crashes");
    if world.chance(0.5) {
        world.rest(world.plan.longest_validity()).await;
    }
    // The machine may have been stopped when its process was killed.
    slot.clock.power(Power::Runs);
    slot.who = start_on(world, slot.number, &slot.clock);
    world.note(slot.who, || "restarted".to_owned());
}

fn kill(world: &World, who: Who) {
    world.note(who, || "KILLED".to_owned());
    let gates = {
        let mut state = world.state();
        state.machines[who.0].alive = false;
        state.book.killed(who);
        state.machines[who.0].gates.clone()
    };
    gates.iter().for_each(|gate| gate.kill());
}

fn trouble(world: &Arc<World>, who: Option<Who>, store: Option<usize>, what: &'static str) {
    let duration = length(world);
    let (number, kind) = {
        let mut state = world.state();
        let kind = Kind::draw(&mut state, world.plan.validity);
        let number = state.number();
        state.troubles.insert(number, Trouble { who, store, kind: kind.clone() });
        state.count(what);
        (number, kind)
    };
    world.note(who.unwrap_or(Who(0)), || {
        format!("TROUBLE of {who:?} and {store:?} for {duration:.3?}: {kind:?}")
    });
    let world = Arc::clone(world);
    tokio::spawn(async move {
        sleep(duration).await;
        world.state().troubles.remove(&number);
    });
}

/// Wipes a store, or restores an older state of it, without its markers. The operator replaces it
/// later.
fn lose(world: &Arc<World>, store: usize, operator: &Arc<Operator>) {
    {
        let mut state = world.state();
        let lost = state.stores.iter().filter(|place| place.is_lost).count();
        if lost >= world.plan.minority() || state.stores[store].is_lost {
            return;
        }
        let rolls_back = state.rng.bool();
        let place = &mut state.stores[store];
        place.is_lost = true;
        place.losses += 1;
        place.marker = markers(&mut place.bucket, store).pop();
        let mut before = std::mem::take(&mut place.before);
        let keys = markers(&mut before, store);
        before.apply(&Request::Delete { keys }, now(), 0, Broken::Nothing);
        place.bucket = if rolls_back { before } else { Bucket::default() };
        state.count(if rolls_back { "stores rolled back" } else { "stores wiped" });
        drop(state);
        world.note(operator.who, || format!("store {store} IS LOST (back: {rolls_back})"));
    }
    let (world, operator) = (Arc::clone(world), Arc::clone(operator));
    tokio::spawn(async move {
        world.rest(world.plan.longest_validity() * 3).await;
        if world.plan.broken == Broken::ReplacedEmpty {
            let generation = world.state().stores[store].losses + 1;
            let key = marker(store, world.plan.stores(), generation);
            let body = bytes::Bytes::from_static(b"{}");
            world.state().stores[store].bucket.put(&key, body, now());
        } else {
            operator.replaces(&world, store).await;
        }
        world.count("replacements");
        world.state().stores[store].is_lost = false;
    });
}

/// Returns the keys of the markers of this store.
fn markers(bucket: &mut Bucket, store: usize) -> Vec<String> {
    let prefix = "app/lock-set-".to_owned();
    let list = Request::List { after: prefix.clone(), prefix, limit: usize::MAX };
    let Reply::Page(page) = bucket.apply(&list, now(), usize::MAX, Broken::Nothing) else {
        unreachable!("a LIST returns a page")
    };
    let keys = page.entries.into_iter().map(|entry| entry.key);
    keys.filter(|key| key.contains(&format!("-{}of", store + 1))).collect()
}
