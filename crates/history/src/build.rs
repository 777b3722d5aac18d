//! Converts epoch objects to spans: computes the start and the end of each epoch from its record
//! and the store's dates.

use std::ops::RangeInclusive;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Dated, LeadershipSpan, TimeEstimate};
use tenure::internals::Record;
use tenure::{Epoch, EpochEnd};

/// Maximum length of a name, in bytes. Longer names are cut. A history has thousands of records,
/// and a record of another program can have a name of 64 KiB.
const LONGEST_NAME: usize = 1_024;

/// The content of an epoch object at the time of its GET.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) epoch: Epoch,
    /// Date of the last write, by the store's clock.
    pub(super) written: Option<Dated>,
    pub(super) body: Result<Record, String>,
}

/// Returns the span of each object. The objects must be in ascending order, and the last object
/// must belong to the newest epoch.
pub(super) fn spans(found: Vec<Found>, now: DateTime<Utc>) -> Vec<LeadershipSpan> {
    use EpochEnd::{Deposed, DeposedDead, Lapsed, Resigned, Restored};
    let mut spans: Vec<LeadershipSpan> = Vec::with_capacity(found.len());
    let newest = found.len().saturating_sub(1);
    // Time of the seal of the previous epoch. The next epoch is created only after this seal.
    let mut sealed = None;
    for (number, found) in found.into_iter().enumerate() {
        let span = span(found, sealed, number == newest, now);
        if matches!(span.end, Some(Resigned | Lapsed | Deposed | DeposedDead | Restored)) {
            sealed = span.written_at.max(sealed);
        }
        spans.push(span);
    }
    end_at_the_next_epoch(&mut spans);
    spans
}

/// Returns the epochs without an object: all epochs below `first`, and the missing epochs between
/// two epochs in `found`. `first` is the oldest epoch with an object.
pub(super) fn holes(first: Option<Epoch>, found: &[Epoch]) -> Vec<RangeInclusive<Epoch>> {
    let between = |below: u64, above: Epoch| {
        let (first, last) = (Epoch::new(below + 1)?, Epoch::new(above.get().checked_sub(1)?)?);
        (first <= last).then_some(first..=last)
    };
    let before = first.and_then(|first| between(0, first));
    let later = found.windows(2).filter_map(|two| between(two[0].get(), two[1]));
    before.into_iter().chain(later).collect()
}

fn span(
    Found { epoch, written, body }: Found,
    sealed: Option<DateTime<Utc>>,
    newest: bool,
    now: DateTime<Utc>,
) -> LeadershipSpan {
    let (written_at, written_by) = (written.map(|date| date.at), written.map(Dated::latest));
    let mut span = LeadershipSpan {
        epoch,
        candidate: None,
        from: TimeEstimate::default(),
        until: TimeEstimate::default(),
        end: None,
        lapsed: false,
        sealed_by: None,
        forced_by: None,
        reason: None,
        validity: None,
        heartbeat: 0,
        elected_at: None,
        renewed_at: None,
        sealed_at: None,
        written_at,
        unreadable: None,
        stores: Vec::new(),
    };
    let record = match body {
        Ok(record) => record,
        Err(why) => {
            span.unreadable = Some(why);
            (span.from, span.until) =
                (TimeEstimate::between(None, sealed, written_by), TimeEstimate::default());
            return span;
        }
    };
    let times = Times::of(&record, written);
    span.end = end(&record, newest);
    // If the record has no start time, the leader may have begun at any time after the previous
    // seal.
    let begin = times.elected.or(sealed).or(written_at);
    span.from = TimeEstimate::between(begin, sealed, times.latest_begin.or(written_by));
    span.until = until(&record, span.end, &times, &span.from);
    if span.is_held() {
        span.lapsed = span.until.latest.is_some_and(|latest| latest < now);
        span.until.at = span.until.at.filter(|_| span.lapsed);
    }
    span.validity = record.validity();
    span.heartbeat = record.heartbeat;
    (span.elected_at, span.renewed_at) = (record.elected_at, record.renewed_at);
    span.sealed_at = record.sealed_at.filter(|_| record.expired);
    span.sealed_by = record.sealed_by.filter(|_| record.expired).map(cut);
    span.forced_by = record.forced_by.filter(|_| record.expired).map(cut);
    span.reason = record.reason.filter(|_| record.expired).map(cut);
    span.candidate = record.candidate.map(cut);
    span
}

fn end(record: &Record, newest: bool) -> Option<EpochEnd> {
    let by_itself = record.candidate.is_some() && record.candidate == record.sealed_by;
    match (record.expired, record.ended) {
        // A restore creates its epoch with the end `Restored`, and seals this epoch only when the
        // restore ends.
        (_, Some(EpochEnd::Restored)) => Some(EpochEnd::Restored),
        (false, _) if newest => None,
        (false, _) => Some(EpochEnd::Superseded),
        // If the heartbeat is at most 2, the record had only two writes: its creation and its seal.
        // So the candidate sealed its own epoch, and never led.
        (true, Some(EpochEnd::Lapsed))
            if record.forced_by.is_none() && by_itself && record.heartbeat <= 2 =>
        {
            Some(EpochEnd::GivenUp)
        }
        (true, _) => record.end(),
    }
}

