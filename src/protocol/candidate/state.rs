//! The states of a candidate.

use crate::epoch::Epoch;
use crate::protocol::find::{Search, SuccessorSearch};
use crate::protocol::leader::{HeldEpoch, LeadingState};
use crate::protocol::message::{Failure, Nonce, Sighting};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum CandidateState {
    /// LIST. `suspect` is an epoch whose GET was denied, or the known newest that did not show.
    Find {
        search: Search,
        suspect: Option<Suspect>,
    },
    /// GET the newest.
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
    /// Lapsed, but foreign: its touch does not change the ETag, so the condition of the seal would
    /// not notice it. Look once more.
    LookAgain {
        sighting: Sighting,
    },
    Seal {
        sighting: Sighting,
    },
    /// Wait until the holder of a deposed epoch cannot believe in its lease any more: step
    /// 4b of docs/design/protocol.md, section 4.
    Deposed {
        epoch: Epoch,
    },
    Takeover {
        epoch: Epoch,
    },
    /// About to create; these nonces were sent for this epoch already.
    NeedNonce {
        epoch: Epoch,
        tried: Vec<Nonce>,
    },
    Create {
        epoch: Epoch,
        tried: Vec<Nonce>,
    },
    /// The create was refused: was that my own earlier attempt?
    ReadOwn {
        epoch: Epoch,
        tried: Vec<Nonce>,
    },
    Confirm {
        held: HeldEpoch,
        beyond: SuccessorSearch,
    },
    /// Lost before it was granted: seal the own object, best effort.
    SealOwn {
        held: HeldEpoch,
    },
    Lead(LeadingState),
    /// An observer without a leader.
    NoLeader,
    /// Try again what failed.
    Pause(Box<CandidateState>),
    /// A request was denied. A driver that waits resumes here after a pause.
    Denied(Box<CandidateState>),
    Failed(Failure),
    Over,
}

/// Why a search is made with suspicion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Suspect {
    Denied(Epoch),
    Gone,
}

impl CandidateState {
    /// The same after a short pause, so that no store can make the machine spin.
    pub(super) fn paused(self) -> CandidateState {
        CandidateState::Pause(Box::new(self))
    }

    /// The same once access is no longer denied.
    pub(super) fn denied(self) -> CandidateState {
        CandidateState::Denied(Box::new(self))
    }
}
