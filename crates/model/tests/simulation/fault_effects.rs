//! The faults of processes: pauses, suspends, crashes, outages, clock steps and depositions.

use std::sync::Arc;
use std::time::Duration;

use tenure_model::clock::{Power, SimClock};
use tenure_model::faults::{Fault, draw_slew};
use tenure_model::time::{now, sleep};

use super::peers::{depose, restore_for_a_while};
use super::plan::{Broken, Knobs};
use super::process::start_candidate;
use super::world::Outage;
use super::world::{Who, World};

/// A machine that runs candidates, one after another.
#[derive(Debug)]
pub struct Slot {
    pub knobs: Knobs,
    pub clock: Arc<SimClock>,
    pub who: Who,
}

/// Injects faults for the duration of the plan.
pub async fn inject(world: &Arc<World>, slots: &mut [Slot], others: &[Who], operator: Option<Who>) {
    let until = world.plan.length;
    while now() < until {
        let rest = world.state().part(world.plan.every * 2);
        sleep(rest).await;
        let Some(fault) = world.plan.faults.draw(&mut world.state().rng) else { continue };
        let chosen = world.state().rng.usize(..slots.len() + others.len());
        let who = slots.get(chosen).map_or_else(|| others[chosen - slots.len()], |slot| slot.who);
        match (fault, slots.get_mut(chosen)) {
            (Fault::Pause | Fault::Suspend | Fault::MachinePause, _) => stop(world, who, fault),
            (Fault::Crash, Some(slot)) => restart(world, slot).await,
            (Fault::Outage, _) => cut_off(world, vec![who]),
            (Fault::Blackout, _) => {
                let members = world.state().members.len();
                cut_off(world, (0..members).map(Who).collect());
            }
            (Fault::WallForward, _) => step_wall(world, who, true),
            (Fault::WallBack, _) => step_wall(world, who, false),
            (Fault::Slew, _) => slew(world, who),
            (Fault::Depose, _) => {
                if world.chance(0.5) {
                    world.state().lurking = operator;
                } else if let Some(operator) = operator {
                    depose(world, operator);
                }
            }
            (Fault::Restore, _) => {
                if let Some(operator) = operator {
                    restore_for_a_while(world, operator);
                }
            }
            // A crash has no effect on compactors and observers.
            (Fault::Crash, None) => {}
            (
                Fault::Leave | Fault::DeleteAssignments | Fault::DeleteSession | Fault::Trouble,
                _,
            ) => unreachable!("the plan of an election has no fault of groups"),
        }
    }
}

/// Returns a random duration: usually up to two validities, and sometimes up to four.
fn length(world: &World) -> Duration {
    let mut state = world.state();
    let most = if state.chance(0.3) { 4 } else { 2 };
    state.part(world.plan.longest_validity() * most)
}

fn stop(world: &Arc<World>, who: Who, fault: Fault) {
    let duration = length(world);
    let (gates, clock) = {
        let mut state = world.state();
        let member = &mut state.members[who.0];
        if member.stopped || !member.alive {
            return;
        }
        member.stopped = true;
        let (gates, clock) = (member.gates.clone(), Arc::clone(&member.clock));
        state.note(who, &format!("STOPPED ({fault:?}) for {duration:.3?}"));
        state.count(match fault {
            Fault::Suspend => "suspends",
            Fault::MachinePause => "machine pauses",
            _ => "pauses",
        });
        (gates, clock)
    };
    gates.iter().for_each(|gate| gate.close());
    clock.power(fault.power());
    let world = Arc::clone(world);
    tokio::spawn(async move {
        sleep(duration).await;
        clock.power(Power::Runs);
        let broken = world.plan.broken == Broken::ClockStopsInSuspend;
        if broken && matches!(fault, Fault::Suspend) {
            clock.stood_still(duration);
        }
        {
            let mut state = world.state();
            state.members[who.0].stopped = false;
            state.note(who, "continues");
        }
        gates[0].open();
        if let Fault::Suspend = fault {
            // Timers do not run during a suspend, so after a suspend they fire late. To simulate
            // this delay, the tasks of the library continue up to one second later than the
            // application.
            let slice = world.state().part(Duration::from_secs(1));
            sleep(slice).await;
        }
        gates[1].open();
    });
}

async fn restart(world: &Arc<World>, slot: &mut Slot) {
    let most = world.plan.longest_validity();
    let rest = {
        let mut state = world.state();
        if state.rng.bool() { Duration::ZERO } else { state.tail(most) }
    };
    kill(world, slot.who);
    sleep(rest).await;
    slot.who = start_candidate(world, &slot.knobs, Arc::clone(&slot.clock));
    world.note(slot.who, || "restarted".to_owned());
}

pub fn kill(world: &Arc<World>, who: Who) {
    let (gates, leading) = {
        let mut state = world.state();
        state.members[who.0].alive = false;
        state.note(who, "KILLED");
        state.count("crashes");
        let leading = state.book.leading().filter(|lead| lead.who == who).map(|lead| lead.id);
        (state.members[who.0].gates.clone(), leading.collect::<Vec<_>>())
    };
    leading.into_iter().for_each(|id| world.over(id, "crashed"));
    gates.iter().for_each(|gate| gate.kill());
}

fn cut_off(world: &Arc<World>, whom: Vec<Who>) {
    let duration = length(world);
    let kinds = [Outage::RequestsLost, Outage::AnswersLost, Outage::Unavailable];
    {
        let mut state = world.state();
        let outage = state.rng.choice(kinds.iter()).copied();
        state.count(if whom.len() > 1 { "blackouts" } else { "outages" });
        for who in &whom {
            state.members[who.0].outage = outage;
            state.note(*who, &format!("CUT OFF ({outage:?}) for {duration:.3?}"));
        }
    }
    let world = Arc::clone(world);
    tokio::spawn(async move {
        sleep(duration).await;
        let mut state = world.state();
        for who in whom {
            state.members[who.0].outage = None;
        }
    });
}

fn step_wall(world: &World, who: Who, forward: bool) {
    let mut state = world.state();
    let by = state.tail(Duration::from_secs(3_600));
    state.note(who, &format!("WALL CLOCK set {} by {by:.3?}", if forward { "on" } else { "back" }));
    state.count("wall clock steps");
    state.members[who.0].clock.step_wall(forward, by);
}

/// Slews the clocks of a machine from now on, like a time daemon.
pub fn slew(world: &World, who: Who) {
    let mut state = world.state();
    let by = draw_slew(&mut state.rng);
    state.note(who, &format!("CLOCKS slewed by {by} ppm"));
    state.count("clocks slewed");
    state.members[who.0].clock.slew(by);
}
