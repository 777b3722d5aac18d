//! The objects that `--json` prints: one for each epoch, then one for the whole history. Fields
//! that do not apply or are unknown are null. Recorded and derived values have separate fields.

use std::ops::RangeInclusive;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde::Serialize;
use tenure::Epoch;
use tenure_history::{Extent, Gap, History, LeadershipSpan, TimeEstimate};

use super::end_word;
use crate::output::print::millis;

#[derive(Debug, Serialize)]
pub struct EpochLine<'a> {
    kind: &'static str,
    epoch: u64,
    candidate: Option<&'a str>,
    end: String,
    lapsed: bool,
    /// False if the host made no attempt to run the CMD of a job. Absent in all other cases.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempted: Option<bool>,
    sealed_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    forced_by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    from: Bounds,
    until: Bounds,
    /// Best estimate of the time for which the candidate led in this epoch.
    led_ms: Option<u64>,
    /// Lower bound of the time for which the candidate has led. It is valid even if the store's
    /// dates are rounded.
    led_at_least_ms: Option<u64>,
    /// Upper bound of the time for which the candidate has led. Null if the earliest possible start
    /// is unknown.
    led_at_most_ms: Option<u64>,
    validity_ms: Option<u64>,
    heartbeat: u64,
    recorded: Recorded,
    unreadable: Option<&'a str>,
    /// The epoch in each store of an election across stores: held, other, absent or unknown.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stores: Box<[&'static str]>,
    /// False if no majority of the stores can have granted the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    granted: Option<bool>,
}

/// Times of the writes of the epoch object. `written_at` comes from the store. All other times are
/// in the record, and the process that wrote a time read it from its own clock.
#[derive(Debug, Serialize)]
struct Recorded {
    elected_at: Option<String>,
    renewed_at: Option<String>,
    sealed_at: Option<String>,
    /// Time of the last write of the epoch object, by the store's clock.
    written_at: Option<String>,
}

#[derive(Debug, Serialize)]
struct Bounds {
    at: Option<String>,
    exact: bool,
    earliest: Option<String>,
    latest: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Lengths {
    about_ms: u64,
    at_least_ms: u64,
    at_most_ms: u64,
}

#[derive(Debug, Serialize)]
struct Longest {
    after: u64,
    before: Option<u64>,
    from: String,
    until: String,
    #[serde(flatten)]
    length: Lengths,
}

#[derive(Debug, Serialize)]
pub struct EpochsSummary {
    kind: &'static str,
    epochs: usize,
    left_out: u64,
    /// First and last number of each range of epochs that have no objects.
    missing: Vec<[u64; 2]>,
    now: String,
    time_ms: u64,
    led: Lengths,
    vacant: Lengths,
    /// Best estimate of the vacant part of the known time, as a fraction from 0 to 1.
    vacant_share: Option<f64>,
    unknown: Lengths,
    longest_gap: Option<Longest>,
    requests: u64,
}

impl<'a> EpochLine<'a> {
    pub fn of(span: &'a LeadershipSpan, history: &History, without_attempt: bool) -> EpochLine<'a> {
        EpochLine {
            kind: "epoch",
            epoch: span.epoch.get(),
            candidate: span.candidate.as_deref(),
            end: end_word(span),
            lapsed: span.lapsed,
            attempted: without_attempt.then_some(false),
            sealed_by: span.sealed_by.as_deref(),
            forced_by: span.forced_by.as_deref(),
            reason: span.reason.as_deref(),
            from: Bounds::of(&span.from),
            until: Bounds::of(&span.until),
            led_ms: span.led(history.now).map(millis),
            led_at_least_ms: span.led_at_least(history).map(millis),
            led_at_most_ms: span.led_at_most(history).map(up_to_millis),
            validity_ms: span.validity.map(millis),
            heartbeat: span.heartbeat,
            recorded: Recorded {
                elected_at: span.elected_at.map(time),
                renewed_at: span.renewed_at.map(time),
                sealed_at: span.sealed_at.map(time),
                written_at: span.written_at.map(time),
            },
            unreadable: span.unreadable.as_deref(),
            stores: span.stores.iter().map(|store| store.as_str()).collect(),
            granted: (!span.stores.is_empty()).then(|| span.may_be_granted()),
        }
    }
}

impl EpochsSummary {
    pub fn of(history: &History) -> EpochsSummary {
        let totals = history.totals();
        EpochsSummary {
            kind: "summary",
            epochs: history.spans.len(),
            left_out: history.left_out,
            missing: pairs(&history.holes),
            now: time(history.now),
            time_ms: millis(totals.time),
            led: Lengths::of(totals.led),
            vacant: Lengths::of(totals.vacant),
            vacant_share: totals.vacant_share(),
            unknown: Lengths::of(totals.unknown),
            longest_gap: totals.longest_gap.map(Longest::of),
            requests: history.requests,
        }
    }
}

impl Bounds {
    fn of(when: &TimeEstimate) -> Bounds {
        let latest = when.latest.map(|latest| time(up(latest)));
        let (at, earliest) = (when.at.map(time), when.earliest.map(time));
        Bounds { at, exact: when.is_exact(), earliest, latest }
    }
}

impl Lengths {
    pub fn of(extent: Extent) -> Lengths {
        Lengths {
            about_ms: millis(extent.about),
            at_least_ms: millis(extent.at_least),
            at_most_ms: up_to_millis(extent.at_most),
        }
    }
}

impl Longest {
    fn of(gap: Gap) -> Longest {
        Longest {
            after: gap.after.get(),
            before: gap.before.map(|epoch| epoch.get()),
            from: time(gap.from),
            until: time(gap.until),
            length: Lengths::of(gap.length),
        }
    }
}

/// Returns whole milliseconds, rounded up, so that the result is still an upper bound.
fn up_to_millis(at_most: Duration) -> u64 {
    millis(at_most.saturating_add(Duration::from_nanos(999_999)))
}

/// Returns a time that is later by almost a millisecond. If it is cut to whole milliseconds, it is
/// still an upper bound.
fn up(latest: DateTime<Utc>) -> DateTime<Utc> {
    latest.checked_add_signed(TimeDelta::nanoseconds(999_999)).unwrap_or(latest)
}

/// Returns the first and the last epoch of each range without objects, for JSON.
pub fn pairs(holes: &[RangeInclusive<Epoch>]) -> Vec<[u64; 2]> {
    holes.iter().map(|hole| [hole.start().get(), hole.end().get()]).collect()
}

/// Formats a time for JSON.
pub fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}
