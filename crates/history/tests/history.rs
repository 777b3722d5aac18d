//! Tests that run elections, and compare the resulting histories with the true times.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tenure::store::MemoryStore;
use tenure::{Clock as _, EpochEnd, ErrorKind, Layout};
use tenure_history::{History, Reader, StoreEpoch};
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::morling_lock::MorlingNode;
use tenure_testkit::time::{millis, secs, wait};
use tenure_testkit::world::{VALIDITY, World, name};

fn reader(world: &World) -> Reader {
    Reader::new(Arc::new(world.store.clone()), "app").expect("a prefix")
}

async fn read(world: &World) -> History {
    reader(world).read().await.expect("a history")
}

/// Returns the time of the store's clock.
fn now(world: &World) -> DateTime<Utc> {
    world.clock.now().time_of_day()
}

/// Asserts that the estimate `told` differs from the true time by less than 50 ms. In these tests a
/// request takes no time.
#[track_caller]
fn near(told: Option<DateTime<Utc>>, truth: DateTime<Utc>) {
    let told = told.expect("a time");
    assert!(
        (told - truth).abs() < TimeDelta::milliseconds(50),
        "the estimate {told} differs from {truth}"
    );
}

fn ends(history: &History) -> Vec<(u64, &str, Option<EpochEnd>)> {
    history.spans.iter().map(|span| (span.epoch.get(), span.name(), span.end)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_history_matches_the_election() {
    let world = World::new();
    let start = now(&world);
    let a = world.leader("a").await;
    wait(secs(60)).await;
    a.resign().await.unwrap();
    let resigned = now(&world);
    wait(secs(20)).await;
    let b = world.leader("b").await;
    let b_began = now(&world);
    wait(secs(31)).await;
    drop(b);
    let b_died = now(&world);
    let c = world.leader("c").await;
    let c_began = now(&world);
    wait(secs(5)).await;
    let history = read(&world).await;
    let expected =
        [(1, "a", Some(EpochEnd::Resigned)), (2, "b", Some(EpochEnd::Lapsed)), (3, "c", None)];
    assert_eq!(ends(&history), expected);

    let [first, second, third] = &history.spans[..] else { panic!() };
    near(first.from.at, start);
    assert!(first.until.is_exact());
    near(first.until.at, resigned);
    near(second.from.at, b_began);
    // Candidate `b` died between its last renewal and the end of its lease. These two times are the
    // bounds of the end of its leadership.
    assert!(second.until.earliest <= Some(b_died) && second.until.latest >= Some(b_died));
    near(second.until.earliest.map(|sign| sign + VALIDITY), second.until.latest.unwrap());
    assert!(second.until.latest <= Some(c_began));
    assert_eq!(second.sealed_by.as_deref(), Some("c"));
    near(third.from.at, c_began);
    assert_eq!((third.until.at, third.lapsed), (None, false));

    let gaps = history.gaps();
    assert_eq!(gaps.iter().map(|gap| gap.after.get()).collect::<Vec<_>>(), [1, 2]);
    let about = gaps[0].length.about;
    assert!(about > millis(19_900) && about < millis(20_100), "{about:?}");
    let (length, truth) = (gaps[1].length, (c_began - b_died).to_std().unwrap());
    assert!(length.at_least <= truth && truth <= length.at_most, "{length:?}, {truth:?}");
    drop(c);
    wait(VALIDITY * 2).await;
    let history = read(&world).await;
    assert!(history.spans[2].lapsed);
    assert_eq!(history.gaps().last().map(|gap| gap.before), Some(None));
}

#[tokio::test(start_paused = true)]
async fn a_seal_with_an_unknown_reason_is_not_a_deposition() {
    let world = World::new();
    let a = world.leader("a").await;
    wait(secs(30)).await;
    world.seal(1, "deposed").await;
    let deposed = now(&world);
    drop(a);
    let _b = world.leader("b").await;
    let history = read(&world).await;
    assert_eq!(history.spans[0].end, Some(EpochEnd::Deposed));
    near(history.spans[0].until.at, deposed);
    world.seal(2, "because").await;
    assert_eq!(read(&world).await.spans[1].end, Some(EpochEnd::Unknown));
}

#[tokio::test(start_paused = true)]
async fn foreign_and_unreadable_records_are_shown() {
    let world = World::new();
    let store = Arc::clone(world.store.inner());
    let node = MorlingNode {
        store,
        prefix: "app/",
        validity: VALIDITY,
        clock: Arc::new(world.clock.clone()),
    };
    node.try_lock().await.expect("the first attempt wins");
    let a = world.leader("a").await;
    a.resign().await.unwrap();
    for (epoch, body) in [(3, "{}"), (4, ""), (5, "\u{1}"), (6, r#"{"format":7,"expired":true}"#)] {
        world.put(&name(epoch), body).await;
    }
    world.put(&name(7), vec![b'x'; 100_000]).await;
    let history = read(&world).await;
    let told = ends(&history);
    assert_eq!(told[1], (2, "a", Some(EpochEnd::Resigned)));
    assert!(told[2..].iter().all(|(_, name, end)| (*name, *end) == ("-", None)));
    assert!(history.spans[2..].iter().all(|span| span.unreadable.is_some()));
    assert!(matches!(told[0], (1, "-", Some(EpochEnd::Lapsed | EpochEnd::Unknown))), "{told:?}");
    let why = |epoch: usize| history.spans[epoch - 1].unreadable.clone().unwrap();
    assert_eq!(why(4), "its body is empty");
    assert!(why(6).contains("format 7") && why(7).contains("100000 bytes"));
    assert!(history.spans[6].written_at.is_some(), "the listing contains the date");
}

#[tokio::test(start_paused = true)]
async fn a_read_costs_one_list_per_page_and_one_get_per_epoch() {
    let world = World::new();
    for epoch in 1..=2_500 {
        let body = r#"{"expired":true,"ended":"resigned"}"#;
        world.put(&name(epoch), body).await;
        if epoch % 100 == 0 {
            wait(secs(60)).await;
        }
    }
    world.store.take_calls();
    let mut told = Vec::new();
    let reader = reader(&world).limit(100);
    let history = reader.read_with(|read, of| told.push((read, of))).await.unwrap();
    let calls = world.store.take_calls();
    let count = |call| calls.iter().filter(|each| **each == call).count();
    assert_eq!((count(Call::List), count(Call::Get), calls.len()), (3, 100, 103));
    assert_eq!((history.requests, history.left_out), (103, 2_400));
    assert_eq!(history.spans[0].epoch.get(), 2_401);
    assert_eq!(told, (1..=100).map(|read| (read, 100)).collect::<Vec<_>>());
    // The test wrote 100 epochs at a time, and waited for a minute after each hundred. So it wrote
    // the last 200 epochs 120 s and 60 s ago, and all others at least 180 s ago.
    let history = reader.clone().limit(5_000).since(secs(150)).read().await.unwrap();
    assert_eq!((history.spans.len(), history.left_out), (200, 2_300));
    // The reader reads the newest epoch even if its last write is too old.
    let history = reader.since(secs(1)).read().await.unwrap();
    assert_eq!((history.spans.len(), history.left_out), (1, 2_499));
}

#[tokio::test(start_paused = true)]
async fn an_epoch_compacted_during_the_read_counts_as_missing() {
    let world = World::new();
    for _ in 0..3 {
        world.leader("a").await.resign().await.unwrap();
    }
    world.store.on(Call::Get).key("lock-0000000002").fault(Fault::Slow(secs(5)));
    let reader = reader(&world);
    let read = tokio::spawn(async move { reader.read().await });
    wait(secs(1)).await;
    world.delete(&name(2)).await;
    let history = read.await.unwrap().unwrap();
    assert_eq!(history.spans.len(), 2);
    assert_eq!(history.holes.iter().map(|hole| hole.start().get()).collect::<Vec<_>>(), [2]);
}

#[tokio::test(start_paused = true)]
async fn a_single_object_shows_one_epoch() {
    let world = World::new();
    let single = || reader(&world).layout(Layout::SingleObject);
    assert_eq!(single().read().await.unwrap().spans, []);
    let elect = || world.node("a").layout(Layout::SingleObject).build().unwrap();
    for _ in 0..3 {
        elect().campaign().await.unwrap().resign().await.unwrap();
    }
    world.store.take_calls();
    let history = single().read().await.unwrap();
    assert_eq!(world.store.take_calls(), [Call::Get]);
    assert_eq!(ends(&history), [(3, "a", Some(EpochEnd::Resigned))]);
    assert_eq!(
        history.holes.iter().map(|h| (h.start().get(), h.end().get())).collect::<Vec<_>>(),
        [(1, 2)]
    );
    world.put("lock.json", "{}").await;
    assert_eq!(single().read().await.unwrap_err().kind(), ErrorKind::CorruptRecord);
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_returns_an_error() {
    let world = World::new();
    world.leader("a").await.resign().await.unwrap();
    for call in [Call::List, Call::Get] {
        world.store.on(call).fault(Fault::FailBefore);
        assert_eq!(reader(&world).read().await.unwrap_err().kind(), ErrorKind::Unavailable);
        world.store.on(call).fault(Fault::Hang);
        assert_eq!(reader(&world).read().await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert_eq!(
        Reader::new(Arc::new(world.store.clone()), "/").unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[tokio::test(start_paused = true)]
async fn a_majority_of_the_stores_suffices() {
    let world = World::new();
    for _ in 0..5 {
        world.leader("a").await.resign().await.unwrap();
    }
    let down = FaultStore::new(Arc::new(MemoryStore::new()));
    down.always(Fault::FailBefore);
    let stores = |down: &[&FaultStore]| {
        let all = [&world.store, &world.store, &world.store].into_iter().skip(down.len());
        let all = all.chain(down.iter().copied()).map(|it| Arc::new(it.clone()) as _);
        Reader::across(all.collect::<Vec<_>>(), "app").expect("a prefix").limit(3)
    };
    let history = stores(&[&down]).read().await.unwrap();
    assert_eq!((history.spans.len(), history.left_out, history.unread.len()), (3, 2, 1));
    assert_eq!(history.spans[0].stores, [StoreEpoch::Held, StoreEpoch::Held, StoreEpoch::Unknown]);
    let error = stores(&[&down, &down]).read().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    // The reader reads the stores at the same time, so two hung stores delay it no longer than one.
    let hung = FaultStore::new(Arc::new(MemoryStore::new()));
    hung.always(Fault::Hang);
    let begun = now(&world);
    stores(&[&hung, &hung]).read().await.unwrap_err();
    assert_eq!(now(&world) - begun, TimeDelta::seconds(30));
}
