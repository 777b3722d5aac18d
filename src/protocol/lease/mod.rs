//! The arithmetic of leases; the time is an argument.
//!
//! An observer's timer starts when a response was *received*, a leader's lease when its write was
//! *sent*, so the leader stops first. Only rates of clocks are compared, never their readings.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::message::{Nonce, Sighting};
use crate::env::moment::Moment;
use crate::epoch::Epoch;
use crate::store::etag::ETag;

/// By how much the rates of two machines' clocks may differ, in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Drift(u32);

impl Drift {
    /// A difference in parts per million.
    pub const fn from_ppm(ppm: u32) -> Drift {
        Drift(ppm)
    }

    /// `duration × (1 + drift)`, rounded up to the nanosecond.
    pub fn stretch(self, duration: Duration) -> Duration {
        let extra = (duration.as_nanos() * u128::from(self.0)).div_ceil(1_000_000);
        let extra = u64::try_from(extra).map_or(Duration::MAX, Duration::from_nanos);
        duration.saturating_add(extra)
    }
}

/// An observer's timer: whether the leader of an epoch has shown a sign of life in time.
///
/// The driver calls [`observe`](LapseTimer::observe) for each record that it reads, with the time at
/// which the whole response was received. Only that call starts or restarts a timer. The other
/// methods take the time of the question. They change nothing, or note a seal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LapseTimer {
    // The record that the timer belongs to.
    epoch: Epoch,
    nonce: Option<Nonce>,
    heartbeat: u64,
    etag: ETag,
    /// Date of the last touch of a foreign record. Such a touch leaves the ETag unchanged.
    touched: Option<DateTime<Utc>>,
    validity: Option<Duration>,

    // The times that it counts from.
    /// When the response that first showed this ETag had been received.
    since: Moment,
    /// When the seal was first seen.
    sealed: Option<Moment>,
    /// When the answer that first showed the end of the lease by the store's dates was received.
    lapsed_by_store: Option<Moment>,
}

/// What the store's dates say about a record, where they may be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreAge {
    /// The store's `Date` minus the object's `Last-Modified`.
    pub age: Duration,
    /// What the store's own clocks may be apart.
    pub margin: Duration,
}

/// What an observer has just read.
#[derive(Debug, Clone)]
pub struct Reading<'a> {
    pub sighting: &'a Sighting,
    pub validity: Option<Duration>,
    pub last_modified: Option<DateTime<Utc>>,
    pub store_age: Option<StoreAge>,
    /// When the whole response had been received.
    pub received: Moment,
}

impl Reading<'_> {
    /// When the record was last touched, where that is a sign of life that leaves the ETag as it
    /// was.
    fn touched(&self) -> Option<DateTime<Utc>> {
        if self.sighting.is_foreign() { self.last_modified } else { None }
    }
}

impl LapseTimer {
    /// Takes note of a record. Any new ETag restarts the timer, the same ETag never does, and a
    /// seal leaves the timer running if it was that of the last unsealed ETag. Returns whether this
    /// was a sign of life to the owner of `timer`.
    ///
    /// `known` is a timer of another call of the same process. Where that has seen this very record
    /// before, it says since when; but what is news to the owner of `timer` stays news.
    pub fn observe(
        timer: &mut Option<Arc<LapseTimer>>,
        known: Option<&Arc<LapseTimer>>,
        reading: &Reading<'_>,
        drift: Drift,
    ) -> bool {
        let own = timer.take().filter(|timer| timer.runs_on(reading));
        let news = own.is_none();
        let known = || known.filter(|timer| timer.runs_on(reading)).cloned();
        let mut next = own.or_else(known).unwrap_or_else(|| Arc::new(LapseTimer::start(reading)));
        let (sealed, lapsed) = next.judge(reading, drift);
        if (sealed, lapsed) != (next.sealed, next.lapsed_by_store) {
            let next = Arc::make_mut(&mut next);
            (next.sealed, next.lapsed_by_store) = (sealed, lapsed);
        }
        *timer = Some(next);
        news
    }

    /// When the seal was first seen, and when the store's dates first showed the end of the lease.
    fn judge(&self, reading: &Reading<'_>, drift: Drift) -> (Option<Moment>, Option<Moment>) {
        let seen_now = reading.sighting.seen.ended.map(|_| reading.received);
        let sealed = self.sealed.or(seen_now);
        let Some(dates) = &reading.store_age else { return (sealed, self.lapsed_by_store) };
        let lapse = self.validity.map(|v| drift.stretch(v).saturating_add(dates.margin));
        let lapsed = sealed.is_none() && lapse.is_some_and(|lapse| dates.age > lapse);
        (sealed, lapsed.then(|| self.lapsed_by_store.unwrap_or(reading.received)))
    }

    fn start(reading: &Reading<'_>) -> LapseTimer {
        let Reading { sighting, received, .. } = reading;
        LapseTimer {
            epoch: sighting.epoch,
            nonce: sighting.seen.nonce,
            heartbeat: sighting.seen.heartbeat,
            etag: sighting.etag.clone(),
            touched: reading.touched(),
            validity: reading.validity,
            since: *received,
            sealed: None,
            lapsed_by_store: None,
        }
    }

