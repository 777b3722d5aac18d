//! The table of an election's history for people.

use std::ops::RangeInclusive;
use std::time::Duration;

use anstyle::Style;
use chrono::{DateTime, TimeDelta, Utc};
use tenure::{Epoch, EpochEnd, Layout};
use tenure_history::{Extent, Gap, History, LeadershipSpan, StoreEpoch, TimeEstimate};

use super::picture::{down, seconds, up};
use crate::election::LeaseState;
use crate::election::end::EndFields;
use crate::election::status::line;
use crate::output::columns::{SHORTENED, legend, table};
use crate::output::print::{ATTENTION, FAINT, GOOD, NAME, plain, styled};

/// Maximum number of listed ranges of missing epochs. Further ranges are only counted.
const SHOWN_HOLES: usize = 5;
/// Symbols that the table of the history may contain, with their meanings.
const SYMBOLS: [(char, &str); 3] = [
    ('~', "an estimate; --json prints its bounds"),
    ('?', "the start is unknown; the leader led at this time"),
    SHORTENED,
];

/// Returns the table. `is_job` is true if the leaders run the periods of `--once-per`. No process
/// leads from the end of a run until the next period, so gaps are normal, and are not shown.
/// `without_attempt` marks the epochs of hosts that certainly made no attempt to run CMD.
pub fn of(history: &History, without_attempt: &[bool], is_job: bool) -> String {
    if history.spans.is_empty() {
        return "no process has led".to_owned();
    }
    let mut rows = Vec::new();
    let gaps = if is_job { Vec::new() } else { history.gaps() };
    let mut gaps = gaps.iter().peekable();
    for (span, without_attempt) in history.spans.iter().zip(without_attempt) {
        while let Some(gap) = gaps.next_if(|gap| gap.before == Some(span.epoch)) {
            rows.extend(gap_row(gap));
        }
        let mut row = row(span, history);
        if *without_attempt {
            row[4] += "; no attempt";
        }
        rows.push(row);
    }
    rows.extend(gaps.filter_map(gap_row));
    let heading = ["epoch", "leader", "from (UTC)", "for", "end"];
    let text = table(heading, &rows, &[1, 4]);
    let summary = summary(history, is_job).join("\n");
    let legend = legend(&(text.clone() + &summary), &SYMBOLS);
    text + &legend + "\n\n" + &summary
}

fn row(span: &LeadershipSpan, history: &History) -> [String; 5] {
    let is_held = span.is_held() && !span.lapsed;
    let led = match span.led(history.now) {
        None => "-".to_owned(),
        Some(led) if span.until.is_exact() || is_held => seconds(led),
        Some(led) => format!("~{}", seconds(led)),
    };
    let style = match span.end {
        None if is_held => GOOD,
        Some(EpochEnd::Resigned) => Style::new(),
        _ => ATTENTION,
    };
    [
        span.epoch.to_string(),
        styled(NAME, plain(span.name())),
        styled(FAINT, when(&start(span), span.elected_at.is_none())),
        led,
        styled(style, end(span)),
    ]
}

/// Returns a row for a time in which the election was vacant, unless this time rounds to 0 s.
fn gap_row(gap: &Gap) -> Option<[String; 5]> {
    let Extent { about, at_least, at_most, .. } = gap.length;
    if about < Duration::from_millis(500) {
        return None;
    }
    let (mark, doubt) = match (at_least == at_most, at_most > about) {
        (true, _) => ("", String::new()),
        (false, true) => ("~", format!("at most {}", up(at_most))),
        (false, false) => ("~", "or less".to_owned()),
    };
    let end = if gap.before.is_none() { "until now".to_owned() } else { doubt };
    let vacant = styled(ATTENTION, format_args!("({})", LeaseState::Vacant));
    let from = styled(FAINT, format_args!("{mark}{}", gap.from.format("%F %T")));
    Some([String::new(), vacant, from, format!("{mark}{}", seconds(about)), end])
}

/// Returns the start of the leadership. If the leader's clock agrees with the store's clock, this
/// is the start by the leader's clock, as `status` and the log show it. The start that the history
/// estimates is less steady: it depends on the store's date of the last write. Many stores date
/// writes in whole seconds, so with each renewal the estimate can shift by up to a second.
fn start(span: &LeadershipSpan) -> TimeEstimate {
    let mut from = span.from;
    let agrees =
        |own: &DateTime<Utc>| from.at.is_some_and(|at| (*own - at).abs() < TimeDelta::seconds(1));
    from.at = span.elected_at.filter(agrees).or(from.at);
    from
}

