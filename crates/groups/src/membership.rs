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

/// The membership of a process that has joined a group, until its session ends.
///
/// Dropping a membership stops the renewals, and the session lapses. The session is not resigned,
/// because work may still run.
///
/// # Examples
/// A program that keeps its own table of partitions reads the events. Other programs call
/// [`run`](super::Group::run).
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
/// assert!(owned.is_empty()); // this process left, and has released all partitions
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a membership stops the renewals of its session"]
pub struct Membership {
    pub(super) ownership: Arc<Ownership>,
    pub(super) notices: mpsc::UnboundedReceiver<Notice>,
    /// Sender that is dropped with the membership. The task of the member then ends.
    pub(super) _alive: mpsc::Sender<()>,
}

impl Membership {
    /// Waits for the next event. Returns `None` after [`Lost`](MembershipEvent::Lost). Cancel-safe.
    ///
    /// If the runtime in which this process joined has ended, `Lost` comes one request timeout
    /// after the end of the lease.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime with timers.
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

    /// Returns whether this process is a member: the lease of its session runs, and the newest
    /// assignment that the process has read names the session. Sends no request.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.ownership.is_member()
    }

    /// Returns the events as a stream. The stream owns the membership. This method sends no
    /// request.
    pub fn into_stream(self) -> impl Stream<Item = MembershipEvent> + Send + Unpin {
        Box::pin(stream::unfold(self, |mut membership| async {
            let event = membership.next().await?;
            Some((event, membership))
        }))
    }

    /// Returns the lease of this member's session. The member owns its partitions only while this
    /// lease runs. This method sends no request.
    #[must_use]
    pub fn lease(&self) -> Lease {
        self.ownership.lease.clone()
    }

    /// Returns the id of this member's session, as in the assignment.
    #[must_use]
    pub fn session(&self) -> String {
        self.ownership.session.id.to_string()
    }

    /// Returns the newest assignment that this member has read.
    /// [`Group::since_last_answer`](super::Group::since_last_answer) returns the time since the
    /// last read. This method sends no request, and copies all members and partitions.
    #[must_use]
    pub fn last_seen(&self) -> GroupSnapshot {
        GroupSnapshot::of(self.ownership.known().as_ref())
    }

    /// Leaves the group. The member gets no more partitions, and all its partitions are revoked.
    /// Once all partitions are released, the member resigns the session, and
    /// [`Lost`](MembershipEvent::Lost) is the last event. Read the events until `Lost`. Costs two
    /// PUTs and the PUTs of the releases.
    ///
    /// Until the session is resigned, this call overrides an earlier
    /// [`leave_for`](Membership::leave_for), and no partition is reserved.
    pub fn leave(&self) {
        self.ownership.leave(None);
    }

    /// Leaves as [`leave`](Membership::leave) does, but reserves the partitions of this member for
    /// its name. The reservation lasts for `delay`, at most 1 h. During this time no member of
    /// another name owns these partitions. Call this method for a restart: a member of the same
    /// name gets the partitions back. No partition moves before the session is resigned.
    /// [`Group::unreserve`](super::Group::unreserve) ends a reservation early. After
    /// [`leave`](Membership::leave) this call has no effect.
    pub fn leave_for(&self, delay: Duration) {
        self.ownership.leave(Some(delay));
    }

    /// Asks the member to poll the store now. An application calls this method if it learns of a
    /// change before the next poll. The call is only a hint. Costs at most the requests of one
    /// poll.
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
