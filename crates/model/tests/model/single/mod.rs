//! Explores all states of the state machine of the layout `SingleObject`, within bounds.

mod broken;
mod checks;
mod process;
mod step;
mod store;
mod world;

use checks::LAWFUL;
use world::SingleGame;

use crate::setting::Budget;
use crate::{bound, found};

/// The participants and the possible events. This model does not use the budget for compactors and
/// listings. Here `Budget::foreign_creates` counts the attempts of a peer that follows the If-Match
/// post (docs/how-to/upgrade.md).
#[derive(Debug, Clone)]
pub struct SingleSetting {
    name: &'static str,
    candidates: usize,
    /// The greatest token of the model.
    last_token: u8,
    faults: Budget,
    /// True if the model keeps the order of the candidates, so that a trace can name the
    /// candidates.
    named: bool,
    always: Vec<&'static str>,
    sometimes: Vec<&'static str>,
    broken: SingleBroken,
}

/// A broken rule. To break a rule, the model changes inputs and outputs of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleBroken {
    Nothing,
    /// A takeover overwrites the object, regardless of its content.
    NoIfMatch,
    /// A renewal writes the body that the object already has.
    BodyReused,
    TrustsName,
    /// If the outcome of a takeover is unknown, the state machine assumes that another candidate
    /// has taken over.
    ConflictIsRefusal,
    /// The state machine does not recognise its own nonce.
    ForgetsItself,
    ReleaseRaises,
    ReleaseResets,
    ReleaseByDelete,
}

impl SingleSetting {
    fn new(name: &'static str, faults: Budget) -> SingleSetting {
        SingleSetting {
            name,
            candidates: 2,
            last_token: 3,
            faults,
            named: false,
            always: LAWFUL.to_vec(),
            sometimes: vec!["S2", "three grants in a row"],
            broken: SingleBroken::Nothing,
        }
    }
}

fn explore(setting: SingleSetting) {
    found::explore(&format!("single object, {}", setting.name), SingleGame { setting });
}

#[test]
fn single_requests_are_lost_or_late() {
    let faults = Budget { gives_up: bound(2, 3), ..Budget::CALM };
    explore(SingleSetting::new("requests lost and late", faults));
}

/// If an overwrite that is conditional on an ETag succeeds, no other write took effect after the
/// writer first read this ETag.
#[test]
fn single_no_etag_becomes_valid_again() {
    let faults = Budget { gives_up: 1, twice: 1, depositions: bound(0, 1), ..Budget::CALM };
    let always = [LAWFUL, &["no ABA"]].concat();
    explore(SingleSetting { always, ..SingleSetting::new("no ETag comes back", faults) });
}

#[test]
fn single_requests_are_applied_twice() {
    let faults = Budget { gives_up: 1, twice: 1, late: bound(1, 2), ..Budget::CALM };
    explore(SingleSetting::new("requests twice, answers late", faults));
}

#[test]
fn single_leaders_crash_and_are_deposed() {
    let faults =
        Budget { gives_up: bound(0, 1), crashes: 1, depositions: 1, abandons: 1, ..Budget::CALM };
    let setting = SingleSetting::new("crashes and depositions", faults);
    explore(SingleSetting { sometimes: vec!["S1", "S2", "three grants in a row"], ..setting });
}

#[test]
fn single_three_candidates_campaign() {
    let faults = Budget { gives_up: 1, renewals: bound(0, 1), ..Budget::NONE };
    explore(SingleSetting { candidates: 3, ..SingleSetting::new("three candidates", faults) });
}

#[test]
fn single_an_sdk_that_resends_is_tolerated() {
    let faults = Budget { untrue_refusals: 2, gives_up: bound(0, 1), ..Budget::CALM };
    explore(SingleSetting::new("an SDK that resends", faults));
}

/// A peer that follows the If-Match post (docs/how-to/upgrade.md) writes by compare-and-swap. So
/// all properties hold even if the peer's belief that it leads counts as a grant.
#[test]
fn single_a_peer_that_follows_the_post_takes_part() {
    let faults = Budget { foreign_creates: 2, gives_up: bound(0, 1), ..Budget::CALM };
    explore(SingleSetting::new("a peer of the post", faults));
}
