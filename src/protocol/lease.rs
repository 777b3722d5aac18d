//! The arithmetic of leases; the time is an argument.
//!
//! An observer's timer starts when a response was *received*, a leader's lease when its write was
//! *sent*, so the leader stops first. Only rates of clocks are compared, never their readings.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::message::{Nonce, Sighting};
use crate::epoch::Epoch;
use crate::etag::ETag;
use crate::moment::Moment;

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
    /// When the response that first showed this ETag had been received.
    since: Moment,
    /// When the seal was first seen.
    sealed: Option<Moment>,
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

    /// When the seal was first seen, and whether the store's dates say that the lease is over.
    fn judge(&self, reading: &Reading<'_>, drift: Drift) -> (Option<Moment>, bool) {
        let seen_now = reading.sighting.seen.ended.map(|_| reading.received);
        let sealed = self.sealed.or(seen_now);
        let lapsed = reading.store_age.map(|dates| {
            let lapse = self.validity.map(|v| drift.stretch(v).saturating_add(dates.margin));
            sealed.is_none() && lapse.is_some_and(|lapse| dates.age > lapse)
        });
        (sealed, lapsed.unwrap_or(self.lapsed_by_store))
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
            lapsed_by_store: false,
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
        let lapse = drift.stretch(self.validity?);
        let lapse = if self.lapsed_by_store { Duration::ZERO } else { lapse };
        Some(lapse.saturating_add(delay).saturating_sub(now.since(self.since)))
    }

    /// How long until `delay` after the seal was first seen is over.
    pub fn takeover_in(&self, delay: Duration, now: Moment) -> Duration {
        delay.saturating_sub(now.since(self.sealed.unwrap_or(now)))
    }

    /// Whether the store's own dates say that the lease is over.
    pub fn is_lapsed_by_store(&self) -> bool {
        self.lapsed_by_store
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

/// A leader's lease: it ends `validity` after the last write that took effect was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lease {
    validity: Duration,
    /// Whether the wall clock can end it.
    by_wall_clock: bool,
    /// When the write that the lease counts from was sent.
    start: Option<Moment>,
    /// The attempts whose fate is not known: their heartbeat, and when they were sent.
    attempts: Vec<(u64, Moment)>,
}

impl Lease {
    pub fn new(validity: Duration) -> Lease {
        Lease { validity, by_wall_clock: true, start: None, attempts: Vec::new() }
    }

