//! The events of a membership.

use std::sync::Arc;
use std::time::Duration;

use super::ownership::{Notice, Ownership};
use super::partition::Partition;
use crate::protocol::PartitionNumber;
use tenure::{Error, Loss};

/// What happens to a member. Each event comes once, in order, and none is left out.
#[derive(Debug)]
#[non_exhaustive]
pub enum MembershipEvent {
    /// This member owns a partition: begin the work on it.
    Granted(Partition),
    /// A partition is to move: stop the work on it, then [release](Partition::release) it.
    Revoked {
        /// The partition's name.
        name: String,
        /// The partition's number.
        number: PartitionNumber,
    },
    /// A partition was taken away against the rules: see
    /// [`PartitionLoss::Taken`](super::PartitionLoss::Taken).
    Taken {
        /// The partition's name.
        name: String,
        /// The partition's number.
        number: PartitionNumber,
    },
    /// Renewals fail and less than a quarter of the validity is left: stop all work.
    AtRisk {
        /// What is left of the lease.
        remaining: Duration,
    },
    /// A request failed in a way that more attempts may not change, or the assignment cannot be
    /// read or written. The member keeps what it owns and tries again.
    StoreFailed(Error),
    /// The session is over, and with it all that the member owned. The last event.
    Lost(Loss),
}

impl MembershipEvent {
    /// The event for the application, with a handle for each partition granted.
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
