//! The drawing of an election's history.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tenure::EpochEnd;
use tenure_history::drawing::{Band, BandKind, Drawing, Interval, Mark, short};
use tenure_history::{Gap, History, LeadershipSpan};

use super::end_word;

/// Returns the timeline with this title. It has a lane for each candidate, an interval for each
/// epoch, and the gaps without a leader. If `is_job` is true, the leaders run the periods of
/// `--once-per`. Gaps are then normal, and are not drawn.
pub fn of(history: &History, title: &str, is_job: bool) -> Drawing {
    let mut drawing = Drawing::new(title);
    let first = |span: &LeadershipSpan| [span.from.at, span.written_at].into_iter().flatten().min();
    let Some(origin) = history.spans.iter().filter_map(first).min() else { return drawing };
    drawing.origin = Some(origin);
    drawing.subtitle = subtitle(history, origin, is_job);
    let at = |time: DateTime<Utc>| (time - origin).to_std().unwrap_or_default();
    drawing.intervals =
        history.spans.iter().filter_map(|span| interval(span, history.now, &at)).collect();
    let gaps = if is_job { Vec::new() } else { history.gaps() };
    let gaps = gaps.into_iter().map(|gap| vacant(gap, &at));
    let unknown = history.unknown().into_iter().map(|gap| unknown(gap, &at));
    drawing.bands = gaps.chain(unknown).filter(|band| band.from < band.until).collect();
    drawing
}

fn subtitle(history: &History, origin: DateTime<Utc>, is_job: bool) -> String {
    let totals = history.totals();
    let (Some(first), Some(last)) = (history.spans.first(), history.spans.last()) else {
        return String::new();
    };
    let share = totals.vacant_share().unwrap_or_default() * 100.0;
    let vacant = match is_job {
        true => String::new(),
        false => format!("; vacant for about {} ({share:.1} %)", seconds(totals.vacant.about)),
    };
    let [from, until] = [origin, history.now].map(|at| at.format("%F %T"));
    format!("epochs {} to {}, {from} to {until} UTC{vacant}", first.epoch, last.epoch)
}

fn interval(
    span: &LeadershipSpan,
    now: DateTime<Utc>,
    at: &impl Fn(DateTime<Utc>) -> Duration,
) -> Option<Interval> {
    let from = span.from.at.or(span.written_at)?;
    // If the lease lapsed, the candidate certainly led until its last renewal, and perhaps until
    // the lapse.
    let perhaps = span.until.at.unwrap_or(now).max(from);
    let in_doubt = matches!(span.end, Some(EpochEnd::Lapsed | EpochEnd::Superseded)) || span.lapsed;
    let sure = if span.unreadable.is_some() {
        from
    } else if in_doubt {
        span.until.earliest.unwrap_or(from).clamp(from, perhaps)
    } else {
        perhaps
    };
    let end = match span.end {
        None if span.unreadable.is_some() => Mark::Unknown,
        None if !span.lapsed => Mark::GoesOn,
        None | Some(EpochEnd::Lapsed) => Mark::Lapsed,
        Some(EpochEnd::Resigned) => Mark::Resigned,
        Some(EpochEnd::Deposed | EpochEnd::DeposedDead) => Mark::Deposed,
        Some(EpochEnd::GivenUp) => Mark::GivenUp,
        Some(EpochEnd::Restored) => Mark::Restored,
        Some(EpochEnd::Superseded) => Mark::Superseded,
        Some(_) => Mark::Unknown,
    };
    let lane = if span.unreadable.is_some() { "(unreadable)" } else { span.name() };
    let mut interval = Interval::new(lane, span.epoch.to_string(), at(from), at(sure), end);
    // Only one moment of an unreadable or abandoned epoch is known, so its interval has no length.
    if span.unreadable.is_some() || matches!(span.end, Some(EpochEnd::GivenUp | EpochEnd::Restored))
    {
        (interval.until, interval.perhaps_until) = (interval.from, interval.from);
    } else {
        interval.perhaps_until = at(perhaps);
    }
    if span.elected_at.is_none() {
        let latest = span.written_at.unwrap_or(from).clamp(from, perhaps);
        interval.from = at(latest);
        interval.until = interval.until.max(interval.from);
    }
    Some(interval.tip(tip(span, from, now)))
}

fn tip(span: &LeadershipSpan, from: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let mut tip = format!("epoch {}: {}, from {}", span.epoch, span.name(), from.format("%F %TZ"));
    if let Some(led) = span.led(now) {
        let about = if span.until.is_exact() { "for" } else { "for about" };
        tip += &format!(", {about} {}", seconds(led));
    }
    tip += &format!(", {}", end_word(span).replace('_', " "));
    if let Some(by) = span.sealed_by.as_deref().filter(|by| Some(*by) != span.candidate.as_deref())
    {
        tip += &format!(" by {by}");
    }
    if let Some(why) = &span.unreadable {
        tip += &format!(": {why}");
    }
    tip
}

fn unknown(gap: Gap, at: &impl Fn(DateTime<Utc>) -> Duration) -> Band {
    let mut band = Band::new(BandKind::Unknown, at(gap.from), at(gap.until));
    band.tip = "unknown: epochs of this time are missing or cannot be read".to_owned();
    band
}

fn vacant(gap: Gap, at: &impl Fn(DateTime<Utc>) -> Duration) -> Band {
    let length = gap.length;
    let bounds = if length.at_least == length.at_most {
        String::new()
    } else {
        format!(" (at least {}, at most {})", down(length.at_least), up(length.at_most))
    };
    let mut band = Band::new(BandKind::Vacant, at(gap.from), at(gap.until));
    band.tip = format!("vacant for {}{bounds}", seconds(length.about));
    band
}

/// Formats an estimate, rounded to whole seconds. Many stores date writes in whole seconds, so
/// smaller units would be false precision.
pub fn seconds(about: Duration) -> String {
    down(about.saturating_add(Duration::from_millis(500)))
}

/// Formats the lower bound of a duration, rounded down to whole seconds.
pub fn down(at_least: Duration) -> String {
    match at_least.as_secs() {
        0 => "0s".to_owned(),
        seconds => short(Duration::from_secs(seconds)),
    }
}

/// Formats the upper bound of a duration, rounded up to the last unit that is shown.
pub fn up(at_most: Duration) -> String {
    let unit = match at_most.as_secs() {
        0..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    let seconds = at_most.as_secs().saturating_add(u64::from(at_most.subsec_nanos() > 0));
    down(Duration::from_secs(seconds.div_ceil(unit).saturating_mul(unit)))
}
