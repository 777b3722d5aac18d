//! Reads the history of an election from the epoch objects in its store: the leader of each epoch,
//! the end of the epoch, and the times without a leader. The history begins with the oldest epoch
//! object that the compactor has kept.
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
//! The store keeps only the last write of each object: the record, and the date of the write by the
//! store's clock. All times in the record come from the clock of the process that wrote the record.
//! If the leader resigned or was deposed, the last write is the seal. Its date is the end of the
//! epoch, so the end is exact ([`TimeEstimate::is_exact`]). If the leader died, the end is an
//! estimate between the last renewal and the end of the lease. The start of an epoch is an estimate
//! from the leader's clock, between the seal of the previous epoch and the last write. A history is
//! only for people to read. No election depends on it.
//!
//! If the last write came from the leader, the record and the store each have a date for this
//! write. The difference between these dates is the error of the leader's clock. [`Reader`]
//! subtracts this error from the leader's times. If another process sealed the epoch, the error is
//! unknown. The bounds are then correct only if the leader's clock agreed with the store's clock.
//! If a clock was stepped during the epoch, no bound is reliable.
//!
//! Many stores date writes in whole seconds. The bounds account for this resolution, on the
//! assumption that the store rounds down to a whole second or a decimal fraction of a second.
//! [`Reader`] does not detect a coarser resolution.
//!
//! The module [`drawing`] draws timelines of leaders.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
// If a clock goes back between two readings, an unchecked subtraction of the two times panics.
#![cfg_attr(not(test), deny(clippy::unchecked_time_subtraction))]

mod across;
mod build;
pub mod drawing;
#[doc(hidden)]
#[allow(missing_docs, reason = "for the command and the Python package")]
pub mod period;
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
use totals::length;
pub use totals::{Extent, Gap, Totals};

/// The history of an election, as its epoch objects show it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct History {
    /// Layout of the election. With [`Layout::SingleObject`] the store keeps only the newest epoch,
    /// so the history has only this epoch.
    pub layout: Layout,
    /// The epochs that were read, in ascending order.
    pub spans: Vec<LeadershipSpan>,
    /// Epochs without an object, in ascending order. The compactor deleted their objects. With
    /// [`Layout::SingleObject`], later epochs overwrote them. If [`Reader`] did not read the older
    /// epochs ([`left_out`](History::left_out)), the list does not show which of those older epochs
    /// are missing.
    pub holes: Vec<RangeInclusive<Epoch>>,
    /// Number of older epochs that [`Reader`] did not read, although they have an object.
    pub left_out: u64,
    /// The latest time in the store's responses. If the responses contain no time, this field is
    /// this machine's time after the last request.
    pub now: DateTime<Utc>,
    /// Resolution of the clock that gave `now`. The true time exceeds `now` by less than this
    /// duration.
    pub now_within: Duration,
    /// Number of requests that [`Reader`] sent.
    pub requests: u64,
    /// For an election across stores, the error of each store that could not be read.
    pub unread: Vec<String>,
}

/// One epoch, read from its object.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LeadershipSpan {
    /// Number of the epoch.
    pub epoch: Epoch,
    /// Name of the leader. `None` if the record is unreadable or has no name. Records of peers that
    /// do not use tenure have no name.
    pub candidate: Option<String>,
    /// Start of the leadership.
    pub from: TimeEstimate,
    /// End of the leadership. [`at`](TimeEstimate::at) is `None` while the leader leads.
    pub until: TimeEstimate,
    /// Kind of the end. `None` if the epoch has not ended, or if its object is unreadable.
    pub end: Option<EpochEnd>,
    /// True if the epoch is the newest and not sealed ([`is_held`](LeadershipSpan::is_held)), but
    /// its lease has expired by the store's clock.
    pub lapsed: bool,
    /// Name of the process that sealed the epoch. `None` if the epoch is not sealed, or if the
    /// record does not have the name.
    pub sealed_by: Option<String>,
    /// Name of the operator that deposed the leader and asserted that the leader was dead.
    pub forced_by: Option<String>,
    /// Reason that an operator gave for the end of the epoch.
    pub reason: Option<String>,
    /// Duration of the lease after each renewal. `None` if the lease never expires, or if the
    /// record does not contain the duration.
    pub validity: Option<Duration>,
    /// Counter that every write increments.
    pub heartbeat: u64,
    /// Recorded time of the epoch's creation, by the leader's clock.
    pub elected_at: Option<DateTime<Utc>>,
    /// Recorded time of the last renewal, by the leader's clock.
    pub renewed_at: Option<DateTime<Utc>>,
    /// Recorded time of the seal, by the clock of the process that sealed it.
    pub sealed_at: Option<DateTime<Utc>>,
    /// Time of the last write of the object, by the store's clock.
    pub written_at: Option<DateTime<Utc>>,
    /// The reason why the object is unreadable. If this field is set, the fields of this span that
    /// come from the record are `None`, and `heartbeat` is 0.
    pub unreadable: Option<String>,
    /// The object of this epoch in each store of an election across stores. Empty for an election
    /// in one store.
    pub stores: Vec<StoreEpoch>,
}

