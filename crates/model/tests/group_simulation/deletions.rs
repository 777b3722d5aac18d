//! Deletions by other programs or expiry rules, and the operator that restores the group.

use std::sync::Arc;

use tenure::Epoch;
use tenure_groups::protocol::Assignment;
use tenure_groups::{Group, GroupRestored};
use tenure_model::sim::spawn;
use tenure_model::time::{now, sleep};

use super::checks::epoch_of;
use super::fault_effects::kill;
use super::plan::Broken;
use super::process::{Slot, start_on};
use super::world::{Who, World};

/// The objects that other programs delete in one fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deletion {
    Newest,
    All,
    Prefix,
}

/// Deletes assignments as another program would. Deletes them only if a remaining object or the
/// memory of a member will show the deletion (rules D1 to D12 of docs/design/groups.md). The broken
/// variant `DeletedUnseen` omits this condition. No process starts during the deletion.
pub async fn delete_assignments(world: &Arc<World>, slots: &mut [Slot]) {
    let deletion = match world.state().rng.u32(0..5) {
        0 | 1 => Deletion::Newest,
        2 | 3 => Deletion::All,
        _ => Deletion::Prefix,
    };
    let careless = world.plan.broken == Broken::DeletedUnseen;
    if !careless && !wait_until(world, World::shows_the_newest).await {
        return;
    }
    let Some(newest) = delete(world, deletion) else { return };
    world.note(slots[0].who, || format!("OTHERS delete {deletion:?} at {newest}"));
    world.count(match deletion {
        Deletion::Newest => "newest assignments deleted",
        Deletion::All => "deletions of all assignments",
        Deletion::Prefix => "deletions of the prefix",
    });
    if deletion == Deletion::Prefix && !careless {
        // The deletion removed all objects, so only running processes know the deleted assignment.
        // One of these processes must write this assignment into its new session before another
        // process starts.
        let rejoined = |world: &World| {
            let state = world.state();
            state.sessions_show(newest) || state.is_repaired()
        };
        let mut waits = 0;
        while !wait_until(world, rejoined).await {
            waits += 1;
            if waits == 10 {
                return world.fail("GS1", "no member joined after a deletion".to_owned());
            }
        }
    }
    if world.chance(0.4) {
        for slot in slots {
            kill(world, slot.who);
            sleep(world.part(world.plan.validity / 2)).await;
            *slot = start_on(world, &slot.name, Arc::clone(&slot.clock));
        }
    }
}

fn delete(world: &World, deletion: Deletion) -> Option<Epoch> {
    let state = &mut *world.state();
    let newest = state.bucket.newest()?;
    state.bucket.objects.retain(|key, (body, _)| {
        let goes = match epoch_of(key) {
            Some(epoch) => epoch == newest || deletion != Deletion::Newest,
            None => deletion == Deletion::Prefix,
        };
        if goes {
            state.book.vanished(key, body);
        }
        !goes
    });
    state.book.deleted = Some(newest);
    Some(newest)
}

/// Deletes one session as another program would. Does nothing while members need the sessions to
/// detect a deletion of assignments.
pub fn delete_session(world: &World) {
    let state = &mut *world.state();
    if !state.is_repaired() {
        return;
    }
    let sessions: Vec<_> =
        state.bucket.objects.keys().filter(|key| epoch_of(key).is_none()).cloned().collect();
    if sessions.is_empty() {
        return;
    }
    let key = &sessions[state.rng.usize(..sessions.len())];
    if let Some((body, _)) = state.bucket.objects.remove(key) {
        state.book.vanished(key, &body);
        state.count("sessions deleted");
    }
}

/// Waits for up to four validities until the condition is true. Returns whether the condition
/// became true.
async fn wait_until(world: &World, what: impl Fn(&World) -> bool) -> bool {
    let until = now() + world.plan.validity * 4;
    while !what(world) {
        if now() > until {
            return false;
        }
        sleep(world.plan.poll / 4).await;
    }
    true
}

/// The operator restores the group above its greatest epoch, or above one of the next two numbers.
/// If a restore is unfinished, the operator repeats this restore instead. Sometimes the operator is
/// killed during the restore.
pub fn restore_for_a_while(world: &Arc<World>, (who, group): &(Who, Group)) {
    let beyond = world.state().rng.u64(0..3);
    let patience = match world.chance(0.5) {
        true => world.part(world.plan.rtt * 20),
        false => world.plan.validity * 6,
    };
    let (its_world, group) = (Arc::clone(world), group.clone());
    let who = *who;
    spawn(world, who, 0, async move {
        its_world.call_begins(who);
        tokio::select! {
            biased;
            () = restore(&its_world, &group, beyond) => {}
            () = sleep(patience) => its_world.count("restores given up"),
        }
        its_world.call_ends(who);
    });
}

async fn restore(world: &World, group: &Group, beyond: u64) {
    let Some(above) = world.to_restore(beyond) else { return };
    // The restore waits for the validity in the plan, because the lease of a deleted session may
    // still run.
    if let Ok(GroupRestored::Restored(_)) = group.restore(above, world.plan.validity).await {
        world.count("restores");
    }
}

/// Lets the operator restore the group until no restore is unfinished, and an assignment above all
/// deleted assignments exists. Returns whether the operator succeeded in time.
pub async fn repair(world: &Arc<World>, restorer: Option<&(Who, Group)>) -> bool {
    let Some(restorer) = restorer else { return true };
    let until = now() + world.plan.validity * 30;
    while world.restores(restorer) || !world.is_restored() {
        if now() > until {
            world.fail("GS1", "the group was not restored".to_owned());
            return false;
        }
        if !world.restores(restorer) {
            restore(world, &restorer.1, 0).await;
        }
        sleep(world.plan.poll).await;
    }
    true
}

impl World {
    /// Returns whether all processes would detect a deletion of the newest assignment. Each member
    /// must have read the assignment, and a session must show it. No call of a compactor or an
    /// operator may be in progress, and no pending request may create an assignment up to this
    /// number, or create or delete a session.
    fn shows_the_newest(&self) -> bool {
        let state = self.state();
        let Some(newest) = state.bucket.newest() else { return false };
        let mut machines = state.machines.iter().filter(|it| it.alive);
        let again = |key: &String| epoch_of(key).is_none_or(|epoch| epoch <= newest);
        state.is_repaired()
            && machines.all(|it| if it.is_member { it.seen >= Some(newest) } else { it.calls == 0 })
            && !state.under_way.values().flatten().any(again)
            && state.sessions_show(newest)
    }

    /// Returns the epoch that the operator passes to `restore`. Returns `None` if the group never
    /// had an assignment.
    fn to_restore(&self, beyond: u64) -> Option<Epoch> {
        let state = self.state();
        let greatest = state.book.greatest.as_ref()?.0;
        let unfinished = |it: &Assignment| it.restoring.is_some() && it.epoch >= greatest;
        match state.newest().filter(unfinished) {
            Some(held) => Epoch::new(held.epoch.get() - 1),
            None => Epoch::new(greatest.get() + beyond),
        }
    }

    fn restores(&self, (who, _): &(Who, Group)) -> bool {
        self.state().machines[who.0].calls > 0
    }

    fn is_restored(&self) -> bool {
        let state = self.state();
        state.is_repaired() && state.newest().is_none_or(|it| it.restoring.is_none())
    }
}