/// Formats the start of an interval. A leading `~` marks an estimate, and a leading `?` an unknown
/// start.
fn when(when: &TimeEstimate, unknown: bool) -> String {
    let mark = match unknown {
        _ if when.is_exact() => "",
        true => "?",
        false => "~",
    };
    when.at.map_or("-".to_owned(), |at| format!("{mark}{}", at.format("%F %T")))
}

fn end(span: &LeadershipSpan) -> String {
    let end = match &span.unreadable {
        Some(why) => format!("unreadable: {}", plain(why)),
        None => EndFields::of_span(span).text().unwrap_or_else(|| LeaseState::Held.to_string()),
    };
    let at = |state: StoreEpoch| {
        let stores = span.stores.iter().zip(1..).filter(|(it, _)| **it == state);
        let stores = stores.map(|(_, number)| number.to_string()).collect::<Vec<_>>().join(", ");
        (!stores.is_empty()).then(|| format!("{} at {stores}", state.as_str()))
    };
    let states = [StoreEpoch::Other, StoreEpoch::Absent, StoreEpoch::Unknown];
    let stores = states.into_iter().filter_map(at).collect::<Vec<_>>().join(", ");
    match stores.is_empty() {
        true => end,
        false if span.may_be_granted() => format!("{end}; {stores}"),
        false => format!("no majority: {stores}"),
    }
}

fn summary(history: &History, is_job: bool) -> Vec<String> {
    let totals = history.totals();
    let mut lines = vec![line("led", &extent(totals.led))];
    if !is_job {
        let known = totals.time.saturating_sub(totals.unknown.about);
        let share =
            |vacant: Duration| format!("{:.1}", vacant.div_duration_f64(known).min(1.0) * 100.0);
        let [least, most] = [totals.vacant.at_least, totals.vacant.at_most].map(share);
        let share = if least == most { least } else { format!("{least} to {most}") };
        let vacant = match known {
            Duration::ZERO => extent(totals.vacant),
            _ => format!("{}, {share} % of {}", extent(totals.vacant), seconds(known)),
        };
        lines.push(line(LeaseState::Vacant.word(), &vacant));
        if let Some(gap) = totals.longest_gap {
            let longest = format!("{}, after epoch {}", extent(gap.length), gap.after);
            lines.push(line("longest", &longest));
        }
    }
    if !totals.unknown.about.is_zero() {
        let unknown = extent(totals.unknown) + ": epochs are missing or unreadable";
        lines.push(line(LeaseState::Unknown.word(), &unknown));
    }
    if history.layout == Layout::SingleObject {
        lines.push(line("note", "a single object keeps no history: this is its present epoch"));
    } else if !history.holes.is_empty() {
        let holes = holes(&history.holes, "epoch", "compacted, or skipped by a restore");
        lines.push(line("missing", &holes));
    }
    if history.left_out > 0 {
        let left_out = format!("{} older epochs; see --limit and --since", history.left_out);
        lines.push(line("left out", &left_out));
    }
    lines.push(line("requests", &history.requests.to_string()));
    lines
}

/// Formats a list of the ranges of missing numbers in `holes`. Adds the possible reason `why`.
pub fn holes(holes: &[RangeInclusive<Epoch>], kind: &str, why: &str) -> String {
    let each = holes.iter().take(SHOWN_HOLES).map(|hole| match hole.start() == hole.end() {
        true => format!("{kind} {}", hole.start()),
        false => format!("{kind}s {} to {}", hole.start(), hole.end()),
    });
    let each = each.collect::<Vec<_>>().join(", ");
    match holes.len().saturating_sub(SHOWN_HOLES) {
        0 => format!("{each}: {why}"),
        more => format!("{each} and {more} more ranges: {why}"),
    }
}

/// Formats a duration and its bounds. Omits the lower bound if the difference of the bounds is at
/// least the duration.
pub fn extent(Extent { about, at_least, at_most, .. }: Extent) -> String {
    let total = seconds(about);
    match at_most.saturating_sub(at_least) {
        Duration::ZERO => total,
        within if within < about => {
            format!("~{total} (at least {}, at most {})", down(at_least), up(at_most))
        }
        _ => format!("~{total} (at most {})", up(at_most)),
    }
}
