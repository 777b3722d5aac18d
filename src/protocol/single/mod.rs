//! The state machine of one candidate or observer in `Layout::SingleObject` (SO1 to SO9).
//!
//! This machine has fewer steps than [`super::candidate`]. Each write is a compare-and-swap of one
//! object, so a takeover that the store accepts *is* the grant. The machine sends no LIST, no seal
//! before a takeover, and no confirmation.

pub mod expiry;

use super::leader::{self, HeldEpoch, LeadingState};
use super::message::{
    Answer, EpochEnd, Failure, Lost, Nonce, Request, Seen, Sighting, Step, Wait, Write,
};
use super::message::{Event, Input, Rules};
use crate::epoch::Epoch;
use crate::protocol::layout::Layout;
use crate::store::etag::ETag;

/// The state machine of a candidate or observer in `Layout::SingleObject`.
///
/// [`Machine`](super::machine::Machine) documents the methods and the inputs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SingleCandidate {
    rules: Rules,
    /// The greatest epoch seen in the object. This candidate writes and wins only greater epochs
    /// (SO8).
    greatest: Option<Epoch>,
    state: SingleState,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SingleState {
    /// GET the object. `gone` is true if the last GET found no object, or an epoch below the
    /// greatest seen.
    Read {
        attempts: Option<Attempts>,
        gone: bool,
    },
    /// Wait for the lapse, or for the next poll.
    Follow {
        sighting: Sighting,
    },
    Poll {
        sighting: Sighting,
    },
    /// Wait until the lease of a deposed holder has ended (E9).
    Deposed {
        sighting: Sighting,
    },
    Takeover {
        sighting: Sighting,
    },
    NeedNonce {
        attempts: Attempts,
    },
    /// Create the object, or overwrite the version that was read.
    Take {
        attempts: Attempts,
    },
    /// The grant is unusable. Try to seal the candidate's own epoch (E14).
    GiveUp {
        held: HeldEpoch,
    },
    Lead(LeadingState),
    /// The election is vacant, as this observer sees it.
    NoLeader,
    /// Retry the failed request.
    Pause(Box<SingleState>),
    /// A request was denied. A driver that retries resumes the machine after a pause.
    Denied(Box<SingleState>),
    Failed(Failure),
    Over,
}

/// The attempts to overwrite one version of the object with the next epoch. If another write
/// replaces this version, no attempt can take effect later, because the store never uses an ETag
/// twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Attempts {
    /// The ETag of the version to overwrite, or `None` if no object exists.
    over: Option<ETag>,
    epoch: Epoch,
    nonces: Vec<Nonce>,
}

/// If the store still has the same version after this number of attempts, the candidate starts
/// again.
const MAX_ATTEMPTS: usize = 16;

type Turned = (SingleState, Option<Event>);

impl SingleCandidate {
    /// Returns a candidate or an observer. The greatest epoch that it has seen is `greatest`.
    pub fn new(rules: Rules, greatest: Option<Epoch>) -> SingleCandidate {
        SingleCandidate { rules, greatest, state: look() }
    }

    /// Starts another campaign after a leadership has ended.
    pub fn restart(&mut self) {
        self.state = look();
    }

    /// Returns the greatest epoch seen in the object.
    pub fn greatest(&self) -> Option<Epoch> {
        self.greatest
    }

    /// Returns the nonce of the current leadership.
    pub fn nonce(&self) -> Option<Nonce> {
        match &self.state {
            SingleState::Lead(leading) => Some(leading.nonce()),
            _ => None,
        }
    }

    /// Returns the last reading of the object while the machine follows its holder.
    pub fn followed(&self) -> Option<&Sighting> {
        match &self.state {
            SingleState::Follow { sighting } | SingleState::Poll { sighting } => Some(sighting),
            _ => None,
        }
    }

    /// Returns the next action.
    pub fn step(&self) -> Step {
        Step::Request(match &self.state {
            SingleState::Read { .. } => Request::Get { epoch: None, unless: None },
            SingleState::Poll { sighting } => {
                Request::Get { epoch: None, unless: Some(sighting.etag.clone()) }
            }
            SingleState::Take { attempts } => attempts.request(),
            SingleState::GiveUp { held } => held.give_up(),
            SingleState::Lead(leading) => return leading.step(Layout::SingleObject),
            SingleState::NeedNonce { .. } => return Step::Nonce,
            SingleState::Follow { .. } => return Step::Wait(Wait::Follow),
            SingleState::Deposed { .. } => return Step::Wait(Wait::Deposed),
            SingleState::Takeover { .. } => return Step::Wait(Wait::Takeover),
            SingleState::NoLeader => return Step::Wait(Wait::NoLeader),
            SingleState::Pause(_) => return Step::Wait(Wait::Retry),
            SingleState::Over => return Step::Wait(Wait::Over),
            SingleState::Denied(_) => return Step::Failed(Failure::Denied),
            SingleState::Failed(failure) => return Step::Failed(*failure),
        })
    }

