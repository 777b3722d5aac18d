use std::collections::BTreeMap;

use super::record::{BadRecord, EarlierPeriod, MOST_LEN};
use super::*;

const HOUR: u64 = 3_600;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Returns rules for hourly periods without offset, tolerance or retries.
fn hourly() -> PeriodRules {
    let (period, offset) = (s(HOUR), Duration::ZERO);
    PeriodRules { period, offset, tolerance: None, retries: 0, clock_ahead_max: s(60) }
}

fn begun(rules: &PeriodRules, at: Duration, attempts: u32) -> PeriodRecord {
    PeriodRecord::begin(None, rules.period_at(at), attempts, ("a", 1), at)
}

fn run(attempt: u32) -> Decision {
    Decision::Run { attempt }
}

#[test]
fn periods_are_counted_in_utc_from_the_offset() {
    let daily = PeriodRules { period: s(24 * HOUR), offset: s(3 * HOUR), ..hourly() };
    let start = |rules: &PeriodRules, wall| rules.period_at(wall).start;
    let three = s(10 * 24 * HOUR + 3 * HOUR);
    assert_eq!(start(&daily, three), three);
    assert_eq!(start(&daily, three + s(24 * HOUR) - Duration::from_millis(1)), three);
    assert_eq!(start(&daily, three - Duration::from_millis(1)), three - s(24 * HOUR));
    assert_eq!(shown(date(start(&hourly(), s(HOUR * 5 + 17)))), "1970-01-01T05:00:00Z");
    // 1970-01-05, the start of the first weekly period, was a Monday.
    let weekly = PeriodRules { period: s(7 * 24 * HOUR), offset: s(4 * 24 * HOUR), ..hourly() };
    let monday = start(&weekly, s(1_795_467_346));
    assert_eq!(date(monday).format("%a %F").to_string(), "Mon 2026-11-23");
    // A clock that was never set shows a time before the start of the first period.
    assert_eq!(start(&daily, Duration::ZERO), daily.offset);
}

#[test]
fn a_period_runs_once() {
    let rules = hourly();
    let now = s(100 * HOUR + 10);
    let own = rules.period_at(now);
    assert_eq!(rules.decide(None, own, now), run(1));
    let running = begun(&rules, now, 1);
    let completed = running.clone().ended(0, now);
    let failed = running.clone().ended(3, now);
    for (record, why) in [
        (&running, SkipReason::Failed),
        (&completed, SkipReason::Completed),
        (&failed, SkipReason::Failed),
    ] {
        assert_eq!(rules.decide(Some(record), own, now), Decision::Skip(why), "{record:?}");
        let next = now + s(HOUR);
        assert_eq!(rules.decide(Some(record), rules.period_at(next), next), run(1));
    }
}

#[test]
fn retries_are_further_attempts_in_the_same_period() {
    let rules = PeriodRules { retries: 2, ..hourly() };
    let now = s(100 * HOUR + 10);
    let own = rules.period_at(now);
    for record in [begun(&rules, now, 1), begun(&rules, now, 1).ended(3, now)] {
        assert_eq!(rules.decide(Some(&record), own, now), run(2));
    }
    let used_up = Decision::Skip(SkipReason::Failed);
    assert_eq!(rules.decide(Some(&begun(&rules, now, 2)), own, now), run(3));
    assert_eq!(rules.decide(Some(&begun(&rules, now, 3)), own, now), used_up);
    let completed = begun(&rules, now, 1).ended(0, now);
    assert_eq!(rules.decide(Some(&completed), own, now), Decision::Skip(SkipReason::Completed));
}

#[test]
fn a_host_skips_the_period_if_its_clock_is_behind() {
    let rules = PeriodRules { retries: 9, ..hourly() };
    let now = s(100 * HOUR + 10);
    let behind = now - s(30);
    for record in [begun(&rules, now, 1), begun(&rules, now, 1).ended(0, now)] {
        let decision = rules.decide(Some(&record), rules.period_at(behind), behind);
        assert_eq!(decision, Decision::Skip(SkipReason::Past));
        // This host's clock is an hour behind the clock of the host that wrote the record. The
        // rules accept a difference of one minute, so one of the two clocks is wrong.
        let behind = now - s(HOUR);
        let decision = rules.decide(Some(&record), rules.period_at(behind), behind);
        assert_eq!(decision, Decision::Skip(SkipReason::InTheFuture));
    }
}