/// One epoch in one store of an election across stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEpoch {
    /// The store has the object of the leader.
    Held,
    /// The store has the object of another attempt, or a sealed object that another candidate
    /// created in order to close the epoch.
    Other,
    /// The store has no object of this epoch.
    Absent,
    /// The store could not be read, or the epoch is older than all epochs that were read there.
    Unknown,
}

impl StoreEpoch {
    /// Returns the state as one word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            StoreEpoch::Held => "held",
            StoreEpoch::Other => "other",
            StoreEpoch::Absent => "absent",
            StoreEpoch::Unknown => "unknown",
        }
    }
}

/// An estimate of a moment, with bounds. All times are by the store's clock, or corrected to the
/// store's clock as far as possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TimeEstimate {
    /// Best estimate.
    pub at: Option<DateTime<Utc>>,
    /// Lower bound.
    pub earliest: Option<DateTime<Utc>>,
    /// Upper bound.
    pub latest: Option<DateTime<Utc>>,
    /// True if this moment is the date of a write.
    exact: bool,
}

impl TimeEstimate {
    /// Returns whether this moment is the store's date of a write or, if the store gave no date,
    /// the date in the record. The bounds of a store's date differ by the resolution of these
    /// dates, which is one second on most stores.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Returns the time from this moment until a write. `written` is the store's date of the write.
    /// Returns `None` if no best estimate of this moment exists.
    #[must_use]
    pub fn until_write(&self, written: DateTime<Utc>) -> Option<Extent> {
        let at = self.at?;
        Some(Extent {
            about: length(at, written),
            at_least: length(self.latest.unwrap_or(at), written),
            at_most: length(self.earliest.unwrap_or(at), Dated::by_a_store(written).latest()),
        })
    }

    /// Creates an exact estimate from the date of a write. This is the store's date or, if the
    /// store gave no date, the date in the record.
    fn exactly(date: Option<Dated>) -> TimeEstimate {
        let (at, latest) = (date.map(|date| date.at), date.map(Dated::latest));
        TimeEstimate { at, earliest: at, latest, exact: at.is_some() }
    }

    /// Creates an estimate from its available bounds. If clocks disagree, `earliest` can be after
    /// `latest`. In this case the estimate omits `earliest`.
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

/// A date that was rounded down. The true moment is at or after `at`, and before `at` plus the
/// resolution `within`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dated {
    pub(crate) at: DateTime<Utc>,
    pub(crate) within: TimeDelta,
}

impl Dated {
    /// Creates the date of a store. Stores round dates down to whole seconds or to a decimal part
    /// of a second. This function assumes that the resolution is the coarsest unit that divides the
    /// date.
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
    /// Returns the candidate's name, or a dash.
    #[must_use]
    pub fn name(&self) -> &str {
        self.candidate.as_deref().unwrap_or("-")
    }

    /// Returns false if a majority of the stores shows that this epoch was never granted.
    #[must_use]
    pub fn may_be_granted(&self) -> bool {
        let granting = |it: &&StoreEpoch| matches!(it, StoreEpoch::Held | StoreEpoch::Unknown);
        self.stores.is_empty()
            || 2 * self.stores.iter().filter(granting).count() > self.stores.len()
    }

    /// Returns whether the epoch is the newest and not sealed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.end.is_none() && self.unreadable.is_none()
    }

    /// Returns the best estimate of the duration of the leadership, up to `now` if the leader still
    /// leads. Returns `None` if the start is unknown, or if the candidate most likely never led.
    #[must_use]
    pub fn led(&self, now: DateTime<Utc>) -> Option<Duration> {
        if !self.is_of_a_leader() {
            return None;
        }
        let until = self.until.at.unwrap_or(now);
        Some((until - self.from.at?).to_std().unwrap_or_default())
    }

    /// Returns the minimum duration of the leadership. The result accounts for the resolution of
    /// the store's dates. Returns `None` if [`led`](LeadershipSpan::led) returns `None`.
    #[must_use]
    pub fn led_at_least(&self, history: &History) -> Option<Duration> {
        self.led(history.now)?;
        let (from, until) = (self.from.latest, self.until.earliest);
        let led = from.zip(until).map(|(from, until)| until.min(history.now) - from);
        Some(led.and_then(|led| led.to_std().ok()).unwrap_or_default())
    }

    /// Returns the maximum duration of the leadership. The result accounts for the resolution of
    /// the store's dates. Returns `None` if [`led`](LeadershipSpan::led) returns `None`, or if the
    /// earliest start is unknown.
    #[must_use]
    pub fn led_at_most(&self, history: &History) -> Option<Duration> {
        self.led(history.now)?;
        let now = history.now.checked_add_signed(TimeDelta::from_std(history.now_within).ok()?)?;
        let until = self.until.latest.map_or(now, |latest| latest.min(now));
        Some((until - self.from.earliest?).to_std().unwrap_or_default())
    }

    /// Returns whether the object of the epoch shows that the epoch had a leader.
    fn is_of_a_leader(&self) -> bool {
        let led = !matches!(self.end, Some(EpochEnd::GivenUp | EpochEnd::Restored));
        led && self.unreadable.is_none()
    }
}
