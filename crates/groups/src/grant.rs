//! The grant of a partition to this member, and its end.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::protocol::Release;
use tenure::internals::groups::SharedValues;
use tenure::{Epoch, Loss};

/// The reason why this member no longer owns a partition. A loss is final. The member may be
/// granted the same partition again, with another token.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PartitionLoss {
    /// This process released the partition.
    Released,
    /// An assignment does not name this member as the owner, although the member did not release
    /// the partition and the session of the member is alive. No member writes such an assignment: a
    /// person or a program restored or edited objects.
    Taken,
    /// The session of this member ended. The member lost all its partitions.
    Session(Loss),
}

/// One grant of a partition. The application's handles and the task of the member share the grant.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) name: Arc<str>,
    pub(super) release: Release,
    /// Token that is cancelled once the work must stop, because the partition is revoked, at risk,
    /// or lost.
    pub(super) stop: CancellationToken,
    /// Whether the revocation was reported to the application.
    pub(super) revoked: AtomicBool,
    end: OnceLock<End>,
    /// Values that all tasks with a handle to this grant share, such as path locks.
    pub(super) values: SharedValues,
}

/// The way in which a grant ended while its session was alive.
#[derive(Debug, Clone, Copy)]
enum End {
    Released,
    /// The assignment of this epoch does not name this member as the owner.
    Taken(Epoch),
}

impl Grant {
    pub(super) fn new(name: Arc<str>, release: Release, stop: CancellationToken) -> Grant {
        let (revoked, end, values) = Default::default();
        Grant { name, release, stop, revoked, end, values }
    }

    /// Ends the ownership, because the assignment of this epoch does not name this member as the
    /// owner.
    pub(super) fn take(&self, by: Epoch) {
        self.ends(End::Taken(by));
    }

    /// Ends the ownership, even if the write that reports the release fails.
    pub(super) fn give_up(&self) {
        self.ends(End::Released);
    }

    /// Stops the work, and records the end. Only the first end is recorded.
    fn ends(&self, end: End) {
        let _ = self.end.set(end);
        self.stop.cancel();
    }

    pub(super) fn loss(&self) -> Option<PartitionLoss> {
        self.end.get().map(|end| match end {
            End::Released => PartitionLoss::Released,
            End::Taken(_) => PartitionLoss::Taken,
        })
    }

    /// Returns the reason for the end of the grant, as the [`Loss`] that a leadership would report.
    pub(super) fn loss_of_a_term(&self) -> Option<Loss> {
        self.end.get().map(|end| match end {
            End::Released => Loss::Resigned,
            End::Taken(by) => Loss::Superseded { by: *by },
        })
    }
}

impl PartitionLoss {
    /// Returns the reason as a stable word for logs and metrics.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match self {
            PartitionLoss::Released => "released",
            PartitionLoss::Taken => "taken",
            PartitionLoss::Session(loss) => loss.outcome(),
        }
    }
}

impl fmt::Display for PartitionLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartitionLoss::Released => f.write_str("this process released the partition"),
            PartitionLoss::Taken => f.write_str(
                "an assignment took the partition, although this member did not release it",
            ),
            PartitionLoss::Session(loss) => write!(f, "the session of this member ended: {loss}"),
        }
    }
}

impl std::error::Error for PartitionLoss {}
