//! Tests of runs on prepared listings.

use super::*;

fn entry(key: &str) -> Entry {
    Entry::new(key, 7).with_last_modified(DateTime::UNIX_EPOCH)
}

fn page(keys: &[&str], truncated: bool) -> Page {
    let entries = keys.iter().map(|key| entry(key)).collect();
    let served_at = DateTime::from_timestamp(7200, 0);
    Page::new(entries, truncated).with_served_at(served_at)
}

/// Makes a store that expects exactly these LISTs. Each element is the `start-after` key of a LIST,
/// and the page that answers it.
fn listings(expected: Vec<(String, Page)>) -> MockStore {
    let mut store = MockStore::new();
    answers_reads(&mut store);
    store.expect_describe().returning(|| "mock".to_owned());
    let times = expected.len();
    let expected = Mutex::new(expected.into_iter());
    store.expect_list().times(times).returning(move |prefix, after, limit| {
        assert_eq!((prefix, limit), ("app/lock-", 1000));
        let (starts_after, page) = expected.lock().unwrap().next().unwrap();
        assert_eq!(after, starts_after);
        Ok(page)
    });
    store
}

/// Makes a store for one run. The store first expects the LIST for the last possible epoch (C2),
/// and then one LIST for each of these pages.
fn run_of(pages: Vec<(String, Page)>) -> MockStore {
    let first = (lock(9_999_999_998), page(&[], false));
    listings(std::iter::once(first).chain(pages).collect())
}

/// Expects one deletion of exactly these epochs.
fn deleting(store: &mut MockStore, numbers: &[u64]) {
    let expected = locks(numbers.iter().copied());
    store.expect_delete().times(1).returning(move |keys| {
        assert_eq!(keys, expected);
        Ok(Vec::new())
    });
}

async fn refused(store: MockStore) -> Error {
    compactor(Arc::new(store), 1).run_once().await.unwrap_err()
}

#[tokio::test]
async fn a_listing_continues_after_the_last_key_of_a_short_page() {
    let bak = format!("{}.bak", lock(2));
    let mut store = run_of(vec![
        (lock(0), page(&[&lock(1)], true)),
        (lock(1), page(&[&lock(2), &bak], true)),
        (bak.clone(), page(&["app/lock-00000000021.json", &lock(5)], true)),
        (lock(5), page(&[], false)),
    ]);
    deleting(&mut store, &[1, 2]);
    let report = compactor(Arc::new(store), 1).run_once().await.unwrap();
    assert_eq!((report.listed, report.deleted, report.kept), (3, 2, 1));
    assert_eq!((report.bytes, report.requests, report.newest), (14, 7, Epoch::new(5)));
}

#[tokio::test]
async fn a_listing_ends_at_a_key_after_the_last_epoch() {
    let store = listings(vec![
        (lock(9_999_999_998), page(&["app/lock-x"], true)),
        (lock(0), page(&[&lock(1), "app/lock-99999999991.json", "app/lock-x"], true)),
    ]);
    let report = compactor(Arc::new(store), 1).run_once().await.unwrap();
    assert_eq!((report.listed, report.kept, report.requests), (1, 1, 2));
}

#[tokio::test]
async fn a_foreign_key_does_not_hide_the_last_epoch() {
    let bak = format!("{}.bak", lock(9_999_999_998));
    let store = listings(vec![
        (lock(9_999_999_998), page(&[&bak], true)),
        (bak, page(&[&lock(9_999_999_999)], false)),
    ]);
    let report = compactor(Arc::new(store), 1).run_once().await.unwrap();
    assert_eq!((report.deleted, report.requests), (0, 2));
    assert_eq!(report.newest, Some(Epoch::MAX));
}

#[tokio::test]
async fn a_run_stops_if_the_last_epoch_is_created_meanwhile() {
    let store = run_of(vec![
        (lock(0), page(&[&lock(1), &lock(2), &lock(3)], true)),
        (lock(3), page(&[&lock(9_999_999_999)], false)),
    ]);
    let report = compactor(Arc::new(store), 1).run_once().await.unwrap();
    assert_eq!((report.listed, report.deleted, report.kept), (4, 0, 4));
}

#[tokio::test]
async fn errors_name_keys_that_are_out_of_order_or_repeated() {
    let (one, two) = (lock(1), lock(2));
    for keys in [[&two, &one], [&two, &two]] {
        let store = run_of(vec![(lock(0), page(&[keys[0], keys[1]], false))]);
        let error = refused(store).await;
        assert_eq!(error.kind(), ErrorKind::UnsafeStore);
        let message = error.to_string();
        assert!(message.contains(keys[0]) && message.contains(keys[1]), "{message}");
    }
    let again = vec![(lock(0), page(&[&one, &two], true)), (lock(2), page(&[&two], false))];
    // The second page repeats epoch 2. Epoch 1 is deletable, but its batch is not full, so the run
    // fails before it sends a deletion.
    let error = refused(run_of(again)).await;
    assert_eq!(error.kind(), ErrorKind::UnsafeStore);
    let store = run_of(vec![(lock(0), page(&[&lock(0)], false))]);
    assert_eq!(refused(store).await.kind(), ErrorKind::UnsafeStore);
    // A wrong order of keys shows that the store is unsafe, even if the keys are not epochs.
    let store = run_of(vec![(lock(0), page(&["app/lock-b", "app/lock-a"], false))]);
    assert_eq!(refused(store).await.kind(), ErrorKind::UnsafeStore);
}

