//! Tests the checker of group runs. One invented run is correct, and the others break a rule.

use super::*;
use crate::history::Op;

const SECOND: u64 = 1_000_000_000;

fn grant(partition: u64, token: u64) -> Grant {
    Grant { partition, token }
}

fn entry(token: u64, sequence: u64) -> Entry {
    Entry { grant: grant(0, token), sequence }
}

/// Returns the lines of a worker that is granted partition 0 at the time `from_s`, in seconds. The
/// worker claims the log with the number `claim`, and appends one entry after the claim.
fn worker(token: u64, from_s: u64, claim: u64) -> Vec<Line> {
    let at_ns = from_s * SECOND;
    vec![
        Line::Granted(at_ns, grant(0, token), format!("s{token}")),
        Line::Opens(at_ns + 1, grant(0, token)),
        Line::Opened(at_ns + 2, grant(0, token)),
        Line::Calls(at_ns + 3, entry(token, 1)),
        Line::Appended(at_ns + 4, entry(token, 1), claim + 1),
        Line::Ends(at_ns + 5, grant(0, token), None),
    ]
}

fn claim(number: u64, token: u64) -> Object {
    Object { number, token, kind: Kind::Claim }
}

fn appended(number: u64, token: u64, sequence: u64) -> Object {
    Object { number, token, kind: Kind::Entry(entry(token, sequence)) }
}

/// Returns a run with three consecutive owners of a partition that satisfies all rules.
fn story() -> Story {
    let seen = |token| Seen { from_ns: token * 10 * SECOND - 2, until_ns: token * 10 * SECOND - 1 };
    let log =
        (1..=3).flat_map(|token| [claim(token * 2 - 1, token), appended(token * 2, token, 1)]);
    Story {
        workers: (1..=3).map(|token| worker(token, token * 10, token * 2 - 1)).collect(),
        logs: BTreeMap::from([(0, log.collect())]),
        made: (1..=3).map(|token| (token, seen(token))).collect(),
        grants: (1..=3).map(|token| (grant(0, token), format!("s{token}"))).collect(),
        wrong: Vec::new(),
        stalls: Vec::new(),
        recovery: Seen { from_ns: 40 * SECOND, until_ns: 42 * SECOND },
        compacted: (0, 0),
        end_ns: 60 * SECOND,
    }
}

fn log(story: &mut Story) -> &mut Vec<Object> {
    story.logs.get_mut(&0).expect("partition 0 has a log")
}

fn why(story: &Story) -> String {
    story.check().expect_err("the run breaks a rule")
}

fn refuses(story: &Story, part: &str) {
    assert!(why(story).contains(part), "{}", why(story));
}

const WELL: &str = "the run is too short";

#[test]
fn a_run_that_is_too_short_is_refused() {
    refuses(&story(), WELL);
}

#[test]
fn broken_store_that_loses_an_append_is_caught() {
    let mut story = story();
    // The store lost entry 6, and an entry with another token has the number 6. So the log has no
    // gap.
    log(&mut story)[5] = appended(6, 3, 2);
    refuses(&story, "was acknowledged as 6");
    log(&mut story).pop();
    refuses(&story, "was acknowledged as 6");
}

#[test]
fn broken_store_that_leaves_a_gap_is_caught() {
    let mut story = story();
    log(&mut story).remove(1);
    refuses(&story, "number 2 is missing");
}

#[test]
fn broken_fence_that_accepts_a_lower_token_is_caught() {
    let mut story = story();
    log(&mut story).push(appended(7, 2, 2));
    refuses(&story, "is followed by");
}

#[test]
fn broken_append_that_occurs_twice_is_caught() {
    let mut story = story();
    log(&mut story).push(appended(7, 3, 1));
    refuses(&story, "is followed by");
}

#[test]
fn broken_worker_that_uses_the_token_of_another_worker_is_caught() {
    let mut story = story();
    log(&mut story).push(Object { token: 3, ..appended(7, 2, 2) });
    refuses(&story, "is followed by");
}

#[test]
fn broken_worker_that_writes_into_another_log_is_caught() {
    let mut story = story();
    let entry = Entry { grant: grant(1, 3), sequence: 2 };
    log(&mut story).push(Object { number: 7, token: 3, kind: Kind::Entry(entry) });
    refuses(&story, "is followed by");
}

#[test]
fn fences_may_have_numbers_above_the_end_of_the_log() {
    let mut story = story();
    log(&mut story).push(Object { number: 9, token: 3, kind: Kind::Fence });
    refuses(&story, WELL);
}

#[test]
fn broken_claim_of_a_token_that_was_never_granted_is_caught() {
    let mut story = story();
    log(&mut story).push(claim(7, 4));
    refuses(&story, "never granted");
}

#[test]
fn broken_worker_under_the_token_of_another_session_is_caught() {
    let mut story = story();
    story.workers[1][0] = Line::Granted(20 * SECOND, grant(0, 2), "s3".to_owned());
    refuses(&story, "of another session");
}

