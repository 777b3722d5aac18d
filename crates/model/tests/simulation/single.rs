//! Runs the simulation with the layout `SingleObject`, and the same faults and checkers.

use tenure::Layout;
use tenure_model::sim::suite;

use crate::sim::plan::{Broken, Plan};

#[test]
fn the_invariants_hold_on_a_single_object() {
    crate::invariants_hold(Layout::SingleObject, Plan::on_a_single_object);
}

#[test]
fn a_seed_has_one_timeline_on_a_single_object() {
    suite::has_one_timeline(4, Plan::on_a_single_object);
    let plan = Plan { traced: true, ..Plan::draw(0, Broken::Nothing) };
    assert!(crate::sim::run(plan.on_a_single_object()).trace.contains("app/lock.json"));
}

fn caught(broken: Broken, within: u64, by: &'static [&'static str]) {
    suite::caught(broken, within, by, Plan::on_a_single_object);
}

tenure_model::broken_variants! {
    broken_takeover_without_waiting_for_the_lapse_is_caught: LapseNotWaited (20, ["I8"]);
    broken_lease_that_counts_from_the_answer_is_caught_on_a_single_object:
        LeaseFromAnswer (20, ["I7"]) (100, ["I8"]);
    broken_timer_that_counts_from_the_request_is_caught_on_a_single_object:
        TimerFromRequest (100, ["I8"]);
    broken_clock_that_stops_in_suspend_is_caught_on_a_single_object:
        ClockStopsInSuspend (20, ["I7"]) (20, ["I8"]);
    broken_write_that_ignores_a_refusal_is_caught_on_a_single_object:
        RefusalIgnored (20, ["I1", "I2"]) (20, ["I7"]);
    broken_resignation_that_ignores_a_refusal_is_caught_on_a_single_object:
        RefusedSealCounts (100, ["I4"]);
    broken_takeover_of_a_deposed_epoch_is_caught_on_a_single_object:
        DepositionNotWaited (20, ["I8"]);
    broken_store_that_replaces_blindly_is_caught_on_a_single_object:
        StoreReplacesBlindly (20, ["I1"]) (20, ["I3"]) (20, ["I4"]) (20, ["I5"]);
    broken_clock_that_runs_fast_is_caught_on_a_single_object: ClockRuns (20, ["I8"]);
    broken_clock_that_has_no_raw_source_is_caught_on_a_single_object: RawRepeatsBoot (100, ["I8"]);
    broken_application_that_keeps_a_dropped_leadership_is_caught_on_a_single_object:
        DroppedButKept (20, ["dropped"]);
    broken_leader_that_abandons_reads_is_caught_on_a_single_object: ReadsGivenUp (50, ["kept"]);
    broken_candidate_that_ignores_the_takeover_delay_is_caught_on_a_single_object:
        TakeoverDelayIgnored (20, ["takeover"]);
}
