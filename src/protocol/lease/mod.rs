//! The arithmetic of leases. Each function takes the time as an argument.
//!
//! An observer's timer starts when the observer *receives* a response (E4). A leader's lease starts
//! when the leader *sends* its write (L1). So the leader's lease ends first. The arithmetic depends
//! on the clock rates of both machines, and never compares the readings of their clocks.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::message::{Nonce, Sighting};
use crate::env::moment::Moment;
use crate::epoch::Epoch;
use crate::store::etag::ETag;

/// The greatest difference between the clock rates of two machines, in parts per million (A6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Drift(u32);

impl Drift {
    /// Returns a drift of `ppm` parts per million.
    pub const fn from_ppm(ppm: u32) -> Drift {
        Drift(ppm)
    }

    /// Returns `duration × (1 + drift)`, rounded up to the nanosecond.
    pub fn stretch(self, duration: Duration) -> Duration {
        let extra = (duration.as_nanos() * u128::from(self.0)).div_ceil(1_000_000);
        let extra = u64::try_from(extra).map_or(Duration::MAX, Duration::from_nanos);
        duration.saturating_add(extra)
    }
}

/// An observer's timer for the lapse of an epoch (E4).
///
/// The driver calls [`observe`](LapseTimer::observe) for each record that it reads, with the time
/// at which the whole response was received. Only [`observe`](LapseTimer::observe) starts or
/// restarts a timer. The getters take the current time as an argument.
/// [`sealed_here`](LapseTimer::sealed_here) only records a seal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LapseTimer {
    // These fields identify the record that started the timer.
    epoch: Epoch,
    nonce: Option<Nonce>,
    heartbeat: u64,
    etag: ETag,
    /// Date of the last write of a record without a nonce. A peer renews such a record by writing
    /// the same body again, so the ETag stays the same (E5).
    touched: Option<DateTime<Utc>>,
    validity: Option<Duration>,

    // The lease and the delays start at these times.
    /// Time of receipt of the response that first showed this ETag.
    since: Moment,
    /// Time at which this observer first saw the seal.
    sealed: Option<Moment>,
    /// Time at which this observer received the first answer that showed the end of the lease by
    /// the store's dates (E6).
    lapsed_by_store: Option<Moment>,
}

/// The age of a record by the store's dates (E6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreAge {
    /// The store's `Date` minus the object's `Last-Modified`.
    pub age: Duration,
    /// The greatest difference between the clocks of the store's servers.
    pub margin: Duration,
}

/// One reading of a leader's record by an observer.
#[derive(Debug, Clone)]
pub struct Reading<'a> {
    pub sighting: &'a Sighting,
    pub validity: Option<Duration>,
    pub last_modified: Option<DateTime<Utc>>,
    pub store_age: Option<StoreAge>,
    /// Time of receipt of the whole response.
    pub received: Moment,
}

impl Reading<'_> {
    /// Returns the date of the last write of a record without a nonce, or `None` for other records.
    /// The peer that wrote such a record renews by writing the same body, which does not change the
    /// ETag (E5).
    fn touched(&self) -> Option<DateTime<Utc>> {
        if self.sighting.is_foreign() { self.last_modified } else { None }
    }
}

impl LapseTimer {
    /// Records a reading. Returns true if the holder has created or renewed the record since the
    /// owner of `timer` last recorded a reading.
    ///
    /// The timer restarts if the ETag is new, or if a peer has written the same body again (E5).
    /// The timer does not restart if the record is unchanged, or if a seal has replaced the last
    /// unsealed record.
    ///
    /// `known` is the timer of another campaign or observer in the same process. If `known` saw the
    /// same record earlier, `timer` continues from that earlier time. The return value does not
    /// depend on `known`.
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

    /// Returns the time at which this observer first saw the seal. Also returns the time at which
    /// the store's dates first showed the end of the lease.
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

    /// Returns true if this timer continues after the reading. The timer continues if the record is
    /// unchanged, or if a seal has replaced the record that this timer has seen.
    ///
    /// Each write raises the heartbeat, and a seal raises the heartbeat by one. If the heartbeat of
    /// a seal is greater by more than one, this observer has missed a renewal. The holder's lease
    /// starts at the missed renewal, so the timer restarts (E9).
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

