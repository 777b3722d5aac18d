//! Runs the simulation with the layout `SingleObject`, and the same faults and checkers.

use tenure::Layout;

use crate::sim::plan::{Broken, Plan};
use crate::sim::run;
use crate::{caught_in, the_invariants_hold};

#[test]
fn the_invariants_hold_on_a_single_object() {
    let plan = |seed| Plan::draw(seed, Broken::Nothing).on_a_single_object();
    the_invariants_hold(Layout::SingleObject, plan);
}

#[test]
fn a_seed_has_one_timeline_on_a_single_object() {
    for seed in 0..4 {
        let plan = Plan::draw(seed, Broken::Nothing).on_a_single_object();
        let traced = || run(Plan { traced: true, ..plan.clone() }).trace;
        let first = traced();
        assert!(first.contains("app/lock.json") && first == traced(), "seed {seed}");
    }
}

fn caught(broken: Broken, within: u64, by: &'static [&'static str]) {
    caught_in(broken, within, by, Plan::on_a_single_object);
}

#[test]
fn broken_takeover_without_waiting_for_the_lapse_is_caught() {
    caught(Broken::LapseNotWaited, 20, &["I8"]);
}

#[test]
fn broken_lease_that_counts_from_the_answer_is_caught_on_a_single_object() {
    caught(Broken::LeaseFromAnswer, 20, &["I7"]);
    caught(Broken::LeaseFromAnswer, 100, &["I8"]);
}

#[test]
fn broken_timer_that_counts_from_the_request_is_caught_on_a_single_object() {
    caught(Broken::TimerFromRequest, 100, &["I8"]);
}

#[test]
fn broken_clock_that_stops_in_suspend_is_caught_on_a_single_object() {
    caught(Broken::ClockStopsInSuspend, 20, &["I7"]);
    caught(Broken::ClockStopsInSuspend, 20, &["I8"]);
}

#[test]
fn broken_write_that_ignores_a_refusal_is_caught_on_a_single_object() {
    caught(Broken::RefusalIgnored, 20, &["I1", "I2"]);
    caught(Broken::RefusalIgnored, 20, &["I7"]);
}

#[test]
fn broken_resignation_that_ignores_a_refusal_is_caught_on_a_single_object() {
    caught(Broken::RefusedSealCounts, 100, &["I4"]);
}

#[test]
fn broken_takeover_of_a_deposed_epoch_is_caught_on_a_single_object() {
    caught(Broken::DepositionNotWaited, 20, &["I8"]);
}

#[test]
fn broken_store_that_replaces_blindly_is_caught_on_a_single_object() {
    caught(Broken::StoreReplacesBlindly, 20, &["I1"]);
    caught(Broken::StoreReplacesBlindly, 20, &["I3"]);
    caught(Broken::StoreReplacesBlindly, 20, &["I4"]);
    caught(Broken::StoreReplacesBlindly, 20, &["I5"]);
}

#[test]
fn broken_clock_that_runs_fast_is_caught_on_a_single_object() {
    caught(Broken::ClockRuns, 20, &["I8"]);
}

#[test]
fn broken_clock_that_has_no_raw_source_is_caught_on_a_single_object() {
    caught(Broken::RawRepeatsBoot, 100, &["I8"]);
}

#[test]
fn broken_application_that_keeps_a_dropped_leadership_is_caught_on_a_single_object() {
    caught(Broken::DroppedButKept, 20, &["dropped"]);
}

#[test]
fn broken_leader_that_abandons_reads_is_caught_on_a_single_object() {
    caught(Broken::ReadsGivenUp, 50, &["kept"]);
}

#[test]
fn broken_candidate_that_ignores_the_takeover_delay_is_caught_on_a_single_object() {
    caught(Broken::TakeoverDelayIgnored, 20, &["takeover"]);
}
