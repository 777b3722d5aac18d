use super::*;
use crate::protocol::PartitionNumber;
use crate::protocol::session::{Release, SessionData};
use crate::test_values::epoch;
use tenure::internals::groups::Nonce;

fn id(bits: u128) -> SessionId {
    SessionId::from_bits(bits)
}

fn session(bits: u128) -> Session {
    Session { id: id(bits), nonce: Nonce::from_bits(bits + 100) }
}

fn tag(version: u64) -> ETag {
    ETag::new(version.to_string())
}

/// Returns the record of a session with this heartbeat. The session's tag is the same number.
fn record(bits: u128, heartbeat: u64) -> SessionRecord {
    SessionRecord {
        nonce: session(bits).nonce,
        heartbeat,
        etag: tag(heartbeat),
        ended: None,
        data: Some(SessionData::default()),
    }
}

/// Returns an assignment with the members 1 and 2. Member 1 owns partition 0 under token 2.
fn known(number: u64) -> Assignment {
    let mut it = Assignment::first(Nonce::from_bits(1), vec!["p".into()]);
    it.epoch = epoch(number);
    it.members = vec![Member::new(session(1), "a"), Member::new(session(2), "b")];
    it.partitions[0].owner = Some(session(1));
    it.partitions[0].token = Some(epoch(2));
    it
}

fn join(id: SessionId, record: &SessionRecord) -> Option<Member> {
    Some(Member::new(Session { id, nonce: record.nonce }, "new"))
}

fn listing(sessions: &[(u128, u64)], truncated: bool) -> SessionAnswer {
    let sessions = sessions.iter().map(|(bits, version)| (id(*bits), Some(tag(*version))));
    SessionAnswer::Listed { sessions: sessions.collect(), truncated }
}

fn ids(all: &[u128]) -> Option<SessionRequest> {
    Some(SessionRequest::Get(all.iter().map(|bits| id(*bits)).collect()))
}

/// Runs one round. The listing shows these sessions with their heartbeats. Answers each GET, and
/// returns the ids of the sessions that the round read.
fn round(it: &mut SessionReader, now: &Assignment, sessions: &[(u128, u64)]) -> Vec<u128> {
    it.begin(BTreeSet::new());
    assert_eq!(it.request(), Some(SessionRequest::List(None)));
    let mut read = Vec::new();
    let mut progress = it.handle(Some(now), listing(sessions, false));
    while let Some(SessionRequest::Get(left)) = it.request() {
        let next = *left.first().unwrap();
        read.push(next.bits());
        let (_, version) = sessions.iter().find(|(bits, _)| id(*bits) == next).unwrap();
        let found = SessionAnswer::Found(next, record(next.bits(), *version));
        progress = it.handle(Some(now), found);
    }
    assert_eq!(progress, RoundProgress::RoundOver);
    read
}

#[test]
fn a_round_reads_only_sessions_that_may_have_changed() {
    let mut it = SessionReader::default();
    let now = known(5);
    assert_eq!(round(&mut it, &now, &[(1, 2), (2, 2)]), [1, 2], "never seen");
    assert_eq!(round(&mut it, &now, &[(1, 2), (2, 2)]), []);
    assert_eq!(
        round(&mut it, &now, &[(1, 3), (2, 3)]),
        [],
        "the members renewed, and no release is expected"
    );
    // Partition 0 must move to session 2, so a release of session 1 is expected.
    let mut moves = known(6);
    moves.partitions[0].target = Some(session(2));
    assert_eq!(
        round(&mut it, &moves, &[(1, 2), (2, 3)]),
        [],
        "the tag of session 1 has not changed"
    );
    assert_eq!(round(&mut it, &moves, &[(1, 4), (2, 4)]), [1]);
    // Session 3 is not a member. A round reads it after each change of its tag, and after each new
    // assignment (R3).
    assert_eq!(round(&mut it, &moves, &[(1, 4), (2, 4), (3, 2)]), [3]);
    assert_eq!(round(&mut it, &moves, &[(1, 4), (2, 4), (3, 2)]), []);
    assert_eq!(round(&mut it, &known(7), &[(1, 4), (2, 4), (3, 2)]), [3]);
    assert_eq!(round(&mut it, &known(7), &[(1, 4), (2, 4), (3, 3)]), [3]);
}

#[test]
fn due_sessions_are_read_and_pages_are_followed() {
    let mut it = SessionReader::default();
    let now = known(5);
    round(&mut it, &now, &[(1, 2), (2, 2)]);
    it.begin([id(2)].into());
    it.begin(BTreeSet::new());
    assert_eq!(it.handle(Some(&now), listing(&[(1, 2)], true)), RoundProgress::More);
    assert_eq!(it.request(), Some(SessionRequest::List(Some(id(1)))));
    assert_eq!(it.handle(Some(&now), listing(&[(2, 2)], false)), RoundProgress::More);
    assert_eq!(it.request(), ids(&[2]));
    assert_eq!(it.handle(Some(&now), SessionAnswer::Missing(id(2))), RoundProgress::RoundOver);
    assert!(it.is_idle() && it.record(id(2)).is_none() && it.record(id(1)).is_some());
}

