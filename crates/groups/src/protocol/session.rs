//! A session: a member's lease, as others read it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::partition_number::PartitionNumber;
use super::session_id::SessionId;
use tenure::internals::groups::Nonce;
use tenure::store::ETag;
use tenure::{Epoch, EpochEnd};

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
