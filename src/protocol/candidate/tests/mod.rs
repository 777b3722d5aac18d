mod regressions;
mod spin;

use super::*;
use crate::protocol::find::After;
use crate::protocol::testing::*;

#[test]
fn a_follower_polls_with_the_last_etag_and_seals_a_lapsed_epoch() {
    let mut play = Play::following();
    play.polls(1, "a", Answer::NotModified);
    play.waits(Wait::Follow);
    play.polls(1, "a", held(7, 2, "b"));
    play.waits(Wait::Follow);
    play.polls(1, "b", Answer::Unknown);
    play.pauses();
    play.input(Input::Lapsed);
    play.seals(1, "b", EpochEnd::Lapsed, done("s"));
    assert_eq!(play.machine.step(), Step::Nonce);
}

#[test]
fn a_missing_epoch_or_another_nonce_starts_a_new_search() {
    for answer in [Answer::Missing, held(8, 1, "b"), foreign("b", false, false)] {
        let mut play = Play::following();
        play.polls(1, "a", answer);
        play.lists(0, listed(&[3]));
        play.gets(3, held(9, 1, "x"));
        assert_eq!(play.machine.greatest(), Some(e(3)));
    }
}

#[test]
fn a_refused_seal_is_read_back_and_a_renewed_lease_is_followed() {
    let mut play = Play::following();
    play.input(Input::Lapsed);
    play.seals(1, "a", EpochEnd::Lapsed, Answer::Refused);
    play.pauses();
    play.gets(1, held(7, 2, "b"));
    play.waits(Wait::Follow);
    assert_eq!(play.machine.followed().unwrap().etag, tag("b"));
}

#[test]
fn a_seal_of_unknown_effect_is_read_back() {
    let mut play = Play::following();
    play.input(Input::Lapsed);
    play.seals(1, "a", EpochEnd::Lapsed, Answer::Unknown);
    play.pauses();
    let mut done = play.clone();
    done.gets(1, sealed(7, EpochEnd::Lapsed));
    assert_eq!(done.machine.step(), Step::Nonce);
    play.gets(1, held(7, 1, "a"));
    play.waits(Wait::Follow);
}

#[test]
fn a_seal_of_a_compacted_epoch_starts_a_new_search() {
    let mut play = Play::following();
    play.input(Input::Lapsed);
    play.seals(1, "a", EpochEnd::Lapsed, Answer::Missing);
    play.pauses();
    play.lists(0, listed(&[4]));
}

#[test]
fn an_unanswered_create_counts_after_the_next_create_is_refused() {
    let mut play = Play::creating();
    play.creates(2, 1, 1, Answer::Unknown);
    play.pauses();
    play.nonce(2);
    play.creates(2, 2, 2, Answer::Refused);
    play.gets(2, held(1, 1, "c"));
    play.lists(2, listed(&[]));
    // The first create took effect, and the store refused the second create. So the lease starts at
    // the first create.
    assert_eq!(play.event, Some(Event::Granted { epoch: e(2), heartbeat: 1 }));
    play.input(Input::RenewDue);
    play.renews("c", 3, done("d"));
}

#[test]
fn a_denied_create_keeps_the_earlier_nonces() {
    let mut play = Play::creating();
    play.creates(2, 1, 1, Answer::Unknown);
    play.pauses();
    play.nonce(2);
    play.creates(2, 2, 2, Answer::Denied);
    assert_eq!(play.machine.step(), Step::Failed(Failure::Denied));
    play.input(Input::Resume);
    play.nonce(3);
    play.creates(2, 3, 3, Answer::Refused);
    play.gets(2, held(1, 1, "c"));
    play.lists(2, listed(&[]));
    assert_eq!(play.event, Some(Event::Granted { epoch: e(2), heartbeat: 1 }));
}

#[test]
fn each_create_attempt_has_a_fresh_nonce() {
    let mut play = Play::creating();
    for attempt in 1..MAX_CREATE_ATTEMPTS as u128 {
        play.creates(2, attempt, attempt as u64, Answer::Unknown);
        play.pauses();
        play.nonce(attempt + 1);
    }
    // After the last attempt the candidate searches for the newest epoch again.
    play.creates(2, 16, 16, Answer::Unknown);
    play.pauses();
    play.lists(0, listed(&[1, 2]));
    play.gets(2, held(3, 3, "c"));
    play.waits(Wait::Follow);
}

#[test]
fn a_create_by_another_process_is_followed() {
    let mut play = Play::creating();
    play.creates(2, 1, 1, Answer::Refused);
    play.gets(2, held(7, 1, "x"));
    assert_eq!(play.machine.greatest(), Some(e(2)));
    play.waits(Wait::Follow);
    // Only an unsealed record with a nonce shows that epoch 2 is the newest. If the candidate reads
    // any other record, it searches again.
    for answer in
        [foreign("x", false, false), sealed(1, EpochEnd::Lapsed), sealed(7, EpochEnd::Lapsed)]
    {
        let mut play = Play::creating();
        play.creates(2, 1, 1, Answer::Refused);
        play.gets(2, answer);
        assert_eq!(play.machine.greatest(), Some(e(2)));
        play.lists(1, listed(&[2]));
    }
}

#[test]
fn a_refused_create_of_a_compacted_epoch_starts_a_new_search() {
    let mut play = Play::creating();
    play.creates(2, 1, 1, Answer::Refused);
    play.gets(2, Answer::Unknown);
    play.pauses();
    play.gets(2, Answer::Missing);
    play.pauses();
    play.lists(0, listed(&[5]));
}

