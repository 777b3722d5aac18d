//! A session: the lease of a member. The other processes of the group read this lease in the store.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::assignment::PartitionNumber;
use tenure::internals::groups::Nonce;
use tenure::store::ETag;
use tenure::{Epoch, EpochEnd};

/// The identity of one session. Two sessions may have the same id, because a late attempt to create
/// a session may take effect after a compactor deleted the object of another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    pub id: SessionId,
    pub nonce: Nonce,
}

/// The id of a session: 128 random bits, drawn for each join. The key of the session's object
/// contains the id.
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

    /// Parses an id in the format of [`Display`](fmt::Display). Returns `None` for any other text.
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

/// A member's statement that it has stopped its work on a partition, and that it never continues
/// this work under this token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release {
    pub partition: PartitionNumber,
    pub token: Epoch,
}

/// The data that a member writes into its session together with the lease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct SessionData {
    /// Releases, each with a back-off. During the back-off the partition must not be granted to the
    /// member again.
    pub releases: BTreeMap<Release, Duration>,
    /// Number of completed polls. For a coordinator each poll includes a round of planning.
    pub looks: u64,
    /// Greatest assignment epoch that the member has seen.
    pub seen: Option<Epoch>,
    /// Whether the member is leaving the group. If so, it must get no more partitions.
    pub leaving: bool,
}

/// The fields of a session's object at the time of a read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionRecord {
    pub nonce: Nonce,
    pub heartbeat: u64,
    pub etag: ETag,
    pub ended: Option<EpochEnd>,
    /// Data of the member. `None` means that the object contains only the create, which carries no
    /// data (GO3).
    pub data: Option<SessionData>,
}

impl SessionRecord {
    /// Returns whether the session may join the members: it has data and has not ended (R3).
    pub fn may_join(&self) -> bool {
        self.ended.is_none() && self.data.as_ref().is_some_and(|data| !data.leaving)
    }
}
