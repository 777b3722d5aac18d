//! The epoch object that holds an epoch while it is restored: nobody leads it, and it never lapses.

use std::time::Duration;

use serde_json::json;

use super::super::{Operator, Standing};
use super::{MAX_WAIT, millis};
use crate::epoch::Epoch;
use crate::protocol::message::EpochEnd;
use crate::record::{MAX_VALIDITY_MS, Record};

/// Where a held epoch says above which it was restored, for a run that goes on after another.
const ABOVE: &str = "restored_above";
/// Where it says how long, in milliseconds, the holder of that one may believe that it leads.
const WAIT: &str = "wait_ms";

impl Operator {
    /// Held by nobody who could lead, and never lapsing. `wait` is how long successors have to wait
    /// for the holders that are known: in this object, as theirs may be gone when it is sealed.
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

/// What a held epoch says.
pub(super) struct RestoreHold {
    /// The newest epoch below it when it was created.
    pub(super) above: Option<Epoch>,
    /// `None` in one that an earlier version has made.
    pub(super) wait: Option<Duration>,
}

impl RestoreHold {
    /// The longest that anybody below may believe, as far as it says so.
    pub(super) fn longest(&self) -> Duration {
        let unknown = if self.above.is_some() { MAX_WAIT } else { Duration::ZERO };
        self.wait.unwrap_or(unknown)
    }
}

/// `None` if it is not a held one.
pub(super) fn held(now: &Standing) -> Option<RestoreHold> {
    let record = now.record.as_ref().ok()?;
    let above = record.data[ABOVE].as_u64().and_then(Epoch::new);
    let wait = record.data[WAIT].as_u64().map(|ms| Duration::from_millis(ms.min(MAX_VALIDITY_MS)));
    record.is_held().then_some(RestoreHold { above, wait })
}
