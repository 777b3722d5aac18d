//! Computes the periods of a job, and decides whether a leader runs CMD. This module does no IO,
//! and gets the time as an argument.

pub mod record;

use std::time::Duration;

use chrono::{DateTime, Utc};

use record::PeriodRecord;

/// The shortest length of a period that `--once-per` accepts.
pub const SHORTEST: Duration = Duration::from_secs(1);
/// The longest length of a period: 100 years.
pub const LONGEST: Duration = Duration::from_secs(36_525 * 24 * 60 * 60);

/// The rules that decide when CMD runs. They are made from flags that were already checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodRules {
    /// The length of a period: the value of `--once-per`.
    pub period: Duration,
    /// Start of the first period, as the time since 1970-01-01T00:00:00Z.
    pub offset: Duration,
    /// Maximum time from the start of a period to the start of CMD; `None` for no limit.
    pub tolerance: Option<Duration>,
    /// Maximum number of attempts in a period, not counting the first attempt.
    pub retries: u32,
    /// Maximum time that this host's clock may be ahead of other clocks.
    pub clock_ahead_max: Duration,
}

/// One period: it starts at `start` and ends before `start + length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Start of the period, as the time since the Unix epoch.
    pub start: Duration,
    pub length: Duration,
}

/// The decision of a leader whether to run CMD for its period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Run CMD. `attempt` is the number of this attempt in the period, beginning with 1.
    Run {
        attempt: u32,
    },
    Skip(SkipReason),
}

/// Reason for which a leader does not run CMD in a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    Completed,
    /// A host has already begun a later period.
    Past,
    /// CMD has failed in all attempts that the rules allow.
    Failed,
    /// The period began longer ago than the tolerance.
    TooLate,
    /// The recorded period begins far in the future: a clock is or was wrong.
    InTheFuture,
    /// This host's period begins far in the future: its clock was ahead at the start of `tenure`.
    NotBegun,
}

impl PeriodRules {
    /// Returns the period that contains this wall-clock time.
    pub fn period_at(&self, wall: Duration) -> Period {
        let (period, since) = (self.period.as_millis(), wall.saturating_sub(self.offset));
        let into = since.as_millis() % period.max(1);
        let whole = u64::try_from(since.as_millis() - into).unwrap_or(u64::MAX);
        let start = self.offset.saturating_add(Duration::from_millis(whole));
        Period { start, length: self.period }
    }

    /// Decides whether CMD runs for `own`, the period in which `tenure` was started on this host.
    /// `record` is the record that the leader read under its token, and `wall` is the current
    /// wall-clock time.
    pub fn decide(&self, record: Option<&PeriodRecord>, own: Period, wall: Duration) -> Decision {
        let latest = wall.saturating_add(self.clock_ahead_max);
        if own.start > latest {
            return Decision::Skip(SkipReason::NotBegun);
        }
        let attempts = match record {
            Some(record) if record.start() > own.start => {
                let why = if record.start() > latest {
                    SkipReason::InTheFuture
                } else {
                    SkipReason::Past
                };
                return Decision::Skip(why);
            }
            Some(record) if record.start() == own.start => {
                if record.is_completed() {
                    return Decision::Skip(SkipReason::Completed);
                }
                record.attempts
            }
            _ => 0,
        };
        if attempts > self.retries {
            return Decision::Skip(SkipReason::Failed);
        }
        if self.tolerance.is_some_and(|most| wall.saturating_sub(own.start) > most) {
            return Decision::Skip(SkipReason::TooLate);
        }
        Decision::Run { attempt: attempts.saturating_add(1) }
    }

    /// Returns the number of periods that begin after the recorded period and before `own`.
    pub fn missed(&self, record: &PeriodRecord, own: Period) -> u128 {
        let since = own.start.saturating_sub(record.start());
        (since.as_millis() / self.period.as_millis().max(1)).saturating_sub(1)
    }

    /// Returns whether `time` is too far ahead of the date of the store's answer. `time` is, for
    /// example, the wall-clock time before the request. One more second is accepted, because the
    /// date has whole seconds.
    pub fn is_ahead(&self, time: Duration, answered: DateTime<Utc>) -> bool {
        let latest = since_epoch(answered).saturating_add(Duration::from_secs(1));
        time > latest.saturating_add(self.clock_ahead_max)
    }
}

/// Formats a date as in the record and in the environment of CMD.
pub fn shown(date: DateTime<Utc>) -> String {
    date.format("%FT%T%.fZ").to_string()
}

pub fn date(since_epoch: Duration) -> DateTime<Utc> {
    let ms = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(ms).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

fn since_epoch(date: DateTime<Utc>) -> Duration {
    Duration::from_millis(u64::try_from(date.timestamp_millis()).unwrap_or_default())
}

#[cfg(test)]
mod tests;
