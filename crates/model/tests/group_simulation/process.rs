//! Simulated processes: members with their applications, and an operator.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Compactor, ErrorKind};
use tenure_groups::{Group, GroupCompactor, Partition};
use tenure_model::clock::SimClock;
use tenure_model::gate::Gate;
use tenure_model::sim::connection::Connection;
use tenure_model::sim::{self, spawn};
use tenure_model::time::{now, sleep};

use super::checks;
use super::plan::Broken;
use super::store::SimStore;
use super::world::{Handle, Machine, Who, World};

/// A machine that runs members with one name, one member after another.
#[derive(Debug, Clone)]
pub struct Slot {
    pub name: String,
    pub clock: Arc<SimClock>,
    pub who: Who,
    pub group: Group,
}

pub fn machine(world: &World, number: usize) -> Arc<SimClock> {
    let mut state = world.state();
    let boot = Duration::from_millis(state.rng.u64(0..10_000_000));
    let wall = Duration::from_millis(1_800_000_000_000 + state.rng.u64(0..200_000_000));
    // The rates of the clocks of any two machines differ by less than 1 %.
    let rate = 1_000_000 + state.rng.u64(0..9_000) - 4_500;
    let runs = world.plan.broken == Broken::ClockRuns && number == 0;
    SimClock::new(boot, wall, if runs { rate * 4 } else { rate })
}

fn join(world: &World, is_member: bool) -> Who {
    let mut state = world.state();
    let who = Who(state.machines.len());
    state.machines.push(Machine {
        gates: [Arc::<Gate>::default(), Arc::<Gate>::default()],
        outage: false,
        alive: true,
        stopped: false,
        is_member,
        calls: 0,
        seen: None,
    });
    who
}

fn group(world: &Arc<World>, who: Who, name: &str, clock: &Arc<SimClock>) -> Group {
    let its_world = Arc::clone(world);
    let process =
        sim::process(world, clock).with_spawner(move |task| spawn(&its_world, who, 1, task));
    let plan = &world.plan;
    let store = Arc::new(Connection(SimStore { world: Arc::clone(world), who }));
    // After a request to stop, work needs up to an eighth of the longest validity. The library
    // reserves a quarter of a member's validity for the stop. So the shortest validity must be at
    // least half of the longest validity. Here it is at least 0.6 of the longest validity.
    let of_the_longest =
        |least: f64| if plan.mixed { least + (1.0 - least) * world.state().rng.f64() } else { 1.0 };
    let validity = plan.validity.mul_f64(of_the_longest(0.6));
    let poll = plan.poll.mul_f64(of_the_longest(0.3)).min(validity);
    let delay = plan.rebalance_delay.mul_f64(of_the_longest(0.0));
    Group::builder(store, "app")
        .name(name)
        .partitions(0..plan.partitions)
        .validity(Duration::from_millis(u64::try_from(validity.as_millis()).unwrap()))
        .poll_interval(poll)
        .rebalance_delay(delay)
        .name_is_unique(plan.unique)
        .check_store(false)
        .process(process)
        .build()
        .expect("the settings are valid")
}

/// Creates an operator.
pub fn operator(world: &Arc<World>, name: &str) -> (Who, Group) {
    let clock = machine(world, usize::MAX);
    let who = join(world, false);
    let group = group(world, who, name, &clock);
    (who, group)
}

/// Starts a member on a new machine.
pub fn start(world: &Arc<World>, number: usize) -> Slot {
    start_on(world, &format!("m{number}"), machine(world, number))
}

/// Starts a member with an unused name, on a new machine.
pub fn start_another(world: &Arc<World>) -> Slot {
    let number = 100 + world.state().machines.len();
    start(world, number)
}

/// Starts a member on this machine.
pub fn start_on(world: &Arc<World>, name: &str, clock: Arc<SimClock>) -> Slot {
    let who = join(world, true);
    let group = group(world, who, name, &clock);
    let (running, its_world) = (group.clone(), Arc::clone(world));
    world.note(who, || format!("starts as {name}"));
    spawn(world, who, 0, async move {
        let ended = running.run(|partition| work(Arc::clone(&its_world), who, partition)).await;
        its_world.note(who, || format!("has left: {ended:?}"));
        its_world.state().machines[who.0].alive = false;
        if let Err(error) = ended {
            its_world.fail("run", format!("{who}: {error:?}"));
        }
    });
    Slot { name: name.to_owned(), clock, who, group }
}

