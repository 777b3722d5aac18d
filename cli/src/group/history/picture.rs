//! The drawing of a group's history. Each partition is a row, coloured by its owner.

use chrono::{DateTime, Utc};
use tenure_history::drawing::{Drawing, Interval, Mark, Subject};

use super::owners::{self, OwnerSpan};
use super::read::GroupHistory;
use crate::election::history::seconds;

/// Maximum number of rows in the drawing. With more rows it would be unreadable.
const MOST_ROWS: usize = 1_000;

pub fn of(history: &GroupHistory, title: &str) -> Drawing {
    let mut drawing = Drawing::new(title);
    drawing.subject = Subject::Owners;
    let Some(origin) = history.changes.iter().filter_map(|it| it.created).min() else {
        return drawing;
    };
    drawing.origin = Some(origin);
    let rows = owners::of(history);
    let newest = history.changes.iter().filter_map(|it| it.created).max();
    let now = newest.map_or(history.now, |newest| newest.max(history.now));
    drawing.subtitle = subtitle(history, (origin, now), rows.len());
    let intervals = rows.values().take(MOST_ROWS).flat_map(|(name, spans)| {
        spans.iter().filter_map(|span| interval(name, span, origin, now))
    });
    drawing.intervals = intervals.collect();
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

/// Returns the interval of a span in the drawing, if the span has an owner.
fn interval(
    name: &str,
    span: &OwnerSpan,
    origin: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Option<Interval> {
    let OwnerSpan { owner, token, from, or_before, until, .. } = span;
    let owner = &owner.as_ref()?.name;
    let (end, mark, still) = match until {
        Some(until) => (*until, Mark::Moved, ""),
        None => (now, Mark::GoesOn, ", still"),
    };
    let after = |at: DateTime<Utc>| (at - origin).to_std().unwrap_or_default();
    let token = token.map_or(String::new(), |token| format!(" by token {token}"));
    let tip = format!(
        "partition {name}: {owner}{token}, from {}{}, for about {}{still}",
        from.format("%F %TZ"),
        if *or_before { " or before" } else { "" },
        seconds((end - *from).to_std().unwrap_or_default()),
    );
    Some(Interval::new(name, owner.as_str(), after(*from), after(end), mark).tip(tip))
}