    /// Whether this timer is that of the record, or of the ETag whose seal the record is.
    ///
    /// Every write raises the heartbeat, a seal by one: a greater step means a renewal that this
    /// observer never saw, and the holder's lease counts from that.
    fn runs_on(&self, reading: &Reading<'_>) -> bool {
        let Sighting { epoch, etag, seen } = reading.sighting;
        if self.epoch != *epoch || self.nonce != seen.nonce {
            return false;
        }
        match seen.ended {
            None => self.etag == *etag && self.touched == reading.touched(),
            Some(_) => {
                self.sealed.is_some() || self.heartbeat.checked_add(1) == Some(seen.heartbeat)
            }
        }
    }

    /// How long until `delay` after the lapse by this observer's clocks; `None` if it never lapses.
    ///
    /// The boot and the raw clock must both have reached the lapse: one that runs too fast, as a
    /// clock that is slewed does, decides nothing alone.
    pub fn lapses_in(&self, delay: Duration, drift: Drift, now: Moment) -> Option<Duration> {
        let by_clocks = drift.stretch(self.validity?).saturating_add(delay);
        let by_clocks = by_clocks.saturating_sub(now.since(self.since));
        let by_dates = self.lapsed_by_store.map(|at| delay.saturating_sub(now.since(at)));
        Some(by_dates.map_or(by_clocks, |left| left.min(by_clocks)))
    }

    /// How long until `delay` after the seal was first seen is over.
    pub fn takeover_in(&self, delay: Duration, now: Moment) -> Duration {
        delay.saturating_sub(now.since(self.sealed.unwrap_or(now)))
    }

    /// Whether the store's own dates say that the lease is over.
    pub fn is_lapsed_by_store(&self) -> bool {
        self.lapsed_by_store.is_some()
    }

    /// The epoch that this timer is about.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether a seal was seen, or written by this observer.
    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    /// The validity of the record; `None` if it never lapses.
    pub fn validity(&self) -> Option<Duration> {
        self.validity
    }

    /// The seal of `epoch`, written by this observer itself, is a seal seen now.
    pub fn sealed_here(&mut self, epoch: Epoch, now: Moment) {
        if self.epoch == epoch {
            self.sealed.get_or_insert(now);
        }
    }
}

/// With how much left a lease is at risk: a renewal and its retry have failed by then.
pub fn risk_margin(validity: Duration) -> Duration {
    validity / 4
}

/// A leader's lease: it ends `validity` after the last write that took effect was sent.
///
/// The driver calls [`sending`](OwnLease::sending) with the time before each write, and
/// [`extended`](OwnLease::extended) once a write is known to have taken effect. A write of unknown
/// fate extends nothing. The getters take the time of the question.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnLease {
    validity: Duration,
    /// Whether the wall clock can end it.
    by_wall_clock: bool,
    /// When the write that the lease counts from was sent.
    start: Option<Moment>,
    /// The attempts whose fate is not known: their heartbeat, and when they were sent.
    attempts: Vec<(u64, Moment)>,
}

impl OwnLease {
    pub fn new(validity: Duration) -> OwnLease {
        OwnLease { validity, by_wall_clock: true, start: None, attempts: Vec::new() }
    }

    /// The same on a machine that is never paused: no step of the wall clock ends it.
    pub fn without_wall_clock(self) -> OwnLease {
        OwnLease { by_wall_clock: false, ..self }
    }

    /// A write is about to be sent; `now` was read before.
    pub fn sending(&mut self, heartbeat: u64, now: Moment) {
        self.attempts.push((heartbeat, now));
    }

    /// The write with this heartbeat took effect: the lease counts from its sending.
    pub fn extended(&mut self, heartbeat: u64) {
        if let Some((_, sent)) = self.attempts.iter().find(|(sent, _)| *sent == heartbeat) {
            self.start = Some(*sent);
        }
        self.attempts.retain(|(sent, _)| *sent > heartbeat);
    }

    /// Forgets all attempts: another epoch's creation begins.
    pub fn reset(&mut self) {
        self.start = None;
        self.attempts.clear();
    }

    /// What is left, by the clock that says the least; zero at the end and after (I7).
    pub fn remaining(&self, now: Moment) -> Duration {
        self.end().map_or(Duration::ZERO, |end| now.until(end))
    }

    /// The end of the lease on each clock, never on one that cannot end it; `None` before the first
    /// write took effect.
    pub fn end(&self) -> Option<Moment> {
        let end = self.start?.plus(self.validity);
        Some(if self.by_wall_clock { end } else { Moment { wall: Duration::MAX, ..end } })
    }

    /// How long until a renewal is due, `interval` after the start of the lease.
    pub fn renewal_in(&self, interval: Duration, now: Moment) -> Duration {
        let used = self.validity.saturating_sub(self.remaining(now));
        interval.saturating_sub(used)
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests;