type Worked = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Works on one partition until the request to stop arrives, and then for the time `stopping` of
/// the plan.
async fn work(world: Arc<World>, who: Who, partition: Partition) -> Worked {
    let partition = Arc::new(partition);
    world.count("grants");
    world.note(who, || format!("works on {partition:?}"));
    let (number, weak) = (partition.number().0, Arc::downgrade(&partition));
    world.state().handles.push(Handle { who, number, partition: weak });
    let revoked = partition.revoked();
    let kept = world.plan.broken == Broken::TokenKept;
    let mut stop_at = None;
    loop {
        // The write of the application follows the check without a wait. So if the check succeeds,
        // the member must own the partition.
        match partition.check() {
            Ok(_) => checks::believes(&world, who, &partition),
            Err(_) if kept => checks::believes(&world, who, &partition),
            Err(_) => break,
        }
        if world.plan.fails && world.state().faults && world.chance(0.001) {
            world.count("works that failed");
            return Err("the work fails sometimes".into());
        }
        if revoked.is_cancelled() && stop_at.is_none() {
            stop_at = Some(now() + world.plan.stopping);
        }
        let stops = stop_at.is_some_and(|at| now() >= at);
        if stops && world.plan.broken == Broken::ReleasesEarly {
            // The broken application continues its writes after the release, although another
            // process may already own the partition.
            let token_kept = Arc::clone(&partition);
            let its_world = Arc::clone(&world);
            spawn(&world, who, 0, async move {
                for _ in 0..200 {
                    sleep(its_world.plan.validity / 20).await;
                    checks::believes(&its_world, who, &token_kept);
                }
            });
            break;
        }
        if stops && world.plan.broken != Broken::NeverReturns {
            break;
        }
        let rest = world.part(world.plan.validity / 10);
        sleep(rest.max(Duration::from_millis(1))).await;
    }
    world.note(who, || format!("has stopped its work on {partition:?}"));
    let mut state = world.state();
    state.handles.retain(|it| it.who != who || it.number != number);
    Ok(())
}

/// Starts a compactor that repeatedly deletes all deletable objects, with a `min_age` of 0. With
/// this minimum age, the compactor can delete an assignment before a member has read it, which
/// delays the member. The checks of the calm phase measure durations, so no compactor runs in this
/// phase.
pub fn start_compactor(world: &Arc<World>) {
    let who = join(world, false);
    let store = Arc::new(Connection(SimStore { world: Arc::clone(world), who }));
    let settings = Compactor::builder(store, "app").keep_epochs(1);
    let settings = settings.min_age(Duration::ZERO).request_timeout(world.plan.validity);
    let compactor = GroupCompactor::new(settings).expect("the settings are valid");
    let its_world = Arc::clone(world);
    spawn(world, who, 0, async move {
        loop {
            sleep(its_world.part(its_world.plan.validity * 6)).await;
            if !its_world.state().faults {
                return;
            }
            its_world.call_begins(who);
            let ran = compactor.run_once().await;
            its_world.call_ends(who);
            match ran {
                Ok(report) => {
                    its_world.note(who, || report.to_string());
                    if report.sessions.deleted > 0 {
                        its_world.count("compactions of sessions");
                    }
                    its_world.count("compactions");
                }
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(error) if error.kind() == ErrorKind::NewestDeleted && its_world.has_lost() => {}
                Err(error) => its_world.fail("compactor", format!("{error:?}")),
            }
        }
    });
}

/// Starts an operator that pauses, pins and bars partitions again and again, and removes all these
/// marks at the start of the calm phase.
pub fn start_operator(world: &Arc<World>) {
    let (who, group) = operator(world, "operator");
    let (its_world, most) = (Arc::clone(world), world.plan.partitions);
    spawn(world, who, 0, async move {
        loop {
            sleep(its_world.part(its_world.plan.validity * 4)).await;
            let calm = !its_world.state().faults;
            let (one, kind, on) = {
                let mut state = its_world.state();
                (state.rng.u32(..most).to_string(), state.rng.u32(..3), state.rng.bool())
            };
            let all: Vec<String> = (0..most).map(|number| number.to_string()).collect();
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            its_world.call_begins(who);
            let changed = if calm {
                // In the calm phase, the operator removes all marks by three calls. If one call
                // fails, the operator repeats all three calls.
                match (group.pause(&all, false).await, group.pin(&all, None).await) {
                    (Ok(_), Ok(_)) => group.bar(&all, None).await,
                    (failed, Ok(_)) | (_, failed) => failed,
                }
            } else {
                match kind {
                    0 => group.pause(&[&one], on).await,
                    1 => group.pin(&[&one], on.then_some("m0")).await,
                    _ => group.bar(&[&one], on.then_some("m1")).await,
                }
            };
            its_world.call_ends(who);
            its_world.note(who, || format!("changes the group: {:?}", changed.as_ref().err()));
            if changed.is_ok() {
                its_world.count("operations");
                if calm {
                    return;
                }
            }
        }
    });
}
