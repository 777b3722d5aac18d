use super::*;
use crate::protocol::message::Rules;
use crate::protocol::testing::*;

fn extended(heartbeat: u64) -> Option<Event> {
    Some(Event::Extended { heartbeat })
}

fn lost(lost: Lost) -> Option<Event> {
    Some(Event::Lost(lost))
}

/// Returns a leader whose first renewal (heartbeat 2) has an unknown effect.
fn in_doubt() -> Play {
    let mut play = Play::leading();
    play.input(Input::RenewDue);
    play.renews("c", 2, Answer::Unknown);
    assert_eq!(play.event, None);
    play
}

#[test]
fn a_renewal_is_conditional_on_the_last_etag_and_raises_the_heartbeat() {
    let mut play = Play::leading();
    play.input(Input::RenewDue);
    play.renews("c", 2, done("d"));
    assert_eq!(play.event, extended(2));
    play.input(Input::RenewDue);
    play.renews("d", 3, done("f"));
    assert_eq!(play.event, extended(3));
}

#[test]
fn a_retried_renewal_has_a_new_heartbeat() {
    let mut play = in_doubt();
    play.pauses();
    play.renews("c", 3, Answer::Denied);
    play.pauses();
    play.renews("c", 4, done("d"));
    assert_eq!(play.event, extended(4));
}

#[test]
fn an_earlier_renewal_counts_after_a_later_one_is_refused() {
    let mut play = in_doubt();
    play.pauses();
    play.renews("c", 3, Answer::Refused);
    assert_eq!(play.event, None);
    play.gets(2, held(1, 2, "landed"));
    // The renewal with heartbeat 2 took effect, and the store refused the later renewal. So the
    // lease starts at the renewal with heartbeat 2.
    assert_eq!(play.event, extended(2));
    play.input(Input::RenewDue);
    play.renews("landed", 4, done("d"));
}

#[test]
fn an_unexplained_refusal_is_retried_after_a_pause() {
    let mut play = in_doubt();
    play.pauses();
    play.renews("c", 3, Answer::Refused);
    play.gets(2, held(1, 1, "c"));
    assert_eq!(play.event, None);
    play.pauses();
    play.renews("c", 4, Answer::Refused);
    play.gets(2, Answer::Unknown);
    play.pauses();
    play.renews("c", 5, done("d"));
}

#[test]
fn a_missing_object_is_a_loss() {
    let mut play = in_doubt();
    play.pauses();
    let mut gone = play.clone();
    gone.renews("c", 3, Answer::Missing);
    assert_eq!(gone.event, lost(Lost::Vanished));
    play.renews("c", 3, Answer::Refused);
    play.gets(2, Answer::Missing);
    assert_eq!(play.event, lost(Lost::Vanished));

    let mut resigning = Play::leading();
    resigning.input(Input::Resign);
    resigning.seals(2, "c", EpochEnd::Resigned, Answer::Missing);
    assert_eq!(resigning.event, lost(Lost::Vanished));
}

/// An SDK may send one renewal twice. The first PUT changes the ETag, so the store refuses the
/// second PUT.
#[test]
fn a_renewal_that_was_sent_twice_counts() {
    let mut play = Play::leading();
    play.input(Input::RenewDue);
    play.renews("c", 2, Answer::Refused);
    play.gets(2, held(1, 2, "d"));
    assert_eq!(play.event, extended(2));
}

#[test]
fn the_leader_of_the_last_epoch_does_not_look_for_a_successor() {
    let last = Epoch::MAX.get();
    let mut play = Play::new(CANDIDATE, None);
    play.lists(0, listed(&[last - 1]));
    play.gets(last - 1, sealed(7, EpochEnd::Resigned));
    play.nonce(1);
    play.creates(last, 1, 1, done("c"));
    play.lists(last, listed(&[]));
    play.input(Input::LookDue);
    play.waits(Wait::Lead);
}

/// In this test, a person edits the leader's object, and keeps its nonce and heartbeat. The leader
/// must not accept this body as its own write, and must lose the epoch.
#[test]
fn regression_another_body_with_the_known_heartbeat_is_a_loss() {
    let mut play = in_doubt();
    play.pauses();
    play.renews("c", 3, Answer::Refused);
    play.gets(2, held(1, 1, "edited"));
    assert_eq!(play.event, lost(Lost::Tampered));
}

#[test]
fn the_end_of_the_lease_is_final_during_any_request() {
    let mut renewing = Play::leading();
    renewing.input(Input::RenewDue);
    let mut resigning = Play::leading();
    resigning.input(Input::Resign);
    for mut play in [Play::leading(), in_doubt(), renewing, resigning] {
        play.input(Input::LeaseEnded);
        assert_eq!(play.event, lost(Lost::LeaseEnded));
        play.waits(Wait::Over);
        play.input(Input::Answer(done("late")));
        assert_eq!(play.event, None);
        play.waits(Wait::Over);
    }
}