    /// Takes an input. An input that does not fit the state changes nothing.
    pub fn handle(&mut self, input: Input) -> Option<Event> {
        if matches!(input, Input::Answer(_)) && !matches!(self.step(), Step::Request(_)) {
            return None;
        }
        let state = std::mem::replace(&mut self.state, SingleState::Over);
        let (state, event) = match (state, input) {
            (SingleState::Lead(leading), input) => self.lead(leading, input),
            // The candidate ignores the answer, because a failure of this seal does no harm.
            (SingleState::GiveUp { .. }, Input::Answer(_)) => (look(), None),
            (state, Input::Answer(Answer::Denied)) => (state.denied(), None),
            (_, Input::Answer(Answer::Unsafe)) => (SingleState::Failed(Failure::Unsafe), None),
            (state, Input::Answer(answer)) => self.answered(state, answer),
            (state, input) => (self.told(state, input), None),
        };
        self.state = state;
        event
    }

    fn lead(&mut self, leading: LeadingState, input: Input) -> Turned {
        match leading.handle(Layout::SingleObject, self.rules, input) {
            leader::LeaderNext::Leads(leading, event) => (SingleState::Lead(leading), event),
            leader::LeaderNext::Abandoned(held) => (SingleState::GiveUp { held }, None),
            leader::LeaderNext::Lost(lost) => {
                if let Lost::Superseded(by) = lost {
                    self.saw(by);
                }
                (SingleState::Over, Some(Event::Lost(lost)))
            }
        }
    }

    fn told(&mut self, state: SingleState, input: Input) -> SingleState {
        match (state, input) {
            (SingleState::Pause(state) | SingleState::Denied(state), Input::Resume) => *state,
            (SingleState::Follow { sighting }, Input::PollDue) => SingleState::Poll { sighting },
            (SingleState::Follow { sighting }, Input::Lapsed) if self.rules.observer => {
                SingleState::Poll { sighting }
            }
            (SingleState::Follow { sighting }, Input::Lapsed)
            | (SingleState::Takeover { sighting }, Input::TakeoverOver) => take(&sighting),
            (SingleState::NoLeader, Input::PollDue) => look(),
            (SingleState::Deposed { sighting }, Input::Lapsed) => self.take_over(sighting),
            // The timer of another candidate may have started earlier, so that candidate may have
            // taken over. Read the object.
            (SingleState::Deposed { .. }, Input::PollDue) => look(),
            (SingleState::NeedNonce { mut attempts }, Input::Nonce(nonce)) => {
                attempts.nonces.push(nonce);
                SingleState::Take { attempts }
            }
            (state, _) => state,
        }
    }

    fn answered(&mut self, state: SingleState, answer: Answer) -> Turned {
        let state = match (state, answer) {
            (SingleState::Read { attempts, gone }, Answer::Found { sighting, .. }) => {
                return self.read(attempts, gone, sighting);
            }
            (SingleState::Poll { .. }, Answer::Found { sighting, .. }) => {
                return self.read(None, false, sighting);
            }
            (SingleState::Poll { sighting }, Answer::NotModified) => {
                SingleState::Follow { sighting }
            }
            (SingleState::Read { attempts, gone }, Answer::Missing) => self.missing(attempts, gone),
            (SingleState::Poll { .. }, Answer::Missing) => self.gone(false),
            (SingleState::Read { .. } | SingleState::Poll { .. }, Answer::Unreadable) => {
                let epoch = self.greatest.unwrap_or(Epoch::FIRST);
                SingleState::Failed(Failure::Unreadable(epoch))
            }
            (SingleState::Take { attempts }, Answer::Done { etag }) => {
                let last = attempts.nonces.len() - 1;
                return self.granted(attempts.held(last, etag));
            }
            // Another process or an earlier attempt wrote the object, so read the object.
            (SingleState::Take { attempts }, Answer::Refused) => {
                SingleState::Read { attempts: Some(attempts), gone: false }
            }
            (SingleState::Take { attempts }, _) => {
                SingleState::Read { attempts: Some(attempts), gone: false }.paused()
            }
            // The answer is unknown or does not fit the request, so retry.
            (SingleState::Poll { sighting }, _) => SingleState::Follow { sighting }.paused(),
            (state, _) => state.paused(),
        };
        (state, None)
    }

    fn read(&mut self, attempts: Option<Attempts>, gone: bool, now: Sighting) -> Turned {
        if Some(now.epoch) < self.greatest {
            return (self.gone(gone), None);
        }
        self.saw(now.epoch);
        let Some(attempts) = attempts else { return (self.enter(now), None) };
        if let Some(attempt) = attempts.won(&now) {
            return self.granted(attempts.held(attempt, now.etag));
        }
        let unchanged = attempts.over.as_ref() == Some(&now.etag);
        let state = match unchanged {
            // The object is unchanged, but an earlier attempt may still take effect. If it does,
            // the store refuses the next attempt.
            true if attempts.nonces.len() < MAX_ATTEMPTS => {
                SingleState::NeedNonce { attempts }.paused()
            }
            true => self.enter(now).paused(),
            false => self.enter(now),
        };
        (state, None)
    }

