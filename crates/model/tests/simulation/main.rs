//! Deterministic simulation: the real driver, election, leadership and compactor on one thread,
//! with paused time, a seeded store and separate clocks.
//!
//! - `SEEDS=2000 cargo test -p tenure-model --test simulation` runs 2,000 seeds from 0.
//!   `SEEDS=1000..1300` runs a range, and `SEED=7` runs one seed.
//! - `--nocapture` shows the summary. `ONLY=I8,kept` limits the run to the checkers of these names
//!   (`checkers/mod.rs`).
//! - A failure prints its seed and the end of its timeline. With `SEED` it prints the whole
//!   timeline.

mod drawn;
#[path = "mod.rs"]
mod sim;
mod single;

use sim::plan::{Broken, Plan};
use tenure::Layout;
use tenure_model::sim::suite;

#[test]
fn the_invariants_hold_under_faults() {
    invariants_hold(Layout::EpochFiles, |plan| plan);
}

/// Runs the requested seeds. The first 200 seeds must show each event of this layout.
fn invariants_hold(layout: Layout, plan: impl Fn(Plan) -> Plan + Sync) {
    println!("{layout:?}");
    let summary = suite::invariants_hold(200, &sim::events::events(layout), plan);
    let (grants, runs) = (summary.total.get("grants").copied().unwrap_or_default(), summary.runs);
    assert!(runs < 200 || grants > 5 * runs as u64, "only {grants} grants in {runs} runs");
}

#[test]
fn a_seed_has_one_timeline() {
    suite::has_one_timeline::<Plan>(8, |plan| plan);
}

#[test]
fn tracing_does_not_change_the_timeline() {
    for seed in 0..8 {
        let plan = Plan::draw(seed, Broken::Nothing);
        let counts = sim::run(plan.clone()).counts;
        assert_eq!(counts, sim::run(Plan { traced: true, ..plan }).counts, "seed {seed}");
    }
}

fn caught(broken: Broken, within: u64, by: &'static [&'static str]) {
    suite::caught::<Plan>(broken, within, by, |plan| plan);
}

/// The broken leader's lease is too long by one round trip. The test makes round trips longer, so
/// that the leases of two leaders overlap.
#[test]
fn broken_lease_that_starts_with_the_answer_is_caught() {
    caught(Broken::LeaseFromAnswer, 20, &["I7"]);
    let slow = |plan: Plan| Plan { rtt: plan.rtt * 5, ..plan };
    suite::caught(Broken::LeaseFromAnswer, 100, &["I8"], slow);
}

tenure_model::broken_variants! {
    // These variants have errors in leases and waits, so that two processes lead at the same time,
    // or a process leads for too long.
    broken_timer_that_counts_from_the_request_is_caught: TimerFromRequest (100, ["I8"]);
    broken_clock_that_stops_in_suspend_is_caught: ClockStopsInSuspend (20, ["I7"]) (20, ["I8"]);
    broken_renewal_that_ignores_a_refusal_is_caught: RefusalIgnored (20, ["I7"]) (20, ["I8"]);
    broken_application_that_keeps_its_token_is_caught: TokenKept (20, ["I7"]) (20, ["I8"]);
    broken_takeover_of_a_deposed_epoch_is_caught: DepositionNotWaited (20, ["I8"]);
    broken_use_of_a_torn_listing_is_caught: TornListing (100, ["I2"]);
    broken_clock_that_has_no_raw_source_is_caught: RawRepeatsBoot (100, ["I8"]);

    // Each of the other checkers catches one of the following variants.
    broken_application_that_keeps_a_dropped_leadership_is_caught: DroppedButKept (20, ["dropped"]);
    broken_constant_dates_are_caught: DatesStand (20, ["foreign"]);
    broken_leader_that_abandons_reads_is_caught: ReadsGivenUp (50, ["kept"]);
    broken_candidate_that_ignores_the_takeover_delay_is_caught:
        TakeoverDelayIgnored (20, ["takeover"]);
    broken_store_that_creates_an_existing_object_is_caught:
        StoreCreatesAgain (20, ["I1"]) (20, ["I2"]);
    broken_compactor_that_deletes_the_newest_epoch_is_caught:
        NewestCompacted (20, ["I3"]) (20, ["losses"]);
    broken_held_epoch_without_a_record_is_caught: HeldSaysNothing (100, ["I8"]);
    broken_store_that_replaces_blindly_is_caught:
        StoreReplacesBlindly (20, ["I4"]) (20, ["I5"]) (20, ["I6"]);
    broken_renewal_of_a_sealed_grant_is_caught: RefusalIgnored (100, ["I4"]);
    broken_resignation_that_ignores_a_refusal_is_caught: RefusedSealCounts (100, ["I4"]);
    broken_store_that_refuses_seals_is_caught: SealsRefused (20, ["liveness"]);
    broken_clock_that_runs_fast_is_caught: ClockRuns (100, ["stability"]) (100, ["I8"]);
    broken_observer_behind_a_cache_is_caught: ObserverBehindACache (20, ["observer"]);
    broken_application_that_guesses_its_token_is_caught:
        TokenGuessed (20, ["token"]) (20, ["fencing"]);
    broken_application_that_panics_is_caught: Panics (20, ["panic"]);
    broken_credentials_are_caught: WritesDenied (20, ["campaign"]) (20, ["compactor"]);
    broken_resource_that_accepts_any_token_is_caught: ResourceForgets (100, ["fencing"]);
}
