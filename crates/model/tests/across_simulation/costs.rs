//! The requests of a run without faults, compared with "Cost of 3 stores" in
//! `protocol/across/rules.md`.

use std::sync::Arc;
use std::time::Duration;

use tenure_model::time::sleep;

use super::plan::{Broken, Network, Plan};
use super::process::by_hand;
use super::world::{Who, World, run_with};

impl World {
    /// Returns the numbers of LIST, GET and PUT since the last call.
    fn requests(&self, who: Who) -> [usize; 3] {
        std::mem::take(&mut self.state().machines[who.0].requests)
    }

    fn costs(&self, who: Who, step: &'static str, table: [usize; 3]) {
        let sent = self.requests(who);
        self.note(who, || format!("{step}: {sent:?}"));
        if sent != table {
            self.fail("costs", format!("{step}: {sent:?}, and the table has {table:?}"));
        }
    }
}

/// A first campaign, a follower, a renewal, a takeover after a resignation, and one after a lapse.
async fn steps(world: Arc<World>) -> Option<f64> {
    world.state().faults = false;
    let validity = world.plan.validity;
    let (one, first) = by_hand(&world, 0);
    let (two, second) = by_hand(&world, 1);
    let leadership = first.campaign().await.ok()?;
    sleep(validity / 10).await;
    world.costs(one, "first campaign", [6, 0, 3]);
    let follower = tokio::spawn(async move { second.campaign().await });
    // Each store is polled for the first time after a random part of the poll interval.
    sleep(validity / 50).await;
    let [list, get, put] = world.requests(two);
    // The first poll of some stores may already be due.
    if [list, put] != [3, 0] || !(3..=6).contains(&get) {
        world.fail("costs", format!("begin to follow: {list} LIST, {get} GET, {put} PUT"));
    }
    sleep(validity / 3).await;
    world.costs(one, "renewal", [0, 0, 3]);
    world.requests(two);
    sleep(validity).await;
    // Each poll interval begins with the previous answer, so each store gets at most five polls.
    let [list, get, put] = world.requests(two);
    if [list, put] != [0, 0] || !(12..=15).contains(&get) {
        world.fail("costs", format!("five polls: {list} LIST, {get} GET, {put} PUT"));
    }
    world.requests(one);
    leadership.resign().await.ok()?;
    world.costs(one, "resignation", [0, 0, 3]);
    let next = follower.await.ok()?.ok()?;
    sleep(validity / 10).await;
    let [list, get, put] = world.requests(two);
    // One store shows the resignation to a poll, and the others are read again.
    if !(5..=6).contains(&list) || !(3..=4).contains(&get) || put != 3 {
        let sent = format!("{list} LIST, {get} GET, {put} PUT");
        world.fail("costs", format!("takeover after a resignation: {sent}"));
    }
    // The leader dies.
    world.requests(one);
    let follower = tokio::spawn(async move { first.campaign().await });
    sleep(validity / 50).await;
    let began = world.requests(one);
    world.note(one, || format!("begin to follow again: {began:?}"));
    drop(next);
    let _last = follower.await.ok()?.ok()?;
    sleep(validity / 10).await;
    let [list, get, put] = world.requests(one);
    println!("takeover after a lapse: {list} LIST, {get} GET, {put} PUT");
    // A majority is sufficient, so the requests to the third store may come later.
    if !(5..=6).contains(&list) || !(5..=6).contains(&put) {
        world.fail("costs", format!("takeover after a lapse: {list} LIST, {put} PUT"));
    }
    Some(0.0)
}

fn plan(seed: u64) -> Plan {
    let mut plan = Plan::draw(seed, Broken::Nothing);
    plan.validity = Duration::from_secs(10);
    plan.page_max = 1_000;
    plan.network = Network::default();
    plan.rtts = vec![Duration::from_millis(40); 3];
    for knobs in &mut plan.candidates {
        knobs.validity = plan.validity;
        knobs.poll = plan.validity / 5;
        knobs.resign_on_drop = false;
    }
    plan
}

#[test]
fn each_step_costs_what_the_rules_say() {
    for seed in 0..50 {
        let outcome = run_with(Plan { traced: true, ..plan(seed) }, steps);
        let steps = outcome.recovered;
        assert!(outcome.violation.is_none(), "{:?}\n{}", outcome.violation, outcome.trace);
        assert!(steps.is_some(), "a step failed:\n{}", outcome.trace);
    }
}
