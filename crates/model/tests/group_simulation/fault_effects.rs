//! The phase of a run in which faults occur, and the calm phase after it, in which no new fault
//! occurs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_groups::{Group, Marks};
use tenure_model::clock::Power;
use tenure_model::faults::{Fault, draw_slew};
use tenure_model::sim::connection::Request;
use tenure_model::time::{now, sleep};
use tenure_testkit::fault_store as testkit;

use super::checks::{self, assignment_key, epoch_of};
use super::deletions::{delete_assignments, delete_session, repair, restore_for_a_while};
use super::plan::Broken;
use super::process::{Slot, start_another, start_on};
use super::trouble::{self, Trouble, Whose};
use super::world::{Who, World};

/// Injects random faults for the duration `length` of the plan.
pub async fn inject(world: &Arc<World>, slots: &mut [Slot], restorer: Option<&(Who, Group)>) {
    while now() < world.plan.length {
        sleep(world.part(world.plan.every * 2)).await;
        let Some(fault) = world.plan.faults.draw(&mut world.state().rng) else { continue };
        let chosen = world.state().rng.usize(..slots.len());
        world.note(slots[chosen].who, || format!("FAULT {fault:?}"));
        let slot = &mut slots[chosen];
        match fault {
            Fault::Pause | Fault::Suspend | Fault::MachinePause => stop(world, slot, fault),
            Fault::Crash => {
                kill(world, slot.who);
                sleep(world.part(world.plan.validity)).await;
                *slot = start_on(world, &slot.name, Arc::clone(&slot.clock));
            }
            Fault::Leave => {
                if world.chance(0.5) {
                    slot.group.leave();
                } else {
                    slot.group.leave_for(world.part(world.plan.validity * 2));
                }
                sleep(world.part(world.plan.validity)).await;
                // If the old process still runs because it is leaving, start the new member on
                // another machine.
                let alive = world.state().machines[slot.who.0].alive;
                *slot = match alive {
                    true => start_another(world),
                    false => start_on(world, &slot.name, Arc::clone(&slot.clock)),
                };
            }
            Fault::Outage => cut_off(world, vec![slot.who]),
            Fault::Blackout => {
                let all = world.state().machines.len();
                cut_off(world, (0..all).map(Who).collect());
            }
            Fault::WallForward | Fault::WallBack => {
                let by = world.part(Duration::from_secs(3_600));
                slot.clock.step_wall(fault == Fault::WallForward, by);
            }
            Fault::Slew => slot.clock.slew(draw_slew(&mut world.state().rng)),
            Fault::DeleteAssignments => delete_assignments(world, slots).await,
            Fault::DeleteSession => delete_session(world),
            Fault::Restore => restorer.into_iter().for_each(|it| restore_for_a_while(world, it)),
            Fault::Trouble => trouble::begin(world, slot.who),
            Fault::Depose => unreachable!("the plan of a group has no depositions"),
        }
        if world.plan.broken == Broken::Takes {
            take(world);
        }
    }
}

fn stop(world: &Arc<World>, slot: &Slot, fault: Fault) {
    let duration = world.part(world.plan.validity * 3);
    let (who, clock) = (slot.who, Arc::clone(&slot.clock));
    let gates = {
        let mut state = world.state();
        let machine = &mut state.machines[who.0];
        if machine.stopped || !machine.alive {
            return;
        }
        machine.stopped = true;
        machine.gates.clone()
    };
    world.count(if let Fault::Suspend = fault { "suspends" } else { "pauses" });
    gates.iter().for_each(|gate| gate.close());
    clock.power(fault.power());
    let world = Arc::clone(world);
    tokio::spawn(async move {
        sleep(duration).await;
        clock.power(Power::Runs);
        if let (Broken::ClockStopsInSuspend, Fault::Suspend) = (world.plan.broken, fault) {
            clock.stood_still(duration);
        }
        world.state().machines[who.0].stopped = false;
        world.note(who, || "continues".to_owned());
        gates.iter().for_each(|gate| gate.open());
    });
}

pub fn kill(world: &World, who: Who) {
    world.count("crashes");
    let gates = {
        let mut state = world.state();
        state.machines[who.0].alive = false;
        state.machines[who.0].gates.clone()
    };
    gates.iter().for_each(|gate| gate.kill());
    world.state().handles.retain(|handle| handle.who != who);
}

fn cut_off(world: &Arc<World>, whom: Vec<Who>) {
    let duration = world.part(world.plan.validity * 3);
    for who in &whom {
        world.state().machines[who.0].outage = true;
    }
    let world = Arc::clone(world);
    tokio::spawn(async move {
        sleep(duration).await;
        for who in whom {
            world.state().machines[who.0].outage = false;
        }
    });
}

