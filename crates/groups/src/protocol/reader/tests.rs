use super::*;
use crate::protocol::Assignment;
use crate::test_values::epoch;
use tenure::internals::groups::After;

fn nonce(bits: u128) -> Nonce {
    Nonce::from_bits(bits)
}

fn assignment(number: u64, bits: u128) -> Arc<Assignment> {
    let first = Assignment::first(nonce(bits), Vec::new());
    Arc::new(Assignment { epoch: epoch(number), ..first })
}

fn listed(epochs: Option<(u64, u64)>) -> AssignmentAnswer {
    let epochs = epochs.map(|(least, greatest)| (epoch(least), epoch(greatest)));
    AssignmentAnswer::Listed(Listing { epochs, rest: None })
}

fn asks_for(reader: &Reader) -> Option<u64> {
    match reader.step() {
        ReaderStep::Request(AssignmentRequest::Get(epoch)) => Some(epoch.get()),
        _ => None,
    }
}

fn lists_after(reader: &Reader) -> Option<u64> {
    match reader.step() {
        ReaderStep::Request(AssignmentRequest::List(After::Number(number))) => Some(number),
        _ => None,
    }
}

/// Returns a reader that has read the assignment with this number.
fn reader(number: u64) -> Reader {
    let mut reader = Reader::new(None);
    assert_eq!(reader.handle(listed(Some((1, number)))), None);
    assert_eq!(reader.handle(AssignmentAnswer::Found(assignment(number, 1))), Some(News::Read));
    assert_eq!(reader.step(), ReaderStep::Idle);
    reader
}

/// Returns a reader that has begun to create assignment 4.
fn creates() -> Reader {
    let mut reader = reader(3);
    assert!(reader.create(Assignment::clone(&assignment(4, 40))));
    reader
}

#[test]
fn a_reader_finds_the_newest_assignment_and_polls_for_the_next_one() {
    let mut reader = reader(3);
    assert_eq!(reader.known().map(|it| it.epoch), Some(epoch(3)));
    reader.poll();
    assert_eq!(asks_for(&reader), Some(4));
    assert_eq!(reader.handle(AssignmentAnswer::Missing), Some(News::Unchanged));
    reader.poll();
    assert_eq!(reader.handle(AssignmentAnswer::Found(assignment(4, 2))), Some(News::Read));
    assert_eq!(reader.greatest(), Some(epoch(4)));
    // A failed request is repeated after a pause.
    reader.poll();
    assert_eq!(reader.handle(AssignmentAnswer::Unknown), None);
    assert_eq!(reader.step(), ReaderStep::Pause);
    reader.resume();
    assert_eq!(asks_for(&reader), Some(5));
}

#[test]
fn a_group_without_an_assignment_is_found_empty() {
    let mut reader = Reader::new(None);
    assert_eq!(lists_after(&reader), Some(0));
    assert_eq!(reader.handle(listed(None)), Some(News::Nothing));
    assert!(!reader.create(Assignment::clone(&assignment(2, 2))));
    assert!(reader.create(Assignment::clone(&assignment(1, 1))));
}

#[test]
fn a_list_without_a_greater_number_confirms_the_known_assignment() {
    let mut reader = reader(3);
    reader.confirm();
    assert_eq!(lists_after(&reader), Some(3));
    reader.poll();
    assert_eq!(lists_after(&reader), Some(3), "one request at a time");
    let foreign = Listing { epochs: None, rest: Some(After::Key("x".to_owned())) };
    assert_eq!(reader.handle(AssignmentAnswer::Listed(foreign)), None);
    assert_eq!(reader.handle(listed(None)), Some(News::Confirmed));
    reader.confirm();
    assert_eq!(reader.handle(listed(Some((4, 9)))), None);
    assert_eq!(asks_for(&reader), Some(9), "the reader reads the greatest listed assignment");
    // The assignment was compacted between the LIST and the GET.
    assert_eq!(reader.handle(AssignmentAnswer::Missing), None);
    reader.resume();
    assert_eq!(lists_after(&reader), Some(8));
    assert_eq!(reader.handle(listed(Some((9, 11)))), None);
    assert_eq!(reader.handle(AssignmentAnswer::Found(assignment(11, 2))), Some(News::Read));
}

#[test]
fn a_created_assignment_counts_after_its_confirmation() {
    let mut reader = creates();
    assert_eq!(reader.step(), ReaderStep::Request(AssignmentRequest::Create(assignment(4, 40))));
    assert_eq!(reader.handle(AssignmentAnswer::Done), Some(News::Read));
    assert_eq!(lists_after(&reader), Some(4));
    assert_eq!(reader.handle(listed(None)), Some(News::Confirmed));
    assert_eq!(reader.known().map(|it| it.nonce), Some(nonce(40)));
}

