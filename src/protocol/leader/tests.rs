use super::*;
use crate::protocol::message::Rules;
use crate::protocol::testing::*;

fn extended(heartbeat: u64) -> Option<Event> {
    Some(Event::Extended { heartbeat })
}

fn lost(lost: Lost) -> Option<Event> {
    Some(Event::Lost(lost))
}

/// A leader whose first renewal, heartbeat 2, has no known fate.
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
fn a_retried_renewal_has_a_body_of_its_own() {
    let mut play = in_doubt();
    play.pauses();
    play.renews("c", 3, Answer::Denied);
    play.pauses();
    play.renews("c", 4, done("d"));
    assert_eq!(play.event, extended(4));
}

#[test]
fn a_renewal_refused_by_an_own_earlier_one_adopts_that_one() {
    let mut play = in_doubt();
    play.pauses();
    play.renews("c", 3, Answer::Refused);
    assert_eq!(play.event, None);
    play.gets(2, held(1, 2, "landed"));
    // The lease counts from the attempt that landed.
    assert_eq!(play.event, extended(2));
    play.input(Input::RenewDue);
    play.renews("landed", 4, done("d"));
}

#[test]
fn a_refusal_of_unknown_reason_is_tried_again_after_a_pause() {
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
fn a_seal_by_anybody_is_a_loss_with_its_word() {
    for ended in [EpochEnd::Lapsed, EpochEnd::Deposed, EpochEnd::Unknown, EpochEnd::Resigned] {
        let mut play = in_doubt();
        play.pauses();
        play.renews("c", 3, Answer::Refused);
        play.gets(2, sealed(1, ended));
        assert_eq!(play.event, lost(Lost::Sealed(ended)));
        play.waits(Wait::Over);
    }
}

#[test]
fn an_object_that_is_gone_is_a_loss() {
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

/// As with an SDK that sends a request twice: the second is refused because of the first.
#[test]
fn a_renewal_refused_by_its_own_first_sending_is_adopted() {
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

#[test]
fn what_this_leader_never_wrote_is_a_loss() {
    let never = [held(9, 2, "x"), held(1, 4, "x"), foreign("x", false, false), Answer::Unreadable];
    for answer in never {
        let mut play = in_doubt();
        play.pauses();
        play.renews("c", 3, Answer::Refused);
        play.gets(2, answer);
        assert_eq!(play.event, lost(Lost::Tampered));
    }
}

/// Somebody edited the object by hand and left nonce and heartbeat as they were.
#[test]
fn regression_another_body_with_the_known_heartbeat_is_not_adopted() {
    let mut play = in_doubt();
    play.pauses();
    play.renews("c", 3, Answer::Refused);
    play.gets(2, held(1, 1, "edited"));
    assert_eq!(play.event, lost(Lost::Tampered));
}

#[test]
fn the_end_of_the_lease_is_final_whatever_is_under_way() {
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
fn a_resignation_seals_and_is_over() {
    let mut play = Play::leading();
    play.input(Input::Resign);
    play.seals(2, "c", EpochEnd::Resigned, done("s"));
    assert_eq!(play.event, lost(Lost::Resigned));
}

#[test]
fn a_resignation_that_lost_to_an_own_renewal_seals_that_one() {
    let mut play = in_doubt();
    play.input(Input::Resign);
    play.seals(2, "c", EpochEnd::Resigned, Answer::Refused);
    play.gets(2, held(1, 2, "landed"));
    play.seals(2, "landed", EpochEnd::Resigned, done("s"));
    assert_eq!(play.event, lost(Lost::Resigned));
}

#[test]
fn a_resignation_of_unknown_fate_is_read_back() {
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
    // The driver tells it again as long as it leads.
    play.input(Input::Resign);
    play.seals(2, "d", EpochEnd::Resigned, done("s"));
}

/// The refusal has no reason that shows: without a pause this is a loop of two requests.
#[test]
fn regression_a_resignation_refused_for_no_reason_does_not_spin() {
    let mut play = Play::leading();
    play.input(Input::Resign);
    play.seals(2, "c", EpochEnd::Resigned, Answer::Refused);
    play.gets(2, held(1, 1, "c"));
    play.pauses();
    play.seals(2, "c", EpochEnd::Resigned, done("s"));
    assert_eq!(play.event, lost(Lost::Resigned));
}

#[test]
fn a_look_at_the_next_epoch_finds_a_peer_that_does_not_seal() {
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
    play.lists(2, listed(&[]));
    assert_eq!(play.event, extended(2));
}

#[test]
fn a_grant_that_comes_too_late_to_use_is_sealed() {
    let mut play = Play::leading();
    play.input(Input::Abandon);
    play.seals(2, "c", EpochEnd::Lapsed, done("s"));
    play.lists(1, listed(&[2]));
    play.gets(2, sealed(1, EpochEnd::Lapsed));
    play.nonce(5);
    play.creates(3, 5, 1, done("x"));
}

/// Found by a random walk. A renewal before the report that outlived the lease was abandoned while
/// under way; the machine went on leading an epoch that nobody had been told of, for ever.
#[test]
fn regression_abandoning_while_a_renewal_is_under_way() {
    let mut play = Play::leading();
    play.input(Input::RenewDue);
    play.input(Input::Abandon);
    play.seals(2, "c", EpochEnd::Lapsed, Answer::Refused);
    play.lists(1, listed(&[2]));
    play.gets(2, held(1, 2, "landed"));
    play.waits(Wait::Follow);
}
