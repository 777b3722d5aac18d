//! The card of one job on the page of `tenure ui`: the periods of `run --once-per`.

use std::time::Duration;

use serde::Serialize;

use super::place::Place;
use crate::cron::{PeriodRow, RecordPlace};
use crate::output::print::{millis, plain};
use crate::process::timer::pause;

/// Minimum interval between two reads of the period record. Each read is 1 GET.
const LEAST_INTERVAL: Duration = Duration::from_secs(15);

#[derive(Debug, Clone, PartialEq, Serialize)]
struct JobCard {
    kind: &'static str,
    name: String,
    period_ms: Option<u64>,
    /// Interval of the reads of the period record.
    read_every_ms: u64,
    /// The last 30 periods that the record contains, in ascending order.
    periods: Vec<JobPeriod>,
    error: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
struct JobPeriod {
    start: i64,
    host: String,
    attempts: u32,
    started: i64,
    ended: Option<i64>,
    exit_code: Option<u8>,
    /// Number of missed periods before this one. A period is missed if no host has begun it.
    missed: u64,
}

impl JobPeriod {
    fn of(PeriodRow { period, missed, .. }: &PeriodRow) -> JobPeriod {
        JobPeriod {
            start: period.start.timestamp_millis(),
            host: plain(&period.candidate),
            attempts: period.attempts,
            started: period.started_at.timestamp_millis(),
            ended: period.ended_at.map(|at| at.timestamp_millis()),
            exit_code: period.exit_code,
            missed: *missed,
        }
    }
}

/// Follows a job until the future is dropped. Shows each error on the card, and retries.
pub async fn follow(place: Place) {
    let record = RecordPlace::new(place.stores[0].clone(), &place.prefix);
    let interval = place.poll.max(LEAST_INTERVAL);
    let mut card = JobCard {
        kind: "job",
        name: place.name.clone(),
        period_ms: None,
        read_every_ms: millis(interval),
        periods: Vec::new(),
        error: None,
    };
    loop {
        match record.read().await {
            Ok(Some(record)) => {
                card.periods = record.rows(false).iter().map(JobPeriod::of).collect();
                card.period_ms = Some(record.period_ms);
                card.error = None;
            }
            Ok(None) => card.error = None,
            Err(failure) => card.error = Some(plain(&failure.why)),
        }
        place.board.show(&place.id, &card);
        pause(interval).await;
    }
}
