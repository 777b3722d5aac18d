//! Tests of the drawing of a history. The history is read from objects in memory.

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use tenure::Clock as _;
use tenure::store::{MemoryStore, Store as _};
use tenure_history::History;
use tenure_history::drawing::{BandKind, Mark};
use tenure_testkit::time::{TestClock, wait};

use super::*;

/// Epoch objects in memory. The clock moves only while a test waits.
struct Objects {
    store: MemoryStore,
    clock: TestClock,
    start: DateTime<Utc>,
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl Objects {
    fn new() -> Objects {
        let clock = TestClock::new();
        let start = clock.now().time_of_day();
        Objects { store: MemoryStore::with_clock(Arc::new(clock.clone())), clock, start }
    }

    async fn wait_until(&self, second: u64) {
        let passed = (self.clock.now().time_of_day() - self.start).to_std().unwrap_or_default();
        wait(secs(second).saturating_sub(passed)).await;
    }

    /// Writes an epoch object `second` seconds after the start. The fields in `change` replace or
    /// complete the usual fields. If the name of a field in `change` ends in `_at`, its value is a
    /// time in seconds after the start.
    async fn write(&self, epoch: u64, second: u64, change: Value) {
        let mut body = json!({
            "expired": false, "validity_ms": 30_000, "format": 1, "candidate": "a",
            "nonce": "0123456789abcdef0123456789abcdef", "heartbeat": 9,
        });
        for (name, value) in change.as_object().expect("fields") {
            body[name] = match value.as_i64().filter(|_| name.ends_with("_at")) {
                Some(seconds) => json!(self.start + TimeDelta::seconds(seconds)),
                None => value.clone(),
            };
        }
        self.wait_until(second).await;
        let key = format!("app/lock-{epoch:010}.json");
        self.store.create(&key, body.to_string().into()).await.expect("written");
    }

    async fn history(&self) -> History {
        let reader = Reader::new(Arc::new(self.store.clone()), "app").expect("a prefix");
        reader.read_with(|_, _| {}).await.expect("read")
    }
}

#[tokio::test(start_paused = true)]
async fn a_vacant_election_has_an_empty_drawing() {
    let history = Objects::new().history().await;
    assert!(picture::of(&history, "x", false).svg().contains("no process has led"));
}

#[tokio::test(start_paused = true)]
async fn the_drawing_shows_known_and_doubtful_times() {
    let objects = Objects::new();
    let times = json!({
        "elected_at": 0, "renewed_at": 40, "sealed_at": 72, "expired": true, "ended": "lapsed",
        "sealed_by": "b",
    });
    objects.write(2, 72, times).await;
    let times = json!({
        "elected_at": 75, "renewed_at": 86, "sealed_at": 90, "expired": true,
        "ended": "resigned", "sealed_by": "a",
    });
    objects.write(3, 90, times).await;
    objects.write(6, 99, json!({ "elected_at": 95, "renewed_at": 99 })).await;
    objects.wait_until(100).await;
    let drawing = picture::of(&objects.history().await, "a < b", false);
    let shown: Vec<_> = drawing
        .intervals
        .iter()
        .map(|i| (&*i.label, i.from, i.until, i.perhaps_until, i.end))
        .collect();
    assert_eq!(
        shown,
        [
            ("2", secs(0), secs(40), secs(70), Mark::Lapsed),
            ("3", secs(75), secs(90), secs(90), Mark::Resigned),
            ("6", secs(95), secs(100), secs(100), Mark::GoesOn),
        ]
    );
    let bands: Vec<_> = drawing.bands.iter().map(|b| (b.kind, b.from, b.until)).collect();
    let expected =
        [(BandKind::Vacant, secs(70), secs(75)), (BandKind::Unknown, secs(90), secs(95))];
    assert_eq!(bands, expected);
    assert_eq!(
        drawing.intervals[0].tip,
        "epoch 2: a, from 2026-11-20 00:00:00Z, for about 1m 10s, lapsed by b"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_epoch_has_a_separate_lane() {
    let objects = Objects::new();
    objects.store.create("app/lock-0000000001.json", "?".into()).await.expect("written");
    assert!(picture::of(&objects.history().await, "x", false).svg().contains("(unreadable)"));
}

/// Programs other than `tenure` may have written extreme times into the records, and a store may
/// report extreme dates.
#[tokio::test(start_paused = true)]
async fn extreme_times_are_drawn() {
    let objects = Objects::new();
    for epoch in 1..=3 {
        objects.write(epoch, 10 * epoch, json!({ "elected_at": 10 * epoch })).await;
    }
    let history = objects.history().await;
    let wild = ["1970-01-01T00:00:00Z", "+262142-12-31T23:59:59Z", "-262143-01-01T00:00:00Z"];
    let wild = wild.map(|text| Some(text.parse::<DateTime<Utc>>().expect("a time")));
    let wild = [wild[0], wild[1], wild[2], Some(objects.start), None];
    let pick = |number: usize| wild[number % wild.len()];
    for seed in 0..625 {
        let mut history = history.clone();
        for (i, span) in history.spans.iter_mut().enumerate() {
            let digit = |place: u32| pick(seed / 5_usize.pow(place) + i);
            (span.from.at, span.from.latest) = (digit(0), digit(1));
            (span.until.at, span.until.earliest) = (digit(2), digit(3));
            span.written_at = digit((i % 4) as u32);
        }
        history.now = pick(seed).unwrap_or(history.now);
        let svg = picture::of(&history, "wild", false).svg();
        roxmltree::Document::parse(&svg).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}
