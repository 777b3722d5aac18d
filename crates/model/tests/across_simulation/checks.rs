//! The checkers: I1, I2, I5' and I8 of `protocol/across/rules.md`, the leaders that observers see,
//! and liveness.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tenure::{Leader, Lease};
use tenure_model::sim::suite::Recovery;
use tenure_model::time::{now, sleep};

use super::bucket::epoch_of;
use super::world::{Who, World};

/// The facts that the checkers use.
#[derive(Debug, Default)]
pub struct Book {
    /// The stores in which each candidate has created each epoch.
    created: BTreeMap<(u64, String), BTreeSet<usize>>,
    grants: Vec<Grant>,
    leads: Vec<Lead>,
    /// The last leader that the observer saw.
    pub observed: Option<u64>,
    greatest_observed: u64,
}

#[derive(Debug)]
struct Grant {
    who: Who,
    epoch: u64,
    at: Duration,
}

/// A leadership whose lease may still run.
#[derive(Debug, Clone)]
pub struct Lead {
    pub who: Who,
    lease: Lease,
    validity: Duration,
    /// The latest permitted end of the lease on the boot clock. Set when a greater epoch is granted
    /// (I5').
    latest_end: Option<Duration>,
}

impl Book {
    pub fn created(&mut self, store: usize, key: &str, body: &Bytes) {
        let Some(epoch) = epoch_of(key) else { return };
        let Ok(record) = serde_json::from_slice::<Value>(body) else { return };
        if let (Some(name), Some(false)) =
            (record["candidate"].as_str(), record["expired"].as_bool())
        {
            self.created.entry((epoch, name.to_owned())).or_default().insert(store);
        }
    }

    pub fn killed(&mut self, who: Who) {
        self.leads.retain(|lead| lead.who != who);
    }
}

/// Checks a grant that a campaign has returned. The campaign began at `began`.
pub fn granted(world: &World, who: Who, began: Duration, lease: Lease, validity: Duration) {
    let epoch = lease.epoch().get();
    let failed = {
        let mut state = world.state();
        state.count("grants");
        let state = &mut *state;
        let grants = &mut state.book.grants;
        let twice = grants.iter().find(|it| it.epoch == epoch);
        let lower = grants.iter().find(|it| it.at < began && it.epoch >= epoch);
        let failed = match (twice, lower) {
            (Some(other), _) => {
                Some(("I1", format!("epoch {epoch} is granted to {who} and to {}", other.who)))
            }
            (_, Some(other)) => Some((
                "I2",
                format!(
                    "{who} was granted epoch {epoch} after {} was granted {}",
                    other.who, other.epoch
                ),
            )),
            _ => None,
        };
        grants.push(Grant { who, epoch, at: now() });
        for lead in state.book.leads.iter_mut().filter(|it| it.lease.epoch().get() < epoch) {
            let clock = &state.machines[lead.who.0].clock;
            lead.latest_end.get_or_insert(clock.truth().boot + lead.validity);
        }
        state.book.leads.push(Lead { who, lease, validity, latest_end: None });
        failed
    };
    if let Some((checker, what)) = failed {
        world.fail(checker, what);
    }
    one_leader(world);
}

/// Checks at this instant that at most one running process believes that it leads (I8), and that no
/// renewal extends the lease of an epoch once a greater epoch is granted (I5').
pub fn one_leader(world: &World) {
    // A check of a lease may wake tasks, so the state must not be locked during the check.
    let leads = running(world);
    let (leading, over): (Vec<_>, Vec<_>) =
        leads.into_iter().partition(|lead| lead.lease.check().is_ok());
    if !over.is_empty() {
        let is_over = |lead: &Lead| {
            over.iter().any(|it| it.lease.epoch() == lead.lease.epoch() && it.who == lead.who)
        };
        world.state().book.leads.retain(|lead| !is_over(lead));
    }
    for lead in &leading {
        let end = lead.lease.ends_at().boot;
        if lead.latest_end.is_some_and(|latest| end > latest) {
            let what = format!(
                "{} extended its lease of epoch {} to {end:?} after a greater epoch was granted",
                lead.who,
                lead.lease.epoch()
            );
            world.fail("I5'", what);
        }
    }
    if let [one, other, ..] = &leading[..] {
        let of = |lead: &Lead| format!("{} with epoch {}", lead.who, lead.lease.epoch());
        world.fail("I8", format!("{} and {} lead", of(one), of(other)));
    }
}

fn running(world: &World) -> Vec<Lead> {
    let state = world.state();
    let runs = |lead: &&Lead| !state.machines[lead.who.0].stopped;
    state.book.leads.iter().filter(runs).cloned().collect()
}

/// Checks a leader that an observer has seen: its epoch must have been created at a majority of the
/// stores.
pub fn observed(world: &World, who: Who, leader: &Leader) {
    let epoch = leader.epoch.get();
    let failed = {
        let mut state = world.state();
        state.count("leaders observed");
        let majority = world.plan.minority() + 1;
        let book = &mut state.book;
        let created = book.created.get(&(epoch, leader.name().to_owned()));
        let never = created.map_or(0, BTreeSet::len) < majority;
        let fell = epoch < book.greatest_observed;
        (book.observed, book.greatest_observed) = (Some(epoch), epoch);
        never || fell
    };
    if failed {
        world.fail("observer", format!("{who} sees {leader:?}, which never led"));
    }
}

/// Returns the process that leads now.
fn leader(world: &World) -> Option<(Who, u64)> {
    let leads = running(world);
    let lead = leads.iter().find(|lead| lead.lease.check().is_ok())?;
    Some((lead.who, lead.lease.epoch().get()))
}

/// Checks that a process leads in time after the last fault, and that it stays the leader. Returns
/// the time from the last fault to the last grant, and the bound on this time.
pub async fn calm(world: &Arc<World>) -> Option<Recovery> {
    let (began, validity) = (now(), world.plan.longest_validity());
    world.note(Who(0), || "CALM".to_owned());
    let bound = bound(world);
    sleep(bound).await;
    let Some(first) = leader(world) else {
        world.fail("Live", format!("no process leads {bound:?} after the last fault"));
        return None;
    };
    let last = world.state().book.grants.last().map_or(Duration::ZERO, |grant| grant.at);
    sleep(validity * 3).await;
    let second = leader(world);
    if second != Some(first) {
        world.fail("stability", format!("{second:?} leads instead of {first:?}, without a fault"));
    }
    let seen = world.state().book.observed;
    if seen != Some(first.1) {
        world.fail("observer", format!("{seen:?} is observed while {first:?} leads"));
    }
    Some(Recovery { took: last.saturating_sub(began), bound })
}

/// Returns the bound on the time until a process leads. The bound covers a lease (or the wait at a
/// store with new contents), the wait after a failed attempt, and some pauses and polls.
fn bound(world: &World) -> Duration {
    let plan = &world.plan;
    plan.longest_validity().mul_f64(1.0 + plan.drift) * 4 + Duration::from_secs(5)
}
