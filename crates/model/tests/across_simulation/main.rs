//! Deterministic simulation of elections across stores. The shipped driver runs on one thread, in
//! paused time. The seed determines the faults of each store and each process, and each machine has
//! its own clocks.
//!
//! `SEEDS=2000 cargo test -p tenure-model --test across_simulation` runs 2,000 seeds from 0.
//! `SEEDS=1000..1300` runs a range. `SEED=7` runs one seed and prints its timeline.

// The simulation of elections in one store also uses this module.
#[path = "../simulation/bucket.rs"]
#[allow(dead_code, reason = "the other simulation uses the rest")]
mod bucket;
mod checks;
mod faults;
mod network;
mod plan;
mod process;
mod store;
mod world;

use plan::{Broken, Plan};
use tenure_model::sim::suite;

#[test]
fn the_invariants_hold_under_faults() {
    suite::invariants_hold::<Plan>(200, &world::ALL_HAPPEN, |plan| plan);
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
    broken_leader_that_uses_the_longest_lease_is_caught: GreatestLease (200, ["I8", "I5'"]);
    broken_listing_that_counts_without_a_marker_is_caught: MarkerForged (500, ["I1", "I2", "I8"]);
    broken_replacement_without_the_newest_epoch_is_caught: ReplacedEmpty (500, ["I1", "I2", "I8"]);
    broken_store_that_creates_an_existing_object_is_caught:
        StoreCreatesAgain (100, ["I1", "I2", "I8"]);
    broken_store_that_replaces_blindly_is_caught: StoreReplacesBlindly (100, ["I8", "I5'"]);
    broken_clock_that_stops_in_suspend_is_caught: ClockStopsInSuspend (100, ["I8"]);
    broken_store_that_refuses_seals_is_caught: SealsRefused (50, ["Live"]);
}
