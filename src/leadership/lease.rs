//! A view of a lease.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::{Lead, Loss};
use crate::epoch::Epoch;
use crate::moment::Moment;

/// The lease of a [`Leadership`](super::Leadership), also for those who ask about it but do not
/// hold it: the handlers of a service, a health check. Clones are cheap and see the same lease.
///
/// It does not keep the leadership: once that is resigned, lost or dropped, [`check`](Lease::check)
/// fails. Nothing here sends a request.
#[derive(Clone)]
pub struct Lease {
    pub(crate) lead: Arc<Lead>,
}

impl Lease {
    /// The epoch, which is the fencing token while [`check`](Lease::check) says so.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.lead.epoch
    }

    /// The display name under which it was won.
    #[must_use]
    pub fn candidate(&self) -> &str {
        &self.lead.candidate
    }

    /// The token, if the lease still runs at this moment.
    ///
    /// # Errors
    /// The reason of the loss, from the end of the lease on and for ever after: stop the work.
    pub fn check(&self) -> Result<Epoch, Loss> {
        self.lead.check()
    }

    /// As [`check`](Lease::check), for those who only want the token.
    #[must_use]
    pub fn token(&self) -> Option<Epoch> {
        self.check().ok()
    }

    /// What is left of it, by the clock that says the least; zero once lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.check() {
            Ok(_) => self.lead.remaining(),
            Err(_) => Duration::ZERO,
        }
    }

    /// When it ends unless it is renewed, on each clock of this machine: at whichever comes
    /// first.
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
