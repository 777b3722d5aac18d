use super::*;
use crate::test_values::at;
use tenure::internals::groups::Nonce;

const VALIDITY: Duration = Duration::from_secs(30);
const SESSION: Session = Session { id: SessionId::from_bits(1), nonce: Nonce::from_bits(7) };

/// Returns the times of a request that was sent at second `sent` and answered at second `received`.
fn when(sent: u64, received: u64) -> RequestTimes {
    RequestTimes { sent: at(sent), received: at(received) }
}

fn timers() -> SessionTimers {
    let mut timers = SessionTimers::new(Drift::from_ppm(10_000), Duration::from_secs(5));
    timers.watch(SESSION.id, VALIDITY);
    timers
}

fn list(timers: &mut SessionTimers, tag: Option<&str>, when: RequestTimes) {
    let tag = tag.map(|tag| (SESSION.id, Some(ETag::new(tag))));
    timers.listed(&tag.into_iter().collect(), when);
}

fn record(tag: &str, ended: Option<EpochEnd>) -> SessionRecord {
    let etag = ETag::new(tag);
    SessionRecord { nonce: SESSION.nonce, heartbeat: 2, etag, ended, data: None }
}

#[test]
fn a_session_lapses_between_two_answers_with_the_same_tag() {
    let mut timers = timers();
    list(&mut timers, Some("a"), when(0, 1));
    list(&mut timers, Some("a"), when(31, 31));
    assert_eq!(timers.lapsed(SESSION.id), None, "the tag was received less than 30.3 s before");
    list(&mut timers, Some("a"), when(32, 40));
    assert_eq!(timers.lapsed(SESSION.id), Some(&ETag::new("a")));
    list(&mut timers, Some("b"), when(33, 41));
    assert_eq!(timers.lapsed(SESSION.id), None);
}

#[test]
fn the_next_listing_is_at_the_next_lapse() {
    let mut timers = timers();
    assert_eq!(timers.until_lapse(at(0)), None, "the store has sent no answer");
    list(&mut timers, Some("a"), when(0, 1));
    let left =
        |timers: &SessionTimers, now| timers.until_lapse(at(now)).map(|left| left.as_millis());
    assert_eq!((left(&timers, 1), left(&timers, 31)), (Some(30_300), Some(300)));
    timers.unchanged(SESSION.id, &ETag::new("a"), when(10, 10));
    assert_eq!((left(&timers, 31), left(&timers, 32)), (Some(300), None));
    list(&mut timers, Some("b"), when(19, 20));
    assert_eq!(left(&timers, 31), Some(19_300));
    timers.read(SESSION, Some(&record("c", Some(EpochEnd::Resigned))), when(21, 21));
    assert_eq!(left(&timers, 31), None, "no session can lapse");
    timers.read(SESSION, Some(&record("d", Some(EpochEnd::Deposed))), when(22, 22));
    assert_eq!(left(&timers, 31), Some(21_300));
    timers.read(SESSION, None, when(30, 30));
    assert_eq!(left(&timers, 31), Some(29_300), "the session is missing, and a new wait starts");
}

/// A tag may have changed during a slow listing, after the store read the tag for the answer.
#[test]
fn a_listing_of_three_minutes_lapses_no_session() {
    let mut timers = timers();
    list(&mut timers, Some("a"), when(0, 1));
    list(&mut timers, Some("a"), when(5, 185));
    assert_eq!(timers.lapsed(SESSION.id), None);
    list(&mut timers, Some("z"), when(186, 187));
    assert_eq!(timers.lapsed(SESSION.id), None);
    list(&mut timers, Some("z"), when(190, 400));
    assert_eq!(timers.lapsed(SESSION.id), None);
}

#[test]
fn the_wait_for_a_missing_session_starts_with_the_first_answer() {
    let mut timers = timers();
    list(&mut timers, Some("a"), when(0, 1));
    list(&mut timers, None, when(5, 8));
    list(&mut timers, None, when(38, 60));
    assert!(!timers.waited(SESSION.id, at(60)), "30 s from 8 to 38");
    list(&mut timers, None, when(39, 60));
    assert!(timers.waited(SESSION.id, at(60)));
    assert_eq!(timers.lapsed(SESSION.id), None);
    // If the session exists again, the wait is cancelled. A session with another nonce does not
    // cancel the wait.
    let mut back = timers.clone();
    list(&mut back, Some("a"), when(61, 61));
    assert!(!back.waited(SESSION.id, at(99)));
    let other = SessionRecord { nonce: Nonce::from_bits(8), ..record("a", None) };
    timers.read(SESSION, Some(&other), when(61, 61));
    assert!(timers.waited(SESSION.id, at(61)), "a session with another nonce is no sign of life");
    list(&mut timers, Some("other"), when(62, 62));
    assert!(timers.waited(SESSION.id, at(62)), "the tag of another session is no sign of life");
    timers.read(SESSION, Some(&record("a", None)), when(63, 63));
    assert!(!timers.waited(SESSION.id, at(63)));
}

