//! The right of one process to write: a leadership, or the ownership of a partition.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};

use crate::api::leadership::{Leadership, Lease, Loss};
use crate::driver::lead::SharedValues;
use crate::epoch::Epoch;

/// A right to write that this process holds for a time: a [`Leadership`], its [`Lease`], or the
/// ownership of a partition (`tenure_groups::Partition`).
///
/// Guards and path locks accept each of these types. No method sends a request.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, Loss, Term, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// /// Writes under a leadership or a partition.
/// fn write(term: &dyn Term) -> Result<String, Loss> {
///     Ok(format!("written with token {}", term.check()?))
/// }
///
/// let election = Election::builder(Arc::new(MemoryStore::new()), "orders/leader").build()?;
/// let leadership = election.campaign().await?;
/// assert_eq!(write(&leadership).unwrap(), "written with token 1");
///
/// let term = leadership.handle(); // outlives the leadership, and then fails
/// leadership.resign().await?;
/// assert!(matches!(write(&*term), Err(Loss::Resigned)));
/// # Ok(())
/// # }
/// ```
pub trait Term: Send + Sync + 'static {
    /// Returns the fencing token. The token is valid only while [`check`](Term::check) succeeds.
    fn epoch(&self) -> Epoch;

    /// Returns the token if the term has not ended.
    ///
    /// # Errors
    /// Returns the reason of the loss. Stop the work, because a loss is final.
    fn check(&self) -> Result<Epoch, Loss>;

    /// Waits until the term has ended, and returns the reason. Cancel-safe. Needs a Tokio runtime
    /// with timers.
    fn lost(&self) -> BoxFuture<'_, Loss>;

    /// Waits until less than a quarter of the validity remains, or the term has ended. Returns the
    /// reason if the term has ended. Cancel-safe. Needs a Tokio runtime with timers.
    fn ending(&self) -> BoxFuture<'_, Option<Loss>>;

    /// Returns another handle to the same term. The handle does not keep the term alive.
    fn handle(&self) -> Arc<dyn Term>;

    /// Returns the values that all tasks under this term share.
    #[doc(hidden)]
    fn shared(&self) -> &SharedValues;
}

impl Term for Lease {
    fn epoch(&self) -> Epoch {
        self.lead.epoch
    }

    fn check(&self) -> Result<Epoch, Loss> {
        self.lead.check()
    }

    fn lost(&self) -> BoxFuture<'_, Loss> {
        self.lead.lost().boxed()
    }

    fn ending(&self) -> BoxFuture<'_, Option<Loss>> {
        self.lead.ending().boxed()
    }

    fn handle(&self) -> Arc<dyn Term> {
        Arc::new(self.clone())
    }

    fn shared(&self) -> &SharedValues {
        &self.lead.shared
    }
}

impl Term for Leadership {
    fn epoch(&self) -> Epoch {
        Term::epoch(&**self)
    }

    fn check(&self) -> Result<Epoch, Loss> {
        Term::check(&**self)
    }

    fn lost(&self) -> BoxFuture<'_, Loss> {
        Term::lost(&**self)
    }

    fn ending(&self) -> BoxFuture<'_, Option<Loss>> {
        Term::ending(&**self)
    }

    fn handle(&self) -> Arc<dyn Term> {
        Term::handle(&**self)
    }

    fn shared(&self) -> &SharedValues {
        Term::shared(&**self)
    }
}
