use super::*;
use crate::protocol::message::Lost;

mod leading;

const CANDIDATE: Rules = Rules { observer: false, verify_renewals: false, takeover_delay: false };
const OBSERVER: Rules = Rules { observer: true, ..CANDIDATE };

fn e(number: u64) -> Epoch {
    Epoch::token(number).unwrap()
}

fn n(bits: u128) -> Nonce {
    Nonce::from_bits(bits)
}

/// Returns the answer to a GET of the object. With nonce 0, the body has only the fields
/// `expires_at` and `token`.
fn lock(epoch: u64, nonce: u128, heartbeat: u64, etag: &str, ended: Option<EpochEnd>) -> Answer {
    let nonce = (nonce != 0).then(|| n(nonce));
    let seen = Seen { nonce, heartbeat, ended, reclaimable: false };
    let sighting = Sighting { epoch: e(epoch), etag: ETag::new(etag), seen };
    Answer::Found { sighting, touched: false }
}

fn held(epoch: u64, nonce: u128, heartbeat: u64, etag: &str) -> Answer {
    lock(epoch, nonce, heartbeat, etag, None)
}

fn released(epoch: u64, etag: &str) -> Answer {
    lock(epoch, 9, 3, etag, Some(EpochEnd::Resigned))
}

fn done(etag: &str) -> Answer {
    Answer::Done { etag: ETag::new(etag) }
}

/// A state machine and its last event. The short methods check the current step and pass an input.
struct SinglePlay {
    machine: SingleCandidate,
    event: Option<Event>,
}

impl SinglePlay {
    fn new(rules: Rules, greatest: Option<u64>) -> SinglePlay {
        SinglePlay { machine: SingleCandidate::new(rules, greatest.map(e)), event: None }
    }

    /// Returns a candidate that follows epoch 4, with nonce 9 and ETag `a`.
    fn following() -> SinglePlay {
        let mut play = SinglePlay::new(CANDIDATE, None);
        play.looks(held(4, 9, 2, "a"));
        play.waits(Wait::Follow);
        play
    }

    /// Returns the leader of epoch 5, with nonce 1, heartbeat 1 and ETag `c`.
    fn leading() -> SinglePlay {
        let mut play = SinglePlay::following();
        play.input(Input::Lapsed);
        play.takes(5, "a", 1, 1, done("c"));
        assert_eq!(play.event, Some(Event::Granted { epoch: e(5), heartbeat: 1 }));
        play.waits(Wait::Lead);
        play
    }

    fn input(&mut self, input: Input) {
        self.event = self.machine.handle(input);
    }

    #[track_caller]
    fn asks(&mut self, request: Request, answer: Answer) {
        assert_eq!(self.machine.step(), Step::Request(request), "{:#?}", self.machine);
        self.input(Input::Answer(answer));
    }

    #[track_caller]
    fn looks(&mut self, answer: Answer) {
        self.asks(Request::Get { epoch: None, unless: None }, answer);
    }

    #[track_caller]
    fn polls(&mut self, unless: &str, answer: Answer) {
        self.input(Input::PollDue);
        self.asks(Request::Get { epoch: None, unless: Some(ETag::new(unless)) }, answer);
    }

    #[track_caller]
    fn creates(&mut self, nonce: u128, heartbeat: u64, answer: Answer) {
        assert_eq!(self.machine.step(), Step::Nonce, "{:#?}", self.machine);
        self.input(Input::Nonce(n(nonce)));
        let write = Write { nonce: n(nonce), heartbeat };
        self.asks(Request::Create { epoch: e(1), write }, answer);
    }

    #[track_caller]
    fn takes(&mut self, epoch: u64, etag: &str, nonce: u128, heartbeat: u64, answer: Answer) {
        assert_eq!(self.machine.step(), Step::Nonce, "{:#?}", self.machine);
        self.input(Input::Nonce(n(nonce)));
        let write = Write { nonce: n(nonce), heartbeat };
        self.asks(Request::Take { epoch: e(epoch), etag: ETag::new(etag), write }, answer);
    }

    #[track_caller]
    fn renews(&mut self, etag: &str, heartbeat: u64, answer: Answer) {
        let write = Write { nonce: n(1), heartbeat };
        self.asks(Request::Renew { epoch: e(5), etag: ETag::new(etag), write }, answer);
    }

    #[track_caller]
    fn seals(&mut self, etag: &str, heartbeat: u64, ended: EpochEnd, answer: Answer) {
        let (etag, nonce) = (ETag::new(etag), Some(n(1)));
        self.asks(Request::Seal { epoch: e(5), etag, nonce, heartbeat, ended }, answer);
    }

    #[track_caller]
    fn waits(&self, wait: Wait) {
        assert_eq!(self.machine.step(), Step::Wait(wait), "{:#?}", self.machine);
    }

    #[track_caller]
    fn pauses(&mut self) {
        self.waits(Wait::Retry);
        self.input(Input::Resume);
    }
}

