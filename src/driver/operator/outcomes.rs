//! The outcomes of the operator's calls on an election.

use std::time::Duration;

use crate::driver::leader::Leader;
use crate::epoch::Epoch;
use crate::protocol::message::EpochEnd;

/// The outcome of [`Election::depose`](crate::Election::depose). Only `Sealed` means that anything
/// was written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Deposed {
    /// The epoch is sealed. Its holder learns of it at its next renewal
    /// ([`Loss::Sealed`](crate::Loss::Sealed)).
    Sealed {
        /// Who held it.
        leader: Leader,
        /// How long a successor waits, from when it first sees the seal: the validity in the
        /// holder's record, plus the drift. It waits less if it has watched the holder. Zero with
        /// [`depose_dead`](crate::Election::depose_dead).
        wait: Duration,
    },
    /// The epoch was sealed before; nothing was changed.
    Already {
        /// Who held it.
        leader: Leader,
        /// How it ended.
        ended: EpochEnd,
    },
    /// The newest epoch is not the one that was named, but this.
    NotCurrent(Leader),
    /// The record does not show how long its holder may believe that it leads: it is a foreign
    /// peer's, has no validity, or cannot be read. Once the holder is known to be dead, use
    /// [`depose_dead`](crate::Election::depose_dead).
    NeedsForce(Leader),
    /// The newest epoch has no holder: an unfinished restore holds it, and an epoch below may have
    /// a leader. Run [`restore`](crate::Election::restore) with this epoch again.
    Held(Epoch),
    /// Each time the holder renewed its lease before the seal arrived. Try again.
    Renewed(Leader),
    /// There is no epoch.
    NoLeader,
}

/// The outcome of [`Election::resign_dead`](crate::Election::resign_dead). Only `Sealed` means that
/// anything was written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Resigned {
    /// The epoch is sealed: another candidate can be elected at once.
    Sealed,
    /// The epoch had ended before, in this way.
    Already(EpochEnd),
    /// The epoch is not there any more under the nonce of the key.
    NotCurrent,
    /// Each time the lease was renewed before the seal arrived: the holder is alive. Nothing was
    /// changed.
    Renewed,
}

/// The outcome of [`Election::restore`](crate::Election::restore). Unless it is `Sealed`, the
/// election is unchanged, or candidates wait until the call is made again.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Restored {
    /// The epoch exists and is sealed: the next leader gets a greater one.
    Sealed {
        /// The epoch.
        epoch: Epoch,
        /// How long a successor waits, from when it first sees the seal: the longest of the `wait`
        /// argument and the leases that this call ended.
        wait: Duration,
    },
    /// It was restored before, and no candidate has been elected since.
    Already(Epoch),
    /// This epoch, or a greater one, was restored before or meanwhile, with a shorter wait than the
    /// `wait` argument. Candidates may already be waiting it out, so it is too late to change it.
    /// Restore a greater epoch than this with the longer wait.
    WaitsLess {
        /// The newest epoch.
        epoch: Epoch,
        /// How long successors wait, from when they first see the seal.
        wait: Duration,
    },
    /// An epoch as great or greater exists, so the next leader gets a greater one already.
    Exists(Leader),
    /// A restore to this greater epoch is unfinished, and no candidate is elected until it is
    /// finished. Run [`restore`](crate::Election::restore) with this epoch, and with the same
    /// `wait` as now.
    Held(Epoch),
    /// The record of an epoch below does not show how long its holder may believe that it leads.
    /// Once the holder is known to be dead, call [`depose_dead`](crate::Election::depose_dead), and
    /// restore again.
    NeedsForce(Leader),
    /// The single object cannot be read, so nobody knows how long its holder may believe that it
    /// leads, and `wait` was 0. Pass the holder's validity; once the holder is known to be dead,
    /// any wait above 0.
    NeedsWait,
}