#[test]
fn broken_group_that_grants_twice_is_caught() {
    let mut story = story();
    story.workers.push(vec![story.workers[1][0].clone()]);
    refuses(&story, "was granted twice");
}

#[test]
fn broken_group_that_reassigns_an_owned_partition_is_caught() {
    let mut story = story();
    let taken = Some("taken".to_owned());
    story.workers[1][5] = Line::Ends(25 * SECOND, grant(0, 2), taken);
    refuses(&story, "was taken from its owner");
}

#[test]
fn broken_member_that_owns_a_partition_together_with_the_next_owner_is_caught() {
    let mut story = story();
    // This member checks its ownership but writes no entry, so the log remains correct.
    story.workers[1].push(Line::Calls(30 * SECOND - 1, entry(2, 2)));
    refuses(&story, WELL);
    story.workers[1].push(Line::Owns(30 * SECOND + 1, grant(0, 2)));
    refuses(&story, "was owned while a greater token was granted");
}

#[test]
fn broken_append_after_a_greater_claim_is_caught() {
    let mut story = story();
    // The append of the second owner has a lower number than the claim of the third owner. In the
    // first run, the two calls overlap, so the append may precede the claim, and the run is
    // correct. In the second run, the claim ends before the append begins, so no order is possible.
    story.workers[1][3] = Line::Calls(20 * SECOND + 3, entry(2, 1));
    story.workers[1][4] = Line::Appended(29 * SECOND, entry(2, 1), 4);
    refuses(&story, WELL);
    story.workers[2][1] = Line::Opens(20 * SECOND + 1, grant(0, 3));
    story.workers[2][2] = Line::Opened(20 * SECOND + 2, grant(0, 3));
    story.workers[2][0] = Line::Granted(20 * SECOND + 4, grant(0, 3), "s3".to_owned());
    story.made.insert(3, Seen { from_ns: 20 * SECOND, until_ns: 20 * SECOND + 1 });
    refuses(&story, "no order explains");
}

#[test]
fn broken_refusal_without_a_greater_claim_is_caught() {
    let mut story = story();
    story.workers[2].insert(5, Line::Calls(31 * SECOND, entry(3, 2)));
    story.workers[2].insert(6, Line::Fenced(31 * SECOND + 1, grant(0, 3), 4));
    refuses(&story, "no order explains");
}

#[test]
fn an_append_of_a_zombie_is_refused() {
    let mut story = story();
    story.workers[1].pop();
    story.workers[1].push(Line::Calls(25 * SECOND, entry(2, 2)));
    story.workers[1].push(Line::Fenced(35 * SECOND, grant(0, 2), 3));
    refuses(&story, WELL);
}

#[test]
fn an_unanswered_call_is_included_if_its_object_is_in_the_log() {
    let mut story = story();
    // The worker was killed, so its claim and its append have no answers.
    story.workers[1].truncate(4);
    story.workers[1].remove(2);
    let history = story.history(0);
    let of_second = |op: &Op| matches!(op, Op::Claim(2) | Op::Append(2));
    // In the history, both calls end when the third owner's append is answered.
    let ends: Vec<_> =
        history.iter().filter(|it| of_second(&it.op)).map(|it| it.until_ns).collect();
    assert_eq!(ends, [30 * SECOND + 4; 2]);
    refuses(&story, WELL);
    // The history omits an unanswered call whose object is not in the log.
    log(&mut story).drain(2..4);
    log(&mut story)[2].number = 3;
    log(&mut story)[3].number = 4;
    story.workers[2][4] = Line::Appended(30 * SECOND + 4, entry(3, 1), 4);
    assert!(!story.history(0).iter().any(|it| of_second(&it.op)));
    refuses(&story, WELL);
}

#[test]
fn broken_group_that_leaves_partitions_without_an_owner_is_caught() {
    let mut story = story();
    story.recovery.until_ns = 59 * SECOND;
    refuses(&story, "were owned again only after 19s");
    // The machine stalled for one second in this time, so the checker allows one more second.
    story.stalls = vec![(45 * SECOND, 46 * SECOND)];
    refuses(&story, WELL);
}

#[test]
fn log_objects_are_parsed() {
    let body = |line: &str, entry: &str| Bytes::from(format!("{line}\n{entry}"));
    let line = r#"{"tenure_log":1,"epoch":7,"nonce":"x","claim":1}"#;
    let text = r#"{"grant":{"partition":0,"token":7},"sequence":2}"#;
    assert_eq!(object("00000000000000000002", &body(line, text)).kind, Kind::Entry(entry(7, 2)));
    let line = r#"{"tenure_log":1,"epoch":7,"nonce":"x","claim":0,"claims_after":0}"#;
    assert_eq!(object("1", &body(line, "")).kind, Kind::Claim);
    let line = r#"{"tenure_log":1,"epoch":7,"nonce":"x","claim":0,"fence_after":3}"#;
    assert_eq!(object("5", &body(line, "")).kind, Kind::Fence);
}
