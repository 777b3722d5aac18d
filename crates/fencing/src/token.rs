//! The token of a writer, with its lease.

use std::fmt;
use std::sync::Arc;

use tenure::{Epoch, Loss, Term};

#[cfg(doc)]
use crate::error::FencingError;

/// A fencing token, optionally with the lease of the leadership that it belongs to.
///
/// If the token has a lease, a call of the writer ends once less than a quarter of the validity is
/// left, even if the store does not respond. The error is [`FencingError::LeaseEnding`]. A service
/// that only receives tokens has an [`Epoch`] without a lease. If the store does not respond, a
/// call under a token without a lease ends after the last attempt: by default after about 3 min.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, Loss, store::MemoryStore};
/// # use tenure_fencing::{FencedLog, FencingError};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = Arc::new(MemoryStore::new());
/// # let election = Election::builder(store.clone(), "orders/leader").build()?;
/// let leadership = election.campaign().await?;
/// let log = FencedLog::new(store, "orders/log")?;
/// let mut writer = log.open(&leadership).await?; // or &lease, &partition, an epoch
/// writer.append("one").await?;
///
/// leadership.resign().await?;
/// let refused = writer.append("two").await.unwrap_err(); // nothing is sent
/// assert!(matches!(refused, FencingError::LeaseEnding { loss: Some(Loss::Resigned), .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Token {
    epoch: Epoch,
    term: Option<Arc<dyn Term>>,
}

impl Token {
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Runs a call until it returns, or until the lease is at risk or has ended. If the lease has
    /// ended, the error is the loss. If the lease is only at risk, the error is `None`.
    pub(super) async fn bound<T>(&self, call: impl Future<Output = T>) -> Result<T, Option<Loss>> {
        let Some(term) = &self.term else { return Ok(call.await) };
        tokio::select! {
            biased;
            loss = term.ending() => Err(loss),
            outcome = call => Ok(outcome),
        }
    }
}

impl From<Epoch> for Token {
    fn from(epoch: Epoch) -> Token {
        Token { epoch, term: None }
    }
}

impl<T: Term> From<&T> for Token {
    fn from(term: &T) -> Token {
        Token { epoch: term.epoch(), term: Some(term.handle()) }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("epoch", &self.epoch)
            .field("lease", &self.term.is_some())
            .finish()
    }
}
