//! The outcomes of the operator's calls on an election.

use std::time::Duration;

use crate::driver::leader::Leader;
use crate::epoch::Epoch;
use crate::protocol::message::EpochEnd;

/// The outcome of [`Election::depose`](crate::Election::depose). The call has changed the store
/// only if the outcome is `Sealed`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Deposed {
    /// The epoch is sealed. Its holder detects the seal at its next renewal
    /// ([`Loss::Sealed`](crate::Loss::Sealed)).
    Sealed {
        /// Holder of the epoch.
        leader: Leader,
        /// Maximum time for which a successor waits after it first sees the seal. This time is the
        /// validity in the holder's record plus the drift, and zero after
        /// [`depose_dead`](crate::Election::depose_dead). A successor that has watched the holder
        /// waits less.
        wait: Duration,
    },
    /// The epoch was already sealed. Nothing was changed.
    Already {
        /// Holder of the epoch.
        leader: Leader,
        /// End of the epoch.
        ended: EpochEnd,
    },
    /// The newest epoch is not the epoch to depose. The value is the holder of the newest epoch.
    /// Nothing was changed.
    NotCurrent(Leader),
    /// The record does not show when its holder stops leading (O4). A peer that does not use tenure
    /// wrote the record, or the record has no validity or is unreadable. After the holder's death
    /// use [`depose_dead`](crate::Election::depose_dead).
    NeedsForce(Leader),
    /// An unfinished restore holds the newest epoch (O6). This epoch has no leader, but a lower
    /// epoch may have one. Call [`restore`](crate::Election::restore) with this epoch again.
    Held(Epoch),
    /// The holder renewed its lease before each attempt to seal the epoch. Try again.
    Renewed(Leader),
    /// The election has no epoch.
    NoLeader,
}

/// The outcome of [`Election::resign_dead`](crate::Election::resign_dead). The call has changed the
/// store only if the outcome is `Sealed`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Resigned {
    /// The epoch is sealed. Another candidate can be elected without a wait.
    Sealed,
    /// The epoch had already ended. The value gives the kind of this end.
    Already(EpochEnd),
    /// No epoch has the nonce of the key.
    NotCurrent,
    /// The holder renewed its lease before each attempt to seal the epoch, so the holder is alive.
    /// Nothing was changed.
    Renewed,
}

/// The outcome of [`Election::restore`](crate::Election::restore). With an outcome other than
/// `Sealed`, the call may still have changed the store. After `NeedsForce`, the epoch of this call
/// may stay held, and candidates then wait until another call completes the restore. If another
/// operator created a greater epoch meanwhile, the outcome describes that epoch, although this call
/// may have sealed its own epoch.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Restored {
    /// The epoch exists and is sealed. The next leader gets a greater epoch.
    Sealed {
        /// The epoch.
        epoch: Epoch,
        /// Time for which a successor waits after it first sees the seal, including the drift. It
        /// is at least the `wait` argument. It also covers the wait of an unfinished restore that
        /// this call completed, and the leases of the deposed holders.
        wait: Duration,
    },
    /// The epoch was restored before, and no candidate has been elected since.
    Already(Epoch),
    /// Another call restored this epoch or a greater one, with a wait that is shorter than the
    /// `wait` argument. Candidates may already be waiting, so this call did not change the shorter
    /// wait. To apply the longer wait, restore a number above `epoch`.
    WaitsLess {
        /// The newest epoch.
        epoch: Epoch,
        /// Time for which a successor waits after it first sees the seal.
        wait: Duration,
    },
    /// The epoch to restore or a greater epoch already exists. So the next leader gets an epoch
    /// above the epoch to restore, even without a restore.
    Exists(Leader),
    /// An unfinished restore holds this epoch, which is greater than the epoch of this call. No
    /// candidate is elected until that restore is finished. To finish it, call
    /// [`restore`](crate::Election::restore) with the held epoch and the `wait` of this call.
    Held(Epoch),
    /// The record of a lower epoch does not show when its holder stops leading. After the holder's
    /// death call [`depose_dead`](crate::Election::depose_dead), and restore again.
    NeedsForce(Leader),
    /// The body of the [single object](crate::Layout::SingleObject) cannot be read, and `wait` was
    /// 0. The holder may believe for an unknown time that it leads. Pass the holder's validity as
    /// `wait`. If the holder is dead, pass any wait above 0.
    NeedsWait,
}
