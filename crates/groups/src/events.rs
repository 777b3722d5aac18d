//! The events of a membership.

use std::sync::Arc;
use std::time::Duration;

use super::ownership::{Notice, Ownership};
use super::partition::Partition;
use crate::protocol::PartitionNumber;
use tenure::{Error, Loss};

/// An event of a membership. Each event is delivered once and in order. No event is skipped.
#[derive(Debug)]
#[non_exhaustive]
pub enum MembershipEvent {
    /// This member owns a partition. Begin the work on it.
    Granted(Partition),
    /// A partition must move to another member. Stop the work on it, then
    /// [release](Partition::release) it.
    Revoked {
        /// The partition's name.
        name: String,
        /// The partition's number.
        number: PartitionNumber,
    },
    /// An assignment took a partition from this member although the member had not released it. See
    /// [`PartitionLoss::Taken`](super::PartitionLoss::Taken).
    Taken {
        /// The partition's name.
        name: String,
        /// The partition's number.
        number: PartitionNumber,
    },
    /// Renewals fail, and less than a quarter of the validity remains. Stop all work.
    AtRisk {
        /// Remaining time of the lease.
        remaining: Duration,
    },
    /// A request failed with an error that retrying may not fix, or the assignment cannot be read
    /// or written. The member keeps its partitions and tries again.
    StoreFailed(Error),
    /// The session ended, and the member lost all its partitions. This is the last event.
    Lost(Loss),
}

impl MembershipEvent {
    /// Returns the event for the application, with a handle to a granted partition.
    pub(super) fn new(notice: Notice, ownership: &Arc<Ownership>) -> MembershipEvent {
        match notice {
            Notice::Granted(grant) => {
                MembershipEvent::Granted(Partition { grant, ownership: Arc::clone(ownership) })
            }
            Notice::Revoked(grant) => {
                let (name, number) = (grant.name.to_string(), grant.release.partition);
                MembershipEvent::Revoked { name, number }
            }
            Notice::Taken(grant) => {
                let (name, number) = (grant.name.to_string(), grant.release.partition);
                MembershipEvent::Taken { name, number }
            }
            Notice::AtRisk(remaining) => MembershipEvent::AtRisk { remaining },
            Notice::StoreFailed(error) => MembershipEvent::StoreFailed(error),
            Notice::Lost(loss) => MembershipEvent::Lost(loss),
        }
    }
}
