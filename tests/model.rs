//! The shipped state machine, explored exhaustively within bounds (docs/verification.md).

#[path = "model/checks.rs"]
mod checks;
#[path = "model/process.rs"]
mod process;
#[path = "model/setting.rs"]
mod setting;
#[path = "model/step.rs"]
mod step;
#[path = "model/store.rs"]
mod store;
#[path = "model/world.rs"]
mod world;

use setting::*;
use stateright::{Checker, Model};
use tenure::{Clock, SystemClock};
use world::Game;

/// Explores all of it and requires what the setting asks for.
fn explore(setting: Setting) {
    let clock = SystemClock;
    let start = clock.now().boot;
    let name = setting.name;
    let checker = Game { setting }.checker().threads(2).spawn_dfs().join();
    let took = clock.now().boot - start;
    println!(
        "{name}: unique states: {}, generated: {}, depth: {}, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        took.as_secs_f32()
    );
    checker.assert_properties();
}

#[test]
fn calm() {
    explore(Setting { sometimes: &["S2", "three grants in a row"], ..Setting::CALM });
}
