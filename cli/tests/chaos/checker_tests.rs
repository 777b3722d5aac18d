//! Tests the checker of chaos runs. One invented run is correct, and the others break a rule.

use super::*;

const SECOND: u64 = 1_000_000_000;

fn entry(epoch: u64, sequence: u64) -> Entry {
    Entry { epoch, sequence }
}

/// Returns a child that lives from `from_s` to `until_s`, has a lease of 3 s, and appends one
/// entry.
fn life(epoch: u64, from_s: u64, until_s: u64) -> Life {
    let (from_ns, until_ns) = (from_s * SECOND, until_s * SECOND);
    let lines = vec![
        Line::Starts(from_ns),
        Line::Calls(from_ns + 1, entry(epoch, 1)),
        Line::Appended(from_ns + 2, entry(epoch, 1), epoch),
    ];
    let signs = [from_ns, until_ns].map(|at_ns| (at_ns, from_ns + 3 * SECOND)).to_vec();
    let granted = Some(Seen { from_ns: from_ns - 2, until_ns: from_ns });
    Life { epoch, lines, signs, guard_stopped: None, granted, resigned_ns: None }
}

/// Returns a run of three consecutive epochs that satisfies all rules of the checker.
fn story() -> Story {
    Story {
        lives: vec![life(1, 10, 12), life(2, 20, 22), life(3, 30, 32)],
        kept: None,
        manifest: (1..=3).map(|epoch| (epoch, entry(epoch, 1))).collect(),
        stalls: Vec::new(),
        renewals: Vec::new(),
        wrong: Vec::new(),
        compacted: 0,
        made_again: 0,
        end_ns: 60 * SECOND,
    }
}

fn why(story: &Story) -> String {
    story.check().expect_err("the run breaks a rule")
}

#[test]
fn a_run_that_is_too_short_is_refused() {
    assert!(why(&story()).starts_with("the run is too short"), "{}", why(&story()));
}

#[test]
fn broken_store_that_loses_an_append_is_caught() {
    let mut story = story();
    // The store lost entry 3, and an entry of another epoch has the number 3. So the manifest has
    // no gap.
    story.manifest[2].1 = entry(3, 2);
    assert!(why(&story).contains("was acknowledged as 3"), "{}", why(&story));
    story.manifest.pop();
    assert!(why(&story).contains("was acknowledged as 3"), "{}", why(&story));
}

#[test]
fn broken_store_that_leaves_a_gap_is_caught() {
    let mut story = story();
    story.manifest.remove(1);
    assert!(why(&story).contains("number 2 is missing"), "{}", why(&story));
}

#[test]
fn broken_fence_that_accepts_a_lower_epoch_is_caught() {
    let mut story = story();
    story.manifest.push((4, entry(2, 2)));
    assert!(why(&story).contains("is followed by"), "{}", why(&story));
}

#[test]
fn broken_append_that_occurs_twice_is_caught() {
    let mut story = story();
    story.manifest.push((4, entry(3, 1)));
    assert!(why(&story).contains("is followed by"), "{}", why(&story));
}

#[test]
fn broken_guard_that_kills_a_child_too_late_is_caught() {
    let mut story = story();
    let late_ns = 23 * SECOND + 100_000_000;
    story.lives[1].signs.push((late_ns, 23 * SECOND));
    assert!(why(&story).contains("of epoch 2 lived 100ms too long"), "{}", why(&story));
    // These stalls do not excuse the late kill: one is too short, and one ended before the guard
    // had to act.
    story.stalls = vec![(22 * SECOND, 22 * SECOND + 700_000_000)];
    assert!(why(&story).contains("too long"), "{}", why(&story));
    story.stalls = vec![(23 * SECOND, 23 * SECOND + 99_000_000)];
    assert!(why(&story).contains("too long"), "{}", why(&story));
    story.stalls = vec![(23 * SECOND, 23 * SECOND + 100_000_000)];
    assert!(why(&story).contains("the run is too short"), "{}", why(&story));
}

#[test]
fn a_child_may_outlive_its_lease_only_while_its_guard_is_suspended() {
    let mut story = story();
    story.lives[1].signs.push((25 * SECOND, 23 * SECOND));
    story.lives[1].guard_stopped = Some(Seen { from_ns: 24 * SECOND, until_ns: 25 * SECOND });
    assert!(why(&story).contains("the run is too short"), "{}", why(&story));
    story.lives[1].guard_stopped = Some(Seen { from_ns: 23 * SECOND, until_ns: 24 * SECOND });
    assert!(why(&story).contains("too long"), "{}", why(&story));
    story.lives[1].guard_stopped = Some(Seen { from_ns: 26 * SECOND, until_ns: 27 * SECOND });
    assert!(why(&story).contains("too long"), "{}", why(&story));
}

#[test]
fn broken_election_that_runs_two_children_is_caught() {
    let mut story = story();
    story.lives[1].signs.push((31 * SECOND, 33 * SECOND));
    assert!(why(&story).contains("overlapped with"), "{}", why(&story));
    story.lives[1] = life(3, 20, 22);
    story.lives[1].lines.clear();
    assert!(why(&story).contains("two children"), "{}", why(&story));
}

#[test]
fn broken_guard_that_resigns_while_a_child_lives_is_caught() {
    let mut story = story();
    story.lives[1].resigned_ns = Some(22 * SECOND);
    assert!(why(&story).starts_with("the run is too short"), "{}", why(&story));
    story.lives[1].resigned_ns = Some(22 * SECOND - 1);
    assert!(why(&story).contains("after it was resigned"), "{}", why(&story));
}

#[test]
fn broken_order_of_grants_is_caught() {
    let mut story = story();
    // In this run, epoch 2 was granted before epoch 1.
    story.lives[0].granted = Some(Seen { from_ns: 3, until_ns: 4 });
    story.lives[1].granted = Some(Seen { from_ns: 1, until_ns: 2 });
    assert!(why(&story).contains("no order explains"), "{}", why(&story));
}

#[test]
fn broken_renewal_under_a_greater_epoch_is_caught() {
    let mut story = story();
    story.renewals = vec![(1, Seen { from_ns: 11 * SECOND, until_ns: 12 * SECOND })];
    assert!(why(&story).contains("the run is too short"), "{}", why(&story));
    story.renewals = vec![(1, Seen { from_ns: 21 * SECOND, until_ns: 22 * SECOND })];
    assert!(why(&story).contains("no order explains"), "{}", why(&story));
}

#[test]
fn an_unanswered_append_is_included_if_its_entry_is_in_the_manifest() {
    let mut story = story();
    story.lives[1].lines.pop();
    assert!(why(&story).contains("the run is too short"), "{}", why(&story));
    let unanswered = story.history();
    assert!(unanswered.iter().any(|call| call.until_ns == story.end_ns));
    // For the end of the unanswered append, `close` uses the time at which a later append was
    // answered.
    let mut closed = unanswered;
    close(&mut closed, story.end_ns);
    assert!(closed.iter().all(|call| call.until_ns < story.end_ns));
    // The history omits an unanswered append whose entry is not in the manifest.
    story.manifest.remove(1);
    story.manifest[1].0 = 2;
    story.lives[2].lines[2] = Line::Appended(30 * SECOND + 2, entry(3, 1), 2);
    assert!(why(&story).contains("the run is too short"), "{}", why(&story));
}