/// Deletes all assignments from time to time, including the newest. A correct compactor keeps the
/// newest assignment.
pub async fn compact_wrongly(world: Arc<World>) {
    loop {
        sleep(world.part(world.plan.validity * 6)).await;
        let keys: Vec<String> = {
            let state = world.state();
            state.bucket.objects.keys().filter(|key| epoch_of(key).is_some()).cloned().collect()
        };
        checks::deleting(&world, &keys);
        world.state().bucket.apply(&Request::Delete { keys }, false, Broken::Nothing);
    }
}

/// Writes an assignment that grants all partitions to the first member, against rule R1.
fn take(world: &Arc<World>) {
    use tenure_groups::assignment_record::AssignmentRecord;
    let (key, body) = {
        let state = world.state();
        let Some(newest) = state.bucket.newest() else { return };
        let key = assignment_key(newest.get());
        let read = AssignmentRecord::decode(newest, &state.bucket.objects[&key].0);
        let Ok(mut record) = read else { return };
        let Some(first) = record.assignment.members.first() else { return };
        let (owner, next) = (Some(first.session), newest.next().expect("a greater number exists"));
        record.assignment.epoch = next;
        for partition in &mut record.assignment.partitions {
            if partition.owner != owner {
                (partition.owner, partition.token) = (owner, Some(next));
                partition.target = None;
            }
        }
        (assignment_key(next.get()), record.encode().expect("the record is small"))
    };
    world.state().bucket.put(&key, body.clone().into());
    checks::written(world, Who(0), &key, &body);
}

/// Ends all faults. Then asserts that the group becomes balanced, and that a join, a restart, a
/// death and a leave move only the necessary partitions.
pub async fn calm(world: &Arc<World>, mut slots: Vec<Slot>, restorer: Option<&(Who, Group)>) {
    {
        let mut state = world.state();
        state.faults = false;
        state.troubles.clear();
    }
    // Wait until stopped processes run again, outages have ended and delayed requests have arrived.
    // A delayed request may renew a session without a process, and this session then counts as a
    // member until it lapses.
    let held_up = world.state().held_up_until.saturating_sub(now());
    sleep(held_up + world.plan.validity * 3).await;
    if world.plan.fails {
        // For ten minutes after failures of the work on partitions, the group may still be
        // unbalanced (GC8).
        sleep(Duration::from_secs(600)).await;
    }
    if !repair(world, restorer).await {
        return;
    }
    if !unmarked(world).await || !balanced(world, &slots, "after the faults").await {
        return;
    }
    world.count("calms that balanced");
    let members = u32::try_from(slots.len()).expect("the number is small");
    let before = world.owners();
    slots.push(start_another(world));
    if !balanced(world, &slots, "after a join").await {
        return;
    }
    let most = world.plan.partitions.div_ceil(members + 1) as usize;
    let moved = moved(&before, world);
    if moved.len() > most {
        return world.fail("moves", format!("a join moved more than {most} partitions: {moved:?}"));
    }
    world.count("joins in the calm phase");
    if !restarted(world, &mut slots).await {
        return;
    }
    for dies in [false, true] {
        let gone = slots.swap_remove(world.state().rng.usize(..slots.len()));
        let before = world.owners();
        if dies {
            kill(world, gone.who);
        } else {
            gone.group.leave();
        }
        let began = now();
        let trouble = slots.first().filter(|_| dies).and_then(|stays| unread(world, stays));
        if !balanced(world, &slots, if dies { "after a death" } else { "after a leave" }).await {
            return;
        }
        trouble.into_iter().for_each(|it| drop(world.state().troubles.remove(&it)));
        let others = self::moved(&before, world).into_iter().filter(|(_, who)| *who != gone.who);
        let others: Vec<_> = others.collect();
        if !others.is_empty() {
            return world.fail(
                "moves",
                format!("{} stopped, and partitions {others:?} of other members moved", gone.who),
            );
        }
        let plan = &world.plan;
        // The first term is the time after which a member reads a session again although the tag of
        // the session has not changed (GC2). The other terms are the times for the polls, the stop
        // of the work, and the listings.
        let soon = plan.validity / 2 + plan.poll * 10 + plan.stopping + listing(world) * 6;
        let had = before.values().any(|who| *who == gone.who);
        if !dies && had && now() - began > soon + plan.validity / 2 {
            return world.fail("GS2", format!("a leave took {:?}", now() - began));
        }
        world.count(if dies { "deaths in the calm phase" } else { "leaves in the calm phase" });
    }
}

/// Waits until the operator has removed its marks: the pauses, pins and bars of partitions. Until
/// then a partition may have no owner.
async fn unmarked(world: &Arc<World>) -> bool {
    let until = now() + world.plan.validity * 60;
    let is_marked = || {
        let newest = world.state().newest();
        newest.is_some_and(|it| it.partitions.iter().any(|one| one.marks != Marks::default()))
    };
    while is_marked() {
        if now() > until {
            world.fail("GS1", "the marks were not removed".to_owned());
            return false;
        }
        sleep(world.plan.poll).await;
    }
    true
}

