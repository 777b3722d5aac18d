//! The reasons for the end of a leadership.

use std::fmt;
use std::time::Duration;

use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::message::EpochEnd;
use crate::store::escape::plain;

/// The reason for the end of a leadership. A loss is final. To lead again, campaign again; the next
/// leadership has another epoch.
///
/// The epoch may remain unsealed after the loss, until a peer or an operator seals it. [`EpochEnd`]
/// describes the end of an epoch.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Election, EpochEnd, Loss, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// # let store = Arc::new(MemoryStore::new());
/// # let process = |name| Election::builder(store.clone(), "orders/leader").name(name).build();
/// let leadership = process("worker-7")?.campaign().await?;
/// process("operator")?.depose(None).await?;
/// # assert!(leadership.proclaim("a write, before the next renewal").await.is_err());
/// let campaign_again = match leadership.lost().await {
///     Loss::Vanished | Loss::Tampered => false, // another program changes the objects
///     Loss::Sealed { ended, .. } => ended != EpochEnd::Deposed, // not after a deposition
///     _ => true,
/// };
/// assert!(!campaign_again);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Loss {
    /// A greater epoch exists. The peer that created the greater epoch did not seal the epoch of
    /// this leadership.
    Superseded {
        /// The greater epoch.
        by: Epoch,
    },
    /// An operator sealed the epoch, or a peer did because it considered this process dead.
    Sealed {
        /// The name of the peer or operator, from the record.
        by: Option<String>,
        /// End of the epoch, from the record.
        ended: EpochEnd,
    },
    /// The lease ended before a renewal succeeded.
    LeaseEnded {
        /// The error of the last request, if it failed.
        last_error: Option<Error>,
    },
    /// The process or its machine was paused, and the lease ended in the meantime.
    Suspended {
        /// Duration of the pause.
        gap: Duration,
    },
    /// The wall clock moved ahead of the boot and raw clocks, and only the wall clock has reached
    /// the end of the lease. Either the clock was set forward, or the virtual machine was paused. A
    /// process cannot distinguish these causes. If pauses are impossible, set
    /// [`machine_is_never_paused`](crate::ElectionBuilder::machine_is_never_paused).
    WallClockAhead {
        /// Gain of the wall clock on the other clocks since the lease was last extended.
        by: Duration,
    },
    /// The epoch object was deleted.
    Vanished,
    /// The epoch object has a body that this leader never wrote.
    Tampered,
    /// This process resigned, or dropped its leadership.
    Resigned,
}

impl Loss {
    /// Returns true if a clock of this process ended the lease. Returns false if an answer of the
    /// store or a resignation ended the leadership.
    pub(crate) fn is_by_the_clock(&self) -> bool {
        matches!(
            self,
            Loss::LeaseEnded { .. } | Loss::Suspended { .. } | Loss::WallClockAhead { .. }
        )
    }

    /// Returns the reason as one word, for logs and metrics. The words never change.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match self {
            Loss::Superseded { .. } => "superseded",
            Loss::Sealed { .. } => "sealed",
            Loss::LeaseEnded { .. } => "lease_ended",
            Loss::Suspended { .. } => "suspended",
            Loss::WallClockAhead { .. } => "wall_clock_ahead",
            Loss::Vanished => "vanished",
            Loss::Tampered => "tampered",
            Loss::Resigned => "resigned",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Superseded { by } => write!(f, "superseded by epoch {by}"),
            Loss::Sealed { by, ended } => {
                let by = by.as_deref().map_or_else(|| "another process".to_owned(), plain);
                write!(f, "{by} sealed the epoch ({ended})")
            }
            Loss::LeaseEnded { last_error: None } => {
                f.write_str("the lease ended before a renewal succeeded")
            }
            Loss::LeaseEnded { last_error: Some(error) } => {
                write!(f, "the lease ended before a renewal succeeded: {error}")
            }
            Loss::Suspended { gap } => {
                write!(f, "the process was paused for {gap:.1?}, and the lease ended")
            }
            Loss::WallClockAhead { by } => {
                write!(
                    f,
                    "the wall clock moved {by:.1?} ahead of the other clocks, and the lease ended \
                     by the wall clock: the clock was set forward, or the machine was paused"
                )
            }
            Loss::Vanished => f.write_str("another process deleted the epoch object"),
            Loss::Tampered => {
                f.write_str("the epoch object has a body that this leader never wrote")
            }
            Loss::Resigned => f.write_str("resigned"),
        }
    }
}

impl std::error::Error for Loss {}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../docs/reference/errors.md");

    #[test]
    fn every_loss_has_a_row_in_the_documentation() {
        let losses = [
            Loss::Superseded { by: Epoch::FIRST },
            Loss::Sealed { by: None, ended: EpochEnd::Lapsed },
            Loss::LeaseEnded { last_error: None },
            Loss::Suspended { gap: Duration::ZERO },
            Loss::WallClockAhead { by: Duration::ZERO },
            Loss::Vanished,
            Loss::Tampered,
            Loss::Resigned,
        ];
        for loss in losses {
            // If you add a variant to `Loss`, add it to this match and to the list above.
            let name = match loss {
                Loss::Superseded { .. } => "Superseded",
                Loss::Sealed { .. } => "Sealed",
                Loss::LeaseEnded { .. } => "LeaseEnded",
                Loss::Suspended { .. } => "Suspended",
                Loss::WallClockAhead { .. } => "WallClockAhead",
                Loss::Vanished => "Vanished",
                Loss::Tampered => "Tampered",
                Loss::Resigned => "Resigned",
            };
            let row = format!("| `{name}` | `{}` |", loss.outcome());
            assert!(PAGE.contains(&row), "{row}");
        }
    }
}
