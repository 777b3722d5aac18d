//! Each test breaks one rule of the protocol by changes outside the real state machine. The model
//! checker must then find a violation of the invariant that the rule protects
//! (docs/design/protocol.md).

use stateright::{Checker, Model};

use super::explore;
use super::setting::{AMONG_ALL, Broken, Budget, Morling, Setting};
use super::world::Game;

/// Asserts that the setting breaks each of these invariants. Prints the shortest path to each
/// broken invariant, because the search is breadth first.
fn caught(setting: Setting, invariants: &[&'static str]) {
    for invariant in invariants {
        let setting = Setting { always: vec![invariant], named: true, ..setting.clone() };
        let name = setting.name;
        let game = Game { setting };
        let checker = game.clone().checker().spawn_bfs().join();
        let path = checker.discovery(invariant);
        let path = path.unwrap_or_else(|| panic!("{name} does not break {invariant}")).into_vec();
        println!("{name}: {invariant} is broken in {} steps:", path.len() - 1);
        for (world, action) in &path {
            if let Some(action) = action {
                println!("    {}", game.describe_action(world, action));
            }
        }
    }
}

fn broken(name: &'static str, broken: Broken, faults: Budget) -> Setting {
    Setting { broken, ..Setting::new(name, faults) }
}

#[test]
fn broken_candidate_that_does_not_confirm_is_caught() {
    let faults = Budget { compactions: 1, ..Budget::NONE };
    caught(broken("no confirm", Broken::NoConfirm, faults), &["I1", "I2"]);
}

#[test]
fn broken_candidate_that_confirms_before_its_create_is_caught() {
    let faults = Budget { compactions: 1, ..Budget::NONE };
    caught(broken("confirm before create", Broken::ConfirmsFirst, faults), &["I1"]);
}

#[test]
fn broken_candidate_that_does_not_seal_is_caught() {
    let faults = Budget { renewals: 1, ..Budget::NONE };
    caught(broken("no seal", Broken::NoSeal, faults), &["I5", "I6"]);
}

#[test]
fn broken_retry_that_reuses_the_body_is_caught() {
    let faults = Budget { gives_up: 1, compactions: 1, renewals: 1, ..Budget::NONE };
    caught(broken("body reused in a retry", Broken::ReusesBody, faults), &["I4", "I5", "I6"]);
}

#[test]
fn broken_compactor_that_deletes_the_newest_epoch_is_caught() {
    let faults = Budget { compactions: 1, ..Budget::NONE };
    let setting = broken("compactor that deletes the newest", Broken::CompactsNewest, faults);
    caught(setting, &["I3"]);
}

#[test]
fn broken_resignation_that_deletes_is_caught() {
    caught(broken("resigning by deleting", Broken::ResignsByDeleting, Budget::NONE), &["I3", "I1"]);
}

/// A 409 reports a concurrent write, and not a false condition. So the create with this answer may
/// have taken effect, or may take effect later. A candidate that treats a 409 as a refusal forgets
/// the nonce of this create. Later it treats its own epoch object as another candidate's object,
/// and waits for a leader that does not exist.
#[test]
fn broken_candidate_that_treats_409_as_refused_is_caught() {
    let faults = Budget { gives_up: 1, ..Budget::NONE };
    let setting = broken("409 taken as refused", Broken::ConflictIsRefusal, faults);
    caught(Setting { remembers: true, ..setting }, &["own"]);
}

/// If an SDK resends a conditional write, the second attempt gets a 412 although the first attempt
/// succeeded. The real state machine then reads the object, and recognises its own nonce. The
/// broken state machine does not recognise its nonce, and loses the epoch. As a candidate it
/// follows its own epoch, and as a leader it reports a tampered lease.
#[test]
fn broken_sdk_retry_that_turns_a_success_into_412_is_caught() {
    let faults = Budget { untrue_refusals: 1, renewals: 1, ..Budget::NONE };
    let setting = broken("an SDK's retry", Broken::ForgetsItself, faults);
    caught(setting.clone(), &["own", "honest"]);
    // The broken state machine loses leaderships, but all safety invariants hold.
    let safe = vec!["I1", "I2", "I3", "I4", "I5", "I6", "no failure"];
    explore(Setting { name: "an SDK's retry, safety", always: safe, ..setting });
}

#[test]
fn broken_candidate_that_recognises_its_object_by_name_is_caught() {
    caught(broken("trusting the name", Broken::TrustsName, Budget::NONE), &["I1"]);
}

/// A peer that follows Morling's post (docs/how-to/upgrade.md) does not confirm its creates by a
/// LIST. So the peer can create a compacted epoch again, and believe that it leads although a
/// greater epoch was granted. In this setting the checker counts the peer's belief as a grant, so
/// I1 and I2 break.
#[test]
fn broken_peer_that_never_confirms_is_caught() {
    let faults = Budget { compactions: 1, foreign_creates: 1, ..Budget::NONE };
    let setting = Setting::new("Morling's peer with a compactor", faults);
    caught(Setting { morling: Morling::Counts, ..setting }, &["I1", "I2"]);
}

#[test]
fn broken_candidate_that_treats_a_page_as_the_whole_listing_is_caught() {
    let faults = Budget { compactions: 1, short_pages: 1, ..Budget::NONE };
    let setting = broken("a page taken for the whole listing", Broken::OnePage, faults);
    caught(Setting { foreign_keys: &[2], ..setting }, &["I1", "I2"]);
}

/// Of two pages without order, one may be read before epoch N+3 exists, and the other after N+2 was
/// compacted. So a candidate that confirms with both pages may be granted N+1 (N8).
#[test]
fn broken_candidate_that_confirms_with_pages_of_no_order_is_caught() {
    let faults = Budget { compactions: 1, short_pages: 1, ..Budget::NONE };
    let setting = broken("two pages without order", Broken::TornListing, faults);
    caught(Setting { unordered: true, ..setting }, &["I2"]);
}

/// If a create takes effect after its epoch was compacted, I4 to I6 do not hold. The model checker
/// must detect these violations.
#[test]
fn broken_assumption_that_no_create_outlives_compaction_is_caught() {
    let faults = Budget { twice: 1, compactions: 1, renewals: 1, ..Budget::NONE };
    let setting = broken("a create that outlives compaction", Broken::Nothing, faults);
    let setting = Setting { creates_outlive_compaction: true, ..setting };
    caught(setting.clone(), &["I4", "I5", "I6"]);
    explore(Setting { name: "creates outlive compaction", always: AMONG_ALL.to_vec(), ..setting });
}
