//! What operators do to an election by hand, and what came of it.

use std::time::Duration;

use crate::epoch::Epoch;
use crate::leader::Leader;
use crate::protocol::message::EpochEnd;

/// What [`Election::depose`](crate::Election::depose) came to. Only with `Sealed` has anything been
/// written.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Deposed {
    /// The epoch is sealed. Its holder learns of it with its next renewal
    /// ([`Loss::Sealed`](crate::Loss::Sealed)).
    Sealed {
        /// Who held it.
        leader: Leader,
        /// How long a successor waits, from when it first sees the seal: the holder's lease by its
        /// record, and the drift. It waits less if it has watched the holder. Nothing with
        /// [`depose_dead`](crate::Election::depose_dead).
        wait: Duration,
    },
    /// It was sealed before; nothing was to be done.
    Already {
        /// Who held it.
        leader: Leader,
        /// How it ended.
        ended: EpochEnd,
    },
    /// The newest epoch is not the one that was meant, but this.
    NotCurrent(Leader),
    /// The record does not say for how long its holder may believe in it: it is a foreign peer's,
    /// has no validity, or cannot be read. Once it is known to be dead, use
    /// [`depose_dead`](crate::Election::depose_dead).
    NeedsForce(Leader),
    /// The newest epoch has no holder: a restoring that was not finished holds it, and an epoch
    /// below may have a leader. Run [`restore`](crate::Election::restore) with this epoch again.
    Held(Epoch),
    /// The holder renewed its lease each time before the seal came. Try again.
    Renewed(Leader),
    /// There is no epoch.
    NoLeader,
}

/// What [`Election::restore`](crate::Election::restore) came to. Unless it is `Sealed`, candidates
/// find the election as it was, or waiting for this to be run again.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Restored {
    /// The epoch is there and sealed: the next leader gets a greater one.
    Sealed {
        /// The epoch.
        epoch: Epoch,
        /// How long a successor waits, from when it first sees the seal: for what was asked for,
        /// and for the leases of those who were deposed by this.
        wait: Duration,
    },
    /// It was restored before, and nobody has been elected since.
    Already(Epoch),
    /// This epoch, or a greater one, was restored before or meanwhile, with a shorter wait than was
    /// asked for now. Candidates may be on their way, so it is too late to change that wait.
    /// Restore a greater epoch than this with the wait that was asked for.
    WaitsLess {
        /// The newest epoch.
        epoch: Epoch,
        /// How long successors wait, from when they first see the seal.
        wait: Duration,
    },
    /// There is an epoch as great or greater, so counting goes on above it already.
    Exists(Leader),
    /// A restoring to this greater epoch was not finished, and nobody is elected until it is. Run
    /// [`restore`](crate::Election::restore) with this epoch, and with the wait that was asked for
    /// now.
    Held(Epoch),
    /// An epoch below does not say for how long its holder may believe in it. Once it is known to be
    /// dead, call [`depose_dead`](crate::Election::depose_dead), and restore again.
    NeedsForce(Leader),
    /// The single object cannot be read, so nobody knows for how long its holder may believe in it,
    /// and no wait was given. Give its validity; once it is known to be dead, any wait above 0.
    NeedsWait,
}
