//! The period record of a job, and its JSON.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{LONGEST, Period, date, since_epoch};

/// The format of the record that this version writes, and the newest format that it reads.
const FORMAT: u64 = 1;

/// The record of the latest period that any host has begun. It is the body of a fenced object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeriodRecord {
    tenure_once_per: u64,
    /// Start of the period. The rules compare starts, not numbers of periods, so a period of
    /// another length or offset may follow.
    pub period_start: DateTime<Utc>,
    pub period_ms: u64,
    /// Number of attempts begun in this period.
    pub attempts: u32,
    /// The newest attempts of this period before the last attempt, in ascending order. An older
    /// version of `tenure` omits them from the records that it writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_attempts: Vec<EarlierAttempt>,
    /// Name of the candidate that made the last attempt.
    pub candidate: String,
    pub epoch: u64,
    pub started_at: DateTime<Utc>,
    pub ended_at: Option<DateTime<Utc>>,
    /// Exit code of the last attempt; 0 if the period is completed. Null while CMD runs. The field
    /// remains null if the host died or lost its lease, and the attempt then counts as failed.
    pub exit_code: Option<u8>,
    /// Start of the last completed period, which may be the period of this record.
    pub last_completed: Option<DateTime<Utc>>,
    /// The newest periods that were begun before this one, at most 29, in ascending order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierPeriod>,
}

/// An earlier period of a job. The history shows it, and no decision depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierPeriod {
    pub start: DateTime<Utc>,
    /// Length of the period. `None` if an older version of `tenure` recorded this period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period_ms: Option<u64>,
    pub attempts: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier_attempts: Vec<EarlierAttempt>,
    /// The first characters of the name of the candidate that made the last attempt.
    pub candidate: String,
    pub started_at: DateTime<Utc>,
    pub ended_at: Option<DateTime<Utc>>,
    pub exit_code: Option<u8>,
}

/// An attempt before the last attempt of its period, so it did not complete the period. The history
/// shows it, and no decision depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierAttempt {
    /// The first characters of the name of the candidate.
    pub candidate: String,
    pub started_at: DateTime<Utc>,
    /// Null if the host died or lost its lease before the end of CMD was recorded.
    pub exit_code: Option<u8>,
}

/// A row about one period, as `tenure history` shows it to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeriodRow {
    pub period: EarlierPeriod,
    /// The state of the period in one word, from [`state_of`].
    pub state: &'static str,
    /// Number of missed periods between the previous period and this one. No host has begun them.
    pub missed: u64,
}

/// Returns the state of the last attempt of a period. `runs` is true if the leader still holds the
/// epoch of this attempt.
pub fn state_of(exit_code: Option<u8>, runs: bool) -> &'static str {
    match exit_code {
        Some(0) => "completed",
        Some(_) => "failed",
        None if runs => "running",
        None => "unfinished",
    }
}

/// Maximum number of earlier periods that a record keeps.
const MOST_EARLIER: usize = 29;
/// Maximum number of earlier attempts that a record keeps for each period.
const MOST_EARLIER_ATTEMPTS: usize = 7;
/// Maximum length of the candidate's name in an earlier period or attempt, in bytes of JSON.
const MOST_NAME: usize = 64;
/// Maximum length of a record in bytes: 30 periods with 8 attempts each have up to 38,000 bytes.
pub const MOST_LEN: usize = 48 * 1_024;

/// Reason to refuse the content of a period record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadRecord {
    Corrupt,
    TooNew(u64),
}

impl PeriodRecord {
    /// Returns the record that a leader writes before an attempt starts.
    pub fn begin(
        before: Option<&PeriodRecord>,
        own: Period,
        attempts: u32,
        (candidate, epoch): (&str, u64),
        wall: Duration,
    ) -> PeriodRecord {
        let period_start = date(own.start);
        let same = before.filter(|record| record.period_start == period_start);
        PeriodRecord {
            tenure_once_per: FORMAT,
            period_start,
            period_ms: u64::try_from(own.length.as_millis()).unwrap_or(u64::MAX),
            attempts,
            earlier_attempts: same.map(PeriodRecord::all_attempts).unwrap_or_default(),
            candidate: candidate.to_owned(),
            epoch,
            started_at: date(wall),
            ended_at: None,
            exit_code: None,
            last_completed: before.and_then(|record| record.last_completed),
            earlier: before.map(|record| record.earlier_than(period_start)).unwrap_or_default(),
        }
    }

    /// Returns the newest attempts of this period, for the record of the next attempt.
    fn all_attempts(&self) -> Vec<EarlierAttempt> {
        let candidate = self.candidate.clone();
        let last =
            EarlierAttempt { candidate, started_at: self.started_at, exit_code: self.exit_code };
        let all = self.earlier_attempts.iter().cloned().chain([last]).collect();
        newest_attempts(all)
    }

