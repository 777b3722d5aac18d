use super::walk::{explain, walk, walks};
use super::*;

const STEPS: usize = 2_000;

/// The walk must notice, by one of these invariants, within so many seeds.
fn caught(setting: Setting, ids: &[&str], within: u64) {
    let violation = (0..within).find_map(|seed| {
        let violation = walk(seed, setting, STEPS, false).1.err()?;
        ids.contains(&violation.id).then_some((seed, violation))
    });
    println!("{setting:?}: {violation:?}");
    assert!(violation.is_some(), "{setting:?} was not caught by {ids:?} within {within} seeds");
}

fn broken(broken: Broken) -> Setting {
    Setting { broken, ..LAWFUL }
}

#[test]
fn i1_to_i6_hold_among_lawful_peers() {
    let reached = walks(0..500, LAWFUL, STEPS);
    println!("{reached:?}");
    assert!(reached.grants >= 3);
    assert!(reached.crash_succeeded && reached.resignation_succeeded);
    assert!(reached.deposition_succeeded);
    // Otherwise the walk would not exercise what the rules are for.
    assert!(reached.own_write_adopted && reached.zombie_confirmed_nothing);
    assert!(reached.losses > 0);
}

#[test]
fn i1_to_i3_hold_beside_a_peer_that_neither_seals_nor_confirms() {
    let reached = walks(0..200, Setting { morling: true, lawful: false, ..LAWFUL }, STEPS);
    assert!(reached.grants >= 3, "{reached:?}");
}

/// Once no fault happens any more and every leader is gone, somebody is elected soon, from wherever
/// the walk got to: no state of the machine is a dead end.
#[test]
fn after_any_walk_somebody_is_elected_once_the_faults_stop() {
    for seed in 0..300 {
        let (mut world, checked) = walk(seed, LAWFUL, 400 + usize::try_from(seed).unwrap(), false);
        assert!(checked.is_ok(), "{}", explain(seed, LAWFUL, STEPS));
        let steps = world.settle();
        assert!(steps.is_some(), "seed {seed}: nobody is elected: {:#?}", world.processes);
    }
}

#[test]
fn broken_no_confirm_is_caught() {
    caught(broken(Broken::NoConfirm), &["I2"], 20);
    caught(broken(Broken::NoConfirm), &["I1"], 200);
}

#[test]
fn broken_no_seal_is_caught() {
    caught(broken(Broken::NoSeal), &["I6"], 20);
}

#[test]
fn broken_body_reused_in_a_retry_is_caught() {
    caught(broken(Broken::ReusedBody), &["I4", "I5", "I6"], 200);
}

#[test]
fn broken_resigning_by_deleting_is_caught() {
    caught(broken(Broken::ResignDeletes), &["I3"], 20);
}

#[test]
fn broken_trusting_the_name_is_caught() {
    caught(broken(Broken::TrustsName), &["I1"], 20);
}

/// What docs/protocol.md section 1 asks for on top: a create applied once more after its epoch was
/// compacted brings the granted nonce and ETag back.
#[test]
fn creates_that_outlive_compaction_break_i4_to_i6_but_not_i1_to_i3() {
    let setting = Setting { creates_outlive_compaction: true, ..LAWFUL };
    caught(setting, &["I4", "I5", "I6"], 50);
    walks(0..100, Setting { lawful: false, ..setting }, STEPS);
}

#[test]
fn verified_renewals_do_not_count_under_a_greater_epoch_even_then() {
    let setting = Setting {
        creates_outlive_compaction: true,
        verify_renewals: true,
        lawful: false,
        ..LAWFUL
    };
    let reached = walks(0..200, setting, STEPS);
    assert!(reached.grants >= 3, "{reached:?}");
}

/// Minutes of walking, for after a change of the protocol: `cargo test -- --ignored long_walk`.
#[test]
#[ignore = "minutes long: cargo test --lib long_walk -- --ignored --nocapture"]
fn a_long_walk() {
    println!("{:?}", walks(0..50_000, LAWFUL, STEPS));
    println!("{:?}", walks(0..20_000, Setting { morling: true, lawful: false, ..LAWFUL }, STEPS));
    let verify_renewals = true;
    println!("{:?}", walks(0..20_000, Setting { verify_renewals, ..LAWFUL }, STEPS));
}
