//! The outcomes of the operator's calls on an election.

use std::time::Duration;

use crate::driver::leader::Leader;
use crate::epoch::Epoch;
use crate::protocol::message::EpochEnd;

/// The outcome of [`Election::depose`](crate::Election::depose). Only `Sealed` means that the store
/// was changed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Deposed {
    /// The epoch is sealed. Its holder detects this at its next renewal
    /// ([`Loss::Sealed`](crate::Loss::Sealed)).
    Sealed {
        /// Holder of the epoch.
        leader: Leader,
        /// Longest wait of a successor after it first sees the seal: the validity in the holder's
        /// record, plus the drift. A successor that has watched the holder waits less. Zero with
        /// [`depose_dead`](crate::Election::depose_dead).
        wait: Duration,
    },
    /// The epoch was sealed before. Nothing was changed.
    Already {
        /// Holder of the epoch.
        leader: Leader,
        /// End of the epoch.
        ended: EpochEnd,
    },
    /// The newest epoch is this one, and not the named one. Nothing was changed.
    NotCurrent(Leader),
    /// The record does not limit how long its holder may believe that it leads (O4). It is a
    /// foreign peer's, has no validity, or cannot be read. Once the holder is dead, use
    /// [`depose_dead`](crate::Election::depose_dead).
    NeedsForce(Leader),
    /// The newest epoch has no holder (O6). An unfinished restore holds it, and an epoch below may
    /// have a leader. Run [`restore`](crate::Election::restore) with this epoch again.
    Held(Epoch),
    /// The holder renewed its lease before each attempt to seal arrived. Try again.
    Renewed(Leader),
    /// There is no epoch.
    NoLeader,
}

/// The outcome of [`Election::resign_dead`](crate::Election::resign_dead). Only `Sealed` means that
/// the store was changed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Resigned {
    /// The epoch is sealed. Another candidate can be elected without a wait.
    Sealed,
    /// The epoch had ended before, with this end.
    Already(EpochEnd),
    /// No epoch with the nonce of the key exists any longer.
    NotCurrent,
    /// The holder renewed its lease before each attempt to seal arrived, so it is alive. Nothing
    /// was changed.
    Renewed,
}

/// The outcome of [`Election::restore`](crate::Election::restore). With any outcome
/// but `Sealed`, the election is unchanged, or candidates wait until the call is repeated.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Restored {
    /// The epoch exists and is sealed. The next leader gets a greater one.
    Sealed {
        /// The epoch.
        epoch: Epoch,
        /// Wait of a successor after it first sees the seal: the longest of the `wait` argument
        /// and the leases that this call ended.
        wait: Duration,
    },
    /// The epoch was restored before, and no candidate has been elected since.
    Already(Epoch),
    /// Another call restored this epoch or a greater one, with a shorter wait than the `wait`
    /// argument. Candidates may already count that wait, so it cannot be changed. Restore an epoch
    /// above `epoch` with the longer wait.
    WaitsLess {
        /// The newest epoch.
        epoch: Epoch,
        /// Wait of a successor after it first sees the seal.
        wait: Duration,
    },
    /// An epoch as great or greater exists, so the next leader gets a greater one already.
    Exists(Leader),
    /// A restore to this greater epoch is unfinished, and no candidate is elected until it is
    /// finished. Run [`restore`](crate::Election::restore) with this epoch, and with the same
    /// `wait` as now.
    Held(Epoch),
    /// The record of an epoch below does not limit how long its holder may believe that it leads.
    /// Once the holder is dead, call [`depose_dead`](crate::Election::depose_dead), and restore
    /// again.
    NeedsForce(Leader),
    /// The single object cannot be read, so it does not limit how long its holder may believe that
    /// it leads, and `wait` was 0. Pass the holder's validity, or any wait above 0 once the holder
    /// is dead.
    NeedsWait,
}