    /// Returns the newest periods of this record that began before `start`.
    fn earlier_than(&self, start: DateTime<Utc>) -> Vec<EarlierPeriod> {
        let mut all = self.periods();
        all.retain(|period| period.start < start);
        all.drain(..all.len().saturating_sub(MOST_EARLIER));
        all
    }

    /// Returns the earlier periods and the period of this record, in ascending order.
    pub fn periods(&self) -> Vec<EarlierPeriod> {
        let newest = EarlierPeriod {
            start: self.period_start,
            period_ms: Some(self.period_ms),
            attempts: self.attempts,
            earlier_attempts: self.earlier_attempts.clone(),
            candidate: self.candidate.clone(),
            started_at: self.started_at,
            ended_at: self.ended_at,
            exit_code: self.exit_code,
        };
        // Another program may have written a record with more periods or longer names, so this code
        // cuts the list of periods and the names.
        let more = self.earlier.len().saturating_sub(MOST_EARLIER);
        let all = self.earlier[more..].iter().cloned().chain([newest]);
        all.map(|mut period| {
            period.candidate = shortened(&period.candidate);
            period.earlier_attempts = newest_attempts(period.earlier_attempts);
            period
        })
        .collect()
    }

    /// Returns the periods as rows of the history, in ascending order. `runs` is true if the leader
    /// still holds the epoch of the last attempt.
    pub fn rows(&self, runs: bool) -> Vec<PeriodRow> {
        let mut previous = None;
        let periods = self.periods();
        let newest = periods.len() - 1;
        let row = |(place, period): (usize, EarlierPeriod)| {
            let length = period.period_ms.unwrap_or(self.period_ms);
            let before = previous.replace((period.start, length));
            // This period and the previous one have different lengths if `--once-per` has changed.
            // This function uses the longer length, so it counts only periods that were certainly
            // missed.
            let missed = before
                .map_or(0, |(start, earlier)| missed(start, period.start, length.max(earlier)));
            PeriodRow { state: state_of(period.exit_code, runs && place == newest), missed, period }
        };
        periods.into_iter().enumerate().map(row).collect()
    }

    /// Returns the number of missed periods between the newest period of this record and `now`. No
    /// host has begun them.
    pub fn missed_until(&self, now: DateTime<Utc>) -> u64 {
        missed(self.period_start, now, self.period_ms)
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

    pub(super) fn start(&self) -> Duration {
        since_epoch(self.period_start)
    }

    pub fn parse(bytes: &[u8]) -> Result<PeriodRecord, BadRecord> {
        #[derive(Deserialize)]
        struct Format {
            tenure_once_per: u64,
        }
        let format: Format = serde_json::from_slice(bytes).map_err(|_| BadRecord::Corrupt)?;
        match format.tenure_once_per {
            FORMAT => serde_json::from_slice(bytes)
                .ok()
                .filter(|record: &PeriodRecord| u128::from(record.period_ms) <= LONGEST.as_millis())
                .ok_or(BadRecord::Corrupt),
            0 => Err(BadRecord::Corrupt),
            newer => Err(BadRecord::TooNew(newer)),
        }
    }

    pub fn to_json(&self) -> Vec<u8> {
        let json = serde_json::to_vec(self);
        json.expect("a record has string keys, dates and whole numbers, which JSON can hold")
    }
}

/// Drops the oldest attempts beyond the maximum, and shortens the names.
fn newest_attempts(mut all: Vec<EarlierAttempt>) -> Vec<EarlierAttempt> {
    all.drain(..all.len().saturating_sub(MOST_EARLIER_ATTEMPTS));
    all.iter_mut().for_each(|attempt| attempt.candidate = shortened(&attempt.candidate));
    all
}

/// Returns the first characters of a name, with at most [`MOST_NAME`] bytes in JSON.
fn shortened(name: &str) -> String {
    let mut len = 0;
    let fits = |c: &char| {
        let escaped = c.is_control() || matches!(c, '"' | '\\');
        len += if escaped { "\\u001b".len() } else { c.len_utf8() };
        len <= MOST_NAME
    };
    name.chars().take_while(fits).collect()
}

/// Returns the number of whole periods of this length between the end of the period that began at
/// `from` and the time `until`.
fn missed(from: DateTime<Utc>, until: DateTime<Utc>, period_ms: u64) -> u64 {
    let since = u64::try_from((until - from).num_milliseconds()).unwrap_or_default();
    (since / period_ms.max(1)).saturating_sub(1)
}
