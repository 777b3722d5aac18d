//! The table for people.

use std::ops::RangeInclusive;
use std::time::Duration;

use chrono::{DateTime, Utc};
use humantime::format_duration;
use tenure::{Epoch, EpochEnd, Layout};
use tenure_history::{Extent, Gap, History, LeadershipSpan, TimeEstimate};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::election::LeaseState;
use crate::output::print::{millis, plain};

/// Maximum number of listed holes. Further holes are only counted.
const SHOWN_HOLES: usize = 5;
/// Maximum width of a name, in columns of a terminal.
const LONGEST_NAME: usize = 40;

pub fn of(history: &History) -> String {
    if history.spans.is_empty() {
        return "no process has led".to_owned();
    }
    let mut lines = Vec::new();
    rows(history, &mut lines);
    lines.push(String::new());
    summary(history, &mut lines);
    lines.join("\n")
}

fn rows(history: &History, lines: &mut Vec<String>) {
    let names: Vec<String> = history.spans.iter().map(|span| shown(span.name())).collect();
    let wide = names.iter().map(|name| name.width()).max().unwrap_or(0).max(6);
    lines.push(format!(
        "{:>6}  {:<wide$}  {:<21}  {:<21}  {:<9}  end",
        "epoch", "leader", "from", "until", "led"
    ));
    let gaps = history.gaps();
    let mut gaps = gaps.iter().peekable();
    for (span, name) in history.spans.iter().zip(names) {
        while let Some(gap) = gaps.next_if(|gap| gap.before == Some(span.epoch)) {
            lines.extend(gap_line(gap));
        }
        // Padding counts characters, but characters of some scripts are two columns wide.
        let gap = wide - name.width();
        let led = match span.led(history.now) {
            None => "-".to_owned(),
            Some(led) if span.until.is_exact() || (span.is_held() && !span.lapsed) => brief(led),
            Some(led) => format!("~{}", brief(led)),
        };
        lines.push(format!(
            "{:>6}  {name}{:gap$}  {:<21}  {:<21}  {led:<9}  {}",
            span.epoch,
            "",
            when(&span.from, span.elected_at.is_none()),
            when(&span.until, false),
            end(span),
        ));
    }
    lines.extend(gaps.filter_map(gap_line));
}

fn gap_line(gap: &Gap) -> Option<String> {
    if gap.length.about.is_zero() {
        return None;
    }
    let since = if gap.before.is_none() { " since then" } else { "" };
    let Extent { about, at_least, at_most, .. } = gap.length;
    let doubt = match (at_least == at_most, at_most > about) {
        (true, _) => String::new(),
        (false, true) => format!(", at most {}", brief_up(at_most)),
        (false, false) => " or less".to_owned(),
    };
    Some(format!("{:>6}  {} for {}{doubt}{since}", "", LeaseState::Vacant, brief(about)))
}

/// Formats a time. A leading `~` marks an estimate, and a leading `?` marks an unknown start.
fn when(when: &TimeEstimate, unknown: bool) -> String {
    let time = |at: DateTime<Utc>| at.format("%F %TZ").to_string();
    match when.at {
        None => "-".to_owned(),
        Some(at) if when.is_exact() => time(at),
        Some(at) if unknown => format!("?{}", time(at)),
        Some(at) => format!("~{}", time(at)),
    }
}

fn end(span: &LeadershipSpan) -> String {
    let by = match span.sealed_by.as_deref() {
        Some(by) if Some(by) != span.candidate.as_deref() => format!(" by {}", shown(by)),
        Some(_) if span.end == Some(EpochEnd::Lapsed) => " by its leader".to_owned(),
        _ => String::new(),
    };
    match span.end {
        None => match &span.unreadable {
            Some(why) => format!("unreadable: {}", plain(why)),
            None if span.lapsed => "lapsed; not sealed".to_owned(),
            None => LeaseState::Held.to_string(),
        },
        Some(EpochEnd::Lapsed) => format!("lapsed; sealed{by}"),
        Some(EpochEnd::GivenUp) => "given up before it led".to_owned(),
        Some(EpochEnd::Superseded) => "superseded without a seal".to_owned(),
        Some(EpochEnd::Unknown) => format!("sealed{by}, no reason given"),
        Some(EpochEnd::DeposedDead) => {
            let by = span.forced_by.as_deref().map_or(String::new(), shown);
            format!("deposed as dead by {by}{}", reason(span))
        }
        Some(end) => format!("{end}{by}{}", reason(span)),
    }
}

fn reason(span: &LeadershipSpan) -> String {
    span.reason.as_deref().map_or(String::new(), |reason| format!(": {}", shown(reason)))
}

fn summary(history: &History, lines: &mut Vec<String>) {
    let totals = history.totals();
    let mut line = |label: &str, text: String| lines.push(format!("{label:<12} {text}"));
    let share = totals.vacant_share().map_or(String::new(), |share| {
        format!(
            ", {:.1} % of {}",
            share * 100.0,
            brief(totals.time.saturating_sub(totals.unknown.about))
        )
    });
    line("led", extent(totals.led));
    line(LeaseState::Vacant.word(), format!("{}{share}", extent(totals.vacant)));
    if let Some(gap) = totals.longest_gap {
        line("longest gap", format!("{}, after epoch {}", extent(gap.length), gap.after));
    }
    if !totals.unknown.about.is_zero() {
        let unknown = extent(totals.unknown);
        line(LeaseState::Unknown.word(), format!("{unknown}: epochs are missing or unreadable"));
    }
    if history.layout == Layout::SingleObject {
        let why = "a single object keeps no history: this is its present epoch";
        line("note", why.to_owned());
    } else if !history.holes.is_empty() {
        line("missing", holes(&history.holes, "epoch", "compacted, or skipped by a restore"));
    }
    if history.left_out > 0 {
        line("left out", format!("{} older epochs; see --limit and --since", history.left_out));
    }
    line("requests", history.requests.to_string());
}

/// Lists the ranges of epochs without an object, with the possible reason.
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

fn extent(extent: Extent) -> String {
    if extent.at_least == extent.at_most {
        return brief(extent.about);
    }
    let (least, most) = (brief(extent.at_least), brief_up(extent.at_most));
    format!("~{} (at least {least}, at most {most})", brief(extent.about))
}

/// Formats a duration in about two units, rounded down.
fn brief(duration: Duration) -> String {
    let unit = unit(duration);
    format_duration(Duration::from_millis(millis(duration) / unit * unit)).to_string()
}

/// Formats a duration in about two units, rounded up.
fn brief_up(duration: Duration) -> String {
    let unit = unit(duration);
    let millis = millis(duration.saturating_add(Duration::from_nanos(999_999)));
    format_duration(Duration::from_millis(millis.div_ceil(unit).saturating_mul(unit))).to_string()
}

/// Returns the unit of rounding in milliseconds.
fn unit(duration: Duration) -> u64 {
    match duration.as_secs() {
        0 => 1,
        1..10 => 100,
        10..3_600 => 1_000,
        3_600..86_400 => 60_000,
        86_400..2_630_016 => 3_600_000,
        _ => 86_400_000,
    }
}

fn shown(name: &str) -> String {
    let name = plain(name);
    if name.width() <= LONGEST_NAME {
        return name;
    }
    let (mut kept, mut columns) = (String::new(), 0);
    for character in name.chars() {
        columns += character.width().unwrap_or_default();
        if columns > LONGEST_NAME {
            break;
        }
        kept.push(character);
    }
    kept + "…"
}
