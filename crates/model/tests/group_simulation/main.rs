//! Deterministic simulation of groups. The real driver of each member runs on one thread, in paused
//! time. The seed determines the faults of the store, and each machine has its own clocks.
//!
//! `SEEDS=2000 cargo test -p tenure-model --test group_simulation` runs 2,000 seeds from 0.
//! `SEED=7` runs one seed and prints its timeline.

mod bucket;
mod checks;
mod deletions;
mod fault_effects;
mod plan;
mod process;
mod store;
mod trouble;
mod world;

use plan::{Broken, Plan};
use tenure_model::sim::suite;

#[test]
fn the_invariants_hold_under_faults() {
    suite::invariants_hold::<Plan>(100, &world::ALL_HAPPEN, |plan| plan);
}

#[test]
fn a_seed_has_one_timeline() {
    suite::has_one_timeline::<Plan>(4, |plan| plan);
}

fn caught(broken: Broken, within: u64, by: &'static [&'static str]) {
    suite::caught::<Plan>(broken, within, by, |plan| plan);
}

// Each of the following tests breaks one part of the system, and asserts that a checker reports it.
tenure_model::broken_variants! {
    broken_store_that_creates_an_existing_object_is_caught:
        CreatesAgain (100, ["G1", "G5", "R1", "R2", "GS1"]);
    broken_store_that_replaces_blindly_is_caught:
        ReplacesBlindly (400, ["GS1", "G5", "G6", "R1", "moves"]);
    broken_clock_that_stops_in_suspend_is_caught: ClockStopsInSuspend (100, ["G5", "G6"]);
    broken_application_that_keeps_its_token_is_caught: TokenKept (100, ["G5", "moves"]);
    broken_application_that_releases_before_it_stops_is_caught: ReleasesEarly (100, ["G5"]);
    broken_compactor_that_deletes_the_newest_assignment_is_caught: NewestCompacted (20, ["G3"]);
    broken_clock_that_runs_fast_is_caught: ClockRuns (100, ["G6"]);
    broken_store_that_refuses_seals_is_caught: SealsRefused (50, ["GS1"]);
    broken_writer_that_reassigns_partitions_is_caught: Takes (20, ["R1"]);
    broken_work_that_never_returns_is_caught: NeverReturns (50, ["GS1"]);
    broken_writer_that_needs_no_etag_is_caught:
        EtagNotNeeded (100, ["G1", "G5", "G6", "GS1", "R1", "R2"]);
    // If no remaining object shows a deletion of assignments, members do not detect the deletion.
    // Then they grant the same tokens again.
    broken_expiry_without_evidence_is_caught: DeletedUnseen (100, ["D2", "G1", "G5"]);
    broken_seal_that_drops_the_greatest_assignment_is_caught: SealsForget (400, ["D2"]);
    broken_failed_read_that_returns_not_found_is_caught:
        FailedReadFindsNothing (1_000, ["D2", "G1", "G5", "R1"]);
    broken_failed_listing_that_returns_no_keys_is_caught:
        FailedListIsEmpty (100, ["D2", "G1", "G5", "R1"]);
    broken_round_that_waits_for_each_session_is_caught: UnreadStopsRound (200, ["GS1"]);
}