/// The host was elected only after the period in which it was started had passed.
#[test]
fn a_host_that_waited_runs_its_own_period_unless_a_later_one_was_begun() {
    let rules = hourly();
    let started = s(100 * HOUR + 10);
    let (own, now) = (rules.period_at(started), started + s(2 * HOUR));
    assert_eq!(rules.decide(None, own, now), run(1));
    let later = begun(&rules, now, 1);
    assert_eq!(rules.decide(Some(&later), own, now), Decision::Skip(SkipReason::Past));
}

#[test]
fn a_period_is_skipped_only_beyond_its_tolerance() {
    let rules = PeriodRules { tolerance: Some(s(300)), retries: 5, ..hourly() };
    let start = s(100 * HOUR);
    let own = rules.period_at(start);
    let failed = begun(&rules, start, 1).ended(1, start);
    for (late, skipped) in [(0, false), (300, false), (301, true), (2 * HOUR, true)] {
        let now = start + s(late);
        let skip = Decision::Skip(SkipReason::TooLate);
        let expected = |attempt| if skipped { skip.clone() } else { run(attempt) };
        assert_eq!(rules.decide(None, own, now), expected(1), "{late}");
        assert_eq!(rules.decide(Some(&failed), own, now), expected(2), "{late}");
    }
    // The host runs CMD late, and only for its own period. CMD does not run for the 49 missed
    // periods before that period.
    let now = start + s(50 * HOUR) + s(HOUR - 1);
    let late = hourly().decide(Some(&failed), hourly().period_at(now), now);
    assert_eq!(late, run(1));
}

/// The rules compare only the starts of periods. So a period of another length follows if it starts
/// later.
#[test]
fn a_period_of_another_length_or_offset_may_follow() {
    let day = PeriodRules { period: s(24 * HOUR), ..hourly() };
    let now = s(5 * 24 * HOUR + 7 * HOUR + 5);
    let done = begun(&hourly(), now, 1).ended(0, now);
    let own = day.period_at(now);
    assert_eq!(day.decide(Some(&done), own, now), Decision::Skip(SkipReason::Past));
    let next = now + s(24 * HOUR);
    assert_eq!(day.decide(Some(&done), day.period_at(next), next), run(1));
    let half = PeriodRules { period: s(HOUR / 2), ..hourly() };
    let next = now + s(HOUR / 2);
    assert_eq!(half.decide(Some(&done), half.period_at(next), next), run(1));
}

#[test]
fn a_clock_too_far_ahead_of_the_store_is_refused() {
    let rules = hourly();
    let now = s(100 * HOUR);
    // A clock may be ahead by `clock_ahead_max` plus one second, because dates have a resolution of
    // one second.
    for (ahead, refused) in [(0, false), (61, false), (62, true)] {
        assert_eq!(rules.is_ahead(now + s(ahead), date(now)), refused, "{ahead}");
    }
    assert!(!rules.is_ahead(now, date(now + s(10 * HOUR))), "a clock that is behind is allowed");
}

#[test]
fn a_record_round_trips_and_other_text_is_corrupt() {
    let now = s(100 * HOUR + 10) + Duration::from_millis(250);
    let first = begun(&hourly(), now, 1).ended(0, now);
    let second = PeriodRecord::begin(Some(&first), hourly().period_at(now), 2, ("b", 7), now);
    assert_eq!(second.last_completed, Some(first.period_start));
    for record in [first, second.clone(), second.ended(255, now)] {
        assert_eq!(PeriodRecord::parse(&record.to_json()), Ok(record));
    }
    for bytes in ["", "{}", "[]", r#"{"tenure_once_per":0}"#, r#"{"tenure_once_per":1}"#] {
        assert_eq!(PeriodRecord::parse(bytes.as_bytes()), Err(BadRecord::Corrupt), "{bytes:?}");
    }
    let newer = br#"{"tenure_once_per":2,"anything":[]}"#;
    assert_eq!(PeriodRecord::parse(newer), Err(BadRecord::TooNew(2)));
}

/// One host in the simulation of a job.
struct Host {
    /// Error of the host's clock in seconds, at most `clock_ahead_max`.
    skew: i64,
    /// The period for which the host waits to be elected.
    waits: Option<Period>,
}

