//! Runs the calm phase after the faults, and checks that a candidate leads in time and keeps its
//! leadership.

use std::sync::Arc;
use std::time::Duration;

use tenure::Layout;
use tenure_model::clock::MOST_SLEWED;
use tenure_model::sim::suite::Recovery;
use tenure_model::time::{now, sleep};

use super::plan::{Knobs, Plan};
use super::world::Member;
use super::world::World;

/// Ends the faults and waits for a leader. This wait checks liveness.
pub async fn calm(world: &Arc<World>) -> Option<Recovery> {
    end_faults(world).await;
    let began = now();
    world.state().line("-", "CALM");
    if world.plan.foreign && world.plan.layout == Layout::SingleObject {
        // The time until a candidate leads has no bound if a peer follows the If-Match post
        // (docs/how-to/upgrade.md). When the peer dies, its wall clock may be arbitrarily far
        // ahead, so its lock may last arbitrarily long.
        return None;
    }
    let bound = bound(&world.plan);
    let took = loop {
        let last = world.state().last_token;
        match last.filter(|at| *at >= began) {
            Some(at) => break at - began,
            None if now() > began + bound => {
                world.fail("liveness", format!("no process leads {bound:?} after the last fault"));
                return None;
            }
            None => {}
        }
        tokio::select! {
            biased;
            () = world.led.notified() => {}
            () = sleep(began + bound + Duration::from_millis(1) - now()) => {}
        }
    };
    stays(world, began + bound).await;
    Some(Recovery { took, bound })
}

/// Ends the faults. Waits until no process is stopped and all delayed requests have arrived.
pub async fn end_faults(world: &World) {
    world.calm_down();
    while !is_quiet(world) {
        sleep(world.plan.longest_validity() / 100).await;
    }
}

/// Returns whether all delayed requests have arrived and no process is stopped.
fn is_quiet(world: &World) -> bool {
    let state = world.state();
    let stopped = |member: &Member| {
        member.outage.is_some() || member.alive && member.gates.iter().any(|gate| gate.is_closed())
    };
    state.in_flight == 0 && !state.members.iter().any(stopped)
}

/// Asserts that the leader keeps its leadership after all processes have recovered.
async fn stays(world: &World, recovered: Duration) {
    if world.plan.beyond_drift {
        return;
    }
    sleep(recovered.saturating_sub(now())).await;
    let grants = |world: &World| world.state().counts.get("grants").copied();
    let before = grants(world);
    sleep(world.plan.longest_validity() * 2).await;
    if grants(world) != before {
        world.fail("stability", "another leader was elected without a fault".to_owned());
    }
    all_watch(world);
}

/// Asserts that all observers see the leader.
fn all_watch(world: &World) {
    let (leader, wrong) = {
        let state = world.state();
        let leader = state.bucket.newest();
        let wrong = |member: &&Member| {
            member.alive && member.watched.is_some_and(|watched| watched != leader)
        };
        let wrong = state.members.iter().find(wrong);
        (leader, wrong.map(|member| format!("{}: {:?}", member.label, member.watched)))
    };
    if let Some(wrong) = wrong {
        world.fail("liveness", format!("{wrong} is observed while {leader:?} leads"));
    }
}

/// Number of round trips in the bound. The seal, the create, the confirming LIST, and the poll that
/// reads the last renewal take one round trip each. The check of the store takes five round trips,
/// and three are in reserve.
const ROUND_TRIPS: u32 = 12;

/// Upper bound of the pauses in a store check that is repeated after a failure. The check pauses
/// for 1.1 s before each of up to four writes. One further pause is in reserve.
const CHECK: Duration = Duration::from_millis(5 * 1_100);

/// Rate of a clock that a time daemon slows by the maximum slew.
const SLOWED: f64 = 1.0 - MOST_SLEWED as f64 / 1e6;

/// Returns the bound on the time without a leader. The bound is the sum of validity × (1 + drift)
/// and the following waits of the protocol, which the function measures by the slowest clock:
///
/// - one poll, until the candidate sees the last renewal. A candidate that backs off polls once per
///   validity, and a candidate that polls only at the lapse sees the renewal one lapse later;
/// - two more polls with `try_campaign`: one because a loop of calls sees the lapse later, and one
///   because an attempt may fail;
/// - the jitter before a seal, a tenth of the validity;
/// - the takeover delay;
/// - the timeout of a request that hung when the faults ended, a fifth of the validity;
/// - the delay of a candidate that has a lower priority or lets a named successor go first;
/// - the check of the store, and the round trips.
fn bound(plan: &Plan) -> Duration {
    let validity = plan.longest_validity();
    let local_lapse = validity.mul_f64(1.0 + plan.drift);
    let names = plan.candidates.iter().any(|knobs| knobs.names);
    let most = |of: &dyn Fn(&Knobs) -> Duration| plan.candidates.iter().map(of).max();
    let looks = |knobs: &Knobs| match (knobs.at_lapse, knobs.backs_off) {
        (true, _) => local_lapse,
        (_, true) => knobs.validity,
        _ => knobs.poll,
    };
    let polls = most(&|knobs| {
        let looks_on = if knobs.backs_off { knobs.validity } else { knobs.poll };
        let stands_back = if names { looks_on.max(knobs.validity / 6) } else { Duration::ZERO };
        let tries = knobs.poll * if knobs.tries { 2 } else { 0 };
        looks(knobs) + tries + stands_back.max(knobs.priority_delay)
    });
    let polls = polls.unwrap_or_default();
    let delay = most(&|knobs| knobs.takeover_delay).unwrap_or_default();
    let slowest = plan.candidates.iter().map(|knobs| knobs.rate).min().unwrap_or(1_000_000);
    let slowest = slowest as f64 * if plan.faults.slew > 0 { SLOWED } else { 1.0 };
    let checks =
        if plan.candidates.iter().any(|it| it.check_store) { CHECK } else { Duration::ZERO };
    let waits = delay + polls + checks;
    let local = validity.mul_f64(1.0 + plan.drift) + validity / 10 + validity / 5 + waits;
    // A dead peer that follows Morling's post (docs/how-to/upgrade.md) may leave its unsealed epoch
    // above another unsealed epoch. Then candidates must wait for the lapse of both leases, one
    // after the other.
    let lapses = if plan.foreign { 2 } else { 1 };
    (local.mul_f64(1e6 / slowest) + plan.rtt * ROUND_TRIPS) * lapses
}
