//! Explores the library's real state machine (docs/design/checks.md). Within small bounds the tests
//! explore all states. Within greater bounds they walk random paths.
//!
//! `TENURE_MODEL=large` sets greater bounds. The run then takes hours and gigabytes of memory.

mod broken;
mod checks;
mod counterexample;
mod found;
mod others;
mod process;
mod reductions;
mod serve;
mod setting;
mod single;
mod step;
mod store;
mod walk;
mod world;

use setting::{AMONG_ALL, Budget, LAWFUL, Morling, SOMETIMES, Setting};
use world::Game;

fn explore(setting: Setting) {
    found::explore(setting.name, Game { setting });
}

/// Returns `large` if `TENURE_MODEL=large` is set, otherwise `usual`.
fn bound<T>(usual: T, large: T) -> T {
    if std::env::var("TENURE_MODEL").is_ok_and(|bound| bound == "large") { large } else { usual }
}

fn sometimes(setting: Setting) -> Setting {
    Setting { sometimes: SOMETIMES.to_vec(), ..setting }
}

#[test]
fn requests_are_lost_or_late() {
    let faults = Budget { gives_up: bound(2, 3), ..Budget::CALM };
    let setting = Setting::new("requests lost and late", faults);
    let sometimes = vec!["S2", "three grants in a row"];
    explore(Setting { sometimes, ..setting });
}

#[test]
fn leaders_crash_and_are_deposed() {
    let faults = Budget {
        gives_up: bound(0, 1),
        crashes: bound(1, 2),
        depositions: 1,
        abandons: 1,
        ..Budget::CALM
    };
    explore(sometimes(Setting::new("crashes and depositions", faults)));
}

#[test]
fn candidates_crash_among_late_requests() {
    let faults = Budget { gives_up: 1, crashes: 1, ..Budget::CALM };
    let last_epoch = bound(3, 4);
    let setting = Setting::new("crashes among late requests", faults);
    explore(sometimes(Setting { last_epoch, ..setting }));
}

#[test]
fn a_compactor_runs_among_late_requests() {
    let faults = Budget { gives_up: bound(1, 2), twice: 1, compactions: 1, ..Budget::CALM };
    explore(Setting::new("a compactor among late requests", faults));
}

#[test]
fn two_compactors_run_concurrently() {
    let renewals = bound(0, 1);
    let faults = Budget { gives_up: 1, twice: 1, compactions: 2, renewals, ..Budget::NONE };
    explore(Setting::new("two compactors", faults));
}

#[test]
fn three_candidates_campaign() {
    let faults = Budget { crashes: bound(0, 1), compactions: 1, ..Budget::CALM };
    let setting = Setting::new("three candidates", faults);
    explore(Setting { candidates: 3, ..setting });
}

#[test]
fn three_candidates_have_late_requests() {
    let renewals = bound(0, 1);
    let faults = Budget { gives_up: 1, renewals, compactions: bound(0, 1), ..Budget::NONE };
    let setting = Setting::new("three candidates and late requests", faults);
    explore(Setting { candidates: 3, ..setting });
}

#[test]
fn answers_are_late_and_pages_are_short() {
    let faults =
        Budget { gives_up: bound(0, 1), late: 1, short_pages: 1, compactions: 1, ..Budget::CALM };
    let setting = Setting::new("late answers and short pages", faults);
    explore(Setting { foreign_keys: &[0, 2], ..setting });
}

/// A campaign refuses a listing of two pages without order, but a compactor uses it.
#[test]
fn listings_have_no_order() {
    let faults = Budget { gives_up: 1, short_pages: 2, compactions: 1, ..Budget::CALM };
    let setting = Setting::new("listings without order", faults);
    explore(Setting { unordered: true, ..setting });
}

#[test]
fn all_faults_coincide() {
    let faults = Budget {
        gives_up: 1,
        twice: 1,
        crashes: 1,
        depositions: 1,
        compactions: 1,
        ..Budget::CALM
    };
    let last_epoch = bound(2, 3);
    let setting = Setting::new("all faults together", faults);
    explore(Setting { last_epoch, ..setting });
}

/// An SDK resends a request and returns 412 although the first attempt succeeded. The candidate
/// reads the object back and recognises its own write.
#[test]
fn an_sdk_that_resends_is_tolerated() {
    let faults = Budget { untrue_refusals: 2, gives_up: bound(0, 1), ..Budget::CALM };
    let setting = Setting::new("an SDK that resends", faults);
    let sometimes = vec!["S2", "three grants in a row"];
    explore(Setting { sometimes, ..setting });
}

/// A candidate always recognises an epoch object that it created and abandoned.
#[test]
fn abandoned_creates_are_recognised() {
    let faults = Budget { gives_up: bound(2, 3), ..Budget::CALM };
    let setting = Setting::new("abandoned creates of a candidate", faults);
    explore(Setting { remembers: true, ..setting });
}

#[test]
fn a_resigned_epoch_has_a_successor_without_a_lapse() {
    let setting = Setting::new("no lease lapses", Budget::CALM);
    let sometimes = vec!["S2", "three grants in a row"];
    explore(Setting { never_lapses: true, sometimes, ..setting });
}

/// The invariants I1 to I3 (docs/design/protocol.md) hold even if a create takes effect after its
/// epoch was compacted.
#[test]
fn late_creates_follow_a_compaction() {
    let faults =
        Budget { gives_up: bound(0, 1), twice: bound(1, 2), compactions: 1, ..Budget::CALM };
    let setting = Setting::new("creates that outlive compaction", faults);
    let always = AMONG_ALL.to_vec();
    explore(Setting { creates_outlive_compaction: true, always, ..setting });
}

/// If `verify_renewals` is set, no renewal extends the lease while a greater epoch exists.
#[test]
fn renewals_are_verified_among_late_creates() {
    let faults = Budget { gives_up: bound(0, 1), twice: 1, compactions: 1, ..Budget::CALM };
    let setting = Setting::new("verified renewals", faults);
    let always = [AMONG_ALL, &["verified"]].concat();
    let setting = Setting { creates_outlive_compaction: true, always, ..setting };
    explore(Setting { verify_renewals: true, ..setting });
}

#[test]
fn renewals_are_verified_without_foreign_peers() {
    let faults = Budget { gives_up: 1, depositions: bound(0, 1), ..Budget::CALM };
    let setting = Setting::new("verified renewals without foreign peers", faults);
    let always = [LAWFUL, &["verified"]].concat();
    explore(Setting { verify_renewals: true, always, ..setting });
}

/// The invariants I1 to I3 (docs/design/protocol.md) hold for all participants, including a peer
/// that follows Morling's post (docs/how-to/upgrade.md), if no epoch is compacted.
#[test]
fn a_peer_never_seals() {
    let faults = Budget { foreign_creates: 2, gives_up: 1, renewals: bound(0, 1), ..Budget::NONE };
    let setting = Setting::new("a peer that never seals", faults);
    let always = AMONG_ALL.to_vec();
    explore(Setting { morling: Morling::Counts, always, ..setting });
}

/// A peer that follows Morling's post (docs/how-to/upgrade.md) does not confirm its creates. So the
/// peer may create a compacted epoch again, and believe that it leads. The grants of the candidates
/// still keep the invariants I1 to I3.
#[test]
fn a_peer_never_confirms() {
    let faults = Budget {
        foreign_creates: bound(1, 2),
        depositions: bound(0, 1),
        compactions: 1,
        ..Budget::CALM
    };
    let setting = Setting::new("a peer that never confirms", faults);
    let always = AMONG_ALL.to_vec();
    explore(Setting { morling: Morling::TakesPart, always, ..setting });
}
