//! Explores all states of the real writer and the real trim of the fenced log, within bounds
//! (docs/design/checks.md). A writer opens the log with a *claim*. It fills a free number with a
//! *fence*, so that no older writer can use the number. `TENURE_MODEL=large` sets greater bounds.

mod progress;
mod step;
mod world;

use stateright::{Checker, Model};
use world::{Broken, Budget, Log};

const ALWAYS: &[&str] = &["serial", "fenced", "believed", "opened", "refused", "kept", "read"];

/// Explores all states of the log. Asserts that no invariant breaks, and that each required event
/// occurs.
fn explore(name: &'static str, log: Log) {
    let checker = log.checker().threads(2).spawn_dfs().join();
    println!("{name}: unique states: {}", checker.unique_state_count());
    checker.assert_properties();
}

/// Asserts that the invariant breaks if the model omits the rule `log.broken`. Prints the shortest
/// path to the broken invariant.
fn caught(log: Log, invariant: &'static str) {
    let broken = log.broken;
    let checker = Log { always: vec![invariant], ..log }.checker().spawn_bfs().join();
    let path = checker.discovery(invariant);
    let path = path.unwrap_or_else(|| panic!("{broken:?} does not break {invariant:?}"));
    let actions = path.into_actions();
    println!("{broken:?}: {invariant:?} is broken in {} steps:", actions.len());
    for action in actions {
        println!("    {action:?}");
    }
}

fn large() -> bool {
    std::env::var("TENURE_MODEL").is_ok_and(|bound| bound == "large")
}

fn log(epochs: &[u64], budget: Budget) -> Log {
    let sometimes = Vec::new();
    Log {
        epochs: epochs.to_vec(),
        budget,
        longest: 7,
        broken: Broken::Nothing,
        always: ALWAYS.into(),
        sometimes,
    }
}

#[test]
fn two_writers_lose_answers() {
    let budget = Budget { unknown: 2, twice: 1, appends: 2, ..Budget::default() };
    let sometimes = vec!["superseded"];
    explore("two writers", Log { sometimes, ..log(&[1, 2], budget) });
}

/// A writer appends entries while another writer opens the log. The opening writer creates a fence
/// at a number that the appending writer has not reached.
#[test]
fn a_writer_opens_the_log_during_appends() {
    let budget = Budget { unknown: 1, twice: 1, appends: 3, ..Budget::default() };
    let sometimes = vec!["superseded", "fenced off"];
    explore("a busy writer", Log { sometimes, longest: 9, ..log(&[1, 2], budget) });
}

#[test]
fn a_writer_opens_the_log_during_appends_and_a_trim() {
    let unknown = u8::from(large());
    let budget = Budget { unknown, twice: unknown, trims: 1, reads: 1, torn: 0, appends: 3 };
    let sometimes = vec!["superseded", "fenced off", "trimmed"];
    explore("a busy writer and a trim", Log { sometimes, longest: 9, ..log(&[1, 2], budget) });
}

/// The fence of an older writer takes effect after a newer writer has opened the log. The newer
/// writer then appends above the fence.
#[test]
fn two_writers_open_the_log_during_appends() {
    let unknown = u8::from(large());
    let budget = Budget { unknown, trims: 1, appends: 1, ..Budget::default() };
    let sometimes = vec!["superseded", "fenced off", "passed a fence"];
    explore("two that open", Log { sometimes, longest: 9, ..log(&[1, 2, 3], budget) });
}

#[test]
fn two_writers_append_during_a_trim() {
    let budget = Budget { unknown: 1, trims: 1, reads: 1, appends: 2, ..Budget::default() };
    let sometimes = vec!["superseded", "trimmed", "ghost"];
    explore("two writers and a trim", Log { sometimes, ..log(&[1, 2], budget) });
}

#[test]
fn two_writers_append_during_two_trims() {
    let budget = Budget { trims: 2, appends: 2, unknown: u8::from(large()), ..Budget::default() };
    explore("two writers and two trims", log(&[1, 2], budget));
}

#[test]
fn three_writers_append_during_a_trim() {
    let appends = if large() { 2 } else { 1 };
    let budget = Budget { trims: 1, reads: 1, appends, ..Budget::default() };
    let sometimes = vec!["superseded", "trimmed", "ghost"];
    explore("three writers and a trim", Log { sometimes, ..log(&[1, 2, 3], budget) });
}

#[test]
fn two_of_three_writers_have_one_epoch() {
    let budget = Budget { trims: 1, appends: 1, ..Budget::default() };
    let sometimes = vec!["replaced", "trimmed"];
    explore("two of one epoch", Log { sometimes, ..log(&[2, 2, 1], budget) });
}

#[test]
fn two_writers_of_one_epoch_lose_answers() {
    let budget = Budget { trims: 1, unknown: 1, appends: 1, ..Budget::default() };
    let sometimes = vec!["replaced", "trimmed"];
    explore("one epoch, lost answers", Log { sometimes, ..log(&[1, 1], budget) });
}