#[test]
fn the_wait_for_a_deposed_session_starts_with_the_first_read() {
    for (ended, waits) in [(EpochEnd::Deposed, true), (EpochEnd::Unknown, true)] {
        let mut timers = timers();
        timers.read(SESSION, Some(&record("a", None)), when(0, 1));
        timers.read(SESSION, Some(&record("b", Some(ended))), when(9, 10));
        timers.read(SESSION, Some(&record("b", Some(ended))), when(20, 21));
        assert!(!timers.waited(SESSION.id, at(40)));
        assert_eq!(timers.waited(SESSION.id, at(41)), waits);
    }
}

#[test]
fn without_tags_each_session_is_due_at_each_poll() {
    let mut timers = timers();
    timers.read(SESSION, Some(&record("a", None)), when(0, 0));
    assert!(timers.due(at(1)).is_empty());
    timers.listed(&BTreeMap::from([(SESSION.id, None)]), when(1, 1));
    assert_eq!(timers.due(at(1)).len(), 1);
    timers.read(SESSION, Some(&record("a", None)), when(31, 31));
    assert_eq!(timers.lapsed(SESSION.id), Some(&ETag::new("a")));
}

#[test]
fn sessions_are_due_once_per_validity_and_after_untimely_changes_of_their_tags() {
    let due = |timers: &SessionTimers, now| timers.due(at(now)).contains(&SESSION.id);
    let mut timers = timers();
    assert!(due(&timers, 0), "never read");
    timers.read(SESSION, Some(&record("a", None)), when(0, 0));
    assert!(!due(&timers, 14));
    assert!(due(&timers, 15), "the tag has not changed for half of the validity");
    list(&mut timers, Some("b"), when(10, 10));
    assert!(!due(&timers, 20), "a renewal");
    list(&mut timers, Some("c"), when(15, 15));
    assert!(due(&timers, 15), "the tag changed too early for a renewal");
    timers.read(SESSION, Some(&record("c", None)), when(15, 15));
    assert!(!due(&timers, 16));
    for renewal in [25, 35, 44] {
        list(&mut timers, Some(&renewal.to_string()), when(renewal, renewal));
        assert!(!due(&timers, renewal), "{renewal}");
    }
    assert!(due(&timers, 45), "the session was not read for a validity");
}

/// A member that lost its session resigns it long after its last renewal. Before the fix, a
/// coordinator that had read the session recently ignored this late change of the tag.
#[test]
fn regression_a_late_change_of_the_tag_causes_a_read() {
    let mut timers = timers();
    timers.read(SESSION, Some(&record("a", None)), when(0, 0));
    timers.read(SESSION, Some(&record("a", None)), when(16, 16));
    for (renewal, late) in [(10, false), (19, false), (20, true)] {
        let mut timers = timers.clone();
        list(&mut timers, Some("b"), when(renewal, renewal));
        assert_eq!(timers.due(at(renewal)).contains(&SESSION.id), late, "{renewal}");
    }
}

#[test]
fn a_session_is_silent_after_its_end_or_an_overdue_renewal() {
    let mut timers = timers();
    assert!(!timers.is_silent(SESSION.id), "the store has sent no answer");
    list(&mut timers, Some("a"), when(0, 0));
    list(&mut timers, Some("a"), when(11, 30));
    assert!(!timers.is_silent(SESSION.id), "the state between two answers is unknown");
    list(&mut timers, Some("a"), when(12, 30));
    assert!(timers.is_silent(SESSION.id));
    assert!(!timers.is_ending(SESSION.id));
    list(&mut timers, Some("a"), when(31, 31));
    assert!(timers.is_ending(SESSION.id), "the session has lapsed");
    timers.read(SESSION, Some(&record("b", None)), when(32, 32));
    assert!(!timers.is_silent(SESSION.id) && !timers.is_ending(SESSION.id));
    timers.read(SESSION, Some(&record("c", Some(EpochEnd::Resigned))), when(33, 33));
    assert!(timers.is_silent(SESSION.id) && !timers.is_ending(SESSION.id));
    timers.read(SESSION, Some(&record("d", Some(EpochEnd::Deposed))), when(34, 34));
    assert!(timers.is_silent(SESSION.id) && timers.is_ending(SESSION.id));
    timers.read(SESSION, None, when(35, 35));
    assert!(timers.is_silent(SESSION.id));
}

#[test]
fn repeatedly_failing_reads_become_rarer() {
    let mut timers = timers();
    let rests = |timers: &SessionTimers, now| timers.rests(SESSION.id, at(now));
    timers.failed(SESSION.id, at(0));
    assert!(!rests(&timers, 0), "the next round tries again");
    timers.failed(SESSION.id, at(5));
    assert!(rests(&timers, 9) && !rests(&timers, 10));
    (0..9).for_each(|_| timers.failed(SESSION.id, at(10)));
    assert!(rests(&timers, 24) && !rests(&timers, 25), "the pause is at most half of the validity");
    timers.read(SESSION, Some(&record("a", None)), when(25, 25));
    timers.failed(SESSION.id, at(26));
    assert!(!rests(&timers, 26));
}