#[test]
fn a_resignation_is_repeated_after_a_late_own_renewal() {
    let mut play = in_doubt();
    play.input(Input::Resign);
    play.seals(2, "c", EpochEnd::Resigned, Answer::Refused);
    play.gets(2, held(1, 2, "landed"));
    play.seals(2, "landed", EpochEnd::Resigned, done("s"));
    assert_eq!(play.event, lost(Lost::Resigned));
}

#[test]
fn a_resignation_of_unknown_effect_is_read_back() {
    let mut play = Play::leading();
    play.input(Input::Resign);
    play.seals(2, "c", EpochEnd::Resigned, Answer::Unknown);
    play.pauses();
    play.seals(2, "c", EpochEnd::Resigned, Answer::Refused);
    let mut sealed_by_me = play.clone();
    sealed_by_me.gets(2, sealed(1, EpochEnd::Resigned));
    assert_eq!(sealed_by_me.event, lost(Lost::Resigned));
    play.gets(2, sealed(1, EpochEnd::Deposed));
    assert_eq!(play.event, lost(Lost::Sealed(EpochEnd::Deposed)));
}

#[test]
fn a_resignation_waits_for_the_request_under_way() {
    let mut play = Play::leading();
    play.input(Input::RenewDue);
    play.input(Input::Resign);
    play.renews("c", 2, done("d"));
    // The driver sends `Resign` again until the leadership has ended.
    play.input(Input::Resign);
    play.seals(2, "d", EpochEnd::Resigned, done("s"));
}

/// The store refuses the seal of a resignation although the object is unchanged. Before the fix,
/// the leader repeated the seal and the GET, and never paused.
#[test]
fn regression_an_unexplained_refusal_of_a_resignation_does_not_spin() {
    let mut play = Play::leading();
    play.input(Input::Resign);
    play.seals(2, "c", EpochEnd::Resigned, Answer::Refused);
    play.gets(2, held(1, 1, "c"));
    play.pauses();
    play.seals(2, "c", EpochEnd::Resigned, done("s"));
    assert_eq!(play.event, lost(Lost::Resigned));
}

#[test]
fn a_read_of_the_next_epoch_detects_a_peer_that_does_not_seal() {
    for answer in [foreign("m", false, false), sealed(9, EpochEnd::Lapsed), Answer::Unreadable] {
        let mut play = Play::leading();
        play.input(Input::LookDue);
        play.gets(3, answer);
        assert_eq!(play.event, lost(Lost::Superseded(e(3))));
        assert_eq!(play.machine.greatest(), Some(e(3)));
    }
    for nothing in [Answer::Missing, Answer::Unknown, Answer::Denied] {
        let mut play = Play::leading();
        play.input(Input::LookDue);
        play.gets(3, nothing);
        assert_eq!(play.event, None);
        play.waits(Wait::Lead);
    }
}

#[test]
fn a_verified_renewal_counts_only_after_a_listing() {
    let mut play = Play::leading();
    play.machine.rules = Rules { verify_renewals: true, ..CANDIDATE };
    play.input(Input::RenewDue);
    play.renews("c", 2, done("d"));
    assert_eq!(play.event, None);
    let mut superseded = play.clone();
    superseded.lists(2, listed(&[5]));
    assert_eq!(superseded.event, lost(Lost::Superseded(e(5))));
    let mut unanswered = play.clone();
    unanswered.lists(2, Answer::Unknown);
    unanswered.pauses();
    unanswered.renews("d", 3, done("f"));
    unanswered.lists(2, listed(&[]));
    assert_eq!(unanswered.event, extended(3));
    let mut read_back = play.clone();
    read_back.lists(2, Answer::Unknown);
    read_back.pauses();
    read_back.renews("d", 3, Answer::Unknown);
    read_back.pauses();
    read_back.renews("d", 4, Answer::Refused);
    read_back.gets(2, held(1, 3, "landed"));
    assert_eq!(read_back.event, None);
    read_back.lists(2, listed(&[]));
    assert_eq!(read_back.event, extended(3));
    play.lists(2, listed(&[]));
    assert_eq!(play.event, extended(2));
}

#[test]
fn a_late_grant_is_sealed() {
    let mut play = Play::leading();
    play.input(Input::Abandon);
    play.seals(2, "c", EpochEnd::Lapsed, done("s"));
    play.lists(1, listed(&[2]));
    play.gets(2, sealed(1, EpochEnd::Lapsed));
    play.nonce(5);
    play.creates(3, 5, 1, done("x"));
}

/// The driver abandons a grant during the first renewal. Before the fix, the machine ignored the
/// input `Abandon` and continued to lead, although no caller knew of this leadership. A random walk
/// found this defect.
#[test]
fn regression_a_grant_can_be_abandoned_during_a_renewal() {
    let mut play = Play::leading();
    play.input(Input::RenewDue);
    play.input(Input::Abandon);
    play.seals(2, "c", EpochEnd::Lapsed, Answer::Refused);
    play.lists(1, listed(&[2]));
    play.gets(2, held(1, 2, "landed"));
    play.waits(Wait::Follow);
}
