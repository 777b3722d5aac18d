//! The objects of the log, the requests of its writer, and the answers to these requests.

use std::num::NonZeroU64;

use tenure::Epoch;
use tenure::internals::fencing::{After, Listing, Nonce};

/// The header of an object of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// Epoch of the object's writer.
    pub epoch: Epoch,
    /// Nonce of the object.
    pub nonce: Nonce,
    /// In an entry: number of the claim with which the writer of the entry began. In a claim:
    /// number of the previous claim, or 0 if no claim precedes it. In a fence: 0.
    pub claim: u64,
    pub kind: Kind,
}

/// The kind of an object of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Entry,
    /// The first object of a writer.
    Claim {
        /// Number of the newest entry before the claim; 0 before the first entry.
        last: u64,
        /// Count of the fences directly below the claim.
        fences: u64,
    },
    /// An object that refuses the writers of lower epochs. It is not an entry.
    Fence {
        /// One less than the first number that was free when the fence was created. It is at least
        /// 1.
        base: u64,
    },
}

/// An object that the writer requests the store to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Draft {
    pub(super) number: u64,
    pub(super) header: Header,
}

impl Header {
    /// Returns the number of the newest entry at or below this object, which has the number
    /// `number`. Returns 0 for a fence.
    pub fn last_entry(&self, number: u64) -> u64 {
        match self.kind {
            Kind::Entry => number,
            Kind::Claim { last, .. } => last,
            Kind::Fence { .. } => 0,
        }
    }

    /// Returns the number of the newest claim at or below this object, which has the number
    /// `number`. Returns 0 for a fence.
    pub fn last_claim(&self, number: u64) -> u64 {
        match self.kind {
            Kind::Entry => self.claim,
            Kind::Claim { .. } => number,
            Kind::Fence { .. } => 0,
        }
    }

    pub fn is_fence(&self) -> bool {
        matches!(self.kind, Kind::Fence { .. })
    }
}

/// A request of the writer to the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogRequest {
    List(After),
    Read(u64),
    Create {
        number: u64,
        header: Header,
    },
    /// Request for the floor of the trim marker. The floor is 0 if the log was never trimmed.
    Floor,
}

/// The answer to a [`LogRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogAnswer {
    Listed(Listing<NonZeroU64>),
    Found(Header),
    Missing,
    Created,
    Refused,
    /// The effect of the create is unknown: it may take effect later.
    Unknown,
    Floor(u64),
}

/// The reason why a writer has ended. It does not change later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// A greater epoch has claimed the log. If `maybe` is true, the pending append may be in the
    /// log.
    Stale { newest: Epoch, maybe: bool },
    /// A later writer of the same epoch has claimed the log.
    Replaced { maybe: bool },
    /// The writer has seen an object at this number, but the log no longer has an object at this
    /// number or at a greater one.
    Gone(u64),
    /// An object of this lower epoch has this number, although a greater epoch has already written
    /// to the log. Objects were deleted by other means, or the store violated a guarantee.
    WentBack { number: u64, epoch: Epoch },
    /// The log is full: its greatest number is taken.
    Full,
}

/// The position of a writer that has opened the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Standing {
    /// Number of the writer's claim.
    pub claim: u64,
    /// Number of the newest entry; 0 in an empty log.
    pub last: u64,
    /// Number at which the next append creates its object.
    pub next: u64,
}