/// Restarts a member with `leave_for`, so its partitions are reserved. Asserts that this member
/// gets them back, and that no other partition moves.
async fn restarted(world: &Arc<World>, slots: &mut [Slot]) -> bool {
    let chosen = world.state().rng.usize(..slots.len());
    let before = world.owners();
    let gone = slots[chosen].clone();
    gone.group.leave_for(world.plan.validity * 20);
    let until = now() + world.plan.validity * 2;
    while world.state().machines[gone.who.0].alive {
        if now() > until {
            world.fail("GS1", format!("{} did not leave", gone.who));
            return false;
        }
        sleep(world.plan.poll).await;
    }
    let (name, clock) = (&gone.name, Arc::clone(&gone.clock));
    slots[chosen] = start_on(world, name, clock);
    if !balanced(world, slots, "after a restart").await {
        return false;
    }
    let (old, new) = (gone.who, slots[chosen].who);
    let others = moved(&before, world).into_iter();
    let others: Vec<_> = others.filter(|(_, who)| *who != old).collect();
    let back = before.iter().filter(|(_, who)| **who == old).map(|(number, _)| *number);
    let owners = world.owners();
    let lost: Vec<_> = back.filter(|number| owners.get(number) != Some(&new)).collect();
    if !others.is_empty() || !lost.is_empty() {
        let what = format!(
            "{old} was restarted as {new}: partitions {others:?} of other members moved, and {lost:?} did not return"
        );
        world.fail("moves", what);
        return false;
    }
    world.count("restarts in the calm phase");
    true
}

fn moved(before: &BTreeMap<u32, Who>, world: &World) -> Vec<(u32, Who)> {
    let after = world.owners();
    let moved = before.iter().filter(|(number, who)| after.get(number) != Some(who));
    moved.map(|(number, who)| (*number, *who)).collect()
}

/// Makes the session of the live member `stays` unreadable. The other members must make progress
/// although they cannot read this session.
fn unread(world: &World, stays: &Slot) -> Option<u64> {
    let mut state = world.state();
    if world.plan.faults.trouble == 0 {
        return None;
    }
    let members = state.newest()?.members;
    let its = members.iter().find(|it| state.book.holders.get(&it.session.id) == Some(&stays.who));
    let whose = Whose::Key(checks::session_key(its?.session.id));
    let reads =
        Some(if state.rng.bool() { testkit::Fault::FailBefore } else { testkit::Fault::Hang });
    state.count("deaths with an unreadable session");
    Some(state.add_trouble(Trouble { whose, reads, lists: None, writes: None }))
}

/// Returns the time that a member needs to list all sessions and to send a few more requests.
fn listing(world: &World) -> Duration {
    let objects = world.state().bucket.objects.len();
    let pages = u32::try_from(objects / world.plan.page).expect("the number is small");
    world.plan.rtt * (pages + 4)
}

/// Returns whether the assignment has exactly `members` members, all of them are alive, and no
/// partition must move.
fn settled(world: &World, members: usize) -> bool {
    let state = world.state();
    let lives = |id| state.book.holders.get(&id).is_some_and(|who| state.machines[who.0].alive);
    state.newest().is_some_and(|it| {
        it.members.len() == members
            && it.members.iter().all(|member| lives(member.session.id))
            && it.partitions.iter().all(|one| one.target.is_none())
    })
}

/// Waits until each partition has an owner, and the numbers of partitions per member differ by at
/// most one.
async fn balanced(world: &Arc<World>, slots: &[Slot], when: &str) -> bool {
    let plan = &world.plan;
    let bound = plan.validity * 4 + plan.poll * 20 + plan.stopping + Duration::from_secs(65);
    let bound = bound + listing(world) * 20;
    let until = now() + bound;
    // During a move, the group may seem to be balanced by chance. So two checks in a row must
    // succeed.
    let mut seen = 0;
    loop {
        let owners = world.owners();
        let count = |slot: &Slot| owners.values().filter(|who| **who == slot.who).count();
        let counts: Vec<usize> = slots.iter().map(count).collect();
        let spread = counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0);
        let all = counts.iter().sum::<usize>() == plan.partitions as usize;
        seen = if all && spread <= 1 && settled(world, slots.len()) { seen + 1 } else { 0 };
        if seen == 2 {
            return true;
        }
        if now() > until {
            let what = format!("{when}: {} of {} owned, {counts:?}", owners.len(), plan.partitions);
            world.fail("GS1", what);
            return false;
        }
        sleep(plan.poll / 2).await;
    }
}
