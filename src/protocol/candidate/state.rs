//! The states of a candidate.

use crate::epoch::Epoch;
use crate::protocol::find::{Search, SuccessorSearch};
use crate::protocol::leader::{HeldEpoch, LeadingState};
use crate::protocol::message::{Failure, Nonce, Sighting};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum CandidateState {
    /// LIST to find the newest epoch. `suspect` is `Some` after a denied GET, or if the last search
    /// did not find the greatest epoch seen.
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
    /// The record of the lapsed epoch has no nonce. The peer that wrote it may renew without a
    /// change of the ETag, so the condition of a seal cannot detect such a renewal. Read the object
    /// again before the seal.
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
    /// Get a nonce for the next create. `tried` has the nonces of earlier creates of this epoch.
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
    /// A greater epoch exists, or the grant is unusable (E14). Try to seal the candidate's own
    /// object.
    SealOwn {
        held: HeldEpoch,
    },
    Lead(LeadingState),
    /// The election is vacant, as this observer sees it.
    NoLeader,
    /// Wait for a short pause, then continue with the contained state (E19).
    Pause(Box<CandidateState>),
    /// A request was denied. A driver that retries resumes the machine after a pause.
    Denied(Box<CandidateState>),
    Failed(Failure),
    Over,
}

/// The reason to doubt that a known epoch object still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Suspect {
    Denied(Epoch),
    Gone,
}

impl CandidateState {
    /// Returns a state that waits for a short pause, and then continues with this state. The pause
    /// prevents a busy loop with any store (E19).
    pub(super) fn paused(self) -> CandidateState {
        CandidateState::Pause(Box::new(self))
    }

    /// Returns a state that waits until access is no longer denied, and then continues with this
    /// state.
    pub(super) fn denied(self) -> CandidateState {
        CandidateState::Denied(Box::new(self))
    }
}
