//! Work under a leadership: its cancellation and its outcome.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::{Lead, Leadership, Loss};
use crate::epoch::Epoch;

/// Signals the work of [`Leadership::run`] to stop once the lease is at risk (less than a quarter
/// of the validity is left) or lost. The signal is final: a later renewal does not revoke it.
///
/// Clones share the signal. No method sends a request.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, RunOutcome, store::MemoryStore};
/// # use tenure_testkit::time::{TestClock, process};
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// # let process = process(&TestClock::new(), 1);
/// # let builder = || Election::builder(store.clone(), "orders/leader").process(process.clone());
/// # let (election, operator) = (builder().build()?, builder().build()?);
/// # async fn step() { tokio::time::sleep(std::time::Duration::from_secs(1)).await }
/// let work = election.campaign().await?.run(async |_token, cancelled| {
///     while !cancelled.is_cancelled() {
///         step().await; // short compared to the validity
///     }
/// });
/// // While the work runs, an operator deposes the leader: the work ends at the next renewal.
/// let (outcome, deposed) = tokio::join!(work, operator.depose(None));
/// assert!(matches!(outcome, RunOutcome::Lost { .. }));
/// # deposed?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Cancellation {
    lead: Arc<Lead>,
    token: CancellationToken,
}

/// The outcome of [`Leadership::run`].
#[derive(Debug)]
#[must_use = "the work may have stopped before its end: campaign again unless it completed"]
#[non_exhaustive]
pub enum RunOutcome<T> {
    /// The work was not cancelled, and returned under a valid lease. Holds the work's output.
    Completed(T),
    /// The work was cancelled because the lease was at risk, and returned under a valid lease.
    /// Holds the work's output.
    Cancelled(T),
    /// The leadership was lost before the work returned.
    Lost {
        /// Output of the work.
        value: T,
        /// The reason that the leadership ended.
        loss: Loss,
    },
}

impl Cancellation {
    /// Returns the signal of the work under `lease`. `token` must be a token that
    /// `Lead::begin_work` returned, or a child of that token.
    pub(crate) fn of(lease: &super::Lease, token: CancellationToken) -> Cancellation {
        Cancellation { lead: Arc::clone(&lease.lead), token }
    }

    /// Returns whether the work must stop. This method checks the lease, and does not depend on any
    /// task. So work that never yields can call it, even on a runtime with a single thread.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        if !self.token.is_cancelled() {
            self.lead.look_for_risk();
        }
        self.token.is_cancelled()
    }

    /// Waits until the work must stop. Cancel-safe. This method checks the lease at least every
    /// second, and does not depend on the task that renews the lease.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime with timers.
    pub async fn cancelled(&self) {
        tokio::select! {
            biased;
            () = self.token.cancelled() => {}
            () = self.lead.watch() => {}
        }
    }

    /// Returns a token of the crate `tokio-util`, for libraries that take one. The task that renews
    /// the lease cancels the token. If another method of this type detects earlier that the work
    /// must stop, that method cancels the token. If the caller cancels the token, other tokens are
    /// not affected.
    ///
    /// Unlike [`is_cancelled`](Cancellation::is_cancelled), the token does not check the lease. On
    /// a runtime with a single thread, no task can cancel the token until the work yields.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.token.child_token()
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation")
            .field("epoch", &self.lead.epoch)
            .field("cancelled", &self.token.is_cancelled())
            .finish()
    }
}

impl<T> RunOutcome<T> {
    /// Returns the work's output, whether or not the leadership was lost.
    pub fn into_value(self) -> T {
        match self {
            RunOutcome::Completed(value)
            | RunOutcome::Cancelled(value)
            | RunOutcome::Lost { value, .. } => value,
        }
    }

    /// If the leadership ended before the work returned, returns the reason of the loss. Otherwise
    /// returns `None`.
    #[must_use]
    pub fn loss(&self) -> Option<&Loss> {
        match self {
            RunOutcome::Lost { loss, .. } => Some(loss),
            RunOutcome::Completed(_) | RunOutcome::Cancelled(_) => None,
        }
    }
}

impl Leadership {
    /// Runs `work` while leading, then resigns.
    ///
    /// The work receives the token and a [`Cancellation`]. The `Cancellation` signals the work to
    /// return once the lease is at risk (less than a quarter of the validity is left) or lost. The
    /// leadership resigns only once the work has returned. If the resignation fails, the lease
    /// lapses. Dropping the future drops the work, then the leadership.
    ///
    /// Work that was cancelled has stopped, and may be unfinished. One cause of a cancellation is a
    /// store that did not answer for most of a validity. Campaign again unless the outcome is
    /// [`Completed`](RunOutcome::Completed).
    ///
    /// # Work that blocks
    /// The lease is renewed by a task of the runtime. While `work` blocks its thread (`std::fs`, a
    /// database's client without `async`), a runtime with several worker threads keeps renewing the
    /// lease. A runtime with a single thread cannot renew the lease. Three quarters of a validity
    /// after the last renewal, the lease is at risk, and
    /// [`is_cancelled`](Cancellation::is_cancelled) returns `true`. On a runtime with a single
    /// thread, use `tokio::task::spawn_blocking`.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime with timers.
    pub async fn run<F, W, T>(self, work: F) -> RunOutcome<T>
    where
        F: FnOnce(Epoch, Cancellation) -> W,
        W: Future<Output = T>,
    {
        let cancellation =
            Cancellation { token: self.lead.begin_work(), lead: Arc::clone(&self.lead) };
        let value = {
            let mut work = std::pin::pin!(work(self.epoch(), cancellation.clone()));
            tokio::select! {
                biased;
                value = &mut work => value,
                // The driver also cancels the work's token. This branch is necessary because the
                // driver's runtime may have ended.
                () = cancellation.cancelled() => work.await,
            }
        };
        let cancelled = cancellation.token.is_cancelled();
        if let Err(loss) = self.check() {
            return RunOutcome::Lost { value, loss };
        }
        if let Err(error) = self.resign().await {
            tracing::warn!(%error, "could not resign; the lease lapses");
        }
        if cancelled { RunOutcome::Cancelled(value) } else { RunOutcome::Completed(value) }
    }
}