    fn missing(&mut self, attempts: Option<Attempts>, gone: bool) -> SingleState {
        match (self.greatest, attempts) {
            (Some(_), _) => self.gone(gone),
            (None, _) if self.rules.observer => SingleState::NoLeader,
            (None, Some(attempts)) if attempts.nonces.len() < MAX_ATTEMPTS => {
                SingleState::NeedNonce { attempts }.paused()
            }
            (None, Some(_)) => SingleState::NeedNonce { attempts: Attempts::first() }.paused(),
            (None, None) => SingleState::NeedNonce { attempts: Attempts::first() },
        }
    }

    /// Handles a missing object, or an object with an epoch below the greatest epoch seen. In both
    /// cases the object was deleted. If two consecutive reads show a deletion, the campaign fails
    /// (SO8).
    fn gone(&self, again: bool) -> SingleState {
        match self.greatest {
            Some(epoch) if again => SingleState::Failed(Failure::NewestDeleted(epoch)),
            Some(_) => SingleState::Read { attempts: None, gone: true }.paused(),
            None => look().paused(),
        }
    }

    /// Returns the state after a reading of the object.
    fn enter(&mut self, sighting: Sighting) -> SingleState {
        let Seen { ended, reclaimable, .. } = sighting.seen;
        match ended {
            None if self.rules.observer => SingleState::Follow { sighting },
            Some(_) if self.rules.observer => SingleState::NoLeader,
            None if reclaimable => take(&sighting),
            None => SingleState::Follow { sighting },
            Some(EpochEnd::Resigned) => take(&sighting),
            Some(_) if sighting.seen.is_waited_for() => SingleState::Deposed { sighting },
            // If a sealed body has only `expires_at` and `token`, its holder has released the lock,
            // and no operator has deposed the holder (SO4).
            Some(ended) if ended != EpochEnd::Lapsed => take(&sighting),
            Some(_) => self.take_over(sighting),
        }
    }

    fn take_over(&self, sighting: Sighting) -> SingleState {
        if self.rules.takeover_delay { SingleState::Takeover { sighting } } else { take(&sighting) }
    }

    fn granted(&mut self, held: HeldEpoch) -> Turned {
        self.saw(held.epoch);
        let (leading, granted) = LeadingState::granted(held);
        (SingleState::Lead(leading), Some(granted))
    }

    fn saw(&mut self, epoch: Epoch) {
        self.greatest = self.greatest.max(Some(epoch));
    }
}

fn look() -> SingleState {
    SingleState::Read { attempts: None, gone: false }
}

/// Returns the state in which the candidate overwrites the version in `over` with the next epoch.
fn take(over: &Sighting) -> SingleState {
    match over.epoch.next() {
        None => SingleState::Failed(Failure::Exhausted),
        Some(epoch) => {
            let over = Some(over.etag.clone());
            SingleState::NeedNonce { attempts: Attempts { over, epoch, nonces: Vec::new() } }
        }
    }
}

impl Attempts {
    fn first() -> Attempts {
        Attempts { over: None, epoch: Epoch::FIRST, nonces: Vec::new() }
    }

    fn request(&self) -> Request {
        let nonce = *self.nonces.last().expect("the state `Take` has a nonce in `nonces`");
        let write = Write { nonce, heartbeat: self.nonces.len() as u64 };
        match &self.over {
            None => Request::Create { epoch: self.epoch, write },
            Some(etag) => Request::Take { epoch: self.epoch, etag: etag.clone(), write },
        }
    }

    /// Returns the index of the attempt that wrote the object, or `None` if no attempt wrote it or
    /// its epoch is sealed.
    fn won(&self, now: &Sighting) -> Option<usize> {
        let unsealed = now.epoch == self.epoch && now.seen.ended.is_none();
        self.nonces.iter().position(|nonce| unsealed && Some(*nonce) == now.seen.nonce)
    }

    fn held(&self, attempt: usize, etag: ETag) -> HeldEpoch {
        HeldEpoch {
            epoch: self.epoch,
            nonce: self.nonces[attempt],
            etag,
            heartbeat: attempt as u64 + 1,
            sent: self.nonces.len() as u64,
        }
    }
}

impl SingleState {
    /// Returns a state that waits for a short pause, and then continues with this state. The pause
    /// prevents a busy loop with any store (E19).
    fn paused(self) -> SingleState {
        SingleState::Pause(Box::new(self))
    }

    /// Returns a state that waits until access is no longer denied. The campaign then continues
    /// with this state, or with a read of the object.
    fn denied(self) -> SingleState {
        SingleState::Denied(Box::new(match self {
            SingleState::Poll { .. } => look(),
            // The denied attempt or an earlier attempt may take effect late, so read the object.
            SingleState::Take { attempts } => {
                SingleState::Read { attempts: Some(attempts), gone: false }
            }
            state => state,
        }))
    }
}

#[cfg(test)]
mod tests;
