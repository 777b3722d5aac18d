//! The fenced log's writer and trim as shipped, explored exhaustively within bounds
//! (docs/design/checks.md). `TENURE_MODEL=large` explores farther.

mod progress;
mod step;
mod world;

use stateright::{Checker, Model};
use world::{Broken, Budget, Log};

const ALWAYS: &[&str] = &["serial", "fenced", "believed", "opened", "refused", "kept", "read"];

/// Explores all of it: no invariant breaks, and what should happen at times does.
fn explore(name: &'static str, log: Log) {
    let checker = log.checker().threads(2).spawn_dfs().join();
    println!("{name}: unique states: {}", checker.unique_state_count());
    checker.assert_properties();
}

/// The shortest way to break it.
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
fn two_writers_and_lost_answers() {
    let budget = Budget { unknown: 2, twice: 1, appends: 2, ..Budget::default() };
    let sometimes = vec!["superseded"];
    explore("two writers", Log { sometimes, ..log(&[1, 2], budget) });
}

/// A writer that appends while another opens the log: it is fenced off ahead.
#[test]
fn a_busy_writer_and_one_that_opens() {
    let budget = Budget { unknown: 1, twice: 1, appends: 3, ..Budget::default() };
    let sometimes = vec!["superseded", "fenced off"];
    explore("a busy writer", Log { sometimes, longest: 9, ..log(&[1, 2], budget) });
}

#[test]
fn a_busy_writer_one_that_opens_and_a_trim() {
    let unknown = u8::from(large());
    let budget = Budget { unknown, twice: unknown, trims: 1, reads: 1, appends: 3 };
    let sometimes = vec!["superseded", "fenced off", "trimmed"];
    explore("a busy writer and a trim", Log { sometimes, longest: 9, ..log(&[1, 2], budget) });
}

/// A writer's fence comes after a newer one has opened the log, which passes it.
#[test]
fn two_that_open_beside_a_busy_writer() {
    let unknown = u8::from(large());
    let budget = Budget { unknown, trims: 1, appends: 1, ..Budget::default() };
    let sometimes = vec!["superseded", "fenced off", "passed a fence"];
    explore("two that open", Log { sometimes, longest: 9, ..log(&[1, 2, 3], budget) });
}

#[test]
fn two_writers_and_a_trim() {
    let budget = Budget { unknown: 1, trims: 1, reads: 1, appends: 2, ..Budget::default() };
    let sometimes = vec!["superseded", "trimmed", "ghost"];
    explore("two writers and a trim", Log { sometimes, ..log(&[1, 2], budget) });
}

#[test]
fn two_writers_and_two_trims() {
    let budget = Budget { trims: 2, appends: 2, unknown: u8::from(large()), ..Budget::default() };
    explore("two writers and two trims", log(&[1, 2], budget));
}

#[test]
fn three_writers_and_a_trim() {
    let appends = if large() { 2 } else { 1 };
    let budget = Budget { trims: 1, reads: 1, appends, ..Budget::default() };
    let sometimes = vec!["superseded", "trimmed", "ghost"];
    explore("three writers and a trim", Log { sometimes, ..log(&[1, 2, 3], budget) });
}

#[test]
fn three_writers_two_of_one_epoch() {
    let budget = Budget { trims: 1, appends: 1, ..Budget::default() };
    let sometimes = vec!["replaced", "trimmed"];
    explore("two of one epoch", Log { sometimes, ..log(&[2, 2, 1], budget) });
}

#[test]
fn two_writers_of_one_epoch_and_lost_answers() {
    let budget = Budget { trims: 1, unknown: 1, appends: 1, ..Budget::default() };
    let sometimes = vec!["replaced", "trimmed"];
    explore("one epoch, lost answers", Log { sometimes, ..log(&[1, 1], budget) });
}

#[test]
fn a_create_applied_twice() {
    let budget = Budget { unknown: 1, twice: 1, trims: 1, reads: 1, appends: 1 };
    explore("a create applied twice", log(&[1, 2], budget));
}

fn broken(broken: Broken, epochs: &[u64], budget: Budget) -> Log {
    Log { broken, ..log(epochs, budget) }
}

const TRIM: Budget = Budget { unknown: 0, twice: 0, trims: 1, reads: 0, appends: 2 };

/// The hazard that claims are kept for: a paused writer fills the number of a claim that is gone.
#[test]
fn broken_trim_that_deletes_claims() {
    caught(broken(Broken::TrimsClaims, &[1, 2], TRIM), "kept");
    caught(broken(Broken::TrimsClaims, &[1, 2], TRIM), "believed");
}

#[test]
fn broken_trim_that_deletes_the_newest() {
    caught(broken(Broken::TrimsNewest, &[1, 2], TRIM), "kept");
    caught(broken(Broken::TrimsNewest, &[1, 2], TRIM), "serial");
}

/// They are kept for the same reason as claims.
#[test]
fn broken_trim_that_deletes_fences() {
    for invariant in ["kept", "believed"] {
        let log = broken(Broken::TrimsFences, &[1, 2], Budget { appends: 3, ..TRIM });
        caught(Log { longest: 9, ..log }, invariant);
    }
}

/// The older writer would go on below the claim.
#[test]
fn broken_claim_after_a_fence_with_free_numbers_below() {
    caught(Log { longest: 9, ..broken(Broken::FillsNothing, &[1, 2], TRIM) }, "serial");
}

/// A claim that was created where another object was trimmed is none.
#[test]
fn broken_claim_without_confirming() {
    caught(broken(Broken::NoConfirm, &[1, 2], TRIM), "opened");
}

/// While the fate of one append is unknown, another must not be sent to its number.
#[test]
fn broken_another_append_sent_to_the_number_of_one_of_unknown_fate() {
    let budget = Budget { unknown: 1, ..TRIM };
    caught(broken(Broken::ForgetsUnknown, &[1, 2], budget), "believed");
}

/// A reader that does not look at the floor takes a ghost for an entry.
#[test]
fn broken_reading_without_the_floor() {
    let budget = Budget { reads: 1, unknown: 1, twice: 1, ..TRIM };
    caught(broken(Broken::ReadsWithoutFloor, &[1, 2], budget), "read");
}

/// So does one that looks before it reads.
#[test]
fn broken_reading_the_floor_first() {
    let budget = Budget { reads: 1, ..TRIM };
    caught(broken(Broken::ReadsFloorFirst, &[1, 2], budget), "read");
}

/// The floor must be raised before the first deletion.
#[test]
fn broken_raising_the_floor_after_deleting() {
    let budget = Budget { reads: 1, ..TRIM };
    caught(broken(Broken::RaisesFloorLast, &[1, 2], budget), "read");
}

/// What a refused append says of itself rests on the floor, too.
#[test]
fn broken_refusal_that_does_not_ask_for_the_floor() {
    let budget = Budget { unknown: 1, appends: 1, ..TRIM };
    let log = broken(Broken::NoFloorAtRefusal, &[1, 2, 3], budget);
    let log = Log { always: vec!["refused"], ..log };
    // Depth first, as the shortest way is a long one.
    let checker = log.checker().spawn_dfs().join();
    assert!(checker.discovery("refused").is_some(), "what was refused is in the log");
}