fn until(
    record: &Record,
    end: Option<EpochEnd>,
    times: &Times,
    from: &TimeEstimate,
) -> TimeEstimate {
    let Times { renewed, written, .. } = *times;
    let sealed = written.or(record.sealed_at.map(Dated::exactly));
    let (sealed_from, sealed_by) = (sealed.map(|date| date.at), sealed.map(Dated::latest));
    let after_validity = |at: Option<DateTime<Utc>>| {
        let validity = TimeDelta::from_std(record.validity()?).ok()?;
        at?.checked_add_signed(validity)
    };
    let until = match end {
        Some(EpochEnd::Lapsed) => {
            // The leadership ends at the seal or earlier. If the clocks disagree, a recorded time
            // can be later than the seal. In this case, use the time of the seal.
            let no_later = |sign: DateTime<Utc>, seal: Option<DateTime<Utc>>| {
                seal.map_or(sign, |seal| sign.min(seal))
            };
            let sign = renewed.map(|sign| no_later(sign.at, sealed_from));
            let last_sign = renewed.map(|sign| no_later(sign.latest(), sealed_by));
            let first_of = |one: Option<_>, other| [one, other].into_iter().flatten().min();
            let at = first_of(after_validity(sign), sealed_from);
            let latest = first_of(after_validity(last_sign), sealed_by);
            TimeEstimate::between(at, sign.or(from.earliest), latest)
        }
        None | Some(EpochEnd::Superseded) => {
            let lease_end = |written| after_validity(written).or(record.lasts_until());
            let at = lease_end(written.map(|date| date.at));
            let latest = lease_end(written.map(Dated::latest));
            let earliest = written.map(|date| date.at);
            TimeEstimate::between(at, earliest, latest)
        }
        Some(_) => TimeEstimate::exactly(sealed),
    };
    match (until.at, from.at) {
        // The end may seem to be before the start, because the end and the start can come from
        // clocks that disagree.
        (Some(at), Some(from)) if at < from => TimeEstimate { at: Some(from), ..until },
        _ => until,
    }
}

/// The leader's times in the record, corrected to the store's clock.
struct Times {
    /// Upper bound of the start: the time of the last write, minus the time for which the leader
    /// had led by its own clock.
    latest_begin: Option<DateTime<Utc>>,
    elected: Option<DateTime<Utc>>,
    renewed: Option<Dated>,
    written: Option<Dated>,
}

impl Times {
    /// Corrects the leader's times. If the last write came from the leader, the record and the
    /// store each have a date for this write. The difference between these dates is the error of
    /// the leader's clock, up to the resolution of the store's date. If another process wrote last,
    /// this function assumes that the clocks agree.
    fn of(record: &Record, written: Option<Dated>) -> Times {
        let own = match record.expired {
            false => record.renewed_at.or(record.elected_at),
            true if record.sealed_by == record.candidate => record.sealed_at,
            true => None,
        };
        let by_the_store = |noted: DateTime<Utc>| match written.zip(own) {
            Some((Dated { at, within }, own)) => {
                let at = noted.checked_add_signed(at - own)?;
                Some(Dated { at, within })
            }
            None => Some(Dated::exactly(noted)),
        };
        let last = own.or(record.renewed_at).or(record.elected_at);
        let led = last.zip(record.elected_at).map(|(last, begin)| last - begin);
        let led = led.filter(|led| *led >= TimeDelta::zero());
        let latest_begin = written.map(Dated::latest).zip(led);
        Times {
            latest_begin: latest_begin.and_then(|(at, led)| at.checked_sub_signed(led)),
            elected: record.elected_at.and_then(by_the_store).map(|date| date.at),
            renewed: record.renewed_at.or(record.elected_at).and_then(by_the_store),
            written,
        }
    }
}

/// Corrects the end of each epoch without a seal: it ends at the latest when the next epoch begins.
fn end_at_the_next_epoch(spans: &mut [LeadershipSpan]) {
    for number in 1..spans.len() {
        let next = spans[number].from;
        let span = &mut spans[number - 1];
        if span.end != Some(EpochEnd::Superseded) {
            continue;
        }
        let latest = [span.until.latest, next.latest].into_iter().flatten().min();
        let at = [span.until.at, next.at].into_iter().flatten().min();
        span.until = TimeEstimate::between(at, span.until.earliest, latest);
        // If the clocks disagree, the next epoch may seem to begin before this epoch. The end must
        // not be before the start of this epoch.
        if let (Some(at), Some(from)) = (span.until.at, span.from.at) {
            span.until.at = Some(at.max(from));
        }
    }
}

fn cut(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(LONGEST_NAME));
    name
}
