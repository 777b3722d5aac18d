//! One process's membership in a group.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};
use tokio::sync::mpsc;

use super::ownership::Ownership;
use super::partition::Partition;
use super::view::GroupSnapshot;
use crate::protocol::PartitionNumber;
use tenure::Error;
use tenure::{Lease, Loss};

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

/// A process that has joined a group, until its session is over.
///
/// Dropping it stops the renewals and lets the session lapse, as work may still be running.
///
/// # Examples
///
/// For programs that keep their own table of partitions; others call [`run`](super::Group::run).
/// ```
/// # use std::{collections::BTreeMap, sync::Arc};
/// # use tenure::store::MemoryStore;
/// # use tenure_groups::{Group, MembershipEvent};
/// # use tenure_testkit::time::{TestClock, process};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// # let process = process(&TestClock::new(), 1);
/// # let group = Group::builder(store, "orders").partitions(0..4).process(process).build()?;
/// let mut membership = group.join().await?;
/// let mut owned = BTreeMap::new();
/// while let Some(event) = membership.next().await {
///     match event {
///         MembershipEvent::Granted(it) => drop(owned.insert(it.number(), it)), // begin the work
///         MembershipEvent::Revoked { number, .. } => owned.remove(&number).unwrap().release(),
///         MembershipEvent::Lost(_) => break,
///         _ => {}
///     }
/// #     if owned.len() == 4 { membership.leave() }
/// }
/// assert!(owned.is_empty()); // this process left, and has released all
/// # Ok(())
/// # }
/// ```
#[must_use = "a membership that is dropped is no longer renewed"]
pub struct Membership {
    pub(super) shared: Arc<Ownership>,
    pub(super) events: mpsc::UnboundedReceiver<MembershipEvent>,
    /// Closed when this is dropped: then the task of the member ends.
    pub(super) _alive: mpsc::Sender<()>,
}

impl Membership {
    /// Waits for the next event; `None` after [`Lost`](MembershipEvent::Lost). Cancel-safe.
    ///
    /// If the runtime in which this process joined has ended, `Lost` comes a request timeout after
    /// the end of the lease.
    ///
    /// # Panics
    /// Outside of a Tokio runtime with timers.
    pub async fn next(&mut self) -> Option<MembershipEvent> {
        tokio::select! {
            biased;
            event = self.events.recv() => return event,
            loss = self.shared.is_abandoned() => self.shared.lost(loss),
        }
        self.events.recv().await
    }

    /// Returns whether this process is a member: its lease runs, and the assignment that it read
    /// last names it. No request.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.shared.is_member()
    }

    /// Returns the events as a stream, which keeps the membership. No request.
    pub fn into_stream(self) -> impl Stream<Item = MembershipEvent> + Send + Unpin {
        Box::pin(stream::unfold(self, |mut membership| async {
            let event = membership.next().await?;
            Some((event, membership))
        }))
    }

    /// Returns the lease of this member's session. All partitions that it owns last as long. No
    /// request.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.shared.lease.clone()
    }

    /// Returns the id of this member's session, as the assignment names it.
    #[must_use]
    pub fn session(&self) -> String {
        self.shared.session.id.to_string()
    }

    /// Returns the assignment that this member has read last: who owns what, as far as it knows. It
    /// is as old as [`Group::since_last_answer`](super::Group::since_last_answer) says. No request;
    /// a copy of all members and partitions.
    #[must_use]
    pub fn last_seen(&self) -> GroupSnapshot {
        self.shared.last_seen()
    }

    /// Takes no more partitions, and revokes all that this member owns. Once they are released the
    /// session is resigned, and [`Lost`](MembershipEvent::Lost) is the last event: read the events
    /// until then. Two PUTs, beside those of the releases.
    ///
    /// It takes back a [`leave_for`](Membership::leave_for) until the session is resigned: nothing
    /// is reserved then.
    pub fn leave(&self) {
        self.shared.leave(None);
    }

    /// As [`leave`](Membership::leave), but asks that all that this member owns is reserved for its
    /// name, for at most 1 h: nobody else owns it until then. For a restart, after which a member
    /// of the same name gets it back. Nothing moves before the session is resigned.
    /// [`Group::unreserve`](super::Group::unreserve) ends a reservation early. After
    /// [`leave`](Membership::leave) it has no effect.
    pub fn leave_for(&self, delay: Duration) {
        self.shared.leave(Some(delay));
    }

    /// Looks at the store now, for an application that learns of a change in another way. This is
    /// only a hint. At most what a poll costs.
    pub fn refresh(&self) {
        self.shared.wake.notify_one();
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership")
            .field("session", &self.shared.session.id)
            .field("lease", &self.shared.lease)
            .finish_non_exhaustive()
    }
}
