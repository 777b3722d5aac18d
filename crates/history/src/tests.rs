//! Tests of the spans and gaps that a history computes from records and dates.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use tenure::internals::Record;

use super::build::{Found, holes, spans};
use super::*;

const START: &str = "2026-11-20T12:00:00Z";

fn at(seconds: f64) -> DateTime<Utc> {
    let start: DateTime<Utc> = START.parse().expect("a time");
    start + TimeDelta::milliseconds((seconds * 1e3) as i64)
}

fn when(when: &TimeEstimate) -> [Option<f64>; 3] {
    let seconds = |at: DateTime<Utc>| (at - self::at(0.0)).as_seconds_f64();
    [when.at.map(seconds), when.earliest.map(seconds), when.latest.map(seconds)]
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Creates the object of an epoch. `change` contains fields of its record. The writer's clock is
/// ahead of the store's clock by `ahead` seconds, so each recorded time is later by `ahead`.
/// `written` is the store's date of the last write.
fn object(epoch: u64, written: f64, ahead: f64, change: Value) -> Found {
    let mut body = json!({
        "expired": false, "validity_ms": 30_000, "format": 1, "candidate": "a",
        "nonce": "0123456789abcdef0123456789abcdef", "heartbeat": 9,
    });
    for (name, value) in change.as_object().expect("fields") {
        body[name] = match value.as_f64().filter(|_| name.ends_with("_at")) {
            Some(seconds) => json!(at(seconds + ahead)),
            None => value.clone(),
        };
    }
    let body = Record::parse(body.to_string().as_bytes()).map_err(|why| why.to_string());
    Found {
        epoch: Epoch::new(epoch).expect("an epoch"),
        written: Some(Dated::exactly(at(written))),
        body,
    }
}

fn resigned(epoch: u64, from: f64, until: f64, ahead: f64) -> Found {
    let times = json!({
        "elected_at": from, "renewed_at": until - 4.0, "sealed_at": until,
        "expired": true, "ended": "resigned", "sealed_by": "a",
    });
    object(epoch, until, ahead, times)
}

/// Creates the object of an epoch. Its leader died immediately after its last renewal, and another
/// process sealed the epoch at the time `sealed`.
fn lapsed(epoch: u64, from: f64, renewed: f64, sealed: f64) -> Found {
    let times = json!({
        "elected_at": from, "renewed_at": renewed, "sealed_at": sealed,
        "expired": true, "ended": "lapsed", "sealed_by": "b",
    });
    object(epoch, sealed, 0.0, times)
}

fn held(epoch: u64, from: f64, renewed: f64) -> Found {
    object(epoch, renewed, 0.0, json!({ "elected_at": from, "renewed_at": renewed }))
}

fn history(found: Vec<Found>, now: f64) -> History {
    let epochs: Vec<Epoch> = found.iter().map(|found| found.epoch).collect();
    let holes = holes(epochs.first().copied(), &epochs);
    let (layout, now) = (Layout::EpochFiles, at(now));
    let (spans, now_within) = (spans(found, now), Duration::ZERO);
    History { layout, spans, holes, left_out: 0, now, now_within, requests: 0, unread: Vec::new() }
}

#[test]
fn a_resignation_is_dated_by_the_store() {
    let history = history(vec![resigned(1, 0.0, 50.0, 0.0)], 60.0);
    let span = &history.spans[0];
    assert_eq!((span.end, span.name()), (Some(EpochEnd::Resigned), "a"));
    assert_eq!(when(&span.until), [Some(50.0); 3]);
    assert!(span.until.is_exact() && !span.from.is_exact());
    assert_eq!(when(&span.from), [Some(0.0), None, Some(0.0)]);
    assert_eq!(span.led(history.now), Some(secs(50.0)));
}

#[test]
fn the_date_of_a_write_corrects_a_wrong_clock() {
    for ahead in [-7_200.0, 7_200.0] {
        let history =
            history(vec![resigned(1, 0.0, 9.0, 0.0), resigned(2, 10.0, 50.0, ahead)], 60.0);
        let span = &history.spans[1];
        assert_eq!(when(&span.from), [Some(10.0), Some(9.0), Some(10.0)], "{ahead}");
        assert_eq!(span.elected_at, Some(at(10.0 + ahead)), "the recorded time is unchanged");
        assert_eq!(history.gaps()[0].length.about, secs(1.0));
    }
}

#[test]
fn a_start_is_between_the_previous_seal_and_the_last_write() {
    // By the leader's clock, 30 s passed from its election to its last renewal. By the store's
    // clock, the epoch was sealed at 85 s.
    for (ahead, begin) in [(0.0, 12.0), (-500.0, 10.0), (500.0, 55.0)] {
        let times = json!({
            "elected_at": 12.0, "renewed_at": 42.0, "expired": true, "ended": "deposed",
            "sealed_by": "operator",
        });
        let second = object(2, 85.0, ahead, times);
        let history = history(vec![resigned(1, 0.0, 10.0, 0.0), second], 100.0);
        let span = &history.spans[1];
        assert_eq!(when(&span.from), [Some(begin), Some(10.0), Some(55.0)], "{ahead}");
        assert_eq!((span.end, when(&span.until)), (Some(EpochEnd::Deposed), [Some(85.0); 3]));
    }
}

#[test]
fn a_dead_leader_stopped_between_its_last_renewal_and_its_lease_end() {
    let history = history(vec![lapsed(1, 0.0, 40.0, 72.0), held(2, 73.0, 80.0)], 90.0);
    let span = &history.spans[0];
    assert_eq!(when(&span.until), [Some(70.0), Some(40.0), Some(70.0)]);
    let gap = history.gaps()[0];
    let length = gap.length;
    assert_eq!((length.about, length.at_least, length.at_most), (secs(3.0), secs(2.0), secs(33.0)));
    assert_eq!((gap.after, gap.before), (Epoch::FIRST, Epoch::new(2)));
    // The date of the write has whole seconds, so the write may be later by almost a second.
    let length = span.until.until_write(at(73.0)).expect("the end of the lease is known");
    assert_eq!((length.about, length.at_least, length.at_most), (secs(3.0), secs(3.0), secs(34.0)));
    // The seal at 45 s comes before the end of the lease at 70 s, because an operator asserted the
    // death of the leader.
    let history = self::history(vec![lapsed(1, 0.0, 40.0, 45.0), held(2, 46.0, 80.0)], 90.0);
    assert_eq!(when(&history.spans[0].until), [Some(45.0), Some(40.0), Some(45.0)]);
}

#[test]
fn a_held_epoch_has_no_end_and_may_have_lapsed() {
    let leads = history(vec![held(1, 0.0, 40.0)], 50.0);
    let span = &leads.spans[0];
    assert_eq!((span.is_held(), span.lapsed), (true, false));
    assert_eq!(when(&span.until), [None, Some(40.0), Some(70.0)]);
    assert_eq!((span.led(leads.now), leads.totals().vacant.at_most), (Some(secs(50.0)), secs(0.0)));
    let silent = history(vec![held(1, 0.0, 40.0)], 100.0);
    let span = &silent.spans[0];
    assert_eq!((span.is_held(), span.lapsed), (true, true));
    assert_eq!(when(&span.until), [Some(70.0), Some(40.0), Some(70.0)]);
    let vacant = silent.totals().vacant;
    assert_eq!(
        (vacant.about, vacant.at_least, vacant.at_most),
        (secs(30.0), secs(30.0), secs(60.0))
    );
    assert_eq!(silent.gaps()[0].before, None);
}

#[test]
fn a_restored_epoch_has_no_leader() {
    let times = json!({
        "sealed_at": 20.0, "sealed_by": "operator", "expired": true, "ended": "restored",
    });
    let history = history(vec![resigned(1, 0.0, 10.0, 0.0), object(9, 20.0, 0.0, times)], 30.0);
    let span = &history.spans[1];
    assert_eq!((span.end, span.led(history.now)), (Some(EpochEnd::Restored), None));
}

#[test]
fn an_abandoned_epoch_does_not_end_a_gap() {
    let times = json!({
        "elected_at": 12.0, "renewed_at": 12.0, "sealed_at": 13.0, "heartbeat": 2,
        "expired": true, "ended": "lapsed", "sealed_by": "a",
    });
    let given_up = object(2, 13.0, 0.0, times);
    let found = vec![resigned(1, 0.0, 10.0, 0.0), given_up, held(3, 20.0, 25.0)];
    let history = history(found, 30.0);
    assert_eq!(history.spans[1].end, Some(EpochEnd::GivenUp));
    assert_eq!(history.spans[1].led(history.now), None);
    let gaps = history.gaps();
    assert_eq!((gaps.len(), gaps[0].length.about), (1, secs(10.0)));
    // A process led, was restarted, and then sealed the epoch that it had led before. The record
    // contains a renewal, so the epoch counts as lapsed and not as abandoned.
    let times = json!({
        "elected_at": 0.0, "renewed_at": 5.0, "sealed_at": 6.0, "heartbeat": 3,
        "expired": true, "ended": "lapsed", "sealed_by": "a",
    });
    let restarted = self::history(vec![object(1, 6.0, 0.0, times)], 7.0);
    assert_eq!(restarted.spans[0].end, Some(EpochEnd::Lapsed));
}

#[test]
fn epochs_without_a_seal_are_superseded() {
    let foreign = |epoch, written| {
        let body = Record::parse(br#"{"validity_ms": 10000, "expired": false}"#);
        let body = body.map_err(|why| why.to_string());
        Found {
            epoch: Epoch::new(epoch).expect("an epoch"),
            written: Some(Dated::exactly(at(written))),
            body,
        }
    };
    let history = history(vec![foreign(1, 5.0), foreign(2, 12.0), foreign(3, 40.0)], 41.0);
    let ends: Vec<_> = history.spans.iter().map(|span| span.end).collect();
    assert_eq!(ends, [Some(EpochEnd::Superseded), Some(EpochEnd::Superseded), None]);
    assert_eq!(when(&history.spans[0].until), [Some(12.0), Some(5.0), Some(12.0)]);
    assert_eq!(when(&history.spans[1].until), [Some(22.0), Some(12.0), Some(22.0)]);
    assert_eq!(history.spans[2].name(), "-");
    // An object with the body `{}` is not a valid record.
    let mut found = vec![foreign(1, 5.0), foreign(2, 12.0)];
    found[0].body = Record::parse(b"{}").map_err(|why| why.to_string());
    let history = self::history(found, 13.0);
    assert_eq!((history.spans[0].end, history.spans[0].is_held()), (None, false));
    assert!(
        history.spans[0].unreadable.as_ref().is_some_and(|why| why.contains("a field is missing"))
    );
}

#[test]
fn missing_epochs_are_reported_and_are_not_gaps() {
    let found =
        vec![resigned(91, 0.0, 10.0, 0.0), resigned(95, 60.0, 70.0, 0.0), held(96, 71.0, 75.0)];
    let history = history(found, 80.0);
    let holes: Vec<_> = history.holes.iter().map(|h| (h.start().get(), h.end().get())).collect();
    assert_eq!(holes, [(1, 90), (92, 94)]);
    let totals = history.totals();
    assert_eq!((totals.time, totals.unknown.about), (secs(80.0), secs(50.0)));
    assert_eq!((totals.vacant.about, totals.led.about), (secs(1.0), secs(29.0)));
    assert_eq!(totals.vacant_share(), Some(1.0 / 30.0));
    // Epoch 2 is unreadable and may have had a leader. So the time between epochs 1 and 3 counts as
    // unknown, and not as a gap.
    let mut found = vec![resigned(1, 0.0, 10.0, 0.0), held(2, 11.0, 12.0), held(3, 20.0, 25.0)];
    found[1].body = Err("its body is empty".to_owned());
    let history = self::history(found, 30.0);
    assert_eq!((history.totals().unknown.about, history.gaps()), (secs(10.0), vec![]));
}

#[test]
fn an_empty_history_has_no_totals() {
    let history = history(Vec::new(), 10.0);
    assert_eq!((history.totals(), history.gaps()), (Totals::default(), vec![]));
}

/// Records of other programs can contain any times, and a store can give any dates.
#[test]
fn arbitrary_times_do_not_panic() {
    let wild =
        ["1970-01-01T00:00:00Z", "+262142-12-31T23:59:59Z", "-262143-01-01T00:00:00Z", START];
    let pick = |number: usize| json!(wild[number % wild.len()]);
    let ended = ["resigned", "lapsed", "deposed", "?"];
    let validity = [1, 30_000, 31_000_000_000_u64];
    for seed in 0..256 {
        let record = |digit: usize| {
            let times = json!({
                "elected_at": pick(seed >> (2 * digit)), "renewed_at": pick(seed >> (2 * digit + 2)),
                "sealed_at": pick(seed >> (digit + 1)), "sealed_by": (seed % 2 == 0).then_some("a"),
                "expired": digit != 2 && seed % 3 != 0, "heartbeat": seed % 4,
                "ended": ended[(seed + digit) % 4], "validity_ms": validity[seed % 3],
            });
            let mut found = object(digit as u64 + 1, 0.0, 0.0, times);
            let text = wild[(seed >> digit) % wild.len()];
            let date = || text.parse().ok().map(Dated::by_a_store);
            found.written = if seed % 5 == 0 { None } else { date() };
            found
        };
        let history = history((0..3).map(record).collect(), 0.0);
        for span in &history.spans {
            for when in [span.from, span.until] {
                let bounds = [when.earliest, when.at, when.latest];
                let known: Vec<_> = bounds.into_iter().flatten().collect();
                assert!(
                    known.is_sorted() || span.until.at == span.from.at,
                    "seed {seed}: {span:?}"
                );
            }
        }
        let vacant = history.totals().vacant;
        assert!(vacant.at_least <= vacant.at_most, "seed {seed}: {history:?}");
    }
}

/// Epoch 1 was compacted at store 2, and store 3 was down when epoch 1 ended. In epoch 2, two
/// attempts created their objects at different stores.
#[test]
fn an_epoch_of_an_election_across_stores_needs_a_majority() {
    let of = |found: Vec<Found>| {
        let first = found.first().map(|it| it.epoch);
        Some(across::StoreObjects { found, first })
    };
    let attempt = |candidate: &str, nonce: char| {
        let nonce = nonce.to_string().repeat(32);
        object(2, 50.0, 0.0, json!({ "candidate": candidate, "nonce": nonce }))
    };
    let merged = |third: Option<across::StoreObjects>| {
        let first = of(vec![resigned(1, 0.0, 40.0, 0.0), attempt("b", 'b')]);
        let (found, stores) = across::merge(vec![first, of(vec![attempt("c", 'c')]), third]);
        let mut spans = spans(found, at(60.0));
        across::add(&mut spans, stores);
        spans
    };
    use StoreEpoch::{Absent, Held, Other, Unknown};
    let spans = merged(of(vec![object(1, 30.0, 0.0, json!({ "renewed_at": 30.0 }))]));
    assert_eq!(spans[0].stores, [Held, Unknown, Held]);
    assert!(spans[0].may_be_granted());
    assert_eq!(spans[0].written_at, Some(at(30.0)), "the date of the second latest write");
    assert!(
        [[Held, Other, Absent], [Other, Held, Absent]]
            .contains(&spans[1].stores[..].try_into().expect("3"))
    );
    assert_eq!((spans[1].may_be_granted(), spans[1].end), (false, Some(EpochEnd::GivenUp)));
    // The history shows the attempt with the most objects.
    let spans = merged(of(vec![object(2, 55.0, 0.0, json!({ "nonce": "c".repeat(32) }))]));
    assert_eq!(spans[1].stores, [Other, Held, Held]);
    assert_eq!((spans[1].written_at, spans[1].name()), (Some(at(50.0)), "c"));
    let third = of(vec![attempt("c", 'c')]);
    let others = [(); 2].map(|()| of(vec![attempt("b", 'b')]));
    let (_, stores) = across::merge(others.into_iter().chain([third]).collect());
    assert_eq!(stores, [[Held, Held, Other]]);
    let unreadable = || Found { body: Err("not JSON".to_owned()), ..attempt("b", 'b') };
    let (found, stores) = across::merge(vec![of(vec![unreadable()]), of(vec![unreadable()]), None]);
    let mut spans = crate::build::spans(found, at(60.0));
    across::add(&mut spans, stores);
    assert_eq!((spans[0].end, spans[0].unreadable.as_deref()), (None, Some("not JSON")));
    let spans = merged(None);
    assert_eq!(spans[0].stores, [Held, Unknown, Unknown]);
    assert!(spans[1].may_be_granted() && spans[1].is_held(), "the third store may have epoch 2");
}
