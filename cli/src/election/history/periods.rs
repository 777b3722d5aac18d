//! The periods of a job (`run --once-per`) in `tenure history`, in ascending order.

use chrono::{DateTime, Utc};
use serde::Serialize;
use tenure_history::{History, LeadershipSpan};

use super::picture::seconds;
use crate::cron::{EarlierAttempt, PeriodRecord, PeriodRow, shown, state_of};
use crate::output::columns::{SHORTENED, legend, table};
use crate::output::print::{ATTENTION, FAINT, GOOD, NAME, plain, styled};

/// The object that `--json` prints for a period.
#[derive(Debug, Serialize)]
pub struct PeriodLine<'a> {
    kind: &'static str,
    start: String,
    state: &'static str,
    attempts: u32,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    earlier_attempts: &'a [EarlierAttempt],
    candidate: &'a str,
    started_at: String,
    ended_at: Option<String>,
    exit_code: Option<u8>,
    /// Number of missed periods between the previous period and this one. No host has begun them.
    missed_before: u64,
}

impl<'a> PeriodLine<'a> {
    pub fn of(PeriodRow { period, state, missed }: &'a PeriodRow) -> PeriodLine<'a> {
        PeriodLine {
            kind: "period",
            start: shown(period.start),
            state,
            attempts: period.attempts,
            earlier_attempts: &period.earlier_attempts,
            candidate: &period.candidate,
            started_at: shown(period.started_at),
            ended_at: period.ended_at.map(shown),
            exit_code: period.exit_code,
            missed_before: *missed,
        }
    }
}

/// Returns whether CMD of the last attempt still runs. It does if the epoch of the attempt is the
/// newest epoch and is still held.
pub fn is_running(record: &PeriodRecord, history: &History) -> bool {
    let newest = history.spans.last().filter(|span| span.is_held() && !span.lapsed);
    newest.is_some_and(|span| span.epoch.get() == record.epoch)
}

/// Returns, for each epoch, whether the record shows that its host made no attempt. An epoch that
/// has ended and is newer than the newest attempt had no attempt. If the record has all attempts of
/// a period, it also shows which epochs since the last attempt of the previous period had no
/// attempt.
pub fn without_attempt(record: &PeriodRecord, history: &History) -> Vec<bool> {
    let spans = &history.spans;
    let mut without = vec![false; spans.len()];
    let mut before = None;
    for period in &record.periods() {
        let last = match period.start == record.period_start {
            true => spans.iter().position(|span| span.epoch.get() == record.epoch),
            false => epoch_of(&period.candidate, period.started_at, spans),
        };
        let earlier = period.earlier_attempts.iter();
        let earlier = earlier.map(|it| epoch_of(&it.candidate, it.started_at, spans));
        let places = [before].into_iter().chain(earlier).chain([last]).collect::<Option<Vec<_>>>();
        let is_complete = period.earlier_attempts.len() + 1 == period.attempts as usize;
        if let Some(places) = places.filter(|it| is_complete && it.is_sorted_by(|a, b| a < b)) {
            places.windows(2).for_each(|two| without[two[0] + 1..two[1]].fill(true));
        }
        before = last;
    }
    for place in before.map_or(spans.len(), |last| last + 1)..spans.len() {
        without[place] = spans[place].end.is_some();
    }
    without
}

/// Returns the index of the epoch in which an attempt began: the newest epoch of the same host that
/// began before the attempt. Both times come from the host's clock.
fn epoch_of(host: &str, started: DateTime<Utc>, spans: &[LeadershipSpan]) -> Option<usize> {
    let ms = |at: DateTime<Utc>| at.timestamp_millis();
    let started = ms(started);
    let place = spans.iter().rposition(|span| {
        span.name() == host && span.elected_at.is_some_and(|at| ms(at) <= started)
    })?;
    let span = &spans[place];
    let sealed = span.sealed_at.filter(|_| span.sealed_by == span.candidate);
    Some(place).filter(|_| sealed.is_none_or(|sealed| started <= ms(sealed)))
}

/// Returns the table of the periods for people.
pub fn of(record: &PeriodRecord, periods: &[PeriodRow], now: DateTime<Utc>) -> String {
    let each =
        periods.iter().flat_map(|it| missed_row(it.missed, "").into_iter().chain(rows_of(it)));
    let rows: Vec<_> = each.chain(missed_row(record.missed_until(now), "until now")).collect();
    let heading = ["period (UTC)", "host", "started", "for", "attempt", "end"];
    let text = table(heading, &rows, &[1, 5]);
    let legend = legend(&text, &[SHORTENED]);
    text + &legend
}

/// Returns a row for each attempt of a period. The record may lack the first attempts.
fn rows_of(PeriodRow { period, state, .. }: &PeriodRow) -> Vec<[String; 6]> {
    let took =
        period.ended_at.map(|ended| (ended - period.started_at).to_std().unwrap_or_default());
    let last = EarlierAttempt {
        candidate: period.candidate.clone(),
        started_at: period.started_at,
        exit_code: period.exit_code,
    };
    let earlier = period.earlier_attempts.iter();
    let all = earlier.map(|it| (it, state_of(it.exit_code, false), "-".to_owned()));
    let all = all.chain([(&last, *state, took.map_or("-".to_owned(), seconds))]);
    let first = (period.attempts as usize).saturating_sub(period.earlier_attempts.len());
    let row = |(number, (attempt, state, took)): (usize, (&EarlierAttempt, &str, String))| {
        let EarlierAttempt { candidate, started_at, exit_code } = attempt;
        let start =
            if number == first { period.start.format("%F %T").to_string() } else { String::new() };
        let same_day = period.start.date_naive() == started_at.date_naive();
        let style = if ["completed", "running"].contains(&state) { GOOD } else { ATTENTION };
        let code = exit_code.filter(|code| *code != 0).map(|code| format!("exit code {code}"));
        [
            styled(FAINT, start),
            styled(NAME, plain(candidate)),
            started_at.format(if same_day { "%T" } else { "%F %T" }).to_string(),
            took,
            number.to_string(),
            styled(style, code.as_deref().unwrap_or(state)),
        ]
    };
    (first..).zip(all).map(row).collect()
}

fn missed_row(missed: u64, end: &str) -> Option<[String; 6]> {
    let [start, started, took, attempts] = [const { String::new() }; 4];
    let host = styled(ATTENTION, format_args!("({missed} missed)"));
    (missed > 0).then(|| [start, host, started, took, attempts, end.to_owned()])
}
