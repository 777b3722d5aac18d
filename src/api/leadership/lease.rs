//! A handle to a lease.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Lead, Loss};
use crate::env::moment::Moment;
use crate::epoch::Epoch;

/// A handle to the lease of a [`Leadership`](super::Leadership). Use it in code that checks the
/// lease but does not own the leadership, such as a health check or the handlers of a service.
/// Clones are cheap and share the lease.
///
/// A handle does not keep the leadership alive. Once the leadership is resigned, lost or dropped,
/// [`check`](Lease::check) fails. No method sends a request.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, Loss, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let election = Election::builder(Arc::new(MemoryStore::new()), "orders/leader").build()?;
/// let leadership = election.campaign().await?;
/// let lease = leadership.lease();
/// // A handler of the service, in any task or thread:
/// let handle = move || lease.check().map(|token| format!("written with token {token}"));
/// assert_eq!(handle().unwrap(), "written with token 1");
///
/// leadership.resign().await?;
/// assert!(matches!(handle(), Err(Loss::Resigned)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Lease {
    pub(crate) lead: Arc<Lead>,
}

impl Lease {
    /// Returns the epoch. The epoch is a valid fencing token only while [`check`](Lease::check)
    /// succeeds.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.lead.epoch
    }

    /// Returns the display name of the candidate that was elected.
    #[must_use]
    pub fn candidate(&self) -> &str {
        &self.lead.candidate
    }

    /// Returns the token if the lease has not ended.
    ///
    /// # Errors
    /// At and after the end of the lease, returns the reason of the loss. Stop the work, because a
    /// loss is final.
    pub fn check(&self) -> Result<Epoch, Loss> {
        self.lead.check()
    }

    /// Returns the token as [`check`](Lease::check) does, or `None` after a loss.
    #[must_use]
    pub fn token(&self) -> Option<Epoch> {
        self.check().ok()
    }

    /// Returns the remaining time of the lease, by the clock that shows the least remaining time.
    /// Returns zero after a loss.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.check() {
            Ok(_) => self.lead.remaining(),
            Err(_) => Duration::ZERO,
        }
    }

    /// Returns the end of the lease on each clock of this machine, if no renewal follows. The first
    /// clock that reaches its end ends the lease.
    #[must_use]
    pub fn ends_at(&self) -> Moment {
        self.lead.end()
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("epoch", &self.lead.epoch)
            .field("candidate", &self.lead.candidate)
            .field("end", &self.lead.end())
            .finish_non_exhaustive()
    }
}
