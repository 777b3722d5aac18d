//! Tests of complete runs on a store in memory.

use super::*;

const NO_TIME: Duration = Duration::ZERO;
const MILLISECOND: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_run_deletes_the_superseded_epochs_and_keeps_the_newest() {
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
async fn a_run_without_superseded_epochs_deletes_nothing() {
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
async fn epochs_below_the_minimum_age_are_kept() {
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
async fn a_dry_run_reports_the_counts_of_a_real_one_and_deletes_nothing() {
    let store = Watched::with_epochs(2_500, NO_TIME).await;
    let builder = Compactor::builder(Arc::clone(&store) as Arc<dyn Store>, "app").keep_epochs(3);
    let dry = builder.clone().dry_run(true).build().unwrap().run_once().await.unwrap();
    assert_eq!(store.keys().await.len(), 2_500);
    assert_eq!((dry.requests, dry.dry_run), (7, true));
    let real = builder.build().unwrap().run_once().await.unwrap();
    assert_eq!(real, Report { requests: 10, dry_run: false, ..dry });
}

#[tokio::test(start_paused = true)]
async fn foreign_keys_are_not_counted_or_deleted() {
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
        // This object belongs to another election, whose prefix starts with the same letters.
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
async fn a_run_deletes_nothing_below_the_last_epoch() {
    let store = Watched::with_epochs(30, NO_TIME).await;
    store.put(&lock(9_999_999_999)).await;
    let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
    assert_eq!(store.keys().await.len(), 31);
    assert_eq!(report.newest, Some(Epoch::MAX));
    assert_eq!((report.deleted, report.requests), (0, 1));
    assert!(report.to_string().contains("the newest is the last epoch"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_run_takes_three_requests_per_thousand_epochs() {
    let store = Watched::with_epochs(10_000, NO_TIME).await;
    let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
    assert_eq!((report.deleted, report.kept), (9_999, 1));
    assert_eq!(store.requests.load(Ordering::SeqCst) as u64, report.requests);
    let expected = 3.0 * 10.0;
    assert!((report.requests as f64 - expected).abs() <= expected * 0.01 + 3.0, "{report}");
    assert_eq!(store.keys().await, [lock(10_000)]);
}

#[tokio::test(start_paused = true)]
async fn four_deletions_run_concurrently_with_the_listing() {
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
    // Four of the 11 LISTs come before the first deletion: the LIST for the last possible epoch,
    // and the LISTs of three pages.
    assert_eq!(store.lists_while_deleting.load(Ordering::SeqCst), 7);
    // Sequential requests would take 11 s for listings and 90 s for deletions.
    let took = now() - started;
    assert!(took < Duration::from_secs(35), "{took:?}");
}

/// Before the fix, a run requested the next page only after it had read the newest epoch that the
/// previous page listed. So the run took twice as long.
#[tokio::test(start_paused = true)]
async fn regression_the_next_page_is_listed_during_the_read_of_the_newest_epoch() {
    let second = Duration::from_secs(1);
    let store = Watched::new(second, NO_TIME);
    for number in 1..=10_000 {
        store.put(&lock(number)).await;
    }
    let store = Arc::new(store);
    let started = now();
    let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
    assert_eq!((report.deleted, report.requests), (9_999, 31));
    // The 11 LISTs, and two GETs at the end of the run, are sequential. The other eight GETs
    // overlap with LISTs.
    let took = now() - started;
    assert!(took <= second * 13, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_at_any_point_needs_no_repair() {
    let mut unfinished = 0;
    // A run waits for 4 LISTs, 2 GETs and the last DELETE, 3 ms each. So the run takes 21 ms, which
    // is less than the greatest `dropped_after`.
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

/// A run that is stopped at any point reports exactly the deleted epochs, which are the oldest. The
/// next run deletes the rest.
#[tokio::test(start_paused = true)]
async fn a_stopped_run_reports_the_deleted_epochs() {
    for after in (0..30).step_by(3).chain([1_000]) {
        let store = Watched::with_epochs(3_500, 5 * MILLISECOND).await;
        let compactor = compactor(Arc::clone(&store) as _, 10);
        let mut last_progress = Report::default();
        let stop = pause(after * MILLISECOND);
        let run = compactor.run_until(stop, |report| last_progress = report.clone());
        let report = run.await.unwrap();
        assert_eq!(last_progress, report, "the last progress equals the report");
        assert_eq!(report.interrupted, after < 1_000, "{after} ms: {report}");
        assert_eq!(report.deleted + report.kept, report.listed);
        assert_eq!(store.keys().await, locks(report.deleted + 1..=3_500), "{after} ms: {report}");
        let rest = compactor.run_once().await.unwrap();
        assert_eq!((rest.deleted, rest.interrupted), (3_490 - report.deleted, false));
        assert_eq!(store.keys().await, locks(3_491..=3_500));
    }
}

/// A killed restore left epoch 9000 held. The leader of the greatest epoch below 9000 may believe
/// for hours that it leads, so a run must not delete the epoch of this leader.
#[tokio::test(start_paused = true)]
async fn a_run_deletes_nothing_below_a_held_epoch() {
    for epochs in [3, 2_500] {
        let store = Watched::with_epochs(epochs, NO_TIME).await;
        store.inner.create(&lock(9_000), Bytes::from_static(HELD)).await.unwrap();
        store.clock.advance(2 * HOUR);
        let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
        assert!(report.held, "{report}");
        let keys = store.keys().await;
        assert!(keys.ends_with(&[lock(epochs), lock(9_000)]), "{report}");
        assert_eq!(
            report.deleted,
            if epochs == 3 { 0 } else { 2_000 },
            "only epochs on the pages before the held epoch are deleted"
        );
        assert_eq!(keys.len() as u64, epochs + 1 - report.deleted);
    }
}

/// Killed restores left several epochs held. Before the fix, a run read the newest epoch only
/// before its first deletion, and protected only one epoch below the newest. So the second deletion
/// deleted the epoch of the living leader.
#[tokio::test(start_paused = true)]
async fn regression_a_run_deletes_nothing_below_several_held_epochs() {
    for held in 2..=4 {
        let store = Watched::with_epochs(2_000, NO_TIME).await;
        for number in 1..=held {
            let key = lock(9_000 + number);
            store.inner.create(&key, Bytes::from_static(HELD)).await.unwrap();
        }
        store.clock.advance(2 * HOUR);
        let report = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap();
        assert_eq!((report.held, report.deleted), (true, 1_000), "{held} held epochs: {report}");
        assert!(
            store.keys().await.contains(&lock(2_000)),
            "{held} held epochs: epoch 2000 has a leader"
        );
    }
}

/// The newest record has a validity of 12 h, so its leader may renew only every 4 h. The run keeps
/// all lower epochs that are younger than this validity.
#[tokio::test(start_paused = true)]
async fn epochs_younger_than_the_validity_in_the_newest_record_are_kept() {
    const LONG: &[u8] = br#"{"expired":false,"validity_ms":43200000}"#;
    let store = Watched::with_epochs(5, NO_TIME).await;
    store.inner.create(&lock(6), Bytes::from_static(LONG)).await.unwrap();
    let builder = Compactor::builder(Arc::clone(&store) as Arc<dyn Store>, "app").keep_epochs(2);
    let compactor = builder.build().unwrap();
    let report = compactor.run_once().await.unwrap();
    assert_eq!((report.deleted, report.too_young, report.min_age_ms), (0, 4, 43_201_000));
    store.clock.advance(10 * HOUR);
    assert_eq!(
        compactor.run_once().await.unwrap().deleted,
        0,
        "12 h old, which is 1 s below the least age"
    );
    store.clock.advance(Duration::from_secs(1));
    assert_eq!(compactor.run_once().await.unwrap().deleted, 4);
    assert_eq!(store.keys().await, locks(5..=6));
}

#[tokio::test(start_paused = true)]
async fn a_run_fails_without_deletions_if_the_newest_epoch_is_unreadable() {
    for (body, kind) in [
        (&b""[..], ErrorKind::CorruptRecord),
        (b"no record", ErrorKind::CorruptRecord),
        (&[b' '; 65 * 1024], ErrorKind::CorruptRecord),
        (br#"{"format":3,"expired":false}"#, ErrorKind::RecordTooNew),
    ] {
        let store = Watched::with_epochs(5, NO_TIME).await;
        store.inner.create(&lock(6), Bytes::from_static(body)).await.unwrap();
        let error = compactor(Arc::clone(&store) as _, 1).run_once().await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(&lock(6)), "{error}");
        assert_eq!(store.keys().await.len(), 6);
    }
}
