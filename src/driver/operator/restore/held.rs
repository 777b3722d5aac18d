//! The object that holds an epoch during a restore (RS3). It has no leader and never lapses.

use std::time::Duration;

use serde_json::json;

use super::super::{Operator, Standing};
use super::{MAX_WAIT, millis};
use crate::epoch::Epoch;
use crate::protocol::message::EpochEnd;
use crate::record::{MAX_VALIDITY_MS, Record};

/// Field of the newest epoch below the held one. A later run continues the sweep from it.
const ABOVE: &str = "restored_above";
/// Field of the longest wait for the holders below, in milliseconds.
const WAIT: &str = "wait_ms";

impl Operator {
    /// Returns the record of a held epoch. `wait` is the longest wait of a successor for the known
    /// holders. This object keeps the wait, as the holders' objects may be deleted before the seal.
    pub(super) fn hold(&self, above: Option<Epoch>, wait: Duration) -> Record {
        let mut hold = Record::blank();
        hold.nonce = Some(self.cx.process.nonce());
        hold.heartbeat = 1;
        hold.ended = Some(EpochEnd::Restored);
        hold.elected_at = Some(self.cx.process.now().time_of_day());
        hold.data = json!({ ABOVE: above.map_or(0, Epoch::get), WAIT: millis(wait) });
        hold
    }
}

/// The data of a held epoch.
pub(super) struct RestoreHold {
    /// The newest epoch below the held one at its creation.
    pub(super) above: Option<Epoch>,
    /// Wait of a successor. Objects of earlier versions have none.
    pub(super) wait: Option<Duration>,
}

impl RestoreHold {
    /// Returns the longest time for which a holder below may believe that it leads (RS6).
    pub(super) fn longest(&self) -> Duration {
        let unknown = if self.above.is_some() { MAX_WAIT } else { Duration::ZERO };
        self.wait.unwrap_or(unknown)
    }
}

/// Returns the data of the hold, or `None` if the epoch is not held.
pub(super) fn held(now: &Standing) -> Option<RestoreHold> {
    let record = now.record.as_ref().ok()?;
    let above = record.data[ABOVE].as_u64().and_then(Epoch::new);
    let wait = record.data[WAIT].as_u64().map(|ms| Duration::from_millis(ms.min(MAX_VALIDITY_MS)));
    record.is_held().then_some(RestoreHold { above, wait })
}
