//! The state machine of a single object, explored exhaustively within bounds.

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

/// Who takes part, and what may happen to them. Of the budget, what a compactor or a LIST would
/// have to do with is left out; a foreign create is a try of a peer of the If-Match post.
#[derive(Debug, Clone)]
pub struct SingleSetting {
    name: &'static str,
    candidates: usize,
    /// No candidate writes a greater token.
    last_token: u8,
    faults: Budget,
    /// Keep the candidates in their places, so that a trace can call them by name.
    named: bool,
    always: Vec<&'static str>,
    sometimes: Vec<&'static str>,
    broken: SingleBroken,
}

/// A rule that is broken, by meddling with what goes into the machine and comes out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleBroken {
    Nothing,
    /// A takeover overwrites whatever is there.
    NoIfMatch,
    /// A renewal writes the body that is there.
    BodyReused,
    TrustsName,
    /// A takeover whose fate is unknown is told as refused, and so as won by somebody else.
    ConflictIsRefusal,
    /// Does not know its own nonce when it reads it back.
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
fn single_requests_lost_and_late() {
    let faults = Budget { gives_up: bound(2, 3), ..Budget::CALM };
    explore(SingleSetting::new("requests lost and late", faults));
}

/// What is overwritten was never written in between: an ETag says what it seems to say.
#[test]
fn single_no_etag_comes_back() {
    let faults = Budget { gives_up: 1, twice: 1, depositions: bound(0, 1), ..Budget::CALM };
    let always = [LAWFUL, &["no ABA"]].concat();
    explore(SingleSetting { always, ..SingleSetting::new("no ETag comes back", faults) });
}

#[test]
fn single_requests_applied_twice_and_answers_late() {
    let faults = Budget { gives_up: 1, twice: 1, late: bound(1, 2), ..Budget::CALM };
    explore(SingleSetting::new("requests twice, answers late", faults));
}

#[test]
fn single_crashes_and_depositions() {
    let faults =
        Budget { gives_up: bound(0, 1), crashes: 1, depositions: 1, abandons: 1, ..Budget::CALM };
    let setting = SingleSetting::new("crashes and depositions", faults);
    explore(SingleSetting { sometimes: vec!["S1", "S2", "three grants in a row"], ..setting });
}

#[test]
fn single_three_candidates() {
    let faults = Budget { gives_up: 1, renewals: bound(0, 1), ..Budget::NONE };
    explore(SingleSetting { candidates: 3, ..SingleSetting::new("three candidates", faults) });
}

#[test]
fn single_an_sdk_that_resends_is_survived() {
    let faults = Budget { untrue_refusals: 2, gives_up: bound(0, 1), ..Budget::CALM };
    explore(SingleSetting::new("an SDK that resends", faults));
}

/// All of it holds with what a peer believes counted, too: it writes by compare-and-swap.
#[test]
fn single_beside_a_peer_of_the_post() {
    let faults = Budget { foreign_creates: 2, gives_up: bound(0, 1), ..Budget::CALM };
    explore(SingleSetting::new("beside a peer of the post", faults));
}