#[test]
fn the_loser_of_a_race_follows_the_winner() {
    let mut reader = creates();
    assert_eq!(reader.handle(AssignmentAnswer::Refused), None);
    assert_eq!(asks_for(&reader), Some(4));
    assert_eq!(reader.handle(AssignmentAnswer::Found(assignment(4, 7))), Some(News::Read));
    assert_eq!(
        (reader.step(), reader.known().map(|it| it.nonce)),
        (ReaderStep::Idle, Some(nonce(7)))
    );
    // The reader lost the race, and a compactor deleted the winner's assignment before the reader
    // read it.
    let mut reader = creates();
    reader.handle(AssignmentAnswer::Refused);
    assert_eq!(reader.handle(AssignmentAnswer::Missing), None);
    assert_eq!(lists_after(&reader), Some(2));
}

#[test]
fn a_create_with_an_unknown_outcome_is_read_back() {
    let mut reader = creates();
    assert_eq!(reader.handle(AssignmentAnswer::Unknown), None);
    assert_eq!(reader.step(), ReaderStep::Pause);
    reader.resume();
    assert_eq!(asks_for(&reader), Some(4));
    assert_eq!(reader.handle(AssignmentAnswer::Missing), None);
    assert_eq!(reader.step(), ReaderStep::Nonce);
    reader.nonce(nonce(41));
    assert_eq!(reader.step(), ReaderStep::Request(AssignmentRequest::Create(assignment(4, 41))));
    // The first attempt took effect late. So the store refuses the second attempt, and the GET
    // returns the nonce of the first attempt.
    assert_eq!(reader.handle(AssignmentAnswer::Refused), None);
    assert_eq!(reader.handle(AssignmentAnswer::Found(assignment(4, 40))), Some(News::Read));
    assert_eq!(lists_after(&reader), Some(4), "the reader confirms its own assignment");
}

#[test]
fn an_unanswered_create_is_given_up() {
    let mut reader = creates();
    for attempt in 0..MAX_ATTEMPTS {
        assert!(
            matches!(reader.step(), ReaderStep::Request(AssignmentRequest::Create(_))),
            "{attempt}"
        );
        reader.handle(AssignmentAnswer::Unknown);
        reader.resume();
        let news = reader.handle(AssignmentAnswer::Missing);
        assert_eq!(news.is_some(), attempt + 1 == MAX_ATTEMPTS);
        reader.nonce(nonce(50 + attempt as u128));
    }
    assert_eq!(reader.step(), ReaderStep::Idle);
}

#[test]
fn only_the_successor_of_the_known_assignment_is_created() {
    let mut reader = reader(3);
    for number in [2, 3, 5] {
        assert!(!reader.create(Assignment::clone(&assignment(number, 9))), "{number}");
    }
    // A listing shows assignment 4, but the reader has not read it yet.
    reader.confirm();
    reader.handle(listed(Some((4, 4))));
    reader.handle(AssignmentAnswer::Unknown);
    reader.resume();
    assert!(!reader.create(Assignment::clone(&assignment(4, 9))), "a read is in progress");
}

#[test]
fn a_deleted_newest_assignment_is_an_error_at_the_second_list() {
    let mut reader = Reader::new(Some(epoch(7)));
    assert_eq!(lists_after(&reader), Some(6));
    assert_eq!(reader.handle(listed(None)), None);
    assert_eq!(reader.step(), ReaderStep::Pause);
    reader.resume();
    assert_eq!(reader.handle(listed(None)), None);
    assert_eq!(reader.step(), ReaderStep::Failed(ReaderFailure::NewestDeleted(epoch(7))));
    assert_eq!(reader.handle(AssignmentAnswer::Missing), None);
}

#[test]
fn an_unreadable_assignment_never_counts_as_missing() {
    let mut polls = reader(3);
    polls.poll();
    let mut reads = Reader::new(None);
    reads.handle(listed(Some((1, 4))));
    let mut reads_back = creates();
    reads_back.handle(AssignmentAnswer::Refused);
    for mut reader in [polls, reads, reads_back] {
        assert_eq!(reader.handle(AssignmentAnswer::Unreadable), None);
        // If the GET of a poll or of the reader's own creation finds an unreadable object, the
        // reader sends a LIST, because a greater assignment may exist.
        if lists_after(&reader) == Some(3) {
            assert_eq!(reader.handle(listed(Some((4, 4)))), None);
            assert_eq!(reader.handle(AssignmentAnswer::Unreadable), None);
        }
        assert_eq!(reader.step(), ReaderStep::Failed(ReaderFailure::Unreadable(epoch(4))));
    }
    for (answer, failure) in [
        (AssignmentAnswer::Denied, ReaderFailure::Denied),
        (AssignmentAnswer::Unsafe, ReaderFailure::Unsafe),
    ] {
        let mut reader = creates();
        assert_eq!(reader.handle(answer), None);
        assert_eq!(reader.step(), ReaderStep::Failed(failure));
    }
}