    /// The same on a machine that is never paused: no step of the wall clock ends it.
    pub fn without_wall_clock(self) -> Lease {
        Lease { by_wall_clock: false, ..self }
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
mod tests {
    use super::*;
    use crate::protocol::message::{EpochEnd, Seen};

    const VALIDITY: Duration = Duration::from_secs(10);
    const HOUR: Duration = Duration::from_secs(3_600);
    const NO_DRIFT: Drift = Drift::from_ppm(0);

    fn at(seconds: u64) -> Moment {
        let wall = Duration::from_secs(1_000_000 + seconds);
        let boot = Duration::from_secs(seconds);
        Moment { boot, raw: boot + HOUR, wall }
    }

    fn sighting(epoch: u64, nonce: u128, etag: &str, ended: Option<EpochEnd>) -> Sighting {
        let nonce = (nonce != 0).then(|| Nonce::from_bits(nonce));
        let heartbeat = if ended.is_some() { 2 } else { 1 };
        let seen = Seen { nonce, heartbeat, ended, reclaimable: false };
        Sighting { epoch: Epoch::new(epoch).unwrap(), etag: ETag::new(etag), seen }
    }

    fn observe(timer: &mut Option<Arc<LapseTimer>>, sighting: &Sighting, received: Moment) -> bool {
        let reading = Reading {
            sighting,
            validity: Some(VALIDITY),
            last_modified: None,
            store_age: None,
            received,
        };
        LapseTimer::observe(timer, None, &reading, NO_DRIFT)
    }

    /// In whole seconds.
    fn lapses_in(timer: &Option<Arc<LapseTimer>>, now: u64) -> Option<u64> {
        let left = timer.as_ref()?.lapses_in(Duration::ZERO, NO_DRIFT, at(now))?;
        Some(left.as_secs())
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
        assert_eq!(lapses_in(&timer, 8), Some(2));
        assert_eq!(lapses_in(&timer, 99), Some(0));
        assert!(observe(&mut timer, &sighting(1, 7, "b", None), at(9)));
        assert_eq!(lapses_in(&timer, 10), Some(9));
        assert!(observe(&mut timer, &sighting(1, 8, "b", None), at(11)), "another nonce");
        assert!(observe(&mut timer, &sighting(2, 8, "b", None), at(12)), "another epoch");
    }

    #[test]
    fn a_deposition_restarts_the_timer_once() {
        let mut timer = None;
        observe(&mut timer, &sighting(1, 7, "a", None), at(0));
        observe(&mut timer, &sighting(1, 7, "s", Some(EpochEnd::Deposed)), at(4));
        assert_eq!(lapses_in(&timer, 4), Some(6));
        assert_eq!(timer.as_ref().unwrap().takeover_in(VALIDITY, at(5)), Duration::from_secs(9));
        // Never seen unsealed.
        observe(&mut timer, &sighting(2, 7, "s", Some(EpochEnd::Deposed)), at(20));
        assert_eq!(lapses_in(&timer, 20), Some(10));
    }

    /// Found by the property I8: renewed after the last poll, then deposed. The observer took the
    /// timer of an older ETag for the last one's, and led before the lease had ended.
    #[test]
    fn regression_a_deposed_lease_counts_from_a_renewal_that_nobody_saw() {
        let mut timer = None;
        observe(&mut timer, &sighting(1, 7, "a", None), at(0));
        let mut deposed = sighting(1, 7, "s", Some(EpochEnd::Deposed));
        deposed.seen.heartbeat = 3;
        for now in [at(4), at(5)] {
            observe(&mut timer, &deposed, now);
            assert_eq!(lapses_in(&timer, 4), Some(10), "14 s is the earliest that is safe");
        }
        // Sealed by hand, with the heartbeat left as it was: nothing is known.
        observe(&mut timer, &sighting(2, 7, "a", None), at(20));
        deposed = sighting(2, 7, "s", Some(EpochEnd::Unknown));
        deposed.seen.heartbeat = 1;
        observe(&mut timer, &deposed, at(24));
        assert_eq!(lapses_in(&timer, 24), Some(10));
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
        assert!(LapseTimer::observe(&mut timer, None, &reading, NO_DRIFT));
        reading.received = at(9);
        assert!(!LapseTimer::observe(&mut timer, None, &reading, NO_DRIFT));
        reading.last_modified = DateTime::from_timestamp(109, 0);
        assert!(LapseTimer::observe(&mut timer, None, &reading, NO_DRIFT));
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
            LapseTimer::observe(&mut timer, None, &reading, NO_DRIFT);
            assert_eq!(lapses_in(&timer, 0) == Some(0), lapsed);
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
    fn any_clock_ends_a_lease() {
        let mut lease = Lease::new(VALIDITY);
        lease.sending(1, at(0));
        lease.extended(1);
        // A virtual machine that was paused: its boot clock stood still, the wall clock was set.
        let paused = Moment { wall: at(60).wall, ..at(1) };
        assert_eq!(lease.remaining(paused), Duration::ZERO);
        // A wall clock set back never lengthens a lease.
        let set_back = Moment { wall: Duration::ZERO, ..at(4) };
        assert_eq!(lease.remaining(set_back), Duration::from_secs(6));
        // A raw clock that stood still lengthens no lease.
        let suspended = Moment { raw: at(1).raw, ..at(60) };
        assert_eq!(lease.remaining(suspended), Duration::ZERO);
        // Slewed to run slow: the raw clock did not follow.
        let slewed = Moment { raw: at(60).raw, ..at(1) };
        assert_eq!(lease.remaining(slewed), Duration::ZERO);
    }

    #[test]
    fn a_step_of_the_wall_clock_ends_no_lease_on_a_machine_that_is_never_paused() {
        let mut lease = Lease::new(VALIDITY).without_wall_clock();
        lease.sending(1, at(0));
        lease.extended(1);
        let stepped = Moment { wall: at(3_600).wall, ..at(4) };
        assert_eq!(lease.remaining(stepped), Duration::from_secs(6));
        let slewed = Moment { raw: at(60).raw, ..at(1) };
        assert_eq!(lease.remaining(slewed), Duration::ZERO);
    }

    /// A clock daemon may slew the boot clock by 8.3 %: a follower that went by it alone sealed a
    /// lease in which its leader still believed.
    #[test]
    fn regression_a_slewed_boot_clock_does_not_lapse_a_lease() {
        let mut timer = None;
        observe(&mut timer, &sighting(1, 7, "a", None), at(0));
        let fast = Moment { boot: at(11).boot, ..at(9) };
        let left = timer.as_ref().unwrap().lapses_in(Duration::ZERO, NO_DRIFT, fast);
        assert_eq!(left, Some(Duration::from_secs(1)));
        let suspended = Moment { raw: at(9).raw, ..at(60) };
        let left = timer.as_ref().unwrap().lapses_in(Duration::ZERO, NO_DRIFT, suspended);
        assert_eq!(left, Some(Duration::from_secs(1)), "by the clock that says the least");
    }
}
