//! Tests of invalid settings, failing stores and repeated runs.

use futures::future::{BoxFuture, FutureExt as _};

use super::*;
use tenure_testkit::logged::logged;

fn memory() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

/// Makes a store without epochs. Each element of `first` determines the answer to one LIST: an
/// error of the given kind, or an empty page for `None`. All later LISTs succeed.
fn failing<K: Into<Option<StoreErrorKind>>>(first: Vec<K>) -> MockStore {
    let mut store = MockStore::new();
    store.expect_describe().returning(|| "mock".to_owned());
    let first: Vec<Option<StoreErrorKind>> = first.into_iter().map(Into::into).collect();
    let first = Mutex::new(first.into_iter());
    store.expect_list().returning(move |_, _, _| match first.lock().unwrap().next().flatten() {
        Some(kind) => Err(StoreError::new(kind, Determinacy::Determinate, "injected failure")),
        None => Ok(Page::default()),
    });
    store
}

#[test]
fn errors_of_settings_contain_the_refused_values() {
    let refused = |builder: CompactorBuilder| {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    let builder = || Compactor::builder(memory(), "app");
    for keep in [0, 100_001, usize::MAX] {
        let message = refused(builder().keep_epochs(keep));
        assert!(
            message.contains(&keep.to_string()) && message.contains("1 and 100000"),
            "{message}"
        );
    }
    assert!(refused(builder().request_timeout(Duration::ZERO)).contains("0 s"));
    assert!(refused(Compactor::builder(memory(), "a//b")).contains("a//b"));
    for keep in [1, 100_000] {
        builder().keep_epochs(keep).min_age(Duration::MAX).build().unwrap();
    }
    let shown = format!("{:?}", builder());
    assert!(shown.contains("app"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_ignores_start_after_is_refused_at_the_first_request() {
    let mut store = MockStore::new();
    store.expect_describe().returning(|| "from the start".to_owned());
    store.expect_list().times(1).returning(|_, _, _| {
        let entries = locks(1..=3).into_iter().map(|key| Entry::new(key, 10)).collect();
        Ok(Page { entries, ..Page::default() })
    });
    let error = compactor(Arc::new(store), 1).run_once().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsafeStore);
    assert!(error.to_string().contains(&lock(1)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn requests_without_an_answer_time_out() {
    let long = Duration::from_secs(100_000);
    for (list_takes, delete_takes) in [(long, Duration::ZERO), (Duration::ZERO, long)] {
        let store = Watched::new(list_takes, delete_takes);
        store.put(&lock(1)).await;
        store.put(&lock(2)).await;
        let builder = Compactor::builder(Arc::new(store), "app").keep_epochs(1);
        let builder = builder.min_age(Duration::ZERO).request_timeout(Duration::from_secs(5));
        let started = now();
        let error = builder.build().unwrap().run_once().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("no answer within 5s"), "{error}");
        let doubtful = error.to_string().contains("may have taken effect");
        assert_eq!(doubtful, delete_takes == long, "{error}");
        let took = now() - started;
        assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(6), "{took:?}");
    }
}

/// If a deletion gets no answer, its effect is unknown. So its epochs count as failed, and not as
/// deleted.
#[tokio::test(start_paused = true)]
async fn a_stopped_run_counts_deletions_without_an_answer_as_failed() {
    let store = Watched::new(Duration::ZERO, Duration::from_secs(100_000));
    for number in 1..=2_500 {
        store.put(&lock(number)).await;
    }
    let builder = Compactor::builder(Arc::new(store), "app").keep_epochs(1);
    let builder = builder.min_age(Duration::ZERO).request_timeout(Duration::from_secs(5));
    let stop = pause(Duration::from_secs(1));
    let report = builder.build().unwrap().run_until(stop, |_| {}).await.unwrap();
    assert!(report.interrupted);
    assert_eq!((report.deleted, report.failed, report.kept), (0, 2_499, 1), "{report}");
    let why = report.first_failure.as_deref().unwrap_or_default();
    assert!(why.contains("no answer within 5s"), "{why}");
}

/// Makes a store that has epochs `1..=epochs`, and that fails to delete any of them.
fn keeping(epochs: u64) -> MockStore {
    let mut store = MockStore::new();
    answers_reads(&mut store);
    store.expect_describe().returning(|| "keeps all".to_owned());
    store.expect_list().returning(move |_, after, _| {
        let listed = locks(1..=epochs).into_iter().filter(|key| key.as_str() > after);
        let entry = |key| Entry::new(key, 10).with_last_modified(DateTime::UNIX_EPOCH);
        let served_at = Some(DateTime::UNIX_EPOCH + 2 * HOUR);
        Ok(Page::new(listed.map(entry).collect(), false).with_served_at(served_at))
    });
    store
        .expect_delete()
        .returning(|keys| Ok(keys.into_iter().map(|key| (key, busy("held"))).collect()));
    store
}

#[tokio::test(start_paused = true)]
async fn failed_deletions_do_not_count_as_too_young() {
    let report = compactor(Arc::new(keeping(4)), 1).run_once().await.unwrap();
    assert_eq!((report.failed, report.kept, report.too_young), (3, 1, 0), "{report}");
}

#[tokio::test(start_paused = true)]
async fn each_outcome_of_a_run_has_a_log_line_and_level() {
    let watched = async |epochs| Watched::with_epochs(epochs, Duration::ZERO).await;
    let never = future::pending::<()>;
    let log_of = async |store: Arc<dyn Store>, stop: BoxFuture<'static, ()>| {
        let compactor = compactor(store, 1);
        logged(compactor.run_until(stop, |_| {})).await.1
    };
    let last = watched(3).await;
    last.put(&lock(9_999_999_999)).await;
    let held = watched(3).await;
    held.inner.create(&lock(9), Bytes::from_static(HELD)).await.unwrap();
    let slow = Watched::with_epochs(3, Duration::from_secs(1)).await;
    for (log, level, message, outcome) in [
        (log_of(watched(3).await, never().boxed()).await, "INFO", "compacted", "compacted"),
        (log_of(watched(1).await, never().boxed()).await, "DEBUG", "nothing to compact", "nothing"),
        (
            log_of(Arc::new(keeping(3)), never().boxed()).await,
            "WARN",
            "some objects could not be deleted",
            "incomplete",
        ),
        (
            log_of(last, never().boxed()).await,
            "WARN",
            "stopped: the newest is the last epoch",
            "last_epoch",
        ),
        (
            log_of(held, never().boxed()).await,
            "WARN",
            "stopped: an unfinished restore holds the newest epoch",
            "held",
        ),
        (
            log_of(slow, future::ready(()).boxed()).await,
            "INFO",
            "compaction interrupted",
            "interrupted",
        ),
        (
            log_of(Arc::new(failing(vec![StoreErrorKind::Transient])), never().boxed()).await,
            "WARN",
            "compaction ended early",
            "error",
        ),
    ] {
        let words = format!("outcome=\"{outcome}\"");
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(&words)).collect();
        let [line] = lines[..] else { panic!("expected one line with {outcome}, got {log}") };
        assert!(line.contains(level) && line.contains(message), "{outcome}: {line}");
    }
}

#[tokio::test(start_paused = true)]
async fn run_every_runs_immediately_and_after_each_interval() {
    let store = Watched::with_epochs(2, Duration::ZERO).await;
    let compactor = compactor(Arc::clone(&store) as _, 1);
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let shutdown = async { stopped.await.unwrap_or_default() };
        compactor.run_every(HOUR, shutdown).await
    });
    for number in 2..=4 {
        pause(Duration::from_secs(1)).await;
        assert_eq!(store.keys().await, [lock(number)]);
        store.put(&lock(number + 1)).await;
        pause(HOUR - Duration::from_secs(2)).await;
        assert_eq!(store.keys().await, locks([number, number + 1]));
        pause(Duration::from_secs(1)).await;
    }
    stop.send(()).unwrap();
    task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_run_in_progress() {
    let store = Watched::with_epochs(2, Duration::from_secs(20)).await;
    let started = now();
    let compactor = compactor(Arc::clone(&store) as _, 1);
    compactor.run_every(HOUR, pause(Duration::from_secs(3))).await.unwrap();
    assert_eq!(now() - started, Duration::from_secs(3));
    assert_eq!(store.keys().await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn regression_run_every_ends_only_if_its_settings_are_wrong() {
    use StoreErrorKind::{AccessDenied, NoSuchStore, Transient, Unsupported};
    let compactor = |first| compactor(Arc::new(failing(first)), 1);
    let patient = compactor(vec![Transient, AccessDenied, NoSuchStore]);
    let shutdown = pause(3 * HOUR + Duration::from_secs(1));
    patient.run_every(HOUR, shutdown).await.unwrap();
    let started = now();
    let unsafe_store = compactor(vec![Transient, Unsupported]);
    let error = unsafe_store.run_every(HOUR, std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsafeStore);
    assert_eq!((now() - started).as_secs(), HOUR.as_secs());
    // After a successful run the settings count as correct, so a later error `Invalid` does not end
    // `run_every`.
    let worked = Arc::new(failing(vec![None, None, None, Some(StoreErrorKind::Invalid)]));
    let shutdown = pause(3 * HOUR + Duration::from_secs(1));
    super::compactor(worked, 1).run_every(HOUR, shutdown).await.unwrap();
    let error = compactor(vec![AccessDenied]).run_once().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied);
}

#[tokio::test]
async fn an_interval_of_zero_is_refused() {
    let compactor = compactor(memory(), 1);
    let error = compactor.run_every(Duration::ZERO, std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
