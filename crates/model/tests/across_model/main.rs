//! Explores the state machine of an election across stores, exhaustively within bounds and at
//! random beyond them (`tenure::protocol::across`).
//!
//! `TENURE_MODEL=large` sets greater bounds.

mod broken;
mod checks;
mod elect;
mod meddle;
mod operator;
mod process;
mod setting;
mod step;
mod store;
mod walk;
mod world;

use std::time::{Duration, Instant};

use setting::{ALL, Budget, Setting, TIMELESS};
use stateright::{Checker, Model};
use world::Game;

/// Returns `large` if `TENURE_MODEL=large` is set, otherwise `usual`.
fn bound<T>(usual: T, large: T) -> T {
    if std::env::var("TENURE_MODEL").is_ok_and(|bound| bound == "large") { large } else { usual }
}

/// Maximum time of the run of one setting.
const TIME: Duration = Duration::from_secs(600);

#[allow(clippy::disallowed_methods, reason = "a run has a time limit")]
fn explore(setting: Setting) {
    let (name, began) = (setting.name, Instant::now());
    let checker = Game { setting }.checker().threads(2).timeout(TIME).spawn_dfs().join();
    let states = checker.unique_state_count();
    let complete = if began.elapsed() < TIME { "complete" } else { "incomplete" };
    println!("{name}: {complete}, unique states: {states}, depth: {}", checker.max_depth());
    checker.assert_properties();
}

const NONE: Budget = Budget::NONE;

#[test]
fn two_candidates_race() {
    let budget = Budget { gives_up: bound(0, 1), ..NONE };
    let setting = Setting::new("two candidates race", budget);
    explore(Setting { last_epoch: 1, always: [ALL, &["live"]].concat(), ..setting });
}

#[test]
fn a_leader_lapses() {
    let budget = Budget { renewals: bound(0, 1), ..NONE };
    let setting = Setting::new("a leader lapses", budget);
    explore(Setting { led: true, sometimes: vec!["two grants"], ..setting });
}

/// An answer may arrive after further actions of its process and of other processes.
#[test]
fn answers_are_late() {
    let setting = Setting::new("late answers", Budget { late: bound(1, 2), ..NONE });
    explore(Setting { last_epoch: 1, ..setting });
}

/// The invariants that do not depend on clocks hold even if timers end before the leases that they
/// follow.
#[test]
fn clocks_are_wrong() {
    let budget = Budget { renewals: 1, gives_up: 1, ..NONE };
    let setting = Setting::new("any clocks", budget);
    explore(Setting { led: true, honest: false, always: TIMELESS.to_vec(), ..setting });
}

#[test]
#[ignore = "takes minutes: `just nightly`"]
fn long_three_candidates_race() {
    let setting = Setting::new("three candidates race", NONE);
    explore(Setting { candidates: 3, last_epoch: 1, ..setting });
}

#[test]
#[ignore = "takes minutes: `just nightly`"]
fn long_three_epochs() {
    let setting = Setting::new("three epochs", NONE);
    explore(Setting { led: true, last_epoch: 3, sometimes: vec!["two grants"], ..setting });
}

#[test]
#[ignore = "takes minutes: `just nightly`"]
fn long_race_and_a_replacement() {
    let setting = Setting::new("a race and a replacement", Budget { replacements: 1, ..NONE });
    explore(Setting { last_epoch: 1, ..setting });
}

#[test]
#[ignore = "takes minutes: `just nightly`"]
fn long_lapse_and_a_replacement() {
    let setting = Setting::new("a lapse and a replacement", Budget { replacements: 1, ..NONE });
    explore(Setting { led: true, ..setting });
}

#[test]
#[ignore = "takes minutes: `just nightly`"]
fn long_three_attempts_and_a_replacement() {
    let budget = Budget { replacements: 1, ..NONE };
    let setting = Setting::new("three attempts and a replacement", budget);
    explore(Setting { candidates: 3, last_epoch: 1, ..setting });
}

#[test]
#[ignore = "takes minutes: `just nightly`"]
fn long_race_across_five_stores() {
    let setting = Setting::new("a race across five stores", NONE);
    explore(Setting { stores: 5, last_epoch: 1, ..setting });
}
