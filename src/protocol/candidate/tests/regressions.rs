//! Regression tests of the candidate. Other tests and random walks found these defects.

use super::*;

/// Before the fix, an answer changed the state of the machine even if no request was under way. A
/// wait or a failure became a pause, and the answer `Denied` ended the campaign.
#[test]
fn regression_an_unexpected_answer_changes_nothing() {
    let mut deposed = Play::following();
    deposed.polls(1, "a", sealed(7, EpochEnd::Deposed));
    let mut failed = Play::following();
    failed.polls(1, "a", Answer::Unreadable);
    let mut over = Play::leading();
    over.input(Input::LeaseEnded);
    let mut paused = Play::following();
    paused.polls(1, "a", Answer::Unknown);
    for mut play in [deposed, failed, over, paused, Play::following(), Play::leading()] {
        for answer in [Answer::Unknown, Answer::Denied, Answer::Unsafe, done("x"), listed(&[9])] {
            let before = play.machine.clone();
            play.input(Input::Answer(answer));
            assert_eq!(play.machine, before);
        }
    }
}

/// An existing epoch counts as seen, even if the body of its object is not a record. Before the
/// fix, an epoch with such a body did not raise the greatest epoch seen.
#[test]
fn regression_an_unreadable_epoch_raises_the_greatest_epoch_seen() {
    let mut play = Play::creating();
    play.creates(2, 1, 1, Answer::Refused);
    play.gets(2, Answer::Unreadable);
    assert_eq!(play.machine.step(), Step::Failed(Failure::Unreadable(e(2))));
    assert_eq!(play.machine.greatest(), Some(e(2)));
}

/// In a race of two creates, the store may refuse one create because of the other, and then the
/// other create may fail. So a refused create does not prove that the epoch exists. Before the fix,
/// the candidate counted the refused epoch as seen, and ended with `NewestDeleted`.
#[test]
fn regression_a_refused_create_does_not_count_as_an_epoch_seen() {
    let mut play = Play::creating();
    let before = play.machine.greatest();
    play.creates(2, 1, 1, Answer::Refused);
    play.gets(2, Answer::Missing);
    assert_eq!(play.machine.greatest(), before);
}

/// S3 may answer 403 to the GET of a missing object. Before the fix, such an answer after a refused
/// create ended the campaign.
#[test]
fn regression_a_candidate_lists_after_a_refused_create_and_a_denied_read() {
    let mut play = Play::creating();
    play.creates(2, 1, 1, Answer::Refused);
    play.gets(2, Answer::Denied);
    play.pauses();
    let mut gone = play.clone();
    gone.lists(0, listed(&[5]));
    gone.gets(5, held(9, 1, "x"));
    play.lists(0, listed(&[2]));
    assert_eq!(play.machine.step(), Step::Failed(Failure::Denied));
}

/// In this test, the store refuses a seal although its condition is the ETag of the last GET.
/// Before the fix, a restarted process with a unique name repeated the seal and the GET, and never
/// paused.
#[test]
fn regression_an_unexplained_refusal_of_a_seal_does_not_spin() {
    let mut play = Play::new(CANDIDATE, None);
    play.lists(0, listed(&[3]));
    let seen = Seen { nonce: Some(n(7)), heartbeat: 4, ended: None, reclaimable: true };
    let found = found("p", seen, false);
    play.gets(3, found.clone());
    play.seals(3, "p", EpochEnd::Lapsed, Answer::Refused);
    play.pauses();
    play.gets(3, found);
}

/// Before the fix, if a candidate sealed a record with the greatest heartbeat, the heartbeat of the
/// seal overflowed. Fuzzing found this defect.
#[test]
fn regression_a_record_with_the_greatest_heartbeat_is_sealed() {
    let mut play = Play::new(CANDIDATE, None);
    play.lists(0, listed(&[1]));
    play.gets(1, held(7, u64::MAX, "a"));
    play.input(Input::Lapsed);
    play.seals(1, "a", EpochEnd::Lapsed, done("s"));
    assert_eq!(play.machine.step(), Step::Nonce);
}
