//! The part of the state machine that leads: renew, read back, look ahead, resign.

use super::candidate::{Candidate, Event, Input, State};
use super::find::{After, Beyond, Told};
use super::message::{Answer, Ended, Lost, Nonce, Request, Seen, Sighting, Step, Wait, Write};
use crate::epoch::Epoch;
use crate::etag::ETag;

/// The epoch object that this leader wrote.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) epoch: Epoch,
    pub(super) nonce: Nonce,
    /// The last ETag known, and the heartbeat in the body that has it.
    pub(super) etag: ETag,
    pub(super) heartbeat: u64,
    /// The greatest heartbeat sent in any attempt.
    pub(super) sent: u64,
}

/// What a leader is doing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    Idle,
    /// Overwrites with heartbeat `sent`.
    Renew,
    /// A write was refused: was it overtaken by my own earlier attempt?
    ReadBack,
    /// Lists before a renewal counts (`verify_renewals`).
    Verify {
        beyond: Beyond,
    },
    /// Looks at the next epoch.
    Look,
    /// Seals with heartbeat `sent`.
    Resign,
    /// The last write failed or its fate is unknown.
    Retry,
}

/// What a leader finds in its own object after a refusal.
pub(super) enum Found {
    /// An attempt of its own whose answer it missed, adopted.
    Adopted,
    /// What it knew: the refusal had no reason that shows, so the same again may do.
    Unchanged,
    Lost(Lost),
}

impl Held {
    pub(super) fn renew(&self) -> Request {
        Request::Renew {
            epoch: self.epoch,
            etag: self.etag.clone(),
            write: Write { nonce: self.nonce, heartbeat: self.sent },
        }
    }

    pub(super) fn resign(&self) -> Request {
        Request::Seal {
            epoch: self.epoch,
            etag: self.etag.clone(),
            nonce: Some(self.nonce),
            heartbeat: self.sent,
            ended: Ended::Resigned,
        }
    }

    /// Adopts what this leader itself wrote in an attempt whose answer it missed; the rest is a
    /// loss.
    pub(super) fn read_back(&mut self, etag: ETag, seen: &Seen, resigning: bool) -> Found {
        if seen.nonce != Some(self.nonce) {
            return Found::Lost(Lost::Tampered);
        }
        match seen.ended {
            Some(Ended::Resigned) if resigning => return Found::Lost(Lost::Resigned),
            Some(ended) => return Found::Lost(Lost::Sealed(ended)),
            None if etag == self.etag => return Found::Unchanged,
            None if seen.heartbeat <= self.heartbeat || seen.heartbeat > self.sent => {
                return Found::Lost(Lost::Tampered);
            }
            None => {}
        }
        self.etag = etag;
        self.heartbeat = seen.heartbeat;
        Found::Adopted
    }

    pub(super) fn seal(&self, ended: Ended) -> Request {
        Request::Seal {
            epoch: self.epoch,
            etag: self.etag.clone(),
            nonce: Some(self.nonce),
            heartbeat: self.sent + 1,
            ended,
        }
    }
}

impl Doing {
    pub(super) fn step(&self, held: &Held) -> Step {
        let epoch = held.epoch;
        Step::Request(match self {
            Doing::Idle => return Step::Wait(Wait::Lead),
            Doing::Retry => return Step::Wait(Wait::Retry),
            Doing::Renew => held.renew(),
            Doing::Resign => held.resign(),
            Doing::ReadBack => Request::Get { epoch: Some(epoch), unless: None },
            Doing::Verify { beyond } => Request::List(beyond.next_page().clone()),
            Doing::Look => match epoch.next() {
                Some(next) => Request::Get { epoch: Some(next), unless: None },
                // Nothing can supersede the last epoch; `LookDue` never gets here.
                None => Request::List(After::Number(epoch.get())),
            },
        })
    }
}

type Next = (State, Option<Event>);

