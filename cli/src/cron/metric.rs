//! The metric for the start of the last completed period of a job.

use std::mem::replace;
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
        "The start of the last completed period of run --once-per, since the Unix epoch"
    );
    // An f64 represents the Unix time of every date in whole seconds exactly.
    gauge!(LAST_COMPLETED, "election" => place.election()).set(start.timestamp() as f64);
}

/// Reads the record every minute. A failed read does not change the metric. The first failure that
/// an operator must correct is logged.
pub async fn follow(place: RecordPlace) {
    let mut has_failed = false;
    loop {
        match place.read().await {
            Ok(record) => set(&place, record.and_then(|record| record.last_completed)),
            Err(failure)
                if failure.code != exit::UNAVAILABLE && !replace(&mut has_failed, true) =>
            {
                // An election that is not a job has no record of periods, so it needs no permission
                // to read one.
                if place.exists().await {
                    let why = plain(&failure.why);
                    warn!(outcome = "failed", "the periods have no metric: {why}");
                }
            }
            Err(_) => {}
        }
        pause(EVERY).await;
    }
}
