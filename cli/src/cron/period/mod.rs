//! Periods, the record of their runs, and the decision of a leader. No IO: the time is an argument.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// The format that this version writes, and the newest that it reads.
const FORMAT: u64 = 1;

/// The shortest period.
pub const SHORTEST: Duration = Duration::from_secs(1);

/// The checked rules for runs of CMD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeriodRules {
    /// The length of a period.
    pub period: Duration,
    /// Start of the first period, after 1970-01-01T00:00:00Z.
    pub offset: Duration,
    /// Maximum delay of a run after the start of its period; `None` for no limit.
    pub tolerance: Option<Duration>,
    /// Maximum number of attempts in a period after the first.
    pub retries: u32,
    /// Maximum lead of this host's clock over others.
    pub clock_ahead_max: Duration,
}

/// One period: it starts at `start` and ends before `start + length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    /// Start of the period since the Unix epoch.
    pub start: Duration,
    pub length: Duration,
}

/// The latest period that any host has begun: the body of the fenced object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeriodRecord {
    tenure_once_per: u64,
    /// Start of the period. The rules compare starts, not numbers of periods, so a period of
    /// another length or offset may follow.
    pub period_start: DateTime<Utc>,
    pub period_ms: u64,
    /// Number of attempts begun in this period.
    pub attempts: u32,
    /// Candidate of the last attempt.
    pub candidate: String,
    pub epoch: u64,
    pub started_at: DateTime<Utc>,
    pub ended_at: Option<DateTime<Utc>>,
    /// Exit code of the last attempt; 0 if the period is completed. Null while CMD runs. It
    /// remains null if the host died or lost its lease: then the attempt has failed.
    pub exit_code: Option<u8>,
    /// Start of the last completed period, which may be this period.
    pub last_completed: Option<DateTime<Utc>>,
    /// The periods begun before this one, in ascending order: at most [`MOST_EARLIER`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierPeriod>,
}

/// An earlier period, for people. No decision depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierPeriod {
    pub start: DateTime<Utc>,
    pub attempts: u32,
    /// The first characters of the name of the last candidate.
    pub candidate: String,
    pub started_at: DateTime<Utc>,
    pub ended_at: Option<DateTime<Utc>>,
    pub exit_code: Option<u8>,
}

/// Maximum number of earlier periods in a record.
const MOST_EARLIER: usize = 29;
/// Maximum length of the candidate's name in an earlier period, in characters.
const MOST_CHARS: usize = 64;

/// The decision of a leader on its period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Run CMD; attempts of a period are counted from 1.
    Run {
        attempt: u32,
    },
    Skip(SkipReason),
}

/// Reason to skip a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipReason {
    Completed,
    /// A later period was begun.
    Past,
    /// All attempts have failed.
    Failed,
    /// The period began longer ago than the tolerance.
    TooLate,
    /// The recorded period begins far in the future: a clock is or was wrong.
    InTheFuture,
    /// This host's period begins far in the future: its clock was ahead at the start of `tenure`.
    NotBegun,
}

/// Reason to refuse a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRecord {
    Corrupt,
    TooNew(u64),
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
    /// `record` is the record that the leader read under its token, and `wall` the current
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

    /// Returns the number of periods between the recorded period and `own`, without these two.
    pub fn missed(&self, record: &PeriodRecord, own: Period) -> u128 {
        let since = own.start.saturating_sub(record.start());
        (since.as_millis() / self.period.as_millis().max(1)).saturating_sub(1)
    }

    /// Returns whether `time` is too far ahead of the date of the store's answer. `time` is, for
    /// example, the wall-clock time before the request. The rule adds a second, because the date
    /// has whole seconds.
    pub fn is_ahead(&self, time: Duration, answered: DateTime<Utc>) -> bool {
        let latest = since_epoch(answered).saturating_add(Duration::from_secs(1));
        time > latest.saturating_add(self.clock_ahead_max)
    }
}

impl PeriodRecord {
    /// Returns the record to write before an attempt starts.
    pub fn begin(
        before: Option<&PeriodRecord>,
        own: Period,
        attempts: u32,
        (candidate, epoch): (&str, u64),
        wall: Duration,
    ) -> PeriodRecord {
        let period_start = date(own.start);
        PeriodRecord {
            tenure_once_per: FORMAT,
            period_start,
            period_ms: u64::try_from(own.length.as_millis()).unwrap_or(u64::MAX),
            attempts,
            candidate: candidate.to_owned(),
            epoch,
            started_at: date(wall),
            ended_at: None,
            exit_code: None,
            last_completed: before.and_then(|record| record.last_completed),
            earlier: before.map(|record| record.earlier_than(period_start)).unwrap_or_default(),
        }
    }

    /// Returns the periods of this record that began before this time.
    fn earlier_than(&self, start: DateTime<Utc>) -> Vec<EarlierPeriod> {
        let mut all = self.periods();
        all.retain(|period| period.start < start);
        all.drain(..all.len().saturating_sub(MOST_EARLIER));
        all
    }

    /// Returns the earlier periods and this one, in ascending order.
    pub fn periods(&self) -> Vec<EarlierPeriod> {
        let newest = EarlierPeriod {
            start: self.period_start,
            attempts: self.attempts,
            candidate: self.candidate.chars().take(MOST_CHARS).collect(),
            started_at: self.started_at,
            ended_at: self.ended_at,
            exit_code: self.exit_code,
        };
        self.earlier.iter().cloned().chain([newest]).collect()
    }

    /// Returns the record after the end of CMD.
    pub fn ended(mut self, exit_code: u8, wall: Duration) -> PeriodRecord {
        self.ended_at = Some(date(wall));
        self.exit_code = Some(exit_code);
        if exit_code == 0 {
            self.last_completed = Some(self.period_start);
        }
        self
    }

    pub fn is_completed(&self) -> bool {
        self.exit_code == Some(0)
    }

    fn start(&self) -> Duration {
        since_epoch(self.period_start)
    }

    pub fn parse(bytes: &[u8]) -> Result<PeriodRecord, BadRecord> {
        #[derive(Deserialize)]
        struct Format {
            tenure_once_per: u64,
        }
        let format: Format = serde_json::from_slice(bytes).map_err(|_| BadRecord::Corrupt)?;
        match format.tenure_once_per {
            FORMAT => serde_json::from_slice(bytes).map_err(|_| BadRecord::Corrupt),
            0 => Err(BadRecord::Corrupt),
            newer => Err(BadRecord::TooNew(newer)),
        }
    }

    pub fn to_json(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self);
        json.expect("a record has string keys, dates and whole numbers, which JSON can hold")
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
