//! The shipped state machine, explored exhaustively within bounds (docs/verification.md).

#[path = "model/broken.rs"]
mod broken;
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

#[test]
fn everything() {
    let faults = Budget {
        gives_up: 1,
        crashes: 1,
        depositions: 1,
        compactions: 1,
        ..Setting::CALM.faults
    };
    let setting = Setting { name: "everything", compactors: 1, faults, ..Setting::CALM };
    explore(Setting { sometimes: SOMETIMES, ..setting });
}

#[test]
#[ignore = "probe"]
fn probe() {
    let text = std::env::var("PROBE").unwrap();
    let mut s = Setting { sometimes: &[], name: "probe", ..Setting::CALM };
    for part in text.split(',') {
        let (k, v) = part.split_once('=').unwrap();
        let v: u8 = v.parse().unwrap();
        let f = &mut s.faults;
        match k {
            "g" => f.gives_up = v,
            "t" => f.twice = v,
            "l" => f.late = v,
            "s" => f.short_pages = v,
            "c" => f.crashes = v,
            "d" => f.depositions = v,
            "r" => f.renewals = v,
            "a" => f.abandons = v,
            "k" => { f.compactions = v; s.compactors = s.compactors.max(1) }
            "K" => s.compactors = v as usize,
            "e" => s.last_epoch = v,
            "n" => s.candidates = v as usize,
            "u" => f.untrue_refusals = v,
            "m" => { f.foreign_creates = v; s.morling = Morling::TakesPart; s.always = AMONG_ALL }
            "o" => { s.creates_outlive_compaction = true; s.always = AMONG_ALL }
            "f" => s.forget_nothing = true,
            _ => panic!(),
        }
    }
    explore(s);
}
