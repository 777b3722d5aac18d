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

use setting::{ALL, Budget, Setting, TIMELESS};
use stateright::{Checker, Model};
use world::Game;

/// Returns `large` if `TENURE_MODEL=large` is set, otherwise `usual`.
fn bound<T>(usual: T, large: T) -> T {
    if std::env::var("TENURE_MODEL").is_ok_and(|bound| bound == "large") { large } else { usual }
}

fn explore(setting: Setting) {
    let name = setting.name;
    let checker = Game { setting }.checker().threads(2).spawn_dfs().join();
    let states = checker.unique_state_count();
    println!("{name}: unique states: {states}, depth: {}", checker.max_depth());
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

/// An answer arrives after actions of the process and of others.
#[test]
fn answers_are_late() {
    let setting = Setting::new("late answers", Budget { late: bound(1, 2), ..NONE });
    explore(Setting { last_epoch: 1, ..setting });
}

/// The timeless invariants hold if timers end before the leases that they follow.
#[test]
fn clocks_are_wrong() {
    let budget = Budget { renewals: 1, gives_up: 1, ..NONE };
    let setting = Setting::new("any clocks", budget);
    explore(Setting { led: true, honest: false, always: TIMELESS.to_vec(), ..setting });
}
