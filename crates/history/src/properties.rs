//! Property tests: for any resolution of the store's dates, the true times are within the bounds
//! that a history reports.

use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;
use serde_json::json;
use tenure::internals::Record;

use super::build::{Found, holes, spans};
use super::*;

const VALIDITY_MS: i64 = 10_000;

/// The true way in which an epoch ends. Times are in nanoseconds.
#[derive(Debug, Clone, Copy)]
enum Really {
    /// The leader resigned. The clock of the leader is ahead of the store's clock by `ahead`.
    Resigned {
        ahead: i64,
    },
    Deposed,
    /// The leader died. `after` is the time from its last renewal to its death. `sealed_after` is
    /// the time from its death to the seal of the epoch.
    Died {
        after: i64,
        sealed_after: i64,
    },
}

#[derive(Debug, Clone, Copy)]
struct Epochs {
    /// Time from the previous seal to the start of this epoch.
    idle: i64,
    /// Time from the start to the last renewal.
    renewing: i64,
    /// Time from the last renewal to the resignation or the deposition.
    rest: i64,
    end: Really,
}

/// The true times of an epoch, in nanoseconds since the start of the test.
#[derive(Debug, Clone, Copy)]
struct Truth {
    from: i64,
    until: i64,
}

fn at(nanos: i64) -> DateTime<Utc> {
    let start: DateTime<Utc> = "2026-11-20T12:00:00Z".parse().expect("a time");
    start + TimeDelta::nanoseconds(nanos)
}

/// Returns the date that a store gives for a write at `nanos`. `unit` is the resolution of its
/// dates.
fn dated(nanos: i64, unit: i64) -> Dated {
    Dated::by_a_store(at(nanos / unit * unit))
}

fn up_to_secs(seconds: i64) -> impl Strategy<Value = i64> {
    0..seconds * 1_000_000_000
}

fn end() -> impl Strategy<Value = Really> {
    let hour = 3_600_000_000_000_i64;
    prop_oneof![
        (-hour..hour).prop_map(|ahead| Really::Resigned { ahead }),
        Just(Really::Deposed),
        (up_to_secs(10), up_to_secs(15))
            .prop_map(|(after, sealed_after)| Really::Died { after, sealed_after }),
    ]
}

fn epoch() -> impl Strategy<Value = Epochs> {
    (up_to_secs(5), up_to_secs(20), up_to_secs(9), end())
        .prop_map(|(idle, renewing, rest, end)| Epochs { idle, renewing, rest, end })
}

/// Returns the objects of these epochs, the true times of each epoch, and the time of the last
/// seal.
fn objects(epochs: &[Epochs], unit: i64) -> (Vec<Found>, Vec<Truth>, i64) {
    let (mut found, mut truth, mut now) = (Vec::new(), Vec::new(), 0);
    for (number, Epochs { idle, renewing, rest, end }) in epochs.iter().copied().enumerate() {
        let from = now + idle;
        let renewed = from + renewing;
        let (ahead, until, sealed, ended, by) = match end {
            Really::Resigned { ahead } => (ahead, renewed + rest, renewed + rest, "resigned", "a"),
            Really::Deposed => (0, renewed + rest, renewed + rest, "deposed", "operator"),
            Really::Died { after, sealed_after } => {
                (0, renewed + after, renewed + after + sealed_after, "lapsed", "b")
            }
        };
        let body = json!({
            "expired": true, "validity_ms": VALIDITY_MS, "format": 1, "candidate": "a",
            "nonce": "0123456789abcdef0123456789abcdef", "heartbeat": 9,
            "elected_at": at(from + ahead), "renewed_at": at(renewed + ahead),
            "sealed_at": at(sealed + ahead), "sealed_by": by, "ended": ended,
        });
        let body = Record::parse(body.to_string().as_bytes()).map_err(|why| why.to_string());
        let epoch = Epoch::new(number as u64 + 1).expect("an epoch");
        found.push(Found { epoch, written: Some(dated(sealed, unit)), body });
        truth.push(Truth { from, until });
        now = sealed;
    }
    (found, truth, now)
}

/// Returns the object of an epoch without a seal, and the true times of this epoch. The leader
/// leads until its lease ends.
fn held(number: u64, from: i64, renewed: i64, ahead: i64, unit: i64) -> (Found, Truth) {
    let body = json!({
        "expired": false, "validity_ms": VALIDITY_MS, "format": 1, "candidate": "a",
        "nonce": "0123456789abcdef0123456789abcdef", "heartbeat": 9,
        "elected_at": at(from + ahead), "renewed_at": at(renewed + ahead),
    });
    let body = Record::parse(body.to_string().as_bytes()).map_err(|why| why.to_string());
    let epoch = Epoch::new(number).expect("an epoch");
    let truth = Truth { from, until: renewed + VALIDITY_MS * 1_000_000 };
    (Found { epoch, written: Some(dated(renewed, unit)), body }, truth)
}

