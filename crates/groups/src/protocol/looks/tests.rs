use super::*;
use tenure::internals::groups::Nonce;

const VALIDITY: Duration = Duration::from_secs(30);
const SESSION: Session = Session { id: SessionId::from_bits(1), nonce: Nonce::from_bits(7) };

fn at(seconds: u64) -> Moment {
    let since = Duration::from_secs(seconds);
    Moment::new(since, since, since)
}

/// A look that was sent and answered at these seconds.
fn when(sent: u64, received: u64) -> LookTime {
    LookTime { sent: at(sent), received: at(received) }
}

fn looks() -> Looks {
    let mut looks = Looks::new(Drift::from_ppm(10_000), Duration::from_secs(5));
    looks.watch(SESSION.id, VALIDITY);
    looks
}

fn list(looks: &mut Looks, tag: Option<&str>, when: LookTime) {
    let tag = tag.map(|tag| (SESSION.id, Some(ETag::new(tag))));
    looks.listed(&tag.into_iter().collect(), when);
}

fn record(tag: &str, ended: Option<EpochEnd>) -> SessionRecord {
    let etag = ETag::new(tag);
    SessionRecord { nonce: SESSION.nonce, heartbeat: 2, etag, ended, data: None }
}

#[test]
fn a_session_lapses_between_two_looks_that_show_the_same_tag() {
    let mut looks = looks();
    list(&mut looks, Some("a"), when(0, 1));
    list(&mut looks, Some("a"), when(31, 31));
    assert_eq!(looks.lapsed(SESSION.id), None, "30.3 s after it was received");
    list(&mut looks, Some("a"), when(32, 40));
    assert_eq!(looks.lapsed(SESSION.id), Some(&ETag::new("a")));
    list(&mut looks, Some("b"), when(33, 41));
    assert_eq!(looks.lapsed(SESSION.id), None);
}

#[test]
fn the_next_look_is_when_a_session_lapses() {
    let mut looks = looks();
    assert_eq!(looks.until_lapse(at(0)), None, "nothing was seen");
    list(&mut looks, Some("a"), when(0, 1));
    let left = |looks: &Looks, now| looks.until_lapse(at(now)).map(|left| left.as_millis());
    assert_eq!((left(&looks, 1), left(&looks, 31)), (Some(30_300), Some(300)));
    looks.unchanged(SESSION.id, &ETag::new("a"), when(10, 10));
    assert_eq!((left(&looks, 31), left(&looks, 32)), (Some(300), None));
    list(&mut looks, Some("b"), when(19, 20));
    assert_eq!(left(&looks, 31), Some(19_300));
    looks.read(SESSION, Some(&record("c", Some(EpochEnd::Resigned))), when(21, 21));
    assert_eq!(left(&looks, 31), None, "nothing is waited for");
    looks.read(SESSION, Some(&record("d", Some(EpochEnd::Deposed))), when(22, 22));
    assert_eq!(left(&looks, 31), Some(21_300));
    looks.read(SESSION, None, when(30, 30));
    assert_eq!(left(&looks, 31), Some(29_300), "it is gone, which is waited for anew");
}

/// The one that stalls says nothing about the time that it took.
#[test]
fn a_listing_that_stalls_for_three_minutes_lapses_nobody() {
    let mut looks = looks();
    list(&mut looks, Some("a"), when(0, 1));
    list(&mut looks, Some("a"), when(5, 185));
    assert_eq!(looks.lapsed(SESSION.id), None);
    list(&mut looks, Some("z"), when(186, 187));
    assert_eq!(looks.lapsed(SESSION.id), None);
    list(&mut looks, Some("z"), when(190, 400));
    assert_eq!(looks.lapsed(SESSION.id), None);
}

#[test]
fn one_that_is_gone_is_waited_for_from_the_first_look_that_misses_it() {
    let mut looks = looks();
    list(&mut looks, Some("a"), when(0, 1));
    list(&mut looks, None, when(5, 8));
    list(&mut looks, None, when(38, 60));
    assert!(!looks.waited(SESSION.id, at(60)), "30 s from 8 to 38");
    list(&mut looks, None, when(39, 60));
    assert!(looks.waited(SESSION.id, at(60)));
    assert_eq!(looks.lapsed(SESSION.id), None);
    // It is there again, or another session is.
    let mut back = looks.clone();
    list(&mut back, Some("a"), when(61, 61));
    assert!(!back.waited(SESSION.id, at(99)));
    let other = SessionRecord { nonce: Nonce::from_bits(8), ..record("a", None) };
    looks.read(SESSION, Some(&other), when(61, 61));
    assert!(looks.waited(SESSION.id, at(61)), "another nonce is no sign of life");
    list(&mut looks, Some("other"), when(62, 62));
    assert!(looks.waited(SESSION.id, at(62)), "nor is its tag");
    looks.read(SESSION, Some(&record("a", None)), when(63, 63));
    assert!(!looks.waited(SESSION.id, at(63)));
}