/// Before the fix, a group got no new assignments while one session could not be read, because the
/// coordinator made no plan.
#[test]
fn regression_a_failed_read_keeps_the_record_and_stops_no_round() {
    let mut it = SessionReader::default();
    let now = known(5);
    it.begin(BTreeSet::new());
    it.handle(Some(&now), listing(&[(1, 2), (2, 2), (3, 2)], false));
    assert_eq!(it.handle(Some(&now), SessionAnswer::Unreadable(id(1))), RoundProgress::More);
    assert_eq!(it.handle(Some(&now), SessionAnswer::Unreadable(id(3))), RoundProgress::More);
    let progress = it.handle(Some(&now), SessionAnswer::Found(id(2), record(2, 2)));
    assert!(progress == RoundProgress::RoundOver && it.is_idle());
    assert_eq!(it.evidence(Some(&now), join), Evidence::default());
    assert_eq!(round(&mut it, &now, &[(1, 2), (2, 2), (3, 2)]), [1, 3]);
    // The GET before the seal fails, so the session is not sealed.
    it.lapsed(session(2), tag(2));
    assert_eq!(it.handle(Some(&now), SessionAnswer::Unreadable(id(2))), RoundProgress::RoundOver);
    assert!(!it.has_ended(session(2)));
}

#[test]
fn a_failed_round_begins_again() {
    let mut it = SessionReader::default();
    it.begin(BTreeSet::new());
    assert_eq!(it.handle(None, SessionAnswer::Unknown), RoundProgress::Failed);
    assert!(it.is_idle());
    it.begin(BTreeSet::new());
    it.handle(None, listing(&[(1, 2), (2, 2)], false));
    assert_eq!(it.request(), ids(&[1, 2]));
    it.stop();
    assert_eq!(it.request(), None);
}

#[test]
fn a_lapsed_session_is_sealed_if_its_tag_is_unchanged() {
    let now = known(5);
    let lapsed = |version| {
        let mut it = SessionReader::default();
        round(&mut it, &now, &[(1, 2), (2, 2)]);
        it.lapsed(session(2), tag(2));
        assert_eq!(it.request(), ids(&[2]));
        let progress = it.handle(Some(&now), SessionAnswer::Found(id(2), record(2, version)));
        (it, progress)
    };
    let (it, progress) = lapsed(3);
    assert!(progress == RoundProgress::RoundOver && it.is_idle(), "the session was renewed");
    let (mut it, progress) = lapsed(2);
    assert_eq!(progress, RoundProgress::More);
    let seal = Some(SessionRequest::Seal { session: session(2), record: record(2, 2) });
    assert_eq!(it.request(), seal);
    // After a failed seal, the round ends without another attempt. The next round reads the session
    // again, although its tag has not changed.
    for answer in [SessionAnswer::Unknown, SessionAnswer::Refused] {
        let mut tried = it.clone();
        assert_eq!(tried.handle(Some(&now), answer), RoundProgress::RoundOver);
        assert!(tried.is_idle() && !tried.has_ended(session(2)));
        assert_eq!(round(&mut tried, &now, &[(1, 2), (2, 2)]), [2]);
        assert_eq!(round(&mut tried, &now, &[(1, 2), (2, 2)]), []);
    }
    assert_eq!(it.handle(Some(&now), SessionAnswer::Done), RoundProgress::RoundOver);
    assert!(it.has_ended(session(2)) && !it.has_ended(session(1)));
    assert_eq!(it.record(id(2)).and_then(|it| it.ended), Some(EpochEnd::Lapsed));
    assert_eq!(it.evidence(Some(&now), join).ended, [session(2)].into());
    // If the object of the lapsed session is missing, the coordinator does not seal it, but waits
    // (GA2).
    let (mut it, _) = lapsed(3);
    it.lapsed(session(2), tag(3));
    assert_eq!(it.handle(Some(&now), SessionAnswer::Missing(id(2))), RoundProgress::RoundOver);
    assert!(!it.has_ended(session(2)));
}

#[test]
fn only_a_final_seal_ends_a_session() {
    let now = known(5);
    for (word, ended) in [
        (EpochEnd::Resigned, true),
        (EpochEnd::Lapsed, true),
        (EpochEnd::Deposed, false),
        (EpochEnd::Unknown, false),
    ] {
        let mut it = SessionReader::default();
        it.begin(BTreeSet::new());
        it.handle(Some(&now), listing(&[(1, 2)], false));
        let sealed = SessionRecord { ended: Some(word), data: None, ..record(1, 2) };
        it.handle(Some(&now), SessionAnswer::Found(id(1), sealed));
        assert_eq!(it.has_ended(session(1)), ended, "{word:?}");
        it.waited(session(1));
        assert!(it.has_ended(session(1)));
    }
}

