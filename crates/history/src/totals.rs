//! How long nobody led.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use tenure::Epoch;

use super::{History, LeadershipSpan};

/// A duration, and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub struct Extent {
    /// The best guess.
    pub about: Duration,
    /// No less than this.
    pub at_least: Duration,
    /// No more than this.
    pub at_most: Duration,
}

/// A time without a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The last epoch that had a leader.
    pub after: Epoch,
    /// The next that had; `None` if nobody has led since.
    pub before: Option<Epoch>,
    /// Its begin, by the best guess.
    pub from: DateTime<Utc>,
    /// Its end, by the best guess.
    pub until: DateTime<Utc>,
    /// How long it is.
    pub length: Extent,
}

/// The totals over all epochs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Totals {
    /// From the first begin that is known until now, or until the last lease ends.
    pub time: Duration,
    /// How much of it had no leader.
    pub nobody: Extent,
    /// How much of it is not known: epochs in it are compacted or cannot be read.
    pub unknown: Extent,
    /// How much of it had a leader: the rest.
    pub led: Extent,
    /// The longest time without a leader.
    pub longest_gap: Option<Gap>,
}

impl Extent {
    fn add(&mut self, other: Extent) {
        self.about = self.about.saturating_add(other.about);
        self.at_least = self.at_least.saturating_add(other.at_least);
        self.at_most = self.at_most.saturating_add(other.at_most);
    }
}

impl Totals {
    /// The fraction of the known time without a leader, 0 to 1; `None` if none is known.
    #[must_use]
    pub fn nobody_share(&self) -> Option<f64> {
        let known = self.time.saturating_sub(self.unknown.about);
        (!known.is_zero()).then(|| self.nobody.about.div_duration_f64(known).min(1.0))
    }
}

/// What lies between two leaders, and whether it is known that nobody led.
struct Between {
    gap: Gap,
    known: bool,
}

impl History {
    /// The times without a leader, in ascending order. An epoch that was given up does not end one.
    /// Where epochs are missing between two, nothing is known: see [`unknown`](History::unknown).
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        self.between().into_iter().filter(|one| one.known).map(|one| one.gap).collect()
    }

    /// The times of which nothing is known, in ascending order: epochs between two leaders are
    /// missing, or cannot be read.
    #[must_use]
    pub fn unknown(&self) -> Vec<Gap> {
        self.between().into_iter().filter(|one| !one.known).map(|one| one.gap).collect()
    }

    /// The totals over all epochs.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let leaders = || self.spans.iter().filter(|span| span.is_of_a_leader());
        let first = leaders().filter_map(|span| Some((span.from.at?, span.from.latest))).min();
        let Some((from, from_latest)) = first else { return totals };
        let until = self.now.max(leaders().filter_map(|span| span.until.at).max().unwrap_or(from));
        totals.time = length(from, until);
        for Between { gap, known } in self.between() {
            if !known {
                totals.unknown.add(gap.length);
                continue;
            }
            totals.nobody.add(gap.length);
            if totals.longest_gap.map(|longest| longest.length.about) < Some(gap.length.about) {
                totals.longest_gap = Some(gap);
            }
        }
        // Counted from the best guess of the first begin, which may have been later.
        let begun_late = from_latest.map_or(Duration::ZERO, |latest| length(from, latest));
        let longest = totals.time.saturating_add(self.now_within);
        let rest = |time: Duration, nobody: Duration, unknown: Duration| {
            time.saturating_sub(nobody).saturating_sub(unknown)
        };
        totals.led = Extent {
            about: rest(totals.time, totals.nobody.about, totals.unknown.about),
            at_least: rest(totals.time, totals.nobody.at_most, totals.unknown.at_most)
                .saturating_sub(begun_late),
            at_most: rest(longest, totals.nobody.at_least, totals.unknown.at_least),
        };
        totals
    }

    fn between(&self) -> Vec<Between> {
        let mut between = Vec::new();
        let mut before: Option<&LeadershipSpan> = None;
        // Since `before`, an epoch that cannot be read may have had a leader.
        let mut unreadable = false;
        for span in &self.spans {
            unreadable |= span.unreadable.is_some();
            if !span.is_of_a_leader() {
                continue;
            }
            if let Some(before) = before {
                let known = !unreadable && !self.misses(before.epoch, span.epoch);
                between.extend(between_two(before, span, known));
            }
            (before, unreadable) = (Some(span), false);
        }
        if let Some(last) = before {
            between.extend(self.since(last, !unreadable));
        }
        between
    }

    fn misses(&self, after: Epoch, before: Epoch) -> bool {
        let starts = self.holes.partition_point(|hole| *hole.start() < after);
        self.holes.get(starts).is_some_and(|hole| *hole.start() < before)
    }

    /// From the end of the last leader until now.
    fn since(&self, last: &LeadershipSpan, known: bool) -> Option<Between> {
        let (from, earliest) = match last.until.at {
            Some(at) => (at.min(self.now), last.until.earliest.unwrap_or(at)),
            // Its lease may have ended within the resolution of the dates.
            None => (self.now, lease_end(last)?),
        };
        let now_within = TimeDelta::from_std(self.now_within).ok()?;
        let latest_now = self.now.checked_add_signed(now_within).unwrap_or(self.now);
        let length = Extent {
            about: length(from, self.now),
            at_least: length(last.until.latest.unwrap_or(from), self.now),
            at_most: length(earliest, latest_now),
        };
        if length == Extent::default() {
            return None;
        }
        let gap = Gap { after: last.epoch, before: None, from, until: self.now, length };
        Some(Between { gap, known })
    }
}

fn between_two(before: &LeadershipSpan, next: &LeadershipSpan, known: bool) -> Option<Between> {
    let (from, until) = (before.until.at?, next.from.at?);
    let length = Extent {
        about: length(from, until),
        at_least: length(before.until.latest.unwrap_or(from), next.from.earliest.unwrap_or(until)),
        at_most: length(before.until.earliest.unwrap_or(from), next.from.latest.unwrap_or(until)),
    };
    // One that may be there, but is not by the best guess, counts in the bounds alone.
    if length == Extent::default() {
        return None;
    }
    let (after, before) = (before.epoch, Some(next.epoch));
    Some(Between { gap: Gap { after, before, from, until: until.max(from), length }, known })
}

/// Of one that leads: not before this.
fn lease_end(span: &LeadershipSpan) -> Option<DateTime<Utc>> {
    let validity = TimeDelta::from_std(span.validity?).ok()?;
    span.until.earliest?.checked_add_signed(validity)
}

fn length(from: DateTime<Utc>, until: DateTime<Utc>) -> Duration {
    (until - from).to_std().unwrap_or_default()
}