impl Candidate {
    pub(super) fn lead(&mut self, held: Held, doing: Doing, resigning: bool, input: Input) -> Next {
        let keep = |held, doing| (State::Lead { held, doing, resigning }, None);
        match (doing, input) {
            (_, Input::LeaseEnded) => self.lose(Lost::LeaseEnded),
            // Also while a renewal is under way: a grant that is not used must not be kept.
            (_, Input::Abandon) => (State::SealOwn { held }, None),
            (Doing::Idle, Input::LookDue) if held.epoch.next().is_some() => keep(held, Doing::Look),
            (Doing::Idle, Input::RenewDue) | (Doing::Retry, Input::Resume) => {
                (write(held, resigning), None)
            }
            (Doing::Idle | Doing::Retry, Input::Resign) => (write(held, true), None),
            (doing, Input::Answer(answer)) => match doing {
                Doing::Renew => self.renewed(held, resigning, answer),
                Doing::Resign => self.resigned(held, answer),
                Doing::ReadBack => self.read_back(held, resigning, answer),
                Doing::Verify { beyond } => self.verified(held, beyond, resigning, answer),
                Doing::Look => self.looked(held, resigning, answer),
                doing @ (Doing::Idle | Doing::Retry) => keep(held, doing),
            },
            (doing, _) => keep(held, doing),
        }
    }

    fn renewed(&mut self, mut held: Held, resigning: bool, answer: Answer) -> Next {
        match answer {
            Answer::Done { etag } => {
                held.etag = etag;
                held.heartbeat = held.sent;
                self.extended(held, resigning)
            }
            Answer::Refused => (State::Lead { held, doing: Doing::ReadBack, resigning }, None),
            Answer::Missing => self.lose(Lost::Vanished),
            _ => (State::Lead { held, doing: Doing::Retry, resigning }, None),
        }
    }

    fn resigned(&mut self, held: Held, answer: Answer) -> Next {
        let resigning = true;
        match answer {
            Answer::Done { .. } => self.lose(Lost::Resigned),
            Answer::Refused => (State::Lead { held, doing: Doing::ReadBack, resigning }, None),
            Answer::Missing => self.lose(Lost::Vanished),
            _ => (State::Lead { held, doing: Doing::Retry, resigning }, None),
        }
    }

    fn read_back(&mut self, mut held: Held, resigning: bool, answer: Answer) -> Next {
        let Sighting { etag, seen, .. } = match answer {
            Answer::Found { sighting, .. } => sighting,
            Answer::Missing => return self.lose(Lost::Vanished),
            Answer::Unreadable => return self.lose(Lost::Tampered),
            _ => return (State::Lead { held, doing: Doing::Retry, resigning }, None),
        };
        match held.read_back(etag, &seen, resigning) {
            Found::Lost(lost) => self.lose(lost),
            Found::Unchanged => (State::Lead { held, doing: Doing::Retry, resigning }, None),
            Found::Adopted if resigning => (write(held, true), None),
            Found::Adopted => self.extended(held, resigning),
        }
    }

    fn extended(&mut self, held: Held, resigning: bool) -> Next {
        if self.rules.verify_renewals {
            let beyond = Beyond::new(held.epoch.get());
            return (State::Lead { held, doing: Doing::Verify { beyond }, resigning }, None);
        }
        let event = Event::Extended { heartbeat: held.heartbeat };
        (State::Lead { held, doing: Doing::Idle, resigning }, Some(event))
    }

    fn verified(
        &mut self,
        held: Held,
        mut beyond: Beyond,
        resigning: bool,
        answer: Answer,
    ) -> Next {
        let Answer::Listed(page) = answer else {
            return (State::Lead { held, doing: Doing::Retry, resigning }, None);
        };
        match beyond.handle(page) {
            Told::NotYet => {
                (State::Lead { held, doing: Doing::Verify { beyond }, resigning }, None)
            }
            Told::Yes { greatest, .. } => self.superseded(greatest),
            Told::No => {
                let event = Event::Extended { heartbeat: held.heartbeat };
                (State::Lead { held, doing: Doing::Idle, resigning }, Some(event))
            }
        }
    }

    fn looked(&mut self, held: Held, resigning: bool, answer: Answer) -> Next {
        match (answer, held.epoch.next()) {
            (Answer::Found { .. } | Answer::Unreadable, Some(next)) => self.superseded(next),
            // Nothing there, or nobody knows: the next look will tell.
            _ => (State::Lead { held, doing: Doing::Idle, resigning }, None),
        }
    }

    fn superseded(&mut self, by: Epoch) -> Next {
        self.saw(by);
        self.lose(Lost::Superseded(by))
    }

    fn lose(&mut self, lost: Lost) -> Next {
        (State::Over, Some(Event::Lost(lost)))
    }
}

/// The next write: every one has a heartbeat of its own, so that no two bodies are equal.
fn write(mut held: Held, resigning: bool) -> State {
    held.sent += 1;
    let doing = if resigning { Doing::Resign } else { Doing::Renew };
    State::Lead { held, doing, resigning }
}

#[cfg(test)]
mod tests;