fn within(when: &TimeEstimate, truth: i64) -> bool {
    when.earliest.is_none_or(|earliest| earliest <= at(truth))
        && when.latest.is_none_or(|latest| at(truth) <= latest)
}

fn bounds(extent: Extent, truth: i64) -> bool {
    let truth = Duration::from_nanos(u64::try_from(truth).unwrap_or_default());
    extent.at_least <= truth && truth <= extent.at_most
}

proptest! {
    #[test]
    fn true_times_are_within_the_bounds_for_any_resolution_of_dates(
        epochs in prop::collection::vec(epoch(), 1..5),
        last in prop::option::of((up_to_secs(5), up_to_secs(20), up_to_secs(2))),
        passed in up_to_secs(15),
        digits in 0_u32..=9,
        now_digits in 0_u32..=9,
    ) {
        let (unit, now_unit) = (10_i64.pow(digits), 10_i64.pow(now_digits));
        let (mut found, mut truth, mut now) = objects(&epochs, unit);
        if let Some((idle, renewing, ahead)) = last {
            let (from, renewed) = (now + idle, now + idle + renewing);
            let (object, really) = held(found.len() as u64 + 1, from, renewed, ahead, unit);
            found.push(object);
            truth.push(really);
            now = renewed;
        }
        now += passed;
        let dated_now = dated(now, now_unit);
        let numbers: Vec<Epoch> = found.iter().map(|found| found.epoch).collect();
        let history = History {
            layout: Layout::EpochFiles,
            holes: holes(None, &numbers),
            spans: spans(found, dated_now.at),
            left_out: 0,
            now: dated_now.at,
            now_within: dated_now.within.to_std().expect("not negative"),
            requests: 0,
            unread: Vec::new(),
        };
        for (span, truth) in history.spans.iter().zip(&truth) {
            prop_assert!(within(&span.from, truth.from), "{span:#?}\n{truth:?}");
            prop_assert!(within(&span.until, truth.until), "{span:#?}\n{truth:?}");
        }
        for (span, truth) in history.spans.iter().zip(&truth) {
            let led = (truth.until.min(now) - truth.from).max(0);
            let led = Duration::from_nanos(u64::try_from(led).unwrap_or_default());
            prop_assert!(span.led_at_least(&history) <= Some(led), "{led:?}: {span:#?}");
            prop_assert!(span.led_at_most(&history).is_none_or(|most| led <= most), "{led:?}: {span:#?}");
        }
        let after = |number: usize| truth.get(number + 1).map_or(now, |next| next.from);
        let gaps = truth.iter().enumerate().map(|(number, one)| after(number) - one.until);
        let vacant: i64 = gaps.map(|gap| gap.max(0)).sum();
        let totals = history.totals();
        prop_assert!(bounds(totals.vacant, vacant), "{vacant}: {totals:#?}");
        // The totals begin at the best estimate of the first epoch's start. So also exclude the
        // time before this estimate from the expected time with a leader.
        let since = history.spans[0].from.at.expect("known") - at(0);
        let since = since.num_nanoseconds().expect("minutes").max(truth[0].from);
        let led = truth.iter().map(|one| one.until.min(now) - one.from.max(since));
        let led: i64 = led.map(|led| led.max(0)).sum();
        prop_assert!(bounds(totals.led, led), "{led}: {totals:#?}");
    }
}

/// A leader was killed at second 16.54 of a minute, and its successor was elected at second 22.86.
/// The store's dates have whole seconds. Before the fix, the history reported an upper bound of
/// 5.8 s for the time without a leader, although this time was 6.3 s.
#[test]
fn regression_bounds_include_the_resolution_of_the_stores_dates() {
    let ms = |ms: i64| ms * 1_000_000;
    let died = Really::Died { after: ms(340), sealed_after: ms(6_260) };
    let first = Epochs { idle: ms(1_000), renewing: ms(15_200), rest: 0, end: died };
    let (mut found, truth, sealed) = objects(&[first], ms(1_000));
    assert_eq!((truth[0].until, sealed), (ms(16_540), ms(22_800)));
    let (second, next) = held(2, ms(22_860), ms(25_900), 0, ms(1_000));
    found.push(second);
    let (spans, now) = (spans(found, at(ms(26_000))), at(ms(26_000)));
    let (layout, now_within) = (Layout::EpochFiles, Duration::ZERO);
    let history = History {
        layout,
        spans,
        holes: Vec::new(),
        left_out: 0,
        now,
        now_within,
        requests: 0,
        unread: Vec::new(),
    };
    let gap = history.gaps()[0];
    assert!(bounds(gap.length, next.from - truth[0].until), "{gap:?}");
}