#[tokio::test]
async fn keys_of_another_prefix_are_refused() {
    let store = run_of(vec![(lock(0), page(&["apq/lock-0000000001.json"], false))]);
    let error = refused(store).await;
    assert_eq!(error.kind(), ErrorKind::UnsafeStore);
    assert!(error.to_string().contains("apq/lock-0000000001.json"), "{error}");
}

#[tokio::test]
async fn a_truncated_page_without_keys_ends_the_run() {
    let store = run_of(vec![(lock(0), page(&[], true))]);
    let error = refused(store).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(&lock(0)), "{error}");
}

#[tokio::test]
async fn an_object_with_a_missing_date_is_never_old_enough() {
    let undated = |page: &mut Page| page.entries.iter_mut().for_each(|e| e.last_modified = None);
    let unserved = |page: &mut Page| page.served_at = None;
    let from_the_future = |page: &mut Page| page.served_at = Some(DateTime::<Utc>::MIN_UTC);
    for lose_a_date in [undated as fn(&mut Page), unserved, from_the_future] {
        for min_age in [Duration::ZERO, HOUR] {
            let mut page = page(&[&lock(1), &lock(2)], false);
            lose_a_date(&mut page);
            let mut store = run_of(vec![(lock(0), page)]);
            if min_age.is_zero() {
                deleting(&mut store, &[1]);
            }
            let builder = Compactor::builder(Arc::new(store), "app").keep_epochs(1);
            let report = builder.min_age(min_age).build().unwrap().run_once().await.unwrap();
            assert_eq!(report.deleted, u64::from(min_age.is_zero()));
        }
    }
}

/// Runs a compactor on the epochs 1 to 5. The compactor keeps only one epoch, and the store answers
/// the deletion with `outcome`.
async fn with_answer(
    outcome: Result<Vec<(String, StoreError)>, StoreError>,
) -> Result<Report, Error> {
    let keys = locks(1..=5);
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut store = run_of(vec![(lock(0), page(&keys, false))]);
    store.expect_delete().times(1).return_once(move |_| outcome);
    compactor(Arc::new(store), 1).run_once().await
}

#[tokio::test]
async fn failed_keys_are_counted_and_the_first_reason_is_kept() {
    let failed = vec![(lock(2), busy("InternalError")), (lock(3), busy("SlowDown"))];
    let report = with_answer(Ok(failed)).await.unwrap();
    assert_eq!((report.listed, report.deleted, report.kept, report.failed), (5, 2, 1, 2));
    assert_eq!(report.bytes, 14);
    assert_eq!(report.first_failure, Some(format!("{}: InternalError", lock(2))));
    // The store may report failures for keys that the run did not request. Each of these keys
    // counts as one failure, up to the number of requested keys.
    for (named, failed) in [(1, 1), (9, 4)] {
        let unknown = vec![("x".to_owned(), busy("?")); named];
        let report = with_answer(Ok(unknown)).await.unwrap();
        assert_eq!((report.deleted, report.failed, report.kept), (4 - failed, failed, 1));
    }
}

/// Before the fix, the report of a compaction had no `ErrorKind`, so the command derived its exit
/// code from the text of the first failure.
#[tokio::test]
async fn regression_the_first_failure_has_a_kind() {
    let text = "AccessDenied: no such permission";
    let denied = StoreError::new(StoreErrorKind::AccessDenied, Determinacy::Determinate, "no");
    for (error, kind) in [(busy(text), ErrorKind::Unavailable), (denied, ErrorKind::AccessDenied)] {
        let failed = vec![(lock(2), error), (lock(3), busy("SlowDown"))];
        let report = with_answer(Ok(failed)).await.unwrap();
        assert_eq!(report.first_failure_kind, Some(kind));
    }
    assert_eq!(with_answer(Ok(Vec::new())).await.unwrap().first_failure_kind, None);
}

#[tokio::test]
async fn errors_of_deletions_contain_the_text_of_the_store() {
    let denied = StoreError::new(StoreErrorKind::AccessDenied, Determinacy::Determinate, "403");
    let error = with_answer(Err(denied)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied);
    assert_eq!(error.to_string(), "deleting 4 superseded epochs in mock: 403");
    let busy =
        StoreError::new(StoreErrorKind::Transient, Determinacy::Indeterminate, "503 SlowDown");
    assert_eq!(with_answer(Err(busy)).await.unwrap_err().kind(), ErrorKind::Unavailable);
}
