//! One process's membership in a group.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream};
use tokio::sync::mpsc;

use super::events::MembershipEvent;
use super::ownership::{Notice, Ownership};
use super::view::GroupSnapshot;
use tenure::Lease;

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
    pub(super) ownership: Arc<Ownership>,
    pub(super) notices: mpsc::UnboundedReceiver<Notice>,
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
        let notice = tokio::select! {
            biased;
            notice = self.notices.recv() => notice,
            loss = self.ownership.is_abandoned() => {
                self.ownership.lost(loss);
                self.notices.recv().await
            }
        };
        Some(MembershipEvent::new(notice?, &self.ownership))
    }

    /// Returns whether this process is a member: its lease runs, and the assignment that it read
    /// last names it. No request.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.ownership.is_member()
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
        self.ownership.lease.clone()
    }

    /// Returns the id of this member's session, as the assignment names it.
    #[must_use]
    pub fn session(&self) -> String {
        self.ownership.session.id.to_string()
    }

    /// Returns the assignment that this member has read last: who owns what, as far as it knows. It
    /// is as old as [`Group::since_last_answer`](super::Group::since_last_answer) says. No request;
    /// a copy of all members and partitions.
    #[must_use]
    pub fn last_seen(&self) -> GroupSnapshot {
        GroupSnapshot::of(self.ownership.known().as_ref())
    }

    /// Takes no more partitions, and revokes all that this member owns. Once they are released the
    /// session is resigned, and [`Lost`](MembershipEvent::Lost) is the last event: read the events
    /// until then. Two PUTs, beside those of the releases.
    ///
    /// It takes back a [`leave_for`](Membership::leave_for) until the session is resigned: nothing
    /// is reserved then.
    pub fn leave(&self) {
        self.ownership.leave(None);
    }

    /// As [`leave`](Membership::leave), but asks that all that this member owns is reserved for its
    /// name, for at most 1 h: nobody else owns it until then. For a restart, after which a member
    /// of the same name gets it back. Nothing moves before the session is resigned.
    /// [`Group::unreserve`](super::Group::unreserve) ends a reservation early. After
    /// [`leave`](Membership::leave) it has no effect.
    pub fn leave_for(&self, delay: Duration) {
        self.ownership.leave(Some(delay));
    }

    /// Looks at the store now, for an application that learns of a change in another way. This is
    /// only a hint. At most what a poll costs.
    pub fn refresh(&self) {
        self.ownership.wake.notify_one();
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership")
            .field("session", &self.ownership.session.id)
            .field("lease", &self.ownership.lease)
            .finish_non_exhaustive()
    }
}
