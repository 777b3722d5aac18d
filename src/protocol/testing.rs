//! Helpers for tests of the state machine.

use super::candidate::Candidate;
use super::find::{After, Listing};
use super::message::{Answer, EpochEnd, Nonce, Request, Seen, Sighting, Step, Wait, Write};
use super::message::{Event, Input, Rules};
use crate::epoch::Epoch;
use crate::store::etag::ETag;

pub(super) const CANDIDATE: Rules =
    Rules { observer: false, verify_renewals: false, takeover_delay: false };
pub(super) const OBSERVER: Rules = Rules { observer: true, ..CANDIDATE };

pub(super) fn e(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

pub(super) fn n(bits: u128) -> Nonce {
    Nonce::from_bits(bits)
}

pub(super) fn tag(text: &str) -> ETag {
    ETag::new(text)
}

/// Returns an answer to a LIST: one page that shows these epochs.
pub(super) fn listed(epochs: &[u64]) -> Answer {
    let epochs = epochs.first().map(|first| (e(*first), e(*epochs.last().unwrap())));
    Answer::Listed(Listing { epochs, rest: None })
}

/// Returns the answer to a GET. [`Play::gets`] sets the epoch of the record.
pub(super) fn found(etag: &str, seen: Seen, touched: bool) -> Answer {
    let sighting = Sighting { epoch: Epoch::FIRST, etag: tag(etag), seen };
    Answer::Found { sighting, touched }
}

/// Returns the answer to a GET that shows an unsealed record of another candidate.
pub(super) fn held(nonce: u128, heartbeat: u64, etag: &str) -> Answer {
    let seen = Seen { nonce: Some(n(nonce)), heartbeat, ended: None, reclaimable: false };
    found(etag, seen, false)
}

pub(super) fn sealed(nonce: u128, ended: EpochEnd) -> Answer {
    let seen = Seen { nonce: Some(n(nonce)), heartbeat: 9, ended: Some(ended), reclaimable: false };
    found("sealed", seen, false)
}

/// Returns the answer to a GET that shows the record of a peer that follows Morling's post. This
/// record has only the fields `expired` and `validity_ms`.
pub(super) fn foreign(etag: &str, expired: bool, touched: bool) -> Answer {
    let ended = expired.then_some(EpochEnd::Unknown);
    let seen = Seen { nonce: None, heartbeat: 0, ended, reclaimable: false };
    found(etag, seen, touched)
}

pub(super) fn done(etag: &str) -> Answer {
    Answer::Done { etag: tag(etag) }
}

/// A state machine and its last event. The short methods check the current step and pass an input.
#[derive(Debug, Clone)]
pub(super) struct Play {
    pub(super) machine: Candidate,
    pub(super) event: Option<Event>,
}

impl Play {
    pub(super) fn new(rules: Rules, greatest: Option<u64>) -> Play {
        Play { machine: Candidate::new(rules, greatest.map(e)), event: None }
    }

    /// Returns a candidate that follows epoch 1, with nonce 7 and ETag `a`.
    pub(super) fn following() -> Play {
        let mut play = Play::new(CANDIDATE, None);
        play.lists(0, listed(&[1]));
        play.gets(1, held(7, 1, "a"));
        play.waits(Wait::Follow);
        play
    }

    /// Returns a candidate that is about to send its first create of epoch 2, with nonce 1.
    pub(super) fn creating() -> Play {
        let mut play = Play::following();
        play.input(Input::Lapsed);
        play.seals(1, "a", EpochEnd::Lapsed, done("s"));
        play.nonce(1);
        play
    }

    /// Returns the leader of epoch 2, with nonce 1, heartbeat 1 and ETag `c`.
    pub(super) fn leading() -> Play {
        let mut play = Play::creating();
        play.creates(2, 1, 1, done("c"));
        play.lists(2, listed(&[]));
        assert_eq!(play.event, Some(Event::Granted { epoch: e(2), heartbeat: 1 }));
        play.waits(Wait::Lead);
        play
    }

    #[track_caller]
    pub(super) fn input(&mut self, input: Input) {
        self.event = self.machine.handle(input);
    }

    #[track_caller]
    pub(super) fn asks(&mut self, request: Request, answer: Answer) {
        assert_eq!(self.machine.step(), Step::Request(request), "{:#?}", self.machine);
        self.input(Input::Answer(answer));
    }

    #[track_caller]
    pub(super) fn lists(&mut self, after: u64, answer: Answer) {
        self.asks(Request::List(After::Number(after)), answer);
    }

    #[track_caller]
    pub(super) fn gets(&mut self, epoch: u64, answer: Answer) {
        self.asks_for(epoch, None, answer);
    }

    #[track_caller]
    pub(super) fn polls(&mut self, epoch: u64, unless: &str, answer: Answer) {
        self.input(Input::PollDue);
        self.asks_for(epoch, Some(tag(unless)), answer);
    }

    #[track_caller]
    fn asks_for(&mut self, epoch: u64, unless: Option<ETag>, mut answer: Answer) {
        if let Answer::Found { sighting, .. } = &mut answer {
            sighting.epoch = e(epoch);
        }
        self.asks(Request::Get { epoch: Some(e(epoch)), unless }, answer);
    }

    #[track_caller]
    pub(super) fn nonce(&mut self, nonce: u128) {
        assert_eq!(self.machine.step(), Step::Nonce, "{:#?}", self.machine);
        self.input(Input::Nonce(n(nonce)));
    }

    #[track_caller]
    pub(super) fn creates(&mut self, epoch: u64, nonce: u128, heartbeat: u64, answer: Answer) {
        let write = Write { nonce: n(nonce), heartbeat };
        self.asks(Request::Create { epoch: e(epoch), write }, answer);
    }

    #[track_caller]
    pub(super) fn renews(&mut self, etag: &str, heartbeat: u64, answer: Answer) {
        let write = Write { nonce: n(1), heartbeat };
        self.asks(Request::Renew { epoch: e(2), etag: tag(etag), write }, answer);
    }

    /// Checks that the next step is a seal with any heartbeat, and passes the answer to the
    /// machine.
    #[track_caller]
    pub(super) fn seals(&mut self, epoch: u64, etag: &str, ended: EpochEnd, answer: Answer) {
        match self.machine.step() {
            Step::Request(Request::Seal {
                epoch: sealed, etag: condition, ended: word, ..
            }) => {
                assert_eq!((sealed, condition, word), (e(epoch), tag(etag), ended));
            }
            other => panic!("expected a seal, got {other:?}"),
        }
        self.input(Input::Answer(answer));
    }

    #[track_caller]
    pub(super) fn waits(&self, wait: Wait) {
        assert_eq!(self.machine.step(), Step::Wait(wait), "{:#?}", self.machine);
    }

    /// Checks that the next step is a pause, and ends the pause.
    #[track_caller]
    pub(super) fn pauses(&mut self) {
        self.waits(Wait::Retry);
        self.input(Input::Resume);
    }
}
