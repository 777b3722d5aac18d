//! Who led when, how each epoch ended, and how long nobody led: read from the epoch objects that
//! the compactor has left.
//!
//! ```
//! use std::sync::Arc;
//! use tenure::{Election, store::MemoryStore};
//! use tenure_history::Reader;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), tenure::Error> {
//! let store = Arc::new(MemoryStore::new());
//! let election = Election::builder(store.clone(), "orders/leader").name("worker-7").build()?;
//! election.campaign().await?.resign().await?;
//!
//! let history = Reader::new(store, "orders/leader")?.read().await?;
//! assert_eq!(history.spans[0].candidate.as_deref(), Some("worker-7"));
//! # Ok(())
//! # }
//! ```
//!
//! The store keeps what was written last: when that was, by its own clock, and the record with the
//! times that its writers noted, each by a clock of its own. So the end of a sealed epoch is known
//! ([`TimeEstimate::is_exact`]), unless its leader died: then it led at least until its last
//! renewal, and at most until its lease ended. Begins are estimated from the leader's own clock,
//! and lie between the seal of the epoch before and the last write. A history is for people only:
//! no election depends on it.
//!
//! If the leader wrote last, the two times show the error of its clock, which is subtracted. If
//! another process sealed the epoch, that error is unknown: the bounds then hold only if the
//! leader's clock agreed with the store's. No bound holds for a clock that was stepped during the
//! epoch.
//!
//! Many stores date in whole seconds. Bounds include that: a store's date is the begin of the
//! second, millisecond or other decimal part of a second in which the write happened. Coarser dates
//! than whole seconds are not recognised.
//!
//! [`drawing`] draws such timelines.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
// Clocks move between two looks, so the difference of two of their readings has no sign.
#![cfg_attr(not(test), deny(clippy::unchecked_time_subtraction))]

mod build;
pub mod drawing;
#[cfg(test)]
mod properties;
mod read;
#[cfg(test)]
mod tests;
mod totals;

use std::ops::RangeInclusive;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tenure::{Epoch, EpochEnd, Layout};

pub use read::Reader;
pub use totals::{Extent, Gap, Totals};

/// The history of an election, from its epoch objects.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct History {
    /// How the election is stored. A [single object](Layout::SingleObject) keeps no history: it
    /// shows only one epoch.
    pub layout: Layout,
    /// The epochs that were read, in ascending order.
    pub spans: Vec<LeadershipSpan>,
    /// Epochs that have no object, in ascending order: compacted away, or overwritten in a single
    /// object. Gaps among the epochs that were left out do not show.
    pub holes: Vec<RangeInclusive<Epoch>>,
    /// How many older epochs exist, but were not requested.
    pub left_out: u64,
    /// The store's clock at the end of the reading; this machine's clock if the store has none.
    pub now: DateTime<Utc>,
    /// By how much it may have been later than `now`: the resolution of that clock.
    pub now_within: Duration,
    /// How many requests the reading took.
    pub requests: u64,
}

/// One epoch, by its object.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LeadershipSpan {
    /// The epoch.
    pub epoch: Epoch,
    /// Who held it; `None` in a record of a foreign peer, or one that cannot be read.
    pub candidate: Option<String>,
    /// When its leader began.
    pub from: TimeEstimate,
    /// When its leader ended. No [`at`](TimeEstimate::at) while it leads.
    pub until: TimeEstimate,
    /// How it ended; `None` if it has not, or if it cannot be read.
    pub end: Option<EpochEnd>,
    /// Whether it is [held](LeadershipSpan::is_held), but its lease is over by the store's clock.
    pub lapsed: bool,
    /// Who sealed it, if it is sealed and says so.
    pub sealed_by: Option<String>,
    /// The operator that asserted that its leader is dead, by name.
    pub forced_by: Option<String>,
    /// The reason that an operator gave for its end.
    pub reason: Option<String>,
    /// How long its lease lasts without a renewal; `None` if it never lapses or does not say.
    pub validity: Option<Duration>,
    /// The counter that every write raises.
    pub heartbeat: u64,
    /// As recorded, by the leader's clock: when it created the epoch.
    pub elected_at: Option<DateTime<Utc>>,
    /// As recorded, by the leader's clock: when it last renewed.
    pub renewed_at: Option<DateTime<Utc>>,
    /// As recorded, by the clock of the process that sealed it.
    pub sealed_at: Option<DateTime<Utc>>,
    /// When the object was last written, by the store's clock.
    pub written_at: Option<DateTime<Utc>>,
    /// Why the object cannot be read; nothing else is known about such an epoch.
    pub unreadable: Option<String>,
}

