//! The metric that shows when the last completed period of a job began.

use std::time::Duration;

use chrono::{DateTime, Utc};
use metrics::{describe_gauge, gauge};
use tracing::warn;

use super::record_place::RecordPlace;
use crate::exit;
use crate::output::print::plain;
use crate::process::timer::pause;

const LAST_COMPLETED: &str = "tenure_period_last_completed_timestamp_seconds";
/// Interval between two reads of the period record by an observer. Each read is 1 GET.
const EVERY: Duration = Duration::from_secs(60);

/// Sets the metric of this election. Has no effect if the process exports no metrics.
pub fn set(place: &RecordPlace, last_completed: Option<DateTime<Utc>>) {
    let Some(start) = last_completed else { return };
    describe_gauge!(
        LAST_COMPLETED,
        metrics::Unit::Seconds,
        "Start of the last completed period of run --once-per, in seconds since the Unix epoch"
    );
    // An f64 exactly represents the Unix time of every date in whole seconds.
    gauge!(LAST_COMPLETED, "election" => place.election()).set(start.timestamp() as f64);
}

/// After the first of every 60 failed reads, a LIST shows whether a record exists.
const READS_PER_LIST: u32 = 60;

/// Reads the record every minute. A failed read does not change the metric. A failure that an
/// operator must correct is logged once, and only if a record exists. If no run has written a
/// record yet, the failure is logged within an hour after the job's first run.
pub async fn follow(place: RecordPlace) {
    let (mut is_logged, mut failures) = (false, 0_u32);
    loop {
        match place.read().await {
            Ok(record) => set(&place, record.and_then(|record| record.last_completed)),
            Err(failure) if failure.code != exit::UNAVAILABLE && !is_logged => {
                // Without a record, no warning is necessary. An election that is not a job has no
                // record of periods, so its observers need no permission to read a record.
                is_logged = failures.is_multiple_of(READS_PER_LIST) && place.exists().await;
                failures = failures.wrapping_add(1);
                if is_logged {
                    let why = plain(&failure.why);
                    warn!(outcome = "failed", "the metric of completed periods is not set: {why}");
                }
            }
            Err(_) => {}
        }
        pause(EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenure::store::{MemoryStore, Store as _};
    use tenure_testkit::fault_store::{Call, Fault, FaultStore};

    use super::*;

    /// Before the fix, an observer that started before the job's first run never logged that it had
    /// no permission to read the period record.
    #[tokio::test(start_paused = true)]
    async fn regression_a_denied_record_is_reported_after_the_first_run() {
        let store = FaultStore::new(Arc::new(MemoryStore::new()));
        store.on(Call::Get).always().fault(Fault::Denied);
        let follower = follow(RecordPlace::new(Arc::new(store.clone()), "a"));
        let follower = tokio::spawn(follower);
        let lists = async || {
            pause(EVERY * READS_PER_LIST).await;
            store.take_calls().iter().filter(|call| **call == Call::List).count()
        };
        assert_eq!(lists().await, 1, "no record exists");
        store.create("a/once-per.json", "{}".into()).await.expect("a new key");
        assert_eq!(lists().await, 1, "the record exists");
        assert_eq!(lists().await, 0, "the failure is logged");
        follower.abort();
    }
}
