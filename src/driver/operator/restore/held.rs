//! The object that holds an epoch during a restore (RS3). A held epoch has no leader and never
//! lapses.

use std::time::Duration;

use serde_json::json;

use super::super::{Operator, Standing};
use super::{MAX_WAIT, millis};
use crate::epoch::Epoch;
use crate::protocol::message::EpochEnd;
use crate::record::{MAX_VALIDITY_MS, Record};

/// Field that contains the least epoch that may have a leader. A later call that continues the
/// unfinished restore deposes the holders of the epochs from this epoch up to the held epoch.
const ABOVE: &str = "restored_above";
/// Field that contains the maximum time, in milliseconds, for which a successor waits for the
/// leases of lower epochs.
const WAIT: &str = "wait_ms";

impl Operator {
    /// Returns the record of a held epoch. `wait` is the maximum time for which a successor waits
    /// for the leases of the known holders. The record stores this time, because the objects of
    /// these holders may be deleted before the restore seals the held epoch.
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

/// The data that a restore keeps in the object of a held epoch.
pub(super) struct RestoreHold {
    /// Least epoch that may have a leader: the newest epoch when the restore began. If another
    /// restore held that epoch, this value is copied from the same field of that epoch's object.
    /// `None` if no epoch existed.
    pub(super) above: Option<Epoch>,
    /// Time for which a successor waits, or `None` in an object that an earlier version of tenure
    /// wrote.
    pub(super) wait: Option<Duration>,
}

impl RestoreHold {
    /// Returns the maximum time for which a holder of a lower epoch may believe that it leads
    /// (RS6).
    pub(super) fn longest(&self) -> Duration {
        let unknown = if self.above.is_some() { MAX_WAIT } else { Duration::ZERO };
        self.wait.unwrap_or(unknown)
    }
}

/// Returns the data that a restore keeps in this object, or `None` if no restore holds the epoch.
pub(super) fn held(now: &Standing) -> Option<RestoreHold> {
    let record = now.record.as_ref().ok()?;
    let above = record.data[ABOVE].as_u64().and_then(Epoch::new);
    let wait = record.data[WAIT].as_u64().map(|ms| Duration::from_millis(ms.min(MAX_VALIDITY_MS)));
    record.is_held().then_some(RestoreHold { above, wait })
}
