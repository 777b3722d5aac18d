//! Whole runs on a store in memory.

use super::*;

const NO_TIME: Duration = Duration::ZERO;
const MILLISECOND: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn the_newest_stay_and_the_superseded_go() {
    let store = Watched::with_epochs(30, NO_TIME).await;
    let builder = Compactor::builder(Arc::clone(&store) as Arc<dyn Store>, "app/");
    let report = builder.build().unwrap().run_once().await.unwrap();
    assert_eq!(store.keys().await, locks(21..=30));
    let expected = Report {
        listed: 30,
        deleted: 20,
        kept: 10,
        bytes: 20 * BODY.len() as u64,
        requests: 4,
        newest: Epoch::new(30),
        min_age_ms: 3_600_000,
        ..Report::default()
    };
    assert_eq!(report, expected);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_finds_nothing_changes_nothing() {
    let store = Watched::with_epochs(0, NO_TIME).await;
    let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
    assert_eq!(report, Report { requests: 2, ..Report::default() });
    for _ in 0..2 {
        store.put(&lock(3)).await;
        let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
        assert_eq!((report.deleted, report.kept, report.requests), (0, 1, 2));
        assert_eq!(store.keys().await, [lock(3)]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_young_stay() {
    let store = Watched::with_epochs(5, NO_TIME).await;
    for number in 6..=9 {
        store.put(&lock(number)).await;
    }
    store.clock.advance(HOUR - Duration::from_secs(1));
    let builder = Compactor::builder(Arc::clone(&store) as Arc<dyn Store>, "app").keep_epochs(1);
    let compactor = builder.build().unwrap();
    let report = compactor.run_once().await.unwrap();
    assert_eq!((report.deleted, report.kept, report.too_young), (5, 4, 3));
    assert_eq!(store.keys().await, locks(6..=9));
    store.clock.advance(Duration::from_secs(1));
    assert_eq!(compactor.run_once().await.unwrap().deleted, 3);
    assert_eq!(store.keys().await, [lock(9)]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_counts_as_a_real_one_and_deletes_nothing() {
    let store = Watched::with_epochs(2_500, NO_TIME).await;
    let builder = Compactor::builder(Arc::clone(&store) as Arc<dyn Store>, "app").keep_epochs(3);
    let dry = builder.clone().dry_run(true).build().unwrap().run_once().await.unwrap();
    assert_eq!(store.keys().await.len(), 2_500);
    assert_eq!((dry.requests, dry.dry_run), (7, true));
    let real = builder.build().unwrap().run_once().await.unwrap();
    assert_eq!(real, Report { requests: 10, dry_run: false, ..dry });
}

#[tokio::test(start_paused = true)]
async fn foreign_keys_are_neither_counted_nor_deleted() {
    for prefix in ["", "app", "app/", "a/b"] {
        let keys = Keys::new(prefix).unwrap();
        let store = Watched::new(NO_TIME, NO_TIME);
        let foreign = [
            "lock-",
            "lock-0000000000.json",
            "lock-0000000001.json/",
            "lock-0000000002.json.bak",
            "lock-00000000031.json",
            "lock-0000000004.json/lock-0000000004.json",
            "lock-999999999.json",
            "lock-99999999991.json",
            "lock-+000000001.json",
            "lock-folder/lock-0000000001.json",
            "lock",
            "other/lock-0000000001.json",
            ".tenure-check",
        ];
        let mut left = BTreeSet::from(foreign.map(|name| format!("{}{name}", keys.prefix())));
        // Another election's, whose prefix starts with the same letters.
        left.insert("app2/lock-0000000001.json".to_owned());
        for key in &left {
            store.put(key).await;
        }
        for number in 1..=4 {
            store.put(&keys.numbered(number)).await;
        }
        let inner = Arc::new(store.inner.clone());
        let builder = Compactor::builder(inner, prefix).keep_epochs(1).min_age(NO_TIME);
        let report = builder.build().unwrap().run_once().await.unwrap();
        left.insert(keys.numbered(4));
        assert_eq!((report.listed, report.deleted), (4, 3), "{prefix:?}");
        assert_eq!(store.keys().await, Vec::from_iter(left), "{prefix:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_below_the_last_epoch() {
    let store = Watched::with_epochs(30, NO_TIME).await;
    store.put(&lock(9_999_999_999)).await;
    let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
    assert_eq!(store.keys().await.len(), 31);
    assert_eq!(report.newest, Some(Epoch::MAX));
    assert_eq!((report.deleted, report.requests), (0, 1));
    assert!(report.to_string().contains("the newest is the last epoch"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn gaps_do_not_matter() {
    let store = Watched::new(NO_TIME, NO_TIME);
    for number in [3, 77, 4_000_000_000, 9_999_999_998] {
        store.put(&lock(number)).await;
    }
    let store = Arc::new(store);
    let report = compactor(Arc::clone(&store) as _, 2).run_once().await.unwrap();
    assert_eq!(report.deleted, 2);
    assert_eq!(store.keys().await, locks([4_000_000_000, 9_999_999_998]));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_epochs_cost_three_requests_a_thousand() {
    let store = Watched::with_epochs(10_000, NO_TIME).await;
    let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
    assert_eq!((report.deleted, report.kept), (9_999, 1));
    assert_eq!(store.requests.load(Ordering::SeqCst) as u64, report.requests);
    let expected = 3.0 * 10.0;
    assert!((report.requests as f64 - expected).abs() <= expected * 0.01 + 3.0, "{report}");
    assert_eq!(store.keys().await, [lock(10_000)]);
}

#[tokio::test(start_paused = true)]
async fn four_deletions_go_on_beside_the_listing() {
    let mut store = Watched::new(Duration::from_secs(1), Duration::from_secs(9));
    for number in 1..=10_000 {
        store.put(&lock(number)).await;
    }
    store.most_deleting = AtomicUsize::new(0);
    let store = Arc::new(store);
    let started = now();
    let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
    assert_eq!((report.deleted, report.requests), (9_999, 31));
    assert_eq!(store.most_deleting.load(Ordering::SeqCst), 4);
    // All but four of the 11: that for the last epoch, and those of the pages that lie ahead of the
    // first deletion.
    assert_eq!(store.lists_while_deleting.load(Ordering::SeqCst), 7);
    // One after the other: 11 s of listings and 90 s of deletions.
    let took = now() - started;
    assert!(took < Duration::from_secs(35), "{took:?}");
}

/// Each page waited for the newest epoch of the page before: that halved what a run deletes in a
/// second.
#[tokio::test(start_paused = true)]
async fn regression_the_next_page_is_asked_for_beside_the_newest_epoch() {
    let second = Duration::from_secs(1);
    let store = Watched::new(second, NO_TIME);
    for number in 1..=10_000 {
        store.put(&lock(number)).await;
    }
    let store = Arc::new(store);
    let started = now();
    let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
    assert_eq!((report.deleted, report.requests), (9_999, 31));
    // 11 LISTs, and two GETs at the end; the other eight took as long again.
    let took = now() - started;
    assert!(took <= second * 13, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn compactors_run_beside_each_other_and_a_growing_election() {
    let store = Watched::with_epochs(5_000, MILLISECOND).await;
    let (keeps_one, keeps_ten) = (compactor(store.clone(), 1), compactor(store.clone(), 10));
    let elections = async {
        for number in 5_001..=5_020 {
            store.put(&lock(number)).await;
            pause(MILLISECOND / 2).await;
        }
    };
    let (one, ten, again, ()) =
        tokio::join!(keeps_one.run_once(), keeps_ten.run_once(), keeps_ten.run_once(), elections);
    assert!(one.unwrap().deleted >= 4_999);
    assert!(ten.unwrap().deleted + again.unwrap().deleted > 0);
    let keys = store.keys().await;
    assert_eq!(keys.last(), Some(&lock(5_020)));
    assert!(keys.len() <= 21);
}

#[tokio::test(start_paused = true)]
async fn a_run_dropped_anywhere_leaves_nothing_to_repair() {
    let mut unfinished = 0;
    // Past the end of a run: 4 LISTs, 2 GETs and the last DELETE, of 3 ms each.
    for dropped_after in (0..26).map(|millis| MILLISECOND * millis) {
        let store = Watched::with_epochs(2_500, 3 * MILLISECOND).await;
        let compactor = compactor(Arc::clone(&store) as _, 10);
        tokio::select! {
            biased;
            () = pause(dropped_after) => unfinished += 1,
            report = compactor.run_once() => assert_eq!(report.unwrap().deleted, 2_490),
        }
        let keys = store.keys().await;
        assert!(keys.ends_with(&locks(2_491..=2_500)), "{dropped_after:?}");
        compactor.run_once().await.unwrap();
        assert_eq!(store.keys().await, locks(2_491..=2_500), "{dropped_after:?}");
    }
    assert!((16..26).contains(&unfinished), "{unfinished}");
}

/// Stopped anywhere, what is told to be deleted is what is gone, the oldest first, and the next run
/// goes on from there.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_stopped_tells_what_is_gone() {
    for after in (0..30).step_by(3).chain([1_000]) {
        let store = Watched::with_epochs(3_500, 5 * MILLISECOND).await;
        let compactor = compactor(Arc::clone(&store) as _, 10);
        let mut told = Report::default();
        let stop = pause(after * MILLISECOND);
        let run = compactor.run_until(stop, |report| told = report.clone());
        let report = run.await.unwrap();
        assert_eq!(told, report, "the last that was told is what came of it");
        assert_eq!(report.interrupted, after < 1_000, "{after} ms: {report}");
        assert_eq!(report.deleted + report.kept, report.listed);
        assert_eq!(store.keys().await, locks(report.deleted + 1..=3_500), "{after} ms: {report}");
        let rest = compactor.run_once().await.unwrap();
        assert_eq!((rest.deleted, rest.interrupted), (3_490 - report.deleted, false));
        assert_eq!(store.keys().await, locks(3_491..=3_500));
    }
}

/// An operator's run was killed; the leader below may believe for hours.
#[tokio::test(start_paused = true)]
async fn nothing_goes_below_an_epoch_that_a_restoring_holds() {
    for epochs in [3, 2_500] {
        let store = Watched::with_epochs(epochs, NO_TIME).await;
        store.inner.create(&lock(9_000), Bytes::from_static(HELD)).await.unwrap();
        store.clock.advance(2 * HOUR);
        let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
        assert!(report.held, "{report}");
        let keys = store.keys().await;
        assert!(keys.ends_with(&[lock(epochs), lock(9_000)]), "{report}");
        assert_eq!(report.deleted, if epochs == 3 { 0 } else { 2_000 }, "before it was seen");
        assert_eq!(keys.len() as u64, epochs + 1 - report.deleted);
    }
}

/// Two operators were killed. The newest was read before the first deletion alone, and only one
/// epoch more than the newest was held back: the second deletion took the living leader's.
#[tokio::test(start_paused = true)]
async fn regression_nothing_goes_below_several_held_epochs_at_the_end_of_a_batch() {
    for held in 2..=4 {
        let store = Watched::with_epochs(2_000, NO_TIME).await;
        for number in 1..=held {
            let key = lock(9_000 + number);
            store.inner.create(&key, Bytes::from_static(HELD)).await.unwrap();
        }
        store.clock.advance(2 * HOUR);
        let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
        assert_eq!((report.held, report.deleted), (true, 1_000), "{held} held: {report}");
        assert!(store.keys().await.contains(&lock(2_000)), "{held} held: she leads");
    }
}

/// A leader of this validity renews every 4 h.
#[tokio::test(start_paused = true)]
async fn nothing_goes_that_is_younger_than_the_validity_that_is_read() {
    const LONG: &[u8] = br#"{"expired":false,"validity_ms":43200000}"#;
    let store = Watched::with_epochs(5, NO_TIME).await;
    store.inner.create(&lock(6), Bytes::from_static(LONG)).await.unwrap();
    let builder = Compactor::builder(Arc::clone(&store) as Arc<dyn Store>, "app").keep_epochs(2);
    let compactor = builder.build().unwrap();
    let report = compactor.run_once().await.unwrap();
    assert_eq!((report.deleted, report.too_young, report.min_age_ms), (0, 4, 43_201_000));
    store.clock.advance(10 * HOUR);
    assert_eq!(compactor.run_once().await.unwrap().deleted, 0, "12 h old");
    store.clock.advance(Duration::from_secs(1));
    assert_eq!(compactor.run_once().await.unwrap().deleted, 4);
    assert_eq!(store.keys().await, locks(5..=6));
}

#[tokio::test(start_paused = true)]
async fn a_newest_epoch_that_cannot_be_read_is_an_error_and_nothing_goes() {
    for (body, kind) in [
        (&b""[..], ErrorKind::CorruptRecord),
        (b"no record", ErrorKind::CorruptRecord),
        (&[b' '; 65 * 1024], ErrorKind::CorruptRecord),
        (br#"{"format":2,"expired":false}"#, ErrorKind::RecordTooNew),
    ] {
        let store = Watched::with_epochs(5, NO_TIME).await;
        store.inner.create(&lock(6), Bytes::from_static(body)).await.unwrap();
        let error = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&lock(6)), "{error}");
        assert_eq!(store.keys().await.len(), 6);
    }
}