#[test]
fn the_last_epoch_has_no_successor() {
    let mut reader = reader(Epoch::MAX.get());
    reader.poll();
    assert_eq!(reader.step(), ReaderStep::Failed(ReaderFailure::Exhausted));
}

/// A LIST that shows only the known assignment changes nothing.
#[test]
fn a_reader_never_returns_to_a_smaller_epoch() {
    let mut reader = creates();
    reader.handle(AssignmentAnswer::Refused);
    reader.handle(AssignmentAnswer::Missing);
    assert_eq!(reader.handle(listed(Some((3, 3)))), Some(News::Unchanged));
    assert_eq!(reader.known().map(|it| it.epoch), Some(epoch(3)));
    assert_eq!(reader.step(), ReaderStep::Idle);
}

/// An observer with a long poll interval may call only `confirm`, and not `poll`. Before the fix,
/// it never found the first assignment of a new group, because `confirm` did nothing while the
/// reader knew no assignment.
#[test]
fn regression_confirm_finds_the_first_assignment() {
    let mut reader = Reader::new(None);
    assert_eq!(reader.handle(listed(None)), Some(News::Nothing));
    reader.confirm();
    assert_eq!(lists_after(&reader), Some(0));
    assert_eq!(reader.handle(listed(Some((1, 1)))), None);
    assert_eq!(reader.handle(AssignmentAnswer::Found(assignment(1, 1))), Some(News::Read));
}

#[test]
fn a_reader_first_finds_the_assignment_that_a_session_has_seen() {
    let mut reader = reader(3);
    reader.expect(Some(epoch(3)));
    assert!(!reader.is_behind());
    reader.expect(Some(epoch(5)));
    assert!(reader.is_behind());
    assert!(!reader.create(Assignment::clone(&assignment(4, 40))), "assignment 4 may have existed");
    reader.poll();
    assert_eq!(lists_after(&reader), Some(4));
    reader.handle(listed(Some((6, 6))));
    assert_eq!(reader.handle(AssignmentAnswer::Found(assignment(6, 60))), Some(News::Read));
    assert!(!reader.is_behind());
    reader.expect(Some(epoch(7)));
    reader.confirm();
    reader.handle(listed(None));
    reader.resume();
    reader.handle(listed(None));
    assert_eq!(reader.step(), ReaderStep::Failed(ReaderFailure::NewestDeleted(epoch(7))));
}

/// Before the fix, a reader that had given up a failing GET sent the same GET again. So it never
/// found a greater, readable assignment (GA5).
#[test]
fn regression_a_list_follows_an_abandoned_get() {
    let give_up = |reader: &mut Reader| {
        assert_eq!(reader.handle(AssignmentAnswer::Unknown), None);
        reader.give_up();
        assert_eq!(reader.step(), ReaderStep::Idle);
        reader.poll();
    };
    let mut polls = reader(3);
    polls.poll();
    assert_eq!(asks_for(&polls), Some(4));
    give_up(&mut polls);
    assert_eq!(lists_after(&polls), Some(3));
    // Once the reader has given up this LIST too, the next poll is a GET.
    give_up(&mut polls);
    assert_eq!(asks_for(&polls), Some(4));
    give_up(&mut polls);
    assert_eq!(polls.handle(listed(Some((4, 6)))), None);
    assert_eq!(asks_for(&polls), Some(6));
    give_up(&mut polls);
    assert_eq!(polls.handle(listed(Some((4, 7)))), None);
    assert_eq!(polls.handle(AssignmentAnswer::Found(assignment(7, 1))), Some(News::Read));
    // This reader gives up the GET that follows its own attempt to create an assignment.
    let mut creates = creates();
    creates.handle(AssignmentAnswer::Refused);
    assert_eq!(asks_for(&creates), Some(4));
    give_up(&mut creates);
    assert_eq!(lists_after(&creates), Some(3));
    // A denied read and a body that is not an assignment lead to a LIST, too.
    for answer in [AssignmentAnswer::Denied, AssignmentAnswer::Unreadable] {
        let mut polls = reader(3);
        polls.poll();
        assert_eq!(polls.handle(answer.clone()), None);
        assert_eq!(polls.handle(listed(Some((4, 5)))), None);
        assert_eq!(asks_for(&polls), Some(5));
        assert_eq!(polls.handle(answer), None);
        assert!(
            matches!(polls.step(), ReaderStep::Failed(_)),
            "the newest assignment must be readable"
        );
    }
}