#[test]
fn a_compacted_epoch_that_is_created_again_is_not_granted() {
    let mut play = Play::creating();
    play.creates(2, 1, 1, done("c"));
    play.lists(2, listed(&[4, 9]));
    assert_eq!(play.event, None);
    play.seals(2, "c", EpochEnd::Lapsed, Answer::Unknown);
    play.lists(8, listed(&[9]));
    assert_eq!(play.machine.greatest(), Some(e(9)));
}

#[test]
fn a_confirmation_lists_past_foreign_keys_and_retries_unknown_answers() {
    let mut play = Play::creating();
    play.creates(2, 1, 1, done("c"));
    play.lists(2, Answer::Unknown);
    play.pauses();
    let backup = After::Key("lock-0000000002.json.bak".into());
    play.lists(2, Answer::Listed(Listing { epochs: None, rest: Some(backup.clone()) }));
    assert_eq!(play.event, None);
    play.asks(Request::List(backup), listed(&[3]));
    play.seals(2, "c", EpochEnd::Lapsed, done("s"));
}

#[test]
fn a_foreign_leader_is_polled_with_a_plain_get_and_read_before_the_seal() {
    let mut play = Play::new(CANDIDATE, None);
    play.lists(0, listed(&[1]));
    play.gets(1, foreign("m", false, false));
    play.input(Input::PollDue);
    play.gets(1, foreign("m", false, true));
    play.waits(Wait::Follow);
    play.input(Input::Lapsed);
    // The leader, a peer that does not use tenure, renews its record between the lapse and the
    // seal.
    play.gets(1, foreign("m", false, true));
    play.waits(Wait::Follow);
    play.input(Input::Lapsed);
    play.gets(1, foreign("m", false, false));
    play.seals(1, "m", EpochEnd::Lapsed, done("s"));
    assert_eq!(play.machine.step(), Step::Nonce);
}

/// A renewal by a peer that does not use tenure keeps the ETag of its record. So the condition of
/// the seal does not detect the renewal.
#[test]
fn a_denied_seal_is_sent_again_only_after_another_read() {
    let mut play = Play::new(CANDIDATE, None);
    play.lists(0, listed(&[1]));
    play.gets(1, foreign("m", false, false));
    play.input(Input::Lapsed);
    play.gets(1, foreign("m", false, false));
    play.seals(1, "m", EpochEnd::Lapsed, Answer::Denied);
    play.input(Input::Resume);
    play.gets(1, foreign("m", false, true));
    play.waits(Wait::Follow);
}

#[test]
fn a_missing_newest_epoch_is_searched_for_twice() {
    let mut play = Play::new(CANDIDATE, Some(5));
    play.lists(4, listed(&[]));
    play.pauses();
    let mut again = play.clone();
    again.lists(4, listed(&[5]));
    again.gets(5, held(7, 1, "a"));
    play.lists(4, listed(&[]));
    assert_eq!(play.machine.step(), Step::Failed(Failure::NewestDeleted(e(5))));
}

#[test]
fn a_denied_get_ends_the_campaign_only_if_the_epoch_is_listed() {
    let mut play = Play::following();
    play.polls(1, "a", Answer::Denied);
    let mut gone = play.clone();
    gone.lists(0, listed(&[3]));
    gone.gets(3, held(9, 1, "x"));
    let mut hidden = play.clone();
    hidden.lists(0, listed(&[]));
    hidden.pauses();
    hidden.lists(0, listed(&[1]));
    hidden.gets(1, held(7, 1, "a"));
    hidden.waits(Wait::Follow);
    play.lists(0, listed(&[1]));
    assert_eq!(play.machine.step(), Step::Failed(Failure::Denied));
}

/// A candidate tries to seal its own superseded epoch (E13). If the store denies this seal, the
/// campaign continues without the seal.
#[test]
fn a_denied_seal_of_an_own_epoch_does_not_end_the_campaign() {
    let mut play = Play::creating();
    play.creates(2, 1, 1, done("c"));
    play.lists(2, listed(&[3]));
    play.seals(2, "c", EpochEnd::Lapsed, Answer::Denied);
    play.lists(2, listed(&[3]));
    play.gets(3, held(9, 1, "x"));
    play.waits(Wait::Follow);
}

#[test]
fn an_observer_follows_and_never_writes() {
    let mut play = Play::new(OBSERVER, None);
    play.lists(0, listed(&[]));
    play.waits(Wait::NoLeader);
    play.input(Input::PollDue);
    play.lists(0, listed(&[1]));
    let seen = Seen { nonce: Some(n(7)), heartbeat: 4, ended: None, reclaimable: true };
    play.gets(1, found("a", seen, false));
    play.waits(Wait::Follow);
    // A peer that does not use tenure created epoch 2 and did not seal epoch 1. Only a LIST shows
    // epoch 2.
    play.input(Input::Lapsed);
    play.lists(0, listed(&[1, 2]));
    play.gets(2, sealed(8, EpochEnd::Deposed));
    play.waits(Wait::NoLeader);
}

#[test]
fn no_epoch_at_or_below_the_greatest_epoch_seen_is_created() {
    let mut play = Play::creating();
    play.machine.saw(e(2));
    play.machine.saw(e(1));
    play.machine.state = play.machine.succeed(Some(e(1)));
    play.lists(1, listed(&[2]));
}

#[test]
fn a_restart_keeps_the_greatest_epoch_seen() {
    let mut play = Play::leading();
    play.input(Input::LeaseEnded);
    play.machine.restart();
    play.lists(1, listed(&[2]));
}
