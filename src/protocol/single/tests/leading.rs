//! Tests of a leader in `Layout::SingleObject`, after its grant.

use super::*;

#[test]
fn a_renewal_with_a_lost_answer_counts() {
    let mut play = SinglePlay::leading();
    play.input(Input::RenewDue);
    play.renews("c", 2, Answer::Unknown);
    play.pauses();
    play.renews("c", 3, Answer::Refused);
    play.looks(held(5, 1, 2, "d"));
    assert_eq!(play.event, Some(Event::Extended { heartbeat: 2 }));
    play.input(Input::RenewDue);
    play.renews("d", 4, done("e"));
    assert_eq!(play.event, Some(Event::Extended { heartbeat: 4 }));
}

#[test]
fn a_refused_renewal_reports_the_reason_of_the_loss() {
    let by_another = lock(5, 1, 2, "s", Some(EpochEnd::Deposed));
    for (shown, lost) in [
        (held(6, 8, 1, "w"), Lost::Superseded(e(6))),
        (held(6, 0, 0, "w"), Lost::Superseded(e(6))),
        (by_another, Lost::Sealed(EpochEnd::Deposed)),
        (held(5, 8, 1, "w"), Lost::Tampered),
        (held(5, 0, 0, "w"), Lost::Tampered),
        (held(4, 1, 2, "w"), Lost::Tampered),
        (held(5, 1, 1, "w"), Lost::Tampered),
        (held(5, 1, 3, "w"), Lost::Tampered),
        (Answer::Unreadable, Lost::Tampered),
        (Answer::Missing, Lost::Vanished),
    ] {
        let mut play = SinglePlay::leading();
        play.input(Input::RenewDue);
        play.renews("c", 2, Answer::Refused);
        play.looks(shown);
        assert_eq!(play.event, Some(Event::Lost(lost)));
        play.waits(Wait::Over);
    }
    let mut play = SinglePlay::leading();
    play.input(Input::RenewDue);
    play.renews("c", 2, Answer::Missing);
    assert_eq!(play.event, Some(Event::Lost(Lost::Vanished)));
}

#[test]
fn a_superseded_leader_remembers_the_greater_token() {
    let mut play = SinglePlay::leading();
    play.input(Input::RenewDue);
    play.renews("c", 2, Answer::Refused);
    play.looks(held(9, 0, 0, "w"));
    play.machine.restart();
    assert_eq!(play.machine.greatest(), Some(e(9)));
}

#[test]
fn an_unexplained_refusal_of_a_renewal_does_not_spin() {
    let mut play = SinglePlay::leading();
    play.input(Input::RenewDue);
    play.renews("c", 2, Answer::Refused);
    play.looks(held(5, 1, 1, "c"));
    play.pauses();
    play.renews("c", 3, done("d"));
    assert_eq!(play.event, Some(Event::Extended { heartbeat: 3 }));
}

#[test]
fn a_resignation_keeps_the_token() {
    let mut play = SinglePlay::leading();
    play.input(Input::Resign);
    play.seals("c", 2, EpochEnd::Resigned, Answer::Unknown);
    play.pauses();
    play.seals("c", 3, EpochEnd::Resigned, Answer::Refused);
    play.looks(lock(5, 1, 2, "s", Some(EpochEnd::Resigned)));
    assert_eq!(play.event, Some(Event::Lost(Lost::Resigned)));
    play.machine.restart();
    play.looks(lock(5, 1, 2, "s", Some(EpochEnd::Resigned)));
    play.takes(6, "s", 2, 1, done("c"));
}

/// The leader's own renewal takes effect late, so the store refuses the seal of the resignation.
/// The leader repeats the seal with the ETag of that renewal.
#[test]
fn a_resignation_is_repeated_after_a_late_own_renewal() {
    let mut play = SinglePlay::leading();
    play.input(Input::RenewDue);
    play.renews("c", 2, Answer::Unknown);
    play.input(Input::Resign);
    play.seals("c", 3, EpochEnd::Resigned, Answer::Refused);
    play.looks(held(5, 1, 2, "d"));
    assert_eq!(play.event, None, "the lease of a leader that resigns is not extended");
    play.seals("d", 4, EpochEnd::Resigned, done("r"));
    assert_eq!(play.event, Some(Event::Lost(Lost::Resigned)));
}

#[test]
fn an_unused_grant_is_sealed() {
    let mut play = SinglePlay::leading();
    play.input(Input::RenewDue);
    play.input(Input::Abandon);
    play.seals("c", 3, EpochEnd::Lapsed, Answer::Unknown);
    play.looks(held(5, 1, 1, "c"));
    play.waits(Wait::Follow);
}

/// In `Layout::SingleObject`, a successor overwrites the object that the leader renews. So the next
/// renewal of the leader detects the successor.
#[test]
fn a_leader_sends_no_list_and_reads_no_next_epoch() {
    let mut play = SinglePlay::leading();
    play.machine.rules = Rules { verify_renewals: true, ..CANDIDATE };
    play.input(Input::LookDue);
    play.waits(Wait::Lead);
    play.input(Input::RenewDue);
    play.renews("c", 2, done("d"));
    assert_eq!(play.event, Some(Event::Extended { heartbeat: 2 }));
    play.waits(Wait::Lead);
}
