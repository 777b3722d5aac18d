//! The states of a candidate.

use crate::epoch::Epoch;
use crate::protocol::find::{Search, SuccessorSearch};
use crate::protocol::leader::{HeldEpoch, LeadingState};
use crate::protocol::message::{Failure, Nonce, Sighting};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum CandidateState {
    /// LIST to find the newest epoch. `suspect` is set after a denied GET, or if the known newest
    /// epoch was missing.
    Find {
        search: Search,
        suspect: Option<Suspect>,
    },
    /// GET the newest epoch object.
    Read {
        epoch: Epoch,
    },
    /// Wait for the lapse, or for the next poll.
    Follow {
        sighting: Sighting,
    },
    Poll {
        sighting: Sighting,
    },
    /// The lapsed epoch is foreign. A renewal by a foreign leader does not change the ETag, so the
    /// condition of the seal cannot detect the renewal. Read the object again before the seal.
    LookAgain {
        sighting: Sighting,
    },
    Seal {
        sighting: Sighting,
    },
    /// Wait until the lease of a deposed holder has ended (E9).
    Deposed {
        epoch: Epoch,
    },
    Takeover {
        epoch: Epoch,
    },
    /// Get a nonce for the next create. Earlier creates of this epoch sent the nonces in `tried`.
    NeedNonce {
        epoch: Epoch,
        tried: Vec<Nonce>,
    },
    Create {
        epoch: Epoch,
        tried: Vec<Nonce>,
    },
    /// The store refused the create. Read the object to learn whether an earlier attempt of this
    /// campaign succeeded.
    ReadOwn {
        epoch: Epoch,
        tried: Vec<Nonce>,
    },
    Confirm {
        held: HeldEpoch,
        beyond: SuccessorSearch,
    },
    /// The epoch was lost before its grant. Try to seal the candidate's own object.
    SealOwn {
        held: HeldEpoch,
    },
    Lead(LeadingState),
    /// The observer sees no leader.
    NoLeader,
    /// Retry the failed request.
    Pause(Box<CandidateState>),
    /// A request was denied. A driver that retries resumes the machine after a pause.
    Denied(Box<CandidateState>),
    Failed(Failure),
    Over,
}

/// The reason that a search doubts that an epoch exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Suspect {
    Denied(Epoch),
    Gone,
}

impl CandidateState {
    /// Returns a state that continues with this state after a short pause. Because of the pause, no
    /// store can cause a busy loop (E19).
    pub(super) fn paused(self) -> CandidateState {
        CandidateState::Pause(Box::new(self))
    }

    /// Returns a state that continues with this state once access is no longer denied.
    pub(super) fn denied(self) -> CandidateState {
        CandidateState::Denied(Box::new(self))
    }
}
