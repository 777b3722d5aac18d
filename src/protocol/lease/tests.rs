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

/// Returns the time until the lapse, in whole seconds.
fn lapses_in(timer: &Option<Arc<LapseTimer>>, now: u64) -> Option<u64> {
    let left = timer.as_ref()?.lapses_in(Duration::ZERO, NO_DRIFT, at(now))?;
    Some(left.as_secs())
}

#[test]
fn drift_lengthens_a_duration_and_rounds_up() {
    assert_eq!(Drift::from_ppm(0).stretch(VALIDITY), VALIDITY);
    assert_eq!(Drift::from_ppm(10_000).stretch(VALIDITY), Duration::from_millis(10_100));
    assert_eq!(Drift::from_ppm(1).stretch(Duration::from_nanos(1)), Duration::from_nanos(2));
    assert_eq!(Drift::from_ppm(u32::MAX).stretch(Duration::MAX), Duration::MAX);
}

#[test]
fn only_a_new_etag_restarts_the_timer() {
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
fn a_deposed_lease_starts_at_its_last_unsealed_record() {
    let mut timer = None;
    observe(&mut timer, &sighting(1, 7, "a", None), at(0));
    observe(&mut timer, &sighting(1, 7, "s", Some(EpochEnd::Deposed)), at(4));
    assert_eq!(lapses_in(&timer, 4), Some(6));
    assert_eq!(timer.as_ref().unwrap().takeover_in(VALIDITY, at(5)), Duration::from_secs(9));
    // The observer has not seen epoch 2 before its seal, so it waits a whole validity from the
    // moment at which it sees the seal.
    observe(&mut timer, &sighting(2, 7, "s", Some(EpochEnd::Deposed)), at(20));
    assert_eq!(lapses_in(&timer, 20), Some(10));
}

/// The leader renews after the observer's last poll, and an operator then deposes it. Before the
/// fix, the observer's timer started at the record before the renewal. So the observer led before
/// the end of the leader's lease. The property test of I8 found this defect.
#[test]
fn regression_a_deposed_lease_starts_at_an_unseen_renewal() {
    let mut timer = None;
    observe(&mut timer, &sighting(1, 7, "a", None), at(0));
    let mut deposed = sighting(1, 7, "s", Some(EpochEnd::Deposed));
    deposed.seen.heartbeat = 3;
    for now in [at(4), at(5)] {
        observe(&mut timer, &deposed, now);
        assert_eq!(lapses_in(&timer, 4), Some(10), "14 s is the earliest safe time");
    }
    // A person sealed the record and did not raise its heartbeat. So the observer does not know the
    // time of the last renewal.
    observe(&mut timer, &sighting(2, 7, "a", None), at(20));
    deposed = sighting(2, 7, "s", Some(EpochEnd::Unknown));
    deposed.seen.heartbeat = 1;
    observe(&mut timer, &deposed, at(24));
    assert_eq!(lapses_in(&timer, 24), Some(10));
}

#[test]
fn a_write_that_changes_only_the_date_restarts_the_timer() {
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
fn a_lease_lapses_by_the_stores_dates_only_beyond_the_margin() {
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

/// Before the fix, the takeover delay started at the moment at which the candidate first saw the
/// record. So if the candidate had polled for longer than the delay, it took over as soon as a poll
/// showed the end of the lease.
#[test]
fn regression_a_delay_starts_at_the_answer_that_shows_the_lapse() {
    let sighting = sighting(1, 7, "a", None);
    let (delay, margin) = (Duration::from_secs(5), Duration::from_secs(2));
    let mut timer = None;
    // By the store's dates, the record is 4 s old when the observer first reads it.
    for (received, left) in [(0, 15), (8, 7), (9, 5), (11, 3), (14, 0)] {
        let reading = Reading {
            sighting: &sighting,
            validity: Some(VALIDITY),
            last_modified: None,
            store_age: Some(StoreAge { age: Duration::from_secs(received + 4), margin }),
            received: at(received),
        };
        LapseTimer::observe(&mut timer, None, &reading, NO_DRIFT);
        let lapses = timer.as_ref().unwrap().lapses_in(delay, NO_DRIFT, at(received));
        assert_eq!(lapses, Some(Duration::from_secs(left)), "at {received} s");
    }
}

#[test]
fn a_lease_starts_at_the_sending_of_the_last_effective_write() {
    let mut lease = OwnLease::new(VALIDITY);
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
    let mut lease = OwnLease::new(VALIDITY);
    lease.sending(1, at(0));
    lease.extended(1);
    // The boot clock of a virtual machine stops during a pause. After the pause, the wall clock is
    // set forward.
    let paused = Moment { wall: at(60).wall, ..at(1) };
    assert_eq!(lease.remaining(paused), Duration::ZERO);
    // A wall clock that is set back never lengthens a lease.
    let set_back = Moment { wall: Duration::ZERO, ..at(4) };
    assert_eq!(lease.remaining(set_back), Duration::from_secs(6));
    // A raw clock that stops never lengthens a lease.
    let suspended = Moment { raw: at(1).raw, ..at(60) };
    assert_eq!(lease.remaining(suspended), Duration::ZERO);
    // A clock daemon slows the boot clock. The raw clock keeps its rate, so it ends the lease.
    let slewed = Moment { raw: at(60).raw, ..at(1) };
    assert_eq!(lease.remaining(slewed), Duration::ZERO);
}

#[test]
fn a_lease_without_wall_clock_ignores_steps_of_the_wall_clock() {
    let mut lease = OwnLease::new(VALIDITY).without_wall_clock();
    lease.sending(1, at(0));
    lease.extended(1);
    let stepped = Moment { wall: at(3_600).wall, ..at(4) };
    assert_eq!(lease.remaining(stepped), Duration::from_secs(6));
    let slewed = Moment { raw: at(60).raw, ..at(1) };
    assert_eq!(lease.remaining(slewed), Duration::ZERO);
}

/// A clock daemon may slew the boot clock by 8.3 %. Before the fix, a follower measured the lease
/// only with its boot clock, so it could seal the epoch before the end of the leader's lease.
#[test]
fn regression_a_slewed_boot_clock_does_not_end_a_lease_early() {
    let mut timer = None;
    observe(&mut timer, &sighting(1, 7, "a", None), at(0));
    let fast = Moment { boot: at(11).boot, ..at(9) };
    let left = timer.as_ref().unwrap().lapses_in(Duration::ZERO, NO_DRIFT, fast);
    assert_eq!(left, Some(Duration::from_secs(1)));
    let suspended = Moment { raw: at(9).raw, ..at(60) };
    let left = timer.as_ref().unwrap().lapses_in(Duration::ZERO, NO_DRIFT, suspended);
    assert_eq!(left, Some(Duration::from_secs(1)), "the timer follows the slower clock");
}