#[test]
fn one_that_was_deposed_is_waited_for_from_the_first_sight_of_it() {
    for (ended, waits) in [(EpochEnd::Deposed, true), (EpochEnd::Unknown, true)] {
        let mut looks = looks();
        looks.read(SESSION, Some(&record("a", None)), when(0, 1));
        looks.read(SESSION, Some(&record("b", Some(ended))), when(9, 10));
        looks.read(SESSION, Some(&record("b", Some(ended))), when(20, 21));
        assert!(!looks.waited(SESSION.id, at(40)));
        assert_eq!(looks.waited(SESSION.id, at(41)), waits);
    }
}

#[test]
fn without_tags_every_session_is_read_at_every_look() {
    let mut looks = looks();
    looks.read(SESSION, Some(&record("a", None)), when(0, 0));
    assert!(looks.due(at(1)).is_empty());
    looks.listed(&BTreeMap::from([(SESSION.id, None)]), when(1, 1));
    assert_eq!(looks.due(at(1)).len(), 1);
    looks.read(SESSION, Some(&record("a", None)), when(31, 31));
    assert_eq!(looks.lapsed(SESSION.id), Some(&ETag::new("a")));
}

#[test]
fn sessions_are_read_once_a_validity_and_when_their_tags_say_so() {
    let due = |looks: &Looks, now| looks.due(at(now)).contains(&SESSION.id);
    let mut looks = looks();
    assert!(due(&looks, 0), "never read");
    looks.read(SESSION, Some(&record("a", None)), when(0, 0));
    assert!(!due(&looks, 14));
    assert!(due(&looks, 15), "it stands still for half of the validity");
    list(&mut looks, Some("b"), when(10, 10));
    assert!(!due(&looks, 20), "a renewal");
    list(&mut looks, Some("c"), when(15, 15));
    assert!(due(&looks, 15), "too early for a renewal");
    looks.read(SESSION, Some(&record("c", None)), when(15, 15));
    assert!(!due(&looks, 16));
    for renewal in [25, 35, 44] {
        list(&mut looks, Some(&renewal.to_string()), when(renewal, renewal));
        assert!(!due(&looks, renewal), "{renewal}");
    }
    assert!(due(&looks, 45), "not read for a validity");
}

/// A member that lost its session resigns it long after its last renewal.
#[test]
fn regression_a_session_whose_tag_changes_late_is_read() {
    let mut looks = looks();
    looks.read(SESSION, Some(&record("a", None)), when(0, 0));
    looks.read(SESSION, Some(&record("a", None)), when(16, 16));
    for (renewal, late) in [(10, false), (19, false), (20, true)] {
        let mut looks = looks.clone();
        list(&mut looks, Some("b"), when(renewal, renewal));
        assert_eq!(looks.due(at(renewal)).contains(&SESSION.id), late, "{renewal}");
    }
}

#[test]
fn a_session_is_silent_once_a_renewal_is_overdue_or_it_is_over() {
    let mut looks = looks();
    assert!(!looks.is_silent(SESSION.id), "nothing was seen");
    list(&mut looks, Some("a"), when(0, 0));
    list(&mut looks, Some("a"), when(11, 30));
    assert!(!looks.is_silent(SESSION.id), "between looks nobody knows");
    list(&mut looks, Some("a"), when(12, 30));
    assert!(looks.is_silent(SESSION.id));
    assert!(!looks.is_ending(SESSION.id));
    list(&mut looks, Some("a"), when(31, 31));
    assert!(looks.is_ending(SESSION.id), "it has lapsed");
    looks.read(SESSION, Some(&record("b", None)), when(32, 32));
    assert!(!looks.is_silent(SESSION.id) && !looks.is_ending(SESSION.id));
    looks.read(SESSION, Some(&record("c", Some(EpochEnd::Resigned))), when(33, 33));
    assert!(looks.is_silent(SESSION.id) && !looks.is_ending(SESSION.id));
    looks.read(SESSION, Some(&record("d", Some(EpochEnd::Deposed))), when(34, 34));
    assert!(looks.is_silent(SESSION.id) && looks.is_ending(SESSION.id));
    looks.read(SESSION, None, when(35, 35));
    assert!(looks.is_silent(SESSION.id));
}

#[test]
fn reads_that_fail_again_and_again_are_made_less_often() {
    let mut looks = looks();
    let rests = |looks: &Looks, now| looks.rests(SESSION.id, at(now));
    looks.failed(SESSION.id, at(0));
    assert!(!rests(&looks, 0), "the next round tries again");
    looks.failed(SESSION.id, at(5));
    assert!(rests(&looks, 9) && !rests(&looks, 10));
    (0..9).for_each(|_| looks.failed(SESSION.id, at(10)));
    assert!(rests(&looks, 24) && !rests(&looks, 25), "half of the validity at most");
    looks.read(SESSION, Some(&record("a", None)), when(25, 25));
    looks.failed(SESSION.id, at(26));
    assert!(!rests(&looks, 26));
}
