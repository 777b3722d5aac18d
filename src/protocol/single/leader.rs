//! The part of the state machine that leads: renew, read back, resign. There is nothing to look out
//! for besides: whoever supersedes this leader does so in the object that it renews.

use super::{Candidate, Next, State};
use crate::protocol::candidate::{Event, Input};
use crate::protocol::leader::{Found, Held};
use crate::protocol::message::{Answer, Lost, Request, Sighting, Step, Wait};

/// What a leader is doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    Idle,
    /// Overwrites with heartbeat `sent`.
    Renew,
    /// A write was refused: was it overtaken by my own earlier attempt?
    ReadBack,
    /// Ends the epoch with heartbeat `sent`; the token stays.
    Resign,
    /// The last write failed or its fate is unknown.
    Retry,
}

impl Doing {
    pub(super) fn step(&self, held: &Held) -> Step {
        Step::Request(match self {
            Doing::Idle => return Step::Wait(Wait::Lead),
            Doing::Retry => return Step::Wait(Wait::Retry),
            Doing::Renew => held.renew(),
            Doing::Resign => held.resign(),
            Doing::ReadBack => Request::Get { epoch: None, unless: None },
        })
    }
}

impl Candidate {
    pub(super) fn lead(&mut self, held: Held, doing: Doing, resigning: bool, input: Input) -> Next {
        match (doing, input) {
            (_, Input::LeaseEnded) => lose(Lost::LeaseEnded),
            // Also while a renewal is under way: a grant that is not used must not be kept.
            (_, Input::Abandon) => (State::GiveUp { held }, None),
            (Doing::Idle, Input::RenewDue) | (Doing::Retry, Input::Resume) => {
                (write(held, resigning), None)
            }
            (Doing::Idle | Doing::Retry, Input::Resign) => (write(held, true), None),
            (doing @ (Doing::Renew | Doing::Resign), Input::Answer(answer)) => {
                written(held, doing, resigning, answer)
            }
            (Doing::ReadBack, Input::Answer(answer)) => self.read_back(held, resigning, answer),
            (doing, _) => (State::Lead { held, doing, resigning }, None),
        }
    }

    fn read_back(&mut self, mut held: Held, resigning: bool, answer: Answer) -> Next {
        let Sighting { epoch, etag, seen } = match answer {
            Answer::Found { sighting, .. } => sighting,
            Answer::Missing => return lose(Lost::Vanished),
            Answer::Unreadable => return lose(Lost::Tampered),
            _ => return (State::Lead { held, doing: Doing::Retry, resigning }, None),
        };
        if epoch > held.epoch {
            self.saw(epoch);
            return lose(Lost::Superseded(epoch));
        }
        if epoch < held.epoch {
            return lose(Lost::Tampered);
        }
        match held.read_back(etag, &seen, resigning) {
            Found::Lost(lost) => lose(lost),
            Found::Unchanged => (State::Lead { held, doing: Doing::Retry, resigning }, None),
            Found::Adopted if resigning => (write(held, true), None),
            Found::Adopted => extended(held, resigning),
        }
    }
}

fn written(mut held: Held, doing: Doing, resigning: bool, answer: Answer) -> Next {
    match answer {
        Answer::Done { .. } if doing == Doing::Resign => lose(Lost::Resigned),
        Answer::Done { etag } => {
            held.etag = etag;
            held.heartbeat = held.sent;
            extended(held, resigning)
        }
        Answer::Refused => (State::Lead { held, doing: Doing::ReadBack, resigning }, None),
        Answer::Missing => lose(Lost::Vanished),
        _ => (State::Lead { held, doing: Doing::Retry, resigning }, None),
    }
}

fn extended(held: Held, resigning: bool) -> Next {
    let event = Event::Extended { heartbeat: held.heartbeat };
    (State::Lead { held, doing: Doing::Idle, resigning }, Some(event))
}

fn lose(lost: Lost) -> Next {
    (State::Over, Some(Event::Lost(lost)))
}

/// The next write: every one has a heartbeat of its own, so that no two bodies are equal.
fn write(mut held: Held, resigning: bool) -> State {
    held.sent += 1;
    let doing = if resigning { Doing::Resign } else { Doing::Renew };
    State::Lead { held, doing, resigning }
}
