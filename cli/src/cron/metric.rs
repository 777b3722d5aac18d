//! The metric for the last completed period.

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
/// Interval between two reads by an observer, 1 GET each.
const EVERY: Duration = Duration::from_secs(60);

/// Sets the metric of this election. Has no effect if no metrics recorder is installed.
pub fn set(place: &RecordPlace, last_completed: Option<DateTime<Utc>>) {
    let Some(start) = last_completed else { return };
    describe_gauge!(
        LAST_COMPLETED,
        metrics::Unit::Seconds,
        "The start of the last completed period of run --once-per, since the Unix epoch"
    );
    // An f64 represents the seconds of every date exactly.
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
                // An election without periods needs no access to the record.
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
