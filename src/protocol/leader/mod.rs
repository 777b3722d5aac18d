//! The leader's part of the state machines of both layouts. A leader renews, reads its object back
//! after a refused write, searches for a greater epoch, and resigns.
//!
//! With `Layout::SingleObject`, a leader sends no LIST and no GET of the next epoch, because a
//! successor overwrites the object that this leader renews.

use super::find::{After, SuccessorSearch, SuccessorStatus};
use super::message::{Answer, EpochEnd, Lost, Nonce, Request, Sighting, Step, Wait, Write};
use super::message::{Event, Input, Rules};
use crate::epoch::Epoch;
use crate::protocol::layout::Layout;
use crate::store::etag::ETag;

/// The epoch that this process created, and the state of the writes to its object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HeldEpoch {
    pub(super) epoch: Epoch,
    pub(super) nonce: Nonce,
    /// The last known ETag.
    pub(super) etag: ETag,
    /// The heartbeat of the body with this ETag.
    pub(super) heartbeat: u64,
    /// The greatest heartbeat that this leader has sent, including failed writes.
    pub(super) sent: u64,
}

impl HeldEpoch {
    fn renew(&self) -> Request {
        Request::Renew {
            epoch: self.epoch,
            etag: self.etag.clone(),
            write: Write { nonce: self.nonce, heartbeat: self.sent },
        }
    }

    pub(super) fn seal(&self, heartbeat: u64, ended: EpochEnd) -> Request {
        let (epoch, etag, nonce) = (self.epoch, self.etag.clone(), Some(self.nonce));
        Request::Seal { epoch, etag, nonce, heartbeat, ended }
    }

    /// Returns the request with which a candidate seals its own epoch, because the epoch was not
    /// granted or the grant is unusable (E14).
    pub(super) fn give_up(&self) -> Request {
        self.seal(self.sent + 1, EpochEnd::Lapsed)
    }
}

/// The current action of a leader.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Doing {
    Idle,
    /// Overwrites the object with a record that has the heartbeat `sent`.
    Renew,
    /// The store refused a write. Reads the object to learn whether an earlier attempt of this
    /// leader succeeded (L3).
    ReadBack,
    /// Lists the greater epochs, because with `verify_renewals` a renewal counts only if no greater
    /// epoch exists.
    Verify {
        beyond: SuccessorSearch,
    },
    /// Reads the next epoch (L5).
    Look,
    /// Seals the epoch with the heartbeat `sent`. With `Layout::SingleObject` the seal keeps the
    /// token.
    Resign,
    /// The last request failed, or its effect is unknown. Waits before the next write.
    Retry,
}

/// The state of a machine while it leads.
///
/// The surrounding machine passes each input to [`handle`](LeadingState::handle), which consumes
/// the state. `handle` returns the next state, an abandoned epoch, or the loss.
/// [`step`](LeadingState::step) does not change the state. If the store refuses a write, the leader
/// first reads the object, because an earlier attempt may have caused the refusal (L3).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LeadingState {
    held: HeldEpoch,
    doing: Doing,
    resigning: bool,
    /// The greatest heartbeat of a create, if all creates had one nonce, and otherwise 0. A create
    /// that takes effect after the grant does not count.
    repeated: u64,
}

/// The result of an input to a leader.
pub(super) enum LeaderNext {
    Leads(LeadingState, Option<Event>),
    /// The driver does not use the grant, so the machine must seal this epoch (E14).
    Abandoned(HeldEpoch),
    Lost(Lost),
}

impl LeadingState {
    pub(super) fn nonce(&self) -> Nonce {
        self.held.nonce
    }

    /// Returns the heartbeat of the last write that is known to have succeeded.
    pub(super) fn heartbeat(&self) -> u64 {
        self.held.heartbeat
    }

    /// Returns whether the leader is resigning.
    pub(super) fn resigns(&self) -> bool {
        self.resigning
    }

    /// Returns the state of a leader after its grant.
    pub(super) fn granted(held: HeldEpoch) -> (LeadingState, Event) {
        let granted = Event::Granted { epoch: held.epoch, heartbeat: held.heartbeat };
        (LeadingState { held, doing: Doing::Idle, resigning: false, repeated: 0 }, granted)
    }

    /// Returns the state of a leader after a grant across stores. All its creates had one nonce.
    pub(super) fn granted_across(held: HeldEpoch) -> LeadingState {
        let repeated = held.sent;
        LeadingState { held, doing: Doing::Idle, resigning: false, repeated }
    }

    pub(super) fn step(&self, layout: Layout) -> Step {
        let held = &self.held;
        Step::Request(match &self.doing {
            Doing::Idle => return Step::Wait(Wait::Lead),
            Doing::Retry => return Step::Wait(Wait::Retry),
            Doing::Renew => held.renew(),
            Doing::Resign => held.seal(held.sent, EpochEnd::Resigned),
            Doing::ReadBack => {
                let epoch = (layout == Layout::EpochFiles).then_some(held.epoch);
                Request::Get { epoch, unless: None }
            }
            Doing::Verify { beyond } => Request::List(beyond.next_page().clone()),
            Doing::Look => match held.epoch.next() {
                next @ Some(_) => Request::Get { epoch: next, unless: None },
                // No epoch can supersede the last possible epoch. So `handle` ignores `LookDue` in
                // that epoch, and this state never occurs.
                None => Request::List(After::Number(held.epoch.get())),
            },
        })
    }