/// A moment, and how well it is known. All three by the store's clock, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TimeEstimate {
    /// The best guess.
    pub at: Option<DateTime<Utc>>,
    /// Not before this.
    pub earliest: Option<DateTime<Utc>>,
    /// Not after this.
    pub latest: Option<DateTime<Utc>>,
    /// The store dated this very moment.
    exact: bool,
}

impl TimeEstimate {
    /// Whether the store dated this very moment: the bounds are then as far apart as the resolution
    /// of its dates, a second on most stores.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// A date of the store's, or of a record's writer.
    fn exactly(date: Option<Dated>) -> TimeEstimate {
        let (at, latest) = (date.map(|date| date.at), date.map(Dated::latest));
        TimeEstimate { at, earliest: at, latest, exact: at.is_some() }
    }

    /// The best guess between its bounds, as far as there are any. Bounds that contradict each
    /// other come from clocks that disagree, and are dropped.
    fn between(
        at: Option<DateTime<Utc>>,
        earliest: Option<DateTime<Utc>>,
        latest: Option<DateTime<Utc>>,
    ) -> TimeEstimate {
        let earliest = earliest.filter(|earliest| latest.is_none_or(|latest| *earliest <= latest));
        let at = at.map(|at| earliest.map_or(at, |earliest| at.max(earliest)));
        let at = at.map(|at| latest.map_or(at, |latest| at.min(latest)));
        TimeEstimate { at, earliest, latest, exact: false }
    }
}

/// A date that is cut to its resolution: the moment itself lies up to that much later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dated {
    pub(crate) at: DateTime<Utc>,
    pub(crate) within: TimeDelta,
}

impl Dated {
    /// A date of a store's, which is cut to whole seconds or to a decimal part of a second: at most
    /// to the coarsest of these that the date shows.
    pub(crate) fn by_a_store(at: DateTime<Utc>) -> Dated {
        let nanos = i64::from(at.timestamp_subsec_nanos());
        let mut unit = 1_000_000_000;
        while nanos % unit != 0 {
            unit /= 10;
        }
        Dated { at, within: TimeDelta::nanoseconds(unit) }
    }

    pub(crate) fn exactly(at: DateTime<Utc>) -> Dated {
        Dated { at, within: TimeDelta::zero() }
    }

    fn latest(self) -> DateTime<Utc> {
        self.at.checked_add_signed(self.within).unwrap_or(self.at)
    }
}

impl LeadershipSpan {
    /// The candidate's name, or a dash.
    #[must_use]
    pub fn name(&self) -> &str {
        self.candidate.as_deref().unwrap_or("-")
    }

    /// Whether it has not ended: it is the newest, and not sealed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.end.is_none() && self.unreadable.is_none()
    }

    /// How long it led, by the best guesses; up to `now` if it still does. `None` if the begin is
    /// not known, or if it most likely never led.
    #[must_use]
    pub fn led(&self, now: DateTime<Utc>) -> Option<Duration> {
        if !self.is_of_a_leader() {
            return None;
        }
        let until = self.until.at.unwrap_or(now);
        Some((until - self.from.at?).to_std().unwrap_or_default())
    }

    /// The least time it led, whatever the resolution of the store's dates. `None` as for
    /// [`led`](LeadershipSpan::led).
    #[must_use]
    pub fn led_at_least(&self, history: &History) -> Option<Duration> {
        self.led(history.now)?;
        let (from, until) = (self.from.latest, self.until.earliest);
        let led = from.zip(until).map(|(from, until)| until.min(history.now) - from);
        Some(led.and_then(|led| led.to_std().ok()).unwrap_or_default())
    }

    /// The most time it led, whatever the resolution of the store's dates. `None` as for
    /// [`led`](LeadershipSpan::led), and if it may have begun at any time.
    #[must_use]
    pub fn led_at_most(&self, history: &History) -> Option<Duration> {
        self.led(history.now)?;
        let now = history.now.checked_add_signed(TimeDelta::from_std(history.now_within).ok()?)?;
        let until = self.until.latest.map_or(now, |latest| latest.min(now));
        Some((until - self.from.earliest?).to_std().unwrap_or_default())
    }

    /// Whether the epoch had a leader, as far as its object shows.
    fn is_of_a_leader(&self) -> bool {
        let led = !matches!(self.end, Some(EpochEnd::GivenUp | EpochEnd::Restored));
        led && self.unreadable.is_none()
    }
}
