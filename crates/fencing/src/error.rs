//! The refusal of a token, and the other errors of the guards.

use std::fmt;

use tenure::store::Determinacy;
use tenure::{Epoch, Error, Loss};

/// A refused token: the guard has seen a greater one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Stale {
    /// The refused token.
    pub offered: Epoch,
    /// The greatest token that the guard has seen.
    pub newest: Epoch,
}

impl Stale {
    /// Creates the refusal of a token, for guards outside this crate. `offered` is the refused
    /// token, and `newest` is the greatest token that the guard has seen.
    #[must_use]
    pub const fn new(offered: Epoch, newest: Epoch) -> Stale {
        Stale { offered, newest }
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the token {} is refused: epoch {} has been seen", self.offered, self.newest)
    }
}

impl std::error::Error for Stale {}

/// The reason why a guarded resource was not read or written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum FencingError {
    /// A greater epoch has claimed the resource. The refusal is final: stop.
    ///
    /// With [`Determinacy::Indeterminate`], an attempt with a lost response may have written before
    /// the claim. In this case the writer of the greater epoch has read that write.
    Stale {
        /// The refused token and the greater token.
        stale: Stale,
        /// [`Determinacy::Indeterminate`] if this call may have written.
        determinacy: Determinacy,
    },
    /// Another writer of the same epoch opened the resource later than this writer. Every further
    /// call of this writer fails too. Use one writer per epoch, and share it.
    Replaced {
        /// Epoch of both writers.
        epoch: Epoch,
        /// [`Determinacy::Indeterminate`] if this call may have written.
        determinacy: Determinacy,
    },
    /// The lease of the writer's [`Token`](crate::Token) has ended, or is at risk: less than a
    /// quarter of its validity is left. The store did not cause this error. Stop the work. If the
    /// leader renews the lease before its end, the writer works again.
    LeaseEnding {
        /// Reason of the loss of the leadership; `None` if the lease is only at risk.
        loss: Option<Loss>,
        /// [`Determinacy::Indeterminate`] if this call may have written.
        determinacy: Determinacy,
    },
    /// The requested entries of a log were trimmed. Start at the oldest entry, or from a snapshot.
    Trimmed {
        /// Number of the oldest entry in the log.
        oldest: u64,
    },
    /// The store failed, or violated a guarantee that the guards require. The documentation of the
    /// error's kind gives the remedy.
    Failed(Error),
}

impl FencingError {
    /// Returns whether the requested write may have taken effect, or may take effect later. If
    /// `false`, the write has no effect, now or later.
    #[must_use]
    pub fn may_have_happened(&self) -> bool {
        match self {
            FencingError::Stale { determinacy, .. }
            | FencingError::Replaced { determinacy, .. }
            | FencingError::LeaseEnding { determinacy, .. } => {
                *determinacy == Determinacy::Indeterminate
            }
            FencingError::Trimmed { .. } => false,
            FencingError::Failed(error) => error.may_have_happened(),
        }
    }

    pub(crate) fn ending(loss: Option<Loss>, maybe: bool) -> FencingError {
        let determinacy = if maybe { Determinacy::Indeterminate } else { Determinacy::Determinate };
        FencingError::LeaseEnding { loss, determinacy }
    }

    /// Returns the refusal if a greater epoch caused this error.
    #[must_use]
    pub fn stale(&self) -> Option<Stale> {
        match self {
            FencingError::Stale { stale, .. } => Some(*stale),
            _ => None,
        }
    }
}

impl fmt::Display for FencingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FencingError::Stale { stale, .. } => write!(f, "{stale}")?,
            FencingError::Replaced { epoch, .. } => {
                write!(f, "a later writer of epoch {epoch} has opened the resource")?;
            }
            FencingError::LeaseEnding { loss: Some(loss), .. } => {
                write!(f, "the lease of the token has ended: {loss}")?;
            }
            FencingError::LeaseEnding { loss: None, .. } => {
                f.write_str("less than a quarter of the lease of the token is left")?;
            }
            FencingError::Trimmed { oldest } => {
                write!(f, "the entries before {oldest} were trimmed")?;
            }
            FencingError::Failed(error) => return write!(f, "{error}"),
        }
        if self.may_have_happened() {
            f.write_str(" (the write may have taken effect)")
        } else {
            Ok(())
        }
    }
}

impl std::error::Error for FencingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FencingError::Stale { stale, .. } => Some(stale),
            FencingError::LeaseEnding { loss: Some(loss), .. } => Some(loss),
            FencingError::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for FencingError {
    fn from(error: Error) -> FencingError {
        FencingError::Failed(error)
    }
}
