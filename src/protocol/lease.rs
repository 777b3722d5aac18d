//! The arithmetic of leases; the time is an argument.
//!
//! An observer's timer starts when a response was *received*, a leader's lease when its write was
//! *sent*, so the leader stops first. Only rates of clocks are compared, never their readings.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::message::{Nonce, Sighting};
use crate::clock::Moment;
use crate::epoch::Epoch;
use crate::store::ETag;

/// By how much the rates of two machines' clocks may differ, in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Drift(u32);

impl Drift {
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

/// An observer's timer: has the leader of an epoch shown a sign of life in time?
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LapseTimer {
    epoch: Epoch,
    nonce: Option<Nonce>,
    heartbeat: u64,
    etag: ETag,
    /// Only of a foreign record, whose touch leaves the ETag as it was.
    touched: Option<DateTime<Utc>>,
    validity: Option<Duration>,
    /// When the response that first showed this ETag had been received, on the boot clock.
    since: Duration,
    /// When the seal was first seen, on the boot clock.
    sealed: Option<Duration>,
    /// The store's own dates say that the lease is over.
    lapsed_by_store: bool,
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

impl LapseTimer {
    /// Takes note of a record. Any new ETag restarts the timer, the same ETag never does, and a seal
    /// leaves the timer running if it was that of the last unsealed ETag. Returns whether this was a
    /// sign of life.
    pub fn observe(timer: &mut Option<LapseTimer>, reading: &Reading<'_>, drift: Drift) -> bool {
        let Reading { sighting, received, .. } = reading;
        let foreign = sighting.is_foreign();
        let touched = if foreign { reading.last_modified } else { None };
        let sealed = sighting.seen.ended.is_some();
        let same_holder = timer
            .as_ref()
            .is_some_and(|t| t.epoch == sighting.epoch && t.nonce == sighting.seen.nonce);
        let running = match timer {
            Some(timer) if same_holder && sealed => timer.sees_seal(sighting, received.boot),
            Some(timer) if same_holder => timer.etag == sighting.etag && timer.touched == touched,
            _ => false,
        };
        if !running {
            *timer = Some(LapseTimer {
                epoch: sighting.epoch,
                nonce: sighting.seen.nonce,
                heartbeat: sighting.seen.heartbeat,
                etag: sighting.etag.clone(),
                touched,
                validity: reading.validity,
                since: received.boot,
                sealed: sealed.then_some(received.boot),
                lapsed_by_store: false,
            });
        }
        if let (Some(timer), Some(dates)) = (timer.as_mut(), reading.store_age) {
            let lapse = timer.validity.map(|v| drift.stretch(v).saturating_add(dates.margin));
            timer.lapsed_by_store = !sealed && lapse.is_some_and(|lapse| dates.age > lapse);
        }
        !running
    }

    /// Whether the timer is that of the ETag which was sealed, so that it runs on.
    ///
    /// Every write raises the heartbeat, a seal by one: a greater step means a renewal that this
    /// observer never saw, and the holder's lease counts from that.
    fn sees_seal(&mut self, sighting: &Sighting, received: Duration) -> bool {
        let next = self.heartbeat.checked_add(1) == Some(sighting.seen.heartbeat);
        if self.sealed.is_none() && next {
            self.sealed = Some(received);
        }
        self.sealed.is_some()
    }

    /// When the lease lapses or has lapsed by this observer's boot clock; `None` if it never does.
    pub fn lapses_at(&self, drift: Drift) -> Option<Duration> {
        let lapse = drift.stretch(self.validity?);
        Some(if self.lapsed_by_store { self.since } else { self.since.saturating_add(lapse) })
    }

    /// How long until `delay` after the seal was first seen is over.
    pub fn takeover_in(&self, delay: Duration, now: Moment) -> Duration {
        let seen = self.sealed.unwrap_or(now.boot);
        seen.saturating_add(delay).saturating_sub(now.boot)
    }

    /// The epoch that this timer is about.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The validity of the record; `None` if it never lapses.
    pub fn validity(&self) -> Option<Duration> {
        self.validity
    }

    /// The seal of `epoch`, written by this observer itself, is a seal seen now.
    pub fn sealed_here(&mut self, epoch: Epoch, now: Moment) {
        if self.epoch == epoch {
            self.sealed.get_or_insert(now.boot);
        }
    }
}

/// A leader's lease: it ends `validity` after the last write that took effect was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    validity: Duration,
    /// When the write that the lease counts from was sent.
    start: Option<Moment>,
    /// The attempts whose fate is not known: their heartbeat, and when they were sent.
    attempts: Vec<(u64, Moment)>,
}

impl Lease {
    pub fn new(validity: Duration) -> Lease {
        Lease { validity, start: None, attempts: Vec::new() }
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

    /// What is left: the smaller of what the two clocks say, zero at the end and after (I7).
    pub fn remaining(&self, now: Moment) -> Duration {
        let Some(start) = self.start else { return Duration::ZERO };
        let left = |start: Duration, now: Duration| {
            start.saturating_add(self.validity).saturating_sub(now)
        };
        left(start.boot, now.boot).min(left(start.wall, now.wall))
    }

    /// The end of the lease on both clocks; `None` before the first write took effect.
    pub fn end(&self) -> Option<Moment> {
        self.start.map(|start| Moment {
            boot: start.boot.saturating_add(self.validity),
            wall: start.wall.saturating_add(self.validity),
        })
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
mod tests {
    use super::*;
    use crate::protocol::message::{Ended, Seen};

    const VALIDITY: Duration = Duration::from_secs(10);
    const NO_DRIFT: Drift = Drift::from_ppm(0);

    fn at(seconds: u64) -> Moment {
        let wall = Duration::from_secs(1_000_000 + seconds);
        Moment { boot: Duration::from_secs(seconds), wall }
    }

    fn sighting(epoch: u64, nonce: u128, etag: &str, ended: Option<Ended>) -> Sighting {
        let nonce = (nonce != 0).then(|| Nonce::from_bits(nonce));
        let heartbeat = if ended.is_some() { 2 } else { 1 };
        let seen = Seen { nonce, heartbeat, ended, reclaimable: false };
        Sighting { epoch: Epoch::new(epoch).unwrap(), etag: ETag::new(etag), seen }
    }

    fn observe(timer: &mut Option<LapseTimer>, sighting: &Sighting, received: Moment) -> bool {
        let reading = Reading {
            sighting,
            validity: Some(VALIDITY),
            last_modified: None,
            store_age: None,
            received,
        };
        LapseTimer::observe(timer, &reading, NO_DRIFT)
    }

    #[test]
    fn drift_stretches_and_rounds_up() {
        assert_eq!(Drift::from_ppm(0).stretch(VALIDITY), VALIDITY);
        assert_eq!(Drift::from_ppm(10_000).stretch(VALIDITY), Duration::from_millis(10_100));
        assert_eq!(Drift::from_ppm(1).stretch(Duration::from_nanos(1)), Duration::from_nanos(2));
        assert_eq!(Drift::from_ppm(u32::MAX).stretch(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn the_same_etag_never_restarts_the_timer_and_a_new_one_does() {
        let mut timer = None;
        assert!(observe(&mut timer, &sighting(1, 7, "a", None), at(0)));
        assert!(!observe(&mut timer, &sighting(1, 7, "a", None), at(8)));
        let lapses_in = |timer: &Option<LapseTimer>, now: Moment| {
            let at = timer.as_ref().unwrap().lapses_at(NO_DRIFT).unwrap();
            at.saturating_sub(now.boot)
        };
        assert_eq!(lapses_in(&timer, at(8)), Duration::from_secs(2));
        assert_eq!(lapses_in(&timer, at(99)), Duration::ZERO);
        assert!(observe(&mut timer, &sighting(1, 7, "b", None), at(9)));
        assert_eq!(lapses_in(&timer, at(10)), Duration::from_secs(9));
        assert!(observe(&mut timer, &sighting(1, 8, "b", None), at(11)), "another nonce");
        assert!(observe(&mut timer, &sighting(2, 8, "b", None), at(12)), "another epoch");
    }

    #[test]
    fn a_deposition_restarts_the_timer_once() {
        let mut timer = None;
        observe(&mut timer, &sighting(1, 7, "a", None), at(0));
        observe(&mut timer, &sighting(1, 7, "s", Some(Ended::Deposed)), at(4));
        assert_eq!(timer.as_ref().unwrap().lapses_at(NO_DRIFT), Some(at(10).boot));
        assert_eq!(timer.as_ref().unwrap().takeover_in(VALIDITY, at(5)), Duration::from_secs(9));
        // Never seen unsealed.
        observe(&mut timer, &sighting(2, 7, "s", Some(Ended::Deposed)), at(20));
        assert_eq!(timer.as_ref().unwrap().lapses_at(NO_DRIFT), Some(at(30).boot));
    }

    /// Found by the property I8: renewed after the last poll, then deposed. The observer took the
    /// timer of an older ETag for the last one's, and led before the lease had ended.
    #[test]
    fn regression_a_deposed_lease_counts_from_a_renewal_that_nobody_saw() {
        let mut timer = None;
        observe(&mut timer, &sighting(1, 7, "a", None), at(0));
        let mut deposed = sighting(1, 7, "s", Some(Ended::Deposed));
        deposed.seen.heartbeat = 3;
        for now in [at(4), at(5)] {
            observe(&mut timer, &deposed, now);
            let end = timer.as_ref().unwrap().lapses_at(NO_DRIFT);
            assert_eq!(end, Some(at(14).boot), "14 s is the earliest that is safe");
        }
        // Sealed by hand, with the heartbeat left as it was: nothing is known.
        observe(&mut timer, &sighting(2, 7, "a", None), at(20));
        deposed = sighting(2, 7, "s", Some(Ended::Unknown));
        deposed.seen.heartbeat = 1;
        observe(&mut timer, &deposed, at(24));
        assert_eq!(timer.unwrap().lapses_at(NO_DRIFT), Some(at(34).boot));
    }

    #[test]
    fn a_foreign_touch_is_a_sign_of_life_although_the_etag_stays() {
        let mut timer = None;
        let morling = sighting(1, 0, "a", None);
        let mut reading = Reading {
            sighting: &morling,
            validity: Some(VALIDITY),
            last_modified: DateTime::from_timestamp(100, 0),
            store_age: None,
            received: at(0),
        };
        assert!(LapseTimer::observe(&mut timer, &reading, NO_DRIFT));
        reading.received = at(9);
        assert!(!LapseTimer::observe(&mut timer, &reading, NO_DRIFT));
        reading.last_modified = DateTime::from_timestamp(109, 0);
        assert!(LapseTimer::observe(&mut timer, &reading, NO_DRIFT));
    }

    #[test]
    fn the_stores_dates_lapse_a_lease_at_once_only_beyond_the_margin() {
        let sighting = sighting(1, 7, "a", None);
        let margin = Duration::from_secs(2);
        for (age, lapsed) in [(12, false), (13, true)] {
            let mut timer = None;
            let age = Duration::from_secs(age);
            let reading = Reading {
                sighting: &sighting,
                validity: Some(VALIDITY),
                last_modified: None,
                store_age: Some(StoreAge { age, margin }),
                received: at(0),
            };
            LapseTimer::observe(&mut timer, &reading, NO_DRIFT);
            let at_once = timer.unwrap().lapses_at(NO_DRIFT) == Some(at(0).boot);
            assert_eq!(at_once, lapsed);
        }
    }

    #[test]
    fn a_lease_counts_from_the_sending_of_what_took_effect() {
        let mut lease = Lease::new(VALIDITY);
        assert_eq!(lease.remaining(at(0)), Duration::ZERO);
        lease.sending(1, at(0));
        lease.sending(2, at(3));
        lease.sending(3, at(5));
        lease.extended(2);
        assert_eq!(lease.remaining(at(6)), Duration::from_secs(7));
        assert_eq!(lease.end(), Some(at(13)));
        assert_eq!(lease.renewal_in(Duration::from_secs(4), at(6)), Duration::from_secs(1));
        lease.extended(3);
        assert_eq!(lease.remaining(at(15)), Duration::ZERO);
        assert_eq!(lease.remaining(at(14)), Duration::from_secs(1));
    }

    #[test]
    fn either_clock_ends_a_lease() {
        let mut lease = Lease::new(VALIDITY);
        lease.sending(1, at(0));
        lease.extended(1);
        // A virtual machine that was paused: its boot clock stood still, the wall clock was set.
        let paused = Moment { boot: Duration::from_secs(1), wall: at(60).wall };
        assert_eq!(lease.remaining(paused), Duration::ZERO);
        // A wall clock set back never lengthens a lease.
        let set_back = Moment { boot: Duration::from_secs(4), wall: Duration::ZERO };
        assert_eq!(lease.remaining(set_back), Duration::from_secs(6));
    }
}