    pub(super) fn handle(mut self, layout: Layout, rules: Rules, input: Input) -> LeaderNext {
        let epoch_files = layout == Layout::EpochFiles;
        match (&self.doing, input) {
            (_, Input::LeaseEnded) => LeaderNext::Lost(Lost::LeaseEnded),
            // The driver may abandon the grant even while a renewal is under way.
            (_, Input::Abandon) => LeaderNext::Abandoned(self.held),
            (Doing::Idle, Input::LookDue) if epoch_files && self.held.epoch.next().is_some() => {
                self.now(Doing::Look)
            }
            (Doing::Idle, Input::RenewDue) | (Doing::Retry, Input::Resume) => self.write(),
            (Doing::Idle | Doing::Retry, Input::Resign) => {
                self.resigning = true;
                self.write()
            }
            (_, Input::Answer(answer)) => {
                self.answered(epoch_files && rules.verify_renewals, answer)
            }
            _ => LeaderNext::Leads(self, None),
        }
    }

    fn answered(mut self, verify: bool, answer: Answer) -> LeaderNext {
        match (&mut self.doing, answer) {
            (Doing::Resign, Answer::Done { .. }) => LeaderNext::Lost(Lost::Resigned),
            (Doing::Renew, Answer::Done { etag }) => {
                self.held.etag = etag;
                self.held.heartbeat = self.held.sent;
                self.extended(verify)
            }
            (Doing::Renew | Doing::Resign, Answer::Refused) => self.now(Doing::ReadBack),
            (Doing::Renew | Doing::Resign | Doing::ReadBack, Answer::Missing) => {
                LeaderNext::Lost(Lost::Vanished)
            }
            (Doing::ReadBack, Answer::Found { sighting, .. }) => self.read_back(verify, sighting),
            (Doing::ReadBack, Answer::Unreadable) => LeaderNext::Lost(Lost::Tampered),
            (Doing::Verify { beyond }, Answer::Listed(page)) => match beyond.handle(page) {
                SuccessorStatus::NotYet => LeaderNext::Leads(self, None),
                SuccessorStatus::Yes { greatest, .. } => {
                    LeaderNext::Lost(Lost::Superseded(greatest))
                }
                SuccessorStatus::No => self.extended(false),
            },
            (Doing::Look, answer) => match (answer, self.held.epoch.next()) {
                (Answer::Found { .. } | Answer::Unreadable, Some(next)) => {
                    LeaderNext::Lost(Lost::Superseded(next))
                }
                // The next epoch does not exist, or the GET failed. The leader repeats the GET at
                // the next `LookDue`.
                _ => self.now(Doing::Idle),
            },
            (Doing::Idle, _) => LeaderNext::Leads(self, None),
            _ => self.now(Doing::Retry),
        }
    }

    /// Handles the record that the leader reads back. If an attempt of this leader wrote the
    /// record, the leader adopts its ETag. Any other record ends the leadership (L3).
    fn read_back(mut self, verify: bool, now: Sighting) -> LeaderNext {
        let held = &mut self.held;
        if now.epoch > held.epoch {
            return LeaderNext::Lost(Lost::Superseded(now.epoch));
        }
        if now.epoch < held.epoch || now.seen.nonce != Some(held.nonce) {
            return LeaderNext::Lost(Lost::Tampered);
        }
        let heartbeat = now.seen.heartbeat;
        match now.seen.ended {
            Some(EpochEnd::Resigned) if self.resigning => return LeaderNext::Lost(Lost::Resigned),
            Some(ended) => return LeaderNext::Lost(Lost::Sealed(ended)),
            // The object still has the known ETag, so the store had no reason to refuse the write.
            // The leader retries the write.
            None if now.etag == held.etag => return self.now(Doing::Retry),
            None if heartbeat <= held.heartbeat.max(self.repeated) || heartbeat > held.sent => {
                return LeaderNext::Lost(Lost::Tampered);
            }
            None => {}
        }
        held.etag = now.etag;
        held.heartbeat = heartbeat;
        if self.resigning { self.write() } else { self.extended(verify) }
    }

    fn extended(self, verify: bool) -> LeaderNext {
        if verify {
            let beyond = SuccessorSearch::new(self.held.epoch.get());
            return self.now(Doing::Verify { beyond });
        }
        let event = Event::Extended { heartbeat: self.held.heartbeat };
        LeaderNext::Leads(LeadingState { doing: Doing::Idle, ..self }, Some(event))
    }

    /// Starts the next write. Each write raises the heartbeat, so no two bodies are equal (B4).
    fn write(mut self) -> LeaderNext {
        self.held.sent += 1;
        let doing = if self.resigning { Doing::Resign } else { Doing::Renew };
        self.now(doing)
    }

    fn now(self, doing: Doing) -> LeaderNext {
        LeaderNext::Leads(LeadingState { doing, ..self }, None)
    }
}

#[cfg(test)]
mod tests;