#[test]
fn evidence_covers_only_sessions_of_members() {
    let now = known(5);
    let mut it = SessionReader::default();
    let release = Release { partition: PartitionNumber(0), token: epoch(2) };
    let data = SessionData {
        releases: [(release, Default::default())].into(),
        leaving: true,
        seen: Some(epoch(4)),
        ..SessionData::default()
    };
    let says = SessionRecord { data: Some(data), ..record(1, 2) };
    it.begin(BTreeSet::new());
    it.handle(Some(&now), listing(&[(1, 2)], false));
    it.handle(Some(&now), SessionAnswer::Found(id(1), says.clone()));
    let evidence = it.evidence(Some(&now), join);
    assert_eq!(evidence.released, [(session(1), release)].into());
    assert_eq!(evidence.leaving, [session(1)].into());
    assert_eq!(it.greatest_seen(), Some(epoch(4)));
    // The object with member 1's session id has another nonce, so it belongs to another session.
    let mut it = SessionReader::default();
    it.begin(BTreeSet::new());
    it.handle(Some(&now), listing(&[(1, 2)], false));
    let other = SessionRecord { nonce: Nonce::from_bits(7), ..says };
    it.handle(Some(&now), SessionAnswer::Found(id(1), other));
    assert_eq!(it.evidence(Some(&now), join), Evidence::default());
}

/// A session joins only if it is live, and was read after the known assignment (rule R3).
#[test]
fn a_live_session_joins_only_if_it_was_read_after_the_assignment() {
    let read = |record: SessionRecord, known: Option<&Assignment>| {
        let mut it = SessionReader::default();
        it.begin(BTreeSet::new());
        it.handle(known, listing(&[(3, 2)], false));
        it.handle(known, SessionAnswer::Found(id(3), record));
        it
    };
    let joins = |it: &SessionReader, known| it.evidence(known, join).joining.len() == 1;
    let now = known(5);
    assert!(joins(&read(record(3, 2), Some(&now)), Some(&now)));
    assert!(joins(&read(record(3, 2), None), None), "no assignment exists");
    assert!(!joins(&read(record(3, 2), None), Some(&now)), "read before");
    assert!(!joins(&read(record(3, 2), Some(&known(4))), Some(&now)), "read before");
    assert!(!joins(&read(SessionRecord { data: None, ..record(3, 1) }, Some(&now)), Some(&now)));
    let ended = SessionRecord { ended: Some(EpochEnd::Deposed), ..record(3, 2) };
    assert!(!joins(&read(ended, Some(&now)), Some(&now)));
    let leaving = SessionData { leaving: true, ..SessionData::default() };
    let leaves = SessionRecord { data: Some(leaving), ..record(3, 2) };
    assert!(!joins(&read(leaves, Some(&now)), Some(&now)));
    let mut member = now.clone();
    member.members.push(Member::new(session(3), "c"));
    assert!(!joins(&read(record(3, 2), Some(&member)), Some(&member)));
    let mut over = read(record(3, 2), Some(&now));
    over.waited(session(3));
    assert!(!joins(&over, Some(&now)));
}

#[test]
fn unlisted_sessions_of_no_member_are_forgotten() {
    let mut it = SessionReader::default();
    let now = known(5);
    round(&mut it, &now, &[(1, 2), (2, 2), (3, 2), (4, 2)]);
    [1, 3, 4].into_iter().for_each(|bits| it.waited(session(bits)));
    it.forget(&[id(3)].into(), &now);
    let kept = [1, 2, 3, 4].map(|bits| it.record(id(bits)).is_some());
    assert_eq!(kept, [true, true, true, false]);
    assert_eq!([1, 3, 4].map(|bits| it.has_ended(session(bits))), [true, true, false]);
}

/// A member that becomes the coordinator again must not plan from its old records of the other
/// sessions.
#[test]
fn a_returning_coordinator_reads_all_sessions_again() {
    let mut it = SessionReader::default();
    let now = known(5);
    round(&mut it, &now, &[(1, 2), (2, 2)]);
    it.stop();
    assert_eq!(round(&mut it, &now, &[(1, 2), (2, 2)]), [1, 2]);
}

/// A member may still write a release after its revocation was cancelled. So the coordinator reads
/// the changed session now. Otherwise it would see the release up to a validity later.
#[test]
fn a_release_is_read_after_its_revocation_ends() {
    let mut it = SessionReader::default();
    let mut moves = known(5);
    moves.partitions[0].target = Some(session(2));
    assert_eq!(round(&mut it, &moves, &[(1, 2), (2, 2)]), [1, 2]);
    let back = known(6);
    assert_eq!(round(&mut it, &back, &[(1, 3), (2, 2)]), [1]);
}