/// A store without order may answer with two pages, which were read at different moments.
#[test]
fn listings_have_no_order() {
    let unknown = u8::from(large());
    let budget = Budget { trims: 2, torn: 1, appends: 3, unknown, ..Budget::default() };
    let sometimes = vec!["superseded", "trimmed"];
    explore("listings without order", Log { sometimes, ..log(&[1, 2], budget) });
}

#[test]
fn a_create_is_applied_twice() {
    let budget = Budget { unknown: 1, twice: 1, trims: 1, reads: 1, torn: 0, appends: 1 };
    explore("a create applied twice", log(&[1, 2], budget));
}

fn broken(broken: Broken, epochs: &[u64], budget: Budget) -> Log {
    Log { broken, ..log(epochs, budget) }
}

const TRIM: Budget = Budget { unknown: 0, twice: 0, trims: 1, reads: 0, torn: 0, appends: 2 };

/// If a trim deletes a claim, an older, paused writer can create an object at the number of the
/// claim. The correct trim keeps claims.
#[test]
fn broken_trim_that_deletes_claims_is_caught() {
    caught(broken(Broken::TrimsClaims, &[1, 2], TRIM), "kept");
    caught(broken(Broken::TrimsClaims, &[1, 2], TRIM), "believed");
}

#[test]
fn broken_trim_that_deletes_the_newest_is_caught() {
    caught(broken(Broken::TrimsNewest, &[1, 2], TRIM), "kept");
    caught(broken(Broken::TrimsNewest, &[1, 2], TRIM), "serial");
}

/// If a trim deletes a fence too early, an older, paused writer can create an object at the number
/// of the fence.
#[test]
fn broken_trim_that_deletes_fences_is_caught() {
    for invariant in ["kept", "believed"] {
        let log = broken(Broken::TrimsFences, &[1, 2], Budget { appends: 3, ..TRIM });
        caught(Log { longest: 9, ..log }, invariant);
    }
}

/// If numbers below a claim remain free, an older writer can append at these numbers.
#[test]
fn broken_claim_that_leaves_free_numbers_below_is_caught() {
    caught(Log { longest: 9, ..broken(Broken::FillsNothing, &[1, 2], TRIM) }, "serial");
}

/// A claim that takes effect late may get the number of an object that a trim has deleted. Such a
/// claim is invalid. So the correct writer confirms its claim by a LIST.
#[test]
fn broken_claim_that_is_not_confirmed_is_caught() {
    caught(broken(Broken::NoConfirm, &[1, 2], TRIM), "opened");
}

/// While the outcome of an append is unknown, the writer must not append another object at the same
/// number.
#[test]
fn broken_append_before_the_last_outcome_is_known_is_caught() {
    let budget = Budget { unknown: 1, ..TRIM };
    caught(broken(Broken::ForgetsUnknown, &[1, 2], budget), "believed");
}

/// In a store without order, a trim may delete the newest object while a listing takes two pages.
/// The listing then misses this object and all newer ones. The trim has raised the floor. A writer
/// that uses the listing claims a number that was used before.
#[test]
fn broken_use_of_a_listing_during_a_trim_is_caught() {
    let budget = Budget { trims: 2, torn: 1, appends: 3, ..TRIM };
    caught(broken(Broken::TornListing, &[1, 2], budget), "opened");
}

/// A create that takes effect late may get the number of an entry that a trim has deleted. The trim
/// has raised the floor of the log above this number, and only entries at or above the floor are
/// valid. A reader that ignores the floor returns the late entry.
#[test]
fn broken_read_without_the_floor_is_caught() {
    let budget = Budget { reads: 1, unknown: 1, twice: 1, ..TRIM };
    caught(broken(Broken::ReadsWithoutFloor, &[1, 2], budget), "read");
}

/// The floor is the number below which no entry is valid. The broken reader reads the floor before
/// the entry. Between the two reads, a trim may delete the entry, and a late create may fill its
/// number again. The reader then returns the late entry.
#[test]
fn broken_read_of_the_floor_before_the_entry_is_caught() {
    let budget = Budget { reads: 1, ..TRIM };
    caught(broken(Broken::ReadsFloorFirst, &[1, 2], budget), "read");
}

/// No entry below the floor is valid. A trim must raise the floor before it deletes the first
/// entry. If it raises the floor later, a reader may return a late entry at a deleted number.
#[test]
fn broken_trim_that_raises_the_floor_last_is_caught() {
    let budget = Budget { reads: 1, ..TRIM };
    caught(broken(Broken::RaisesFloorLast, &[1, 2], budget), "read");
}

/// Before a writer reports an append as refused, it must read the floor. If the number of the
/// append is below the floor, the append may have succeeded. A trim may have deleted its entry, and
/// a late create may have filled the number again.
#[test]
fn broken_refusal_without_a_read_of_the_floor_is_caught() {
    let budget = Budget { unknown: 1, appends: 1, ..TRIM };
    let log = broken(Broken::NoFloorAtRefusal, &[1, 2, 3], budget);
    let log = Log { always: vec!["refused"], ..log };
    // The search is depth first, because the shortest path is long.
    let checker = log.checker().spawn_dfs().join();
    assert!(checker.discovery("refused").is_some(), "the checker finds no violation");
}