/// Simulates three hosts with clock errors of up to a minute, and a job that may fail or die with
/// its host. The election ensures one leader at a time, and the fenced object ensures writes in the
/// order of epochs.
#[test]
fn three_hosts_with_skewed_clocks_keep_the_guarantees() {
    for seed in 0..2_000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let faults = rng.bool();
        let retries = rng.u32(0..3);
        let rules = PeriodRules { retries, ..hourly() };
        let mut hosts = [0, 1, 2].map(|_| Host { skew: rng.i64(-60..=60), waits: None });
        let mut starts = BTreeMap::<Duration, u32>::new();
        let mut completed = BTreeMap::<Duration, u32>::new();
        let mut record = None::<PeriodRecord>;
        let mut epoch = 0;
        let first = 1_000 * HOUR;
        let mut now = first;
        while now < first + 12 * HOUR {
            now += rng.u64(1..1_200);
            let who = rng.usize(0..hosts.len());
            let host = &mut hosts[who];
            let wall = s(now.checked_add_signed(host.skew).expect("long after 1970"));
            // Like cron, the simulation starts a host for the period that the host's clock shows.
            let own = *host.waits.get_or_insert_with(|| rules.period_at(wall));
            if rng.bool() {
                continue;
            }
            host.waits = None;
            epoch += 1;
            let Decision::Run { attempt } = rules.decide(record.as_ref(), own, wall) else {
                continue;
            };
            let last = starts.last_key_value().map(|(start, _)| *start);
            assert!(last <= Some(own.start), "seed {seed}: an attempt for an earlier period");
            assert!(!completed.contains_key(&own.start), "seed {seed}: an attempt after a success");
            let early = own.start.saturating_sub(s(now));
            assert!(early <= rules.clock_ahead_max, "seed {seed}: {early:?} early");
            record = Some(PeriodRecord::begin(record.as_ref(), own, attempt, ("a", epoch), wall));
            // The host may die after it has recorded the attempt and before CMD has started.
            if faults && rng.u8(0..10) == 0 {
                continue;
            }
            *starts.entry(own.start).or_default() += 1;
            now += rng.u64(0..300);
            match faults {
                // The host dies while CMD runs, or CMD fails.
                true if rng.u8(0..4) == 0 => continue,
                true if rng.u8(0..4) == 0 => record = record.map(|it| it.ended(1, wall)),
                _ => {
                    *completed.entry(own.start).or_default() += 1;
                    record = record.map(|it| it.ended(0, wall));
                }
            }
        }
        let most = retries + 1;
        assert!(starts.values().all(|starts| *starts <= most), "seed {seed}: {starts:?}");
        if !faults {
            assert!(starts.values().all(|starts| *starts == 1), "seed {seed}: {starts:?}");
        }
        assert!(starts.len() >= 4, "seed {seed}: too few starts");
    }
}

#[test]
fn regression_a_period_that_has_not_begun_is_not_run() {
    let rules = hourly();
    let now = s(100 * HOUR + 10);
    let own = rules.period_at(now + s(HOUR));
    let not_begun = Decision::Skip(SkipReason::NotBegun);
    for record in [None, Some(begun(&rules, now, 1)), Some(begun(&rules, now + s(HOUR), 1))] {
        assert_eq!(rules.decide(record.as_ref(), own, now), not_begun);
    }
    // The start of the period is one minute ahead of the clock, which is exactly the accepted lead.
    let soon = now + s(HOUR) - s(10 + 60);
    assert_eq!(rules.decide(None, own, soon), run(1));
    assert_eq!(rules.decide(None, own, soon - s(1)), not_begun);
}

#[test]
fn missed_periods_are_counted() {
    let rules = hourly();
    let now = s(100 * HOUR + 10);
    let record = begun(&rules, now, 1);
    for (later, missed) in [(0, 0), (1, 0), (2, 1), (26, 25)] {
        let own = rules.period_at(now + s(later * HOUR));
        assert_eq!(rules.missed(&record, own), missed, "{later}");
    }
    let before = rules.period_at(now - s(5 * HOUR));
    assert_eq!(rules.missed(&record, before), 0);
}

#[test]
fn a_record_keeps_the_last_29_earlier_periods() {
    let mut record = None::<PeriodRecord>;
    for hour in 0..40 {
        let at = s(HOUR * hour);
        for attempt in 1..=2 {
            let own = hourly().period_at(at);
            let name = "b".repeat(100);
            let begun = PeriodRecord::begin(record.as_ref(), own, attempt, (&name, 1), at);
            record = Some(begun.ended(2 - u8::try_from(attempt).expect("1 or 2"), at));
        }
    }
    let record = record.expect("40 periods");
    assert_eq!(PeriodRecord::parse(&record.to_json()).as_ref(), Ok(&record));
    let starts: Vec<_> = record.earlier.iter().map(|period| period.start).collect();
    assert_eq!(starts, (10..39).map(|hour| date(s(HOUR * hour))).collect::<Vec<_>>());
    let last = record.earlier.last().expect("an earlier period");
    assert_eq!((last.attempts, last.exit_code, last.candidate.len()), (2, Some(0), 64));
}

