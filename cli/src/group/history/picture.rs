//! The history as a drawing: a row for each partition, coloured by its owner.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tenure::Epoch;
use tenure_groups::PartitionNumber;
use tenure_history::drawing::{Drawing, Interval, Mark, Subject};

use super::change::{PartitionChange, PartitionEvent, Person};
use super::read::GroupHistory;
use crate::election::history::seconds;

/// Maximum number of rows on a readable page.
const MOST_ROWS: usize = 1_000;

/// A period of ownership that has not ended.
struct OwnedSpan {
    by: Person,
    token: Option<Epoch>,
    from: DateTime<Utc>,
    /// True if the ownership may have begun before `from`.
    or_before: bool,
}

/// The row of one partition, with its owners.
#[derive(Default)]
struct Row {
    name: String,
    now: Option<OwnedSpan>,
    intervals: Vec<Interval>,
}

pub fn of(history: &GroupHistory, title: &str) -> Drawing {
    let mut drawing = Drawing::new(title);
    drawing.subject = Subject::Owners;
    let Some(origin) = history.changes.iter().filter_map(|it| it.created).min() else {
        return drawing;
    };
    drawing.origin = Some(origin);
    let mut rows = BTreeMap::<PartitionNumber, Row>::new();
    let mut at = origin;
    for change in &history.changes {
        // An assignment without a date gets the date of the previous assignment.
        at = change.created.map_or(at, |created| created.max(at));
        for it in &change.partitions {
            let row = rows.entry(it.number).or_default();
            row.name.clone_from(&it.name);
            row.apply(it, at, origin);
        }
    }
    let now = history.now.max(at);
    for row in rows.values_mut() {
        row.end(now, origin, Mark::GoesOn);
    }
    let all = rows.len();
    drawing.subtitle = subtitle(history, (origin, now), all);
    drawing.intervals = rows.into_values().take(MOST_ROWS).flat_map(|row| row.intervals).collect();
    drawing
}

fn subtitle(
    history: &GroupHistory,
    (from, until): (DateTime<Utc>, DateTime<Utc>),
    all: usize,
) -> String {
    let (Some(first), Some(last)) = (history.changes.first(), history.changes.last()) else {
        return String::new();
    };
    let rows = match all.saturating_sub(MOST_ROWS) {
        0 => String::new(),
        _ => format!("; the first {MOST_ROWS} of {all} partitions"),
    };
    format!(
        "assignments {} to {}, {} to {} UTC{rows}; blank: without an owner",
        first.epoch,
        last.epoch,
        from.format("%F %T"),
        until.format("%F %T"),
    )
}

impl Row {
    fn apply(&mut self, it: &PartitionChange, at: DateTime<Utc>, origin: DateTime<Utc>) {
        let changes = [
            PartitionEvent::Stood,
            PartitionEvent::Granted,
            PartitionEvent::Moved,
            PartitionEvent::Released,
            PartitionEvent::Removed,
        ];
        if !changes.iter().any(|event| it.has(*event)) {
            return;
        }
        self.end(at, origin, Mark::Moved);
        let or_before = it.has(PartitionEvent::Stood);
        let owned = |by: Person| OwnedSpan { by, token: it.token, from: at, or_before };
        self.now = it.to.clone().map(owned);
    }

    fn end(&mut self, until: DateTime<Utc>, origin: DateTime<Utc>, mark: Mark) {
        let Some(OwnedSpan { by, token, from, or_before }) = self.now.take() else { return };
        let after = |at: DateTime<Utc>| (at - origin).to_std().unwrap_or_default();
        let token = token.map_or(String::new(), |token| format!(" by token {token}"));
        let for_about: Duration = (until - from).to_std().unwrap_or_default();
        let tip = format!(
            "partition {}: {}{token}, from {}{}, for about {}{}",
            self.name,
            by.name,
            from.format("%F %TZ"),
            if or_before { " or before" } else { "" },
            seconds(for_about),
            if mark == Mark::GoesOn { ", still" } else { "" },
        );
        let interval = Interval::new(&*self.name, by.name, after(from), after(until), mark);
        self.intervals.push(interval.tip(tip));
    }
}