#[test]
fn the_first_candidate_creates_the_object_and_leads() {
    let mut play = SinglePlay::new(CANDIDATE, None);
    play.looks(Answer::Missing);
    play.creates(1, 1, done("c"));
    assert_eq!(play.event, Some(Event::Granted { epoch: e(1), heartbeat: 1 }));
    play.waits(Wait::Lead);
}

#[test]
fn a_released_lock_is_taken_over_immediately_with_the_next_token() {
    let mut play = SinglePlay::new(CANDIDATE, None);
    play.looks(released(7, "r"));
    play.takes(8, "r", 1, 1, done("c"));
    assert_eq!(play.event, Some(Event::Granted { epoch: e(8), heartbeat: 1 }));
    assert_eq!(play.machine.greatest(), Some(e(8)));
}

#[test]
fn a_lock_that_a_peer_released_is_taken_over_from_token_zero() {
    let mut play = SinglePlay::new(CANDIDATE, None);
    play.looks(lock(0, 0, 0, "r", Some(EpochEnd::Resigned)));
    play.takes(1, "r", 1, 1, done("c"));
    assert_eq!(play.event, Some(Event::Granted { epoch: e(1), heartbeat: 1 }));
}

#[test]
fn a_holder_is_overwritten_only_after_its_lapse() {
    let mut play = SinglePlay::following();
    play.polls("a", Answer::NotModified);
    play.waits(Wait::Follow);
    play.polls("a", held(4, 9, 3, "b"));
    play.waits(Wait::Follow);
    play.input(Input::Lapsed);
    play.takes(5, "b", 1, 1, done("c"));
    assert_eq!(play.event, Some(Event::Granted { epoch: e(5), heartbeat: 1 }));
}

#[test]
fn the_loser_of_a_race_follows_the_winner() {
    let mut play = SinglePlay::following();
    play.input(Input::Lapsed);
    play.takes(5, "a", 1, 1, Answer::Refused);
    play.looks(held(5, 8, 1, "w"));
    assert_eq!(play.event, None);
    play.waits(Wait::Follow);
    assert_eq!(play.machine.followed().unwrap().epoch, e(5));
}

#[test]
fn a_takeover_with_a_lost_answer_is_found_by_its_nonce() {
    let mut play = SinglePlay::following();
    play.input(Input::Lapsed);
    play.takes(5, "a", 1, 1, Answer::Unknown);
    play.pauses();
    // The first attempt to take over may still take effect.
    play.looks(held(4, 9, 2, "a"));
    play.pauses();
    play.takes(5, "a", 2, 2, Answer::Refused);
    play.looks(held(5, 1, 1, "c"));
    assert_eq!(play.event, Some(Event::Granted { epoch: e(5), heartbeat: 1 }));
    play.input(Input::RenewDue);
    play.renews("c", 3, done("d"));
    assert_eq!(play.event, Some(Event::Extended { heartbeat: 3 }));
}

#[test]
fn a_create_with_a_lost_answer_is_found_by_its_nonce() {
    let mut play = SinglePlay::new(CANDIDATE, None);
    play.looks(Answer::Missing);
    play.creates(1, 1, Answer::Unknown);
    play.pauses();
    play.looks(Answer::Missing);
    play.pauses();
    play.creates(2, 2, Answer::Refused);
    play.looks(held(1, 1, 1, "c"));
    assert_eq!(play.event, Some(Event::Granted { epoch: e(1), heartbeat: 1 }));
}

#[test]
fn an_epoch_that_was_deposed_before_the_answer_to_its_takeover_is_not_granted() {
    let mut play = SinglePlay::following();
    play.input(Input::Lapsed);
    play.takes(5, "a", 1, 1, Answer::Unknown);
    play.pauses();
    play.looks(lock(5, 1, 2, "s", Some(EpochEnd::Deposed)));
    assert_eq!(play.event, None);
    play.waits(Wait::Deposed);
    play.input(Input::Lapsed);
    play.takes(6, "s", 2, 1, done("c"));
}

#[test]
fn a_peer_that_copies_a_nonce_under_its_own_token_is_followed() {
    let mut play = SinglePlay::following();
    play.input(Input::Lapsed);
    play.takes(5, "a", 1, 1, Answer::Unknown);
    play.pauses();
    play.looks(held(6, 1, 1, "p"));
    assert_eq!(play.event, None);
    play.waits(Wait::Follow);
}

#[test]
fn an_unexplained_refusal_of_a_takeover_does_not_spin() {
    let mut play = SinglePlay::following();
    play.input(Input::Lapsed);
    for attempt in 1..=16 {
        play.takes(5, "a", u128::from(attempt), attempt, Answer::Refused);
        play.looks(held(4, 9, 2, "a"));
        play.pauses();
    }
    // After the last attempt the candidate follows the holder again.
    play.waits(Wait::Follow);
}

#[test]
fn the_number_of_unanswered_creates_is_bounded() {
    let mut play = SinglePlay::new(CANDIDATE, None);
    play.looks(Answer::Missing);
    for attempt in 1..=16 {
        play.creates(u128::from(attempt), attempt, Answer::Unknown);
        play.pauses();
        play.looks(Answer::Missing);
        play.pauses();
    }
    play.creates(17, 1, done("c"));
    assert_eq!(play.event, Some(Event::Granted { epoch: e(1), heartbeat: 1 }));
}

