//! Property tests of the lease arithmetic with random numbers. If the clock rates differ by at most
//! the drift, an observer takes over only after the end of the leader's lease. This holds for any
//! latency (I8).

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{RngAlgorithm, TestError, TestRng, TestRunner};

use super::*;
use crate::protocol::message::EpochEnd;
use story::{Broken, sighting, story};
use tenure_testkit::properties::cases;

mod story;

const PPM: u128 = 1_000_000;
/// The greatest drift that the configuration accepts.
const MAX_DRIFT_PPM: u32 = 500_000;

fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        any::<u64>().prop_map(Duration::from_nanos),
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n)),
        (0..100_000_u64, 0..1_000_000_000_u32).prop_map(|(s, n)| Duration::new(s, n)),
    ]
}

fn any_drift() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), 0..=MAX_DRIFT_PPM]
}

fn any_moment() -> impl Strategy<Value = Moment> {
    let clock = any_duration;
    (clock(), clock(), clock()).prop_map(|(boot, raw, wall)| Moment { boot, raw, wall })
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn a_stretched_duration_is_rounded_up_and_never_shorter(
        duration in any_duration(), longer in any_duration(), ppm in any_drift(), more: u32,
    ) {
        let stretched = Drift::from_ppm(ppm).stretch(duration);
        prop_assert!(stretched >= duration);
        prop_assert!(stretched <= Drift::from_ppm(ppm.saturating_add(more)).stretch(duration));
        prop_assert!(stretched <= Drift::from_ppm(ppm).stretch(duration.saturating_add(longer)));
        if duration < Duration::from_secs(1 << 32) && ppm < 2 * MAX_DRIFT_PPM {
            let exact = duration.as_nanos() * (PPM + u128::from(ppm));
            prop_assert_eq!(stretched.as_nanos(), exact.div_ceil(PPM));
        }
    }

    #[test]
    fn no_moment_or_validity_overflows(
        validity in any_duration(), delay in any_duration(), ppm in any_drift(),
        (sent, now, later) in (any_moment(), any_moment(), any_moment()),
        age in any_duration(), margin in any_duration(), dated: bool,
    ) {
        let drift = Drift::from_ppm(ppm);
        let mut lease = OwnLease::new(validity);
        lease.sending(1, sent);
        lease.extended(1);
        let left = lease.remaining(now);
        // I7: the remaining time is zero as soon as one clock has reached the end.
        let over = |start: Duration, now: Duration| start.saturating_add(validity) <= now;
        let any = over(sent.boot, now.boot) || over(sent.raw, now.raw) || over(sent.wall, now.wall);
        let end = sent.plus(validity);
        let gained = end.boot.saturating_sub(now.boot).saturating_sub(end.wall.saturating_sub(now.wall));
        let with_gain = end.raw.saturating_sub(now.raw) <= gained;
        prop_assert_eq!(left.is_zero(), any || with_gain);
        prop_assert_eq!(lease.end(), Some(sent.plus(validity)));
        prop_assert!(lease.renewal_in(delay, now) <= delay);
        let mut timer = None;
        for (received, ended) in [(now, None), (later, Some(EpochEnd::Deposed))] {
            let sighting = sighting(1, ended);
            let store_age = dated.then_some(StoreAge { age, margin });
            let reading = Reading {
                sighting: &sighting,
                validity: Some(validity),
                last_modified: None,
                store_age,
                received,
            };
            LapseTimer::observe(&mut timer, None, &reading, drift);
            let timer = timer.as_ref().expect("a timer runs after the first reading");
            prop_assert!(timer.lapses_in(delay, drift, received).is_some());
            prop_assert!(timer.takeover_in(delay, received) <= delay);
        }
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn i8_a_lease_has_ended_before_an_observer_takes_over(story in story(false)) {
        let (_, overlap) = story.overlap(Broken::No);
        prop_assert_eq!(overlap, Duration::ZERO);
    }
}

/// The property above is useful only if the observer takes over in many of the random sequences of
/// actions (stories).
#[test]
fn the_observer_takes_over_in_most_stories() {
    let mut runner = TestRunner::deterministic();
    let mut acted = 0;
    for _ in 0..1_000 {
        let story = story(false).new_tree(&mut runner).unwrap().current();
        acted += usize::from(story.overlap(Broken::No).0);
    }
    assert!(acted > 500, "the observer took over in {acted} of 1000 stories");
}

fn finds_an_overlap(beyond_the_drift: bool, broken: Broken) {
    let config = ProptestConfig { failure_persistence: None, ..cases(10_000) };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let found = runner.run(&story(beyond_the_drift), |story| {
        prop_assert_eq!(story.overlap(broken).1, Duration::ZERO);
        Ok(())
    });
    assert!(matches!(found, Err(TestError::Fail(..))), "no overlap found: {found:?}");
}

#[test]
fn broken_timer_that_starts_with_the_request_is_caught() {
    finds_an_overlap(false, Broken::TimerFromSending);
}

#[test]
fn broken_lease_that_starts_with_the_answer_is_caught() {
    finds_an_overlap(false, Broken::LeaseFromAnswer);
}

#[test]
fn broken_timer_on_only_a_slewed_clock_is_caught() {
    finds_an_overlap(false, Broken::SlewedTimer);
}

#[test]
fn broken_lease_on_only_slewed_clocks_is_caught() {
    finds_an_overlap(false, Broken::SlewedLease);
}

#[test]
fn broken_clocks_beyond_the_drift_are_caught() {
    finds_an_overlap(true, Broken::No);
}
