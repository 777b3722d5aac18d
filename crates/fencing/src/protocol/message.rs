//! The objects of the log, and the requests and answers of its writer.

use std::num::NonZeroU64;

use tenure::Epoch;
use tenure::seam::fencing::{After, Listing, Nonce};

/// The header of an object of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// The epoch of its writer.
    pub epoch: Epoch,
    /// The nonce of this object.
    pub nonce: Nonce,
    /// The number of its writer's claim; of a claim, that of the claim before. 0: there is none. Of
    /// a fence: 0.
    pub claim: u64,
    pub kind: Kind,
}

/// The kind of an object of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Entry,
    /// The first object of a writer.
    Claim {
        /// The number of the newest entry before it; 0 before the first entry.
        last: u64,
        /// How many fences lie directly below it.
        fences: u64,
    },
    /// Refuses the writers of lower epochs, and is no entry.
    Fence {
        /// Up to here no number was free when it was created. At least 1.
        base: u64,
    },
}

impl Header {
    /// The newest entry up to here, where this is the header of `number`. A fence knows of none: 0.
    pub fn last_entry(&self, number: u64) -> u64 {
        match self.kind {
            Kind::Entry => number,
            Kind::Claim { last, .. } => last,
            Kind::Fence { .. } => 0,
        }
    }

    /// The newest claim up to here. A fence knows of none: 0.
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
    /// The trim marker's floor; 0 if nothing was ever trimmed.
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
    /// A create that may have taken effect, or may yet.
    Unknown,
    Floor(u64),
}

/// The reason why a writer has ended. An end is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// A greater epoch has claimed the log. `maybe`: the append under way may be in the log.
    Stale { newest: Epoch, maybe: bool },
    /// A later writer of the same epoch has claimed it.
    Replaced { maybe: bool },
    /// This number was seen, and no number from it on is there.
    Gone(u64),
    /// A lower epoch wrote this number after a greater one: somebody deletes, or the store does not
    /// keep its promises.
    WentBack { number: u64, epoch: Epoch },
    /// The last number is taken.
    Full,
}

/// The position of a writer that has opened the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Standing {
    /// The number of its claim.
    pub claim: u64,
    /// The number of the newest entry; 0 in an empty log.
    pub last: u64,
    /// The number of the next append.
    pub next: u64,
}
