//! A partition that this member owns.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::grant::{Grant, PartitionLoss};
use super::ownership::Ownership;
use futures::future::{BoxFuture, FutureExt as _};

use crate::protocol::PartitionNumber;
use tenure::internals::groups::SharedValues;
use tenure::{Cancellation, Epoch, Loss, Moment, Term};

/// A partition that this member was granted, with its fencing token.
/// Call [`check`](Partition::check) right before each write, and send the token with the write, as
/// under a [`Leadership`](tenure::Leadership). The member may lose the partition between the check
/// and the write, so the guarded resource must refuse lower tokens.
///
/// Dropping a `Partition` releases nothing, because the work may still run. The member keeps the
/// partition until it [releases](Partition::release) it or until its session ends.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::store::MemoryStore;
/// # use tenure_fencing::FencedObject;
/// # use tenure_groups::Group;
/// # use tenure_testkit::time::{TestClock, process};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// # let process = process(&TestClock::new(), 1);
/// # let group = Group::builder(store.clone(), "orders").partitions(0..4).process(process);
/// # let group = group.build()?;
/// # let stop = group.clone();
/// group
///     .run(async |partition| {
///         let object = FencedObject::new(store.clone(), format!("state/{}", partition.name()));
///         // From here on the store refuses writes of former owners, however late they arrive:
///         let mut writer = object.open(&partition).await?; // fails once the session ends
///         writer.write("a step further").await?;
/// #       stop.leave();
///         partition.revoked().cancelled().await;
///         Ok(()) // releases the partition
///     })
///     .await?;
/// # let state = FencedObject::new(store, "state/3").read().await?.unwrap();
/// # assert!(state.body.is_some() && state.epoch.get() > 1);
/// # Ok(())
/// # }
/// ```
pub struct Partition {
    pub(super) grant: Arc<Grant>,
    pub(super) ownership: Arc<Ownership>,
}

impl Partition {
    /// Returns another handle to the same ownership.
    pub(super) fn another(&self) -> Partition {
        Partition { grant: Arc::clone(&self.grant), ownership: Arc::clone(&self.ownership) }
    }

    /// Waits until this member no longer owns the partition. Returns the reason as the [`Loss`]
    /// that a leadership would report.
    async fn loss(&self) -> Loss {
        let ended = async {
            loop {
                let ended = self.ownership.ended.notified();
                if let Some(loss) = self.grant.loss_of_a_term() {
                    return loss;
                }
                ended.await;
            }
        };
        tokio::select! {
            biased;
            loss = self.ownership.lease.lost() => loss,
            loss = ended => loss,
        }
    }

    /// Returns the name of the partition.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.grant.name
    }

    /// Returns the number of the partition in its group. No other partition ever gets this number.
    #[must_use]
    pub fn number(&self) -> PartitionNumber {
        self.grant.release.partition
    }

    /// Returns the fencing token. It is valid only while [`check`](Partition::check) succeeds.
    #[must_use]
    pub fn token(&self) -> Epoch {
        self.grant.release.token
    }

    /// Returns the id of this member's session, as in the assignment.
    #[must_use]
    pub fn session(&self) -> String {
        self.ownership.session.id.to_string()
    }

    /// Returns the token if this member owns the partition at this moment. Sends no request.
    ///
    /// # Errors
    /// Returns the reason if this member no longer owns the partition. Stop the work. A loss is
    /// final.
    pub fn check(&self) -> Result<Epoch, PartitionLoss> {
        // Check the lease before the grant. In the opposite order, this method would not notice a
        // release during the check of the lease.
        self.ownership.lease.check().map_err(PartitionLoss::Session)?;
        self.grant.loss().map_or(Ok(self.token()), Err)
    }

    /// Returns the time until the ownership ends if the session is not renewed. If the clocks of
    /// this machine show different remaining times, the shortest counts. Returns zero once the
    /// partition is lost. Sends no request.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.grant.loss() {
            None => self.ownership.lease.remaining(),
            Some(_) => Duration::ZERO,
        }
    }

    /// Returns the time at which the ownership ends if the session is not renewed, on each clock of
    /// this machine. The ownership ends when the first clock reaches its time. Each renewal moves
    /// this time. Sends no request.
    #[must_use]
    pub fn ends_at(&self) -> Moment {
        self.ownership.lease.ends_at()
    }

    /// Returns the signal to stop the work. The signal is final. It is sent in these cases:
    /// - The partition must move to another member.
    /// - The session is at risk: less than a quarter of its validity remains.
    /// - The partition is lost.
    #[must_use]
    pub fn revoked(&self) -> Cancellation {
        Cancellation::under(&self.ownership.lease, self.grant.stop.clone())
    }

    /// Releases the partition. Stop the work on it first: another member may own the partition once
    /// the coordinator has read the release. [`check`](Partition::check) fails from this call on,
    /// even if the coordinator cancels the move of the partition.
    ///
    /// Costs one PUT in the background for all partitions that are released within a second. The
    /// member repeats the release with each renewal until an assignment shows that the partition
    /// has moved.
    pub fn release(self) {
        self.release_for(Duration::ZERO);
    }

    /// Releases as [`release`](Partition::release) does, after the work has failed in this process.
    /// The group does not grant the partition to this member again for `back_off`, at most 24 h. If
    /// another member may own the partition and has not released it with a back-off, the partition
    /// moves to that member. It then does not return to this member within ten minutes.
    pub fn release_for(self, back_off: Duration) {
        self.ownership.release(&self.grant, back_off.min(MAX_BACK_OFF));
    }
}

impl Term for Partition {
    fn epoch(&self) -> Epoch {
        self.token()
    }

    /// Does the same as [`check`](Partition::check), but the error is the [`Loss`] that a
    /// leadership would report.
    fn check(&self) -> Result<Epoch, Loss> {
        self.ownership.lease.check()?;
        self.grant.loss_of_a_term().map_or(Ok(self.token()), Err)
    }

    fn lost(&self) -> BoxFuture<'_, Loss> {
        self.loss().boxed()
    }

    fn ending(&self) -> BoxFuture<'_, Option<Loss>> {
        async {
            tokio::select! {
                biased;
                loss = self.loss() => Some(loss),
                loss = self.ownership.lease.ending() => loss,
            }
        }
        .boxed()
    }

    fn handle(&self) -> Arc<dyn Term> {
        Arc::new(self.another())
    }

    /// Returns the values of this grant. The next grant of the partition has new values.
    fn shared(&self) -> &SharedValues {
        &self.grant.values
    }
}

const MAX_BACK_OFF: Duration = Duration::from_secs(24 * 60 * 60);

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition")
            .field("name", &self.grant.name)
            .field("number", &self.number())
            .field("token", &self.token())
            .field("loss", &self.check().err())
            .finish_non_exhaustive()
    }
}