/// The names have the maximum length, also with characters that JSON escapes.
#[test]
fn a_record_with_8_attempts_of_each_period_has_at_most_the_maximum_length() {
    for name in ["b", "漢", "𝄞", "\u{1}", "\"", "\u{9b}"].map(|c| c.repeat(256 / c.len())) {
        let mut record = None::<PeriodRecord>;
        for hour in 0..40 {
            let at = s(2_000_000 * HOUR + hour * HOUR) + Duration::from_millis(1);
            let own = Period { start: at, length: s(36_525 * 24 * HOUR) };
            for attempt in u32::MAX - 9..=u32::MAX {
                let who = (name.as_str(), u64::MAX);
                let begun = PeriodRecord::begin(record.as_ref(), own, attempt, who, at);
                record = Some(begun.ended(if attempt % 3 == 0 { 0 } else { 255 }, at));
            }
        }
        let record = record.expect("40 periods");
        let json = record.to_json();
        assert_eq!(PeriodRecord::parse(&json).as_ref(), Ok(&record));
        assert!(json.len() <= MOST_LEN, "{} bytes with {name:?}", json.len());
        let kept = record.periods();
        assert!(kept.len() == 30 && kept.iter().all(|period| period.earlier_attempts.len() == 7));
    }
}

/// A version without `earlier_attempts` ignores the field when it reads, and omits it when it
/// writes.
#[test]
fn an_older_version_may_make_an_attempt() {
    let rules = PeriodRules { retries: 9, ..hourly() };
    let now = s(100 * HOUR + 10);
    let own = rules.period_at(now);
    let next = |before: Option<&PeriodRecord>, attempt, name| {
        PeriodRecord::begin(before, own, attempt, (name, 1), now).ended(3, now)
    };
    let second = next(Some(&next(None, 1, "a")), 2, "b");
    let mut older: serde_json::Value = serde_json::from_slice(&second.to_json()).expect("JSON");
    let dropped = older.as_object_mut().and_then(|it| it.remove("earlier_attempts"));
    assert_eq!(dropped.expect("a list")[0]["candidate"], "a");
    let older = PeriodRecord::parse(older.to_string().as_bytes()).expect("a record");
    assert_eq!(rules.decide(Some(&older), own, now), rules.decide(Some(&second), own, now));
    let third = next(Some(&older), 3, "c");
    let names: Vec<_> = third.earlier_attempts.iter().map(|it| it.candidate.as_str()).collect();
    assert_eq!((names, third.attempts), (vec!["b"], 3));
}

/// Before the fix, if another program had written the record, `tenure history` and the page of
/// `tenure ui` showed any number of periods, and names of any length.
#[test]
fn regression_a_foreign_record_shows_at_most_30_short_rows() {
    let mut record = begun(&hourly(), s(HOUR), 1);
    let long = EarlierPeriod { candidate: "x".repeat(1_000), ..record.periods().remove(0) };
    record.earlier = vec![long; 5_000];
    let rows = record.rows(false);
    assert_eq!(rows.len(), 30);
    assert!(rows.iter().all(|row| row.period.candidate.len() <= 64));
}

/// Before the fix, `tenure history` used the length of the newest period for all gaps. After a
/// change to shorter periods, it showed missed periods that had never existed.
#[test]
fn regression_a_shorter_period_adds_no_missed_periods() {
    let mut record = None::<PeriodRecord>;
    for (hour, length, missed) in [(0, 24, 0), (24, 24, 0), (72, 24, 1), (97, 1, 0), (99, 1, 1)] {
        let own = Period { start: s(hour * HOUR), length: s(length * HOUR) };
        let begun = PeriodRecord::begin(record.as_ref(), own, 1, ("a", 1), own.start);
        assert_eq!(begun.rows(false).last().map(|row| row.missed), Some(missed), "{hour}");
        record = Some(begun);
    }
    let rows = record.expect("a record").rows(false);
    assert_eq!(rows.iter().map(|row| row.missed).collect::<Vec<_>>(), [0, 0, 1, 0, 1]);
}