    /// Returns the remaining time of the lease plus `delay`, by this observer's clocks. Returns
    /// `None` if the epoch never lapses.
    ///
    /// A lease lapses only if both the boot clock and the raw clock have reached its end. So one
    /// clock that runs too fast, such as a slewed clock, does not cause a lapse.
    pub fn lapses_in(&self, delay: Duration, drift: Drift, now: Moment) -> Option<Duration> {
        let by_clocks = drift.stretch(self.validity?).saturating_add(delay);
        let by_clocks = by_clocks.saturating_sub(now.since(self.since));
        let by_dates = self.lapsed_by_store.map(|at| delay.saturating_sub(now.since(at)));
        Some(by_dates.map_or(by_clocks, |left| left.min(by_clocks)))
    }

    /// Returns the remaining part of `delay`. The delay starts when this observer first sees the
    /// seal.
    pub fn takeover_in(&self, delay: Duration, now: Moment) -> Duration {
        delay.saturating_sub(now.since(self.sealed.unwrap_or(now)))
    }

    /// Returns whether the lease has ended by the store's dates (E6).
    pub fn is_lapsed_by_store(&self) -> bool {
        self.lapsed_by_store.is_some()
    }

    /// Returns the epoch of this timer.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns whether this observer saw or wrote a seal.
    pub fn is_sealed(&self) -> bool {
        self.sealed.is_some()
    }

    /// Returns the validity of the record, or `None` if the record never lapses.
    pub fn validity(&self) -> Option<Duration> {
        self.validity
    }

    /// Records that this observer sealed `epoch` at `now`.
    pub fn sealed_here(&mut self, epoch: Epoch, now: Moment) {
        if self.epoch == epoch {
            self.sealed.get_or_insert(now);
        }
    }
}

/// Returns the remaining time below which a lease is at risk (L6). With the default intervals, a
/// renewal and its retry have failed if less time remains.
pub fn risk_margin(validity: Duration) -> Duration {
    validity / 4
}

/// A leader's lease. The lease ends `validity` after the sending of the last write that took effect
/// (L1).
///
/// The driver calls [`sending`](OwnLease::sending) with the time before each write, and
/// [`extended`](OwnLease::extended) once a write is known to have taken effect. A write of unknown
/// effect does not extend the lease. The getters take the current time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OwnLease {
    validity: Duration,
    /// True if the wall clock can end the lease.
    by_wall_clock: bool,
    /// Time at which the leader sent the write that started the current lease.
    start: Option<Moment>,
    /// Heartbeats and sending times of the attempts with an unknown effect.
    attempts: Vec<(u64, Moment)>,
}

impl OwnLease {
    pub fn new(validity: Duration) -> OwnLease {
        OwnLease { validity, by_wall_clock: true, start: None, attempts: Vec::new() }
    }

    /// Returns this lease, but without an end on the wall clock. So a step of the wall clock does
    /// not end the lease. Only a machine that is never paused may ignore the wall clock.
    pub fn without_wall_clock(self) -> OwnLease {
        OwnLease { by_wall_clock: false, ..self }
    }

    /// Records a write before it is sent. The caller reads `now` before the sending.
    pub fn sending(&mut self, heartbeat: u64, now: Moment) {
        self.attempts.push((heartbeat, now));
    }

    /// Records that the write with this heartbeat took effect. The lease starts at the time at
    /// which the leader sent this write.
    pub fn extended(&mut self, heartbeat: u64) {
        if let Some((_, sent)) = self.attempts.iter().find(|(sent, _)| *sent == heartbeat) {
            self.start = Some(*sent);
        }
        self.attempts.retain(|(sent, _)| *sent > heartbeat);
    }

    /// Forgets the lease and all attempts. The driver calls this method before it creates another
    /// epoch.
    pub fn reset(&mut self) {
        self.start = None;
        self.attempts.clear();
    }

    /// Returns the least remaining time of all clocks. The time is zero at and after the end (I7).
    pub fn remaining(&self, now: Moment) -> Duration {
        self.end().map_or(Duration::ZERO, |end| now.until(end))
    }

    /// Returns the end of the lease on each clock, or `None` if no write has taken effect yet. The
    /// end on a clock that cannot end the lease is `Duration::MAX`.
    pub fn end(&self) -> Option<Moment> {
        let end = self.start?.plus(self.validity);
        Some(if self.by_wall_clock { end } else { Moment { wall: Duration::MAX, ..end } })
    }

    /// Returns the time until the next renewal, which is `interval` after the start of the lease.
    pub fn renewal_in(&self, interval: Duration, now: Moment) -> Duration {
        let used = self.validity.saturating_sub(self.remaining(now));
        interval.saturating_sub(used)
    }
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests;
