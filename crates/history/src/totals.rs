//! The times without a leader, and the totals over all epochs of a history.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use tenure::Epoch;

use super::{History, LeadershipSpan};

/// An estimate of a duration, with bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub struct Extent {
    /// Best estimate.
    pub about: Duration,
    /// Lower bound.
    pub at_least: Duration,
    /// Upper bound.
    pub at_most: Duration,
}

/// A time without a leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The last epoch with a leader before the gap.
    pub after: Epoch,
    /// The first epoch with a leader after the gap. `None` if no process has led since the gap
    /// began.
    pub before: Option<Epoch>,
    /// Start, by the best estimate.
    pub from: DateTime<Utc>,
    /// End, by the best estimate.
    pub until: DateTime<Utc>,
    /// Length of the gap.
    pub length: Extent,
}

/// The totals over all epochs of a history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Totals {
    /// Time from the first known start of a leadership until now, or until the latest known end of
    /// a leadership if that end is later.
    pub time: Duration,
    /// Time without a leader.
    pub vacant: Extent,
    /// Time with an unknown leader: the compactor has deleted the epochs of this time, or their
    /// objects are unreadable.
    pub unknown: Extent,
    /// Time with a leader.
    pub led: Extent,
    /// Longest time without a leader.
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
    /// Returns the fraction of the known time that had no leader, from 0 to 1. The known time is
    /// the total time minus [`unknown`](Totals::unknown). Returns `None` if no time is known.
    #[must_use]
    pub fn vacant_share(&self) -> Option<f64> {
        let known = self.time.saturating_sub(self.unknown.about);
        (!known.is_zero()).then(|| self.vacant.about.div_duration_f64(known).min(1.0))
    }
}

/// The time between two leaders. `known` is false if another process may have led during this time.
struct Between {
    gap: Gap,
    known: bool,
}

impl History {
    /// Returns the times without a leader, in ascending order. An epoch that never had a leader,
    /// such as an epoch of a restore, does not end a gap. If epochs are missing between two
    /// leaders, the time between them is [`unknown`](History::unknown) and not a gap.
    #[must_use]
    pub fn gaps(&self) -> Vec<Gap> {
        self.between().into_iter().filter(|one| one.known).map(|one| one.gap).collect()
    }

    /// Returns the times with an unknown leader, in ascending order. In these times an epoch is
    /// missing or unreadable.
    #[must_use]
    pub fn unknown(&self) -> Vec<Gap> {
        self.between().into_iter().filter(|one| !one.known).map(|one| one.gap).collect()
    }

    /// Returns the totals over all epochs.
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
            totals.vacant.add(gap.length);
            if totals.longest_gap.map(|longest| longest.length.about) < Some(gap.length.about) {
                totals.longest_gap = Some(gap);
            }
        }
        // The total time starts at the best estimate of the first epoch's start. The true start may
        // be up to `begun_late` later, so subtract this difference from the lower bound.
        let begun_late = from_latest.map_or(Duration::ZERO, |latest| length(from, latest));
        let longest = totals.time.saturating_add(self.now_within);
        let rest = |time: Duration, vacant: Duration, unknown: Duration| {
            time.saturating_sub(vacant).saturating_sub(unknown)
        };
        totals.led = Extent {
            about: rest(totals.time, totals.vacant.about, totals.unknown.about),
            at_least: rest(totals.time, totals.vacant.at_most, totals.unknown.at_most)
                .saturating_sub(begun_late),
            at_most: rest(longest, totals.vacant.at_least, totals.unknown.at_least),
        };
        totals
    }

    fn between(&self) -> Vec<Between> {
        let mut between = Vec::new();
        let mut before: Option<&LeadershipSpan> = None;
        // True if an epoch after `before` is unreadable. Such an epoch may have had a leader, so
        // the time between `before` and the next leader is then unknown.
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

    /// Returns the time from the end of the last leadership until now.
    fn since(&self, last: &LeadershipSpan, known: bool) -> Option<Between> {
        let (from, earliest) = match last.until.at {
            Some(at) => (at.min(self.now), last.until.earliest.unwrap_or(at)),
            // The lease seems to be valid. But the dates are rounded down, so the lease may already
            // have ended.
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
    // Omit a gap only if its bounds are zero too. A gap with the estimated length zero can still
    // contribute to the bounds of the totals.
    if length == Extent::default() {
        return None;
    }
    let (after, before) = (before.epoch, Some(next.epoch));
    Some(Between { gap: Gap { after, before, from, until: until.max(from), length }, known })
}

/// Returns the earliest time at which the lease of a held epoch ends.
fn lease_end(span: &LeadershipSpan) -> Option<DateTime<Utc>> {
    let validity = TimeDelta::from_std(span.validity?).ok()?;
    span.until.earliest?.checked_add_signed(validity)
}

pub(crate) fn length(from: DateTime<Utc>, until: DateTime<Utc>) -> Duration {
    (until - from).to_std().unwrap_or_default()
}
