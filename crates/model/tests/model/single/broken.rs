//! Each test breaks one rule of the layout `SingleObject` by changes outside the state machine. The
//! checker must then find a violation of the property that the rule protects.

use stateright::{Checker, Model};

use super::world::SingleGame;
use super::{SingleBroken, SingleSetting, explore};
use crate::setting::Budget;

/// Asserts that the setting breaks each property, and prints the shortest path to each violation.
/// The search is breadth first.
fn caught(name: &'static str, broken: SingleBroken, faults: Budget, properties: &[&'static str]) {
    for property in properties {
        let setting = SingleSetting { broken, named: true, ..SingleSetting::new(name, faults) };
        let setting = SingleSetting { always: vec![property], sometimes: Vec::new(), ..setting };
        let checker = SingleGame { setting }.checker().spawn_bfs().join();
        let path = checker.discovery(property);
        let path = path.unwrap_or_else(|| panic!("{name} does not break {property}"));
        let actions = path.into_actions();
        println!("single object, {name}: {property} is broken in {} steps:", actions.len());
        actions.iter().for_each(|action| println!("    {action:?}"));
    }
}

#[test]
fn single_broken_takeover_without_if_match_is_caught() {
    caught("no If-Match on takeover", SingleBroken::NoIfMatch, Budget::NONE, &["I1", "I2"]);
}

#[test]
fn single_broken_takeover_that_overwrites_a_renewal_is_caught() {
    let faults = Budget { gives_up: 1, ..Budget::CALM };
    caught("no If-Match, late", SingleBroken::NoIfMatch, faults, &["I3"]);
}

/// Equal bodies have equal ETags. If a renewal repeats the body, followers cannot detect the
/// renewal, and a write that is conditional on an older ETag can succeed.
#[test]
fn single_broken_renewal_that_reuses_the_body_is_caught() {
    caught("body reused", SingleBroken::BodyReused, Budget::CALM, &["no ABA"]);
}

#[test]
fn single_broken_candidate_that_recognises_its_object_by_name_is_caught() {
    caught("trusting the name", SingleBroken::TrustsName, Budget::NONE, &["I1"]);
}

#[test]
fn single_broken_candidate_that_treats_409_as_refused_is_caught() {
    let faults = Budget { gives_up: 1, ..Budget::NONE };
    let name = "409 taken as refused";
    let setting = SingleSetting {
        broken: SingleBroken::ConflictIsRefusal,
        ..SingleSetting::new(name, faults)
    };
    // The broken process loses leaderships, but all safety invariants hold.
    let safe = vec!["I1", "I2", "I3", "I4", "I5", "token", "no failure"];
    explore(SingleSetting { always: safe, ..setting });
    caught(name, SingleBroken::ConflictIsRefusal, faults, &["own"]);
}

#[test]
fn single_broken_candidate_that_does_not_recognise_its_own_write_is_caught() {
    let faults = Budget { untrue_refusals: 1, ..Budget::CALM };
    caught("an SDK's retry", SingleBroken::ForgetsItself, faults, &["own", "honest"]);
}

#[test]
fn single_broken_release_that_raises_the_token_is_caught() {
    caught("release raises the token", SingleBroken::ReleaseRaises, Budget::NONE, &["token"]);
}

#[test]
fn single_broken_release_that_resets_the_token_is_caught() {
    let name = "release resets the token";
    caught(name, SingleBroken::ReleaseResets, Budget::NONE, &["I3", "I2", "I1", "no failure"]);
}

#[test]
fn single_broken_release_that_deletes_is_caught() {
    let name = "release by delete";
    caught(name, SingleBroken::ReleaseByDelete, Budget::NONE, &["I3", "I1", "no failure"]);
}
