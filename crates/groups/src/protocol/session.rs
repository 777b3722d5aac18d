//! A session: a member's lease, as others read it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::partition_number::PartitionNumber;
use tenure::internals::groups::Nonce;
use tenure::store::ETag;
use tenure::{Epoch, EpochEnd};

/// 128 random bits, drawn anew for each join: the folder of the session's object.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(u128);

impl SessionId {
    pub const fn from_bits(bits: u128) -> SessionId {
        SessionId(bits)
    }

    #[cfg(any(test, feature = "internals"))]
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// Reads what [`Display`](fmt::Display) writes, and nothing else.
    pub fn parse(text: &str) -> Option<SessionId> {
        let digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let hex = text.len() == 32 && text.bytes().all(digit);
        u128::from_str_radix(text, 16).ok().filter(|_| hex).map(SessionId)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({:x})", self.0)
    }
}

/// One session. The id alone does not tell two apart: an attempt to create it that was given up may
/// land after the object of another attempt was compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    pub id: SessionId,
    pub nonce: Nonce,
}

/// A member says that it has stopped its work on a partition, for good under this token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    pub partition: PartitionNumber,
    pub token: Epoch,
}

/// What a member writes into its session beside the lease itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SessionData {
    /// What it has released, and for how long it asks not to be given that again.
    pub releases: BTreeMap<Release, Duration>,
    /// Counts completed rounds of planning, or polls of the assignment.
    pub looks: u64,
    /// The greatest assignment epoch that it has seen.
    pub seen: Option<Epoch>,
    /// It wants no more partitions.
    pub leaving: bool,
}

/// A session's object as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionRecord {
    pub nonce: Nonce,
    pub heartbeat: u64,
    pub etag: ETag,
    pub ended: Option<EpochEnd>,
    /// `None`: it was created and not written again yet, so it may be a create that came late.
    pub data: Option<SessionData>,
}

impl SessionRecord {
    /// It may be added to the members: it was written after its creation, and has not ended.
    pub fn may_join(&self) -> bool {
        self.ended.is_none() && self.data.as_ref().is_some_and(|data| !data.leaving)
    }
}
