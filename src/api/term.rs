//! The time in which this process alone may write: a leadership, or the ownership of a partition.

use std::sync::Arc;

use crate::driver::lead::{Lead, Loss};
use crate::epoch::Epoch;
use crate::group::Partition;

#[derive(Clone)]
pub(crate) enum Term {
    Leadership(Arc<Lead>),
    Partition(Arc<Partition>),
}

impl Term {
    pub(crate) fn of_partition(partition: &Partition) -> Term {
        Term::Partition(Arc::new(partition.handle()))
    }

    pub(crate) fn token(&self) -> Epoch {
        match self {
            Term::Leadership(lead) => lead.epoch,
            Term::Partition(partition) => partition.token(),
        }
    }

    pub(crate) fn check(&self) -> Result<Epoch, Loss> {
        match self {
            Term::Leadership(lead) => lead.check(),
            Term::Partition(partition) => partition.check_as_leader(),
        }
    }

    pub(crate) async fn lost(&self) -> Loss {
        match self {
            Term::Leadership(lead) => lead.lost().await,
            Term::Partition(partition) => partition.lost_as_leader().await,
        }
    }

    /// Waits until the lease is at risk or has ended. Returns the loss if it has ended.
    pub(crate) async fn ending(&self) -> Option<Loss> {
        match self {
            Term::Leadership(lead) => lead.ending().await,
            Term::Partition(partition) => partition.ending_as_leader().await,
        }
    }
}