#[test]
fn a_candidate_waits_for_a_deposed_holder_but_not_for_a_lapsed_one() {
    for (word, waits) in
        [(EpochEnd::Deposed, true), (EpochEnd::Unknown, true), (EpochEnd::Lapsed, false)]
    {
        let mut play = SinglePlay::new(CANDIDATE, None);
        play.looks(lock(4, 9, 3, "s", Some(word)));
        if waits {
            play.waits(Wait::Deposed);
            play.input(Input::PollDue);
            play.looks(lock(4, 9, 3, "s", Some(word)));
            play.input(Input::Lapsed);
        }
        play.takes(5, "s", 1, 1, done("c"));
    }
}

#[test]
fn the_takeover_delay_follows_a_lapse_and_not_a_release() {
    let rules = Rules { takeover_delay: true, ..CANDIDATE };
    let mut play = SinglePlay::new(rules, None);
    play.looks(lock(4, 9, 3, "s", Some(EpochEnd::Lapsed)));
    play.waits(Wait::Takeover);
    play.input(Input::TakeoverOver);
    play.takes(5, "s", 1, 1, done("c"));
    let mut play = SinglePlay::new(rules, None);
    play.looks(released(4, "r"));
    play.takes(5, "r", 1, 1, done("c"));
    // A peer that writes only the fields `expires_at` and `token` has released the lock.
    let mut play = SinglePlay::new(rules, None);
    play.looks(lock(4, 0, 0, "r", Some(EpochEnd::Unknown)));
    play.takes(5, "r", 1, 1, done("c"));
}

#[test]
fn an_object_below_the_greatest_token_seen_is_never_taken_over() {
    for older in [Answer::Missing, released(3, "o"), held(2, 8, 1, "o")] {
        let mut play = SinglePlay::new(CANDIDATE, Some(4));
        play.looks(older.clone());
        play.pauses();
        play.looks(older);
        assert_eq!(play.machine.step(), Step::Failed(Failure::NewestDeleted(e(4))));
    }
    // If only one read finds no object, the campaign continues.
    let mut play = SinglePlay::following();
    play.polls("a", Answer::Missing);
    play.pauses();
    play.looks(held(4, 9, 2, "a"));
    play.waits(Wait::Follow);
}

#[test]
fn the_last_token_has_no_successor() {
    let mut play = SinglePlay::new(CANDIDATE, None);
    play.looks(released(9_999_999_999, "r"));
    assert_eq!(play.machine.step(), Step::Failed(Failure::Exhausted));
}

#[test]
fn an_unreadable_record_is_never_taken_over() {
    let mut play = SinglePlay::following();
    play.polls("a", Answer::Unreadable);
    assert_eq!(play.machine.step(), Step::Failed(Failure::Unreadable(e(4))));
}

#[test]
fn an_observer_never_writes() {
    let mut play = SinglePlay::new(OBSERVER, None);
    play.looks(Answer::Missing);
    play.waits(Wait::NoLeader);
    play.input(Input::PollDue);
    play.looks(held(4, 9, 1, "a"));
    play.waits(Wait::Follow);
    play.input(Input::Lapsed);
    play.asks(Request::Get { epoch: None, unless: Some(ETag::new("a")) }, Answer::NotModified);
    play.waits(Wait::Follow);
    play.polls("a", released(4, "r"));
    play.waits(Wait::NoLeader);
    // The record has the observer's own unique name. The observer still does not overwrite the
    // object.
    let seen = Seen { nonce: Some(n(9)), heartbeat: 1, ended: None, reclaimable: true };
    play.input(Input::PollDue);
    let sighting = Sighting { epoch: e(5), etag: ETag::new("b"), seen };
    play.looks(Answer::Found { sighting, touched: false });
    play.waits(Wait::Follow);
}

#[test]
fn an_unexpected_answer_changes_nothing() {
    let mut play = SinglePlay::leading();
    play.input(Input::Answer(Answer::Missing));
    play.input(Input::LookDue);
    play.waits(Wait::Lead);
    play.input(Input::LeaseEnded);
    assert_eq!(play.event, Some(Event::Lost(Lost::LeaseEnded)));
}

#[test]
fn a_denied_takeover_keeps_the_earlier_nonces() {
    let mut play = SinglePlay::following();
    play.input(Input::Lapsed);
    play.takes(5, "a", 1, 1, Answer::Unknown);
    play.pauses();
    play.looks(held(4, 9, 2, "a"));
    play.pauses();
    play.takes(5, "a", 2, 2, Answer::Denied);
    assert_eq!(play.machine.step(), Step::Failed(Failure::Denied));
    play.input(Input::Resume);
    play.looks(held(5, 1, 1, "c"));
    assert_eq!(play.event, Some(Event::Granted { epoch: e(5), heartbeat: 1 }));
}
