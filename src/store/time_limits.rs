//! Timeouts of single requests, and of each request of a listing.

use std::any::Any;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt as _;

use crate::env::process::Process;
use crate::env::timer::bounded;

use super::{Determinacy, StoreError, StoreErrorKind};

/// Returns the response to a request. After `limit`, this function drops the request and returns an
/// error. Use it only for requests that no lease depends on.
pub(crate) async fn within<T>(
    limit: Duration,
    determinacy: Determinacy,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timed(limit, caught(request)).await.unwrap_or_else(|| {
        let why = format!("no answer within {limit:?}");
        Err(StoreError::new(StoreErrorKind::Transient, determinacy, why))
    })
}

/// Returns the response to a request, or an error after `limit` by the process's clock.
pub(crate) async fn answer_within<T>(
    process: &Process,
    limit: Duration,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let answer = bounded(process, limit, caught(request)).await;
    answer.unwrap_or_else(|| Err(StoreError::timed_out(format!("no answer within {limit:?}"))))
}

/// Returns the response to a listing. `limit` applies to each page that the listing skips, and to
/// the last page. With one limit for all pages, a listing with many empty pages would time out in
/// every attempt.
pub(crate) async fn listing_within<T>(
    process: &Process,
    limit: Duration,
    listing: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let mut listing = pin!(listing);
    loop {
        let page = answer_or_page(listing.as_mut());
        if let Some(answer) = answer_within(process, limit, page).await? {
            return Ok(answer);
        }
    }
}

thread_local! {
    /// Number of pages that the listings of this thread have skipped.
    static PAGES_READ_PAST: Cell<u64> = const { Cell::new(0) };
}

/// A listing fails after this number of pages without a key. A versioned bucket sends pages without
/// keys for ranges of deleted keys. Each page covers up to 1,000 deleted keys.
#[cfg(any(feature = "s3", feature = "object-store"))]
pub(super) const EMPTY_PAGES: usize = 100;

/// A listing calls this function after each page that has no key for the caller. The listing then
/// requests the next page.
#[cfg(any(test, feature = "s3", feature = "dynamodb", feature = "object-store"))]
pub(super) fn read_past_a_page() {
    PAGES_READ_PAST.set(PAGES_READ_PAST.get().wrapping_add(1));
}

/// Waits until the listing ends or skips a page. Returns the result of the listing, or `None` after
/// a skipped page.
async fn answer_or_page<T>(
    mut listing: Pin<&mut impl Future<Output = Result<T, StoreError>>>,
) -> Result<Option<T>, StoreError> {
    poll_fn(|cx| {
        let before = PAGES_READ_PAST.get();
        match listing.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(answer.map(Some)),
            Poll::Pending if PAGES_READ_PAST.get() != before => Poll::Ready(Ok(None)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Returns the response to a listing that no lease depends on. `limit` applies to each page that
/// the listing skips, and to the last page.
pub(crate) async fn listed_within<T>(
    limit: Duration,
    listing: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let mut listing = pin!(listing);
    loop {
        let page = answer_or_page(listing.as_mut());
        if let Some(answer) = within(limit, Determinacy::Determinate, page).await? {
            return Ok(answer);
        }
    }
}

/// Returns the message of a panic, or an empty string.
pub(super) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// Returns the response to a request. A panic becomes an error, because the SDKs panic if the
/// system cannot start a thread, and the next attempt may succeed.
pub(crate) async fn caught<T>(
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    AssertUnwindSafe(request).catch_unwind().await.unwrap_or_else(|panic| {
        let why = format!("the request panicked: {}", text_of(&*panic));
        Err(StoreError::new(StoreErrorKind::Transient, Determinacy::Indeterminate, why))
    })
}

/// Returns the output of `future`, or `None` after `limit`.
#[allow(clippy::disallowed_methods, reason = "no lease depends on these requests")]
pub(super) async fn timed<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use async_trait::async_trait;
    use bytes::Bytes;
    use tokio::time::Instant;

    use super::*;
    use crate::env::timer::pause;
    use crate::store::{ETag, GetOutcome, MemoryStore, Page, PutOutcome, Store};
    use crate::{Clock, Election, Moment};

    const LIMIT: Duration = Duration::from_secs(1);

    /// Simulates a listing that skips pages, each after a wait.
    async fn listing(pages: &[Duration]) -> Result<usize, StoreError> {
        for page in pages {
            pause(*page).await;
            read_past_a_page();
        }
        Ok(pages.len())
    }

    #[tokio::test(start_paused = true)]
    async fn regression_the_timeout_applies_to_each_page_of_a_listing() {
        let almost = LIMIT - Duration::from_millis(1);
        assert_eq!(listed_within(LIMIT, listing(&[almost; 60])).await.unwrap(), 60);
        let within_one = within(LIMIT, Determinacy::Determinate, listing(&[almost; 2])).await;
        within_one.expect_err("for other requests, one timeout applies to all pages together");
    }

    #[tokio::test(start_paused = true)]
    #[allow(clippy::disallowed_methods, reason = "the test pauses Tokio's clock")]
    async fn a_missing_page_ends_the_listing_after_one_timeout() {
        let pages = [LIMIT / 2, LIMIT / 2, LIMIT * 9];
        let began = Instant::now();
        let error = listed_within(LIMIT, listing(&pages)).await.expect_err("the last page hangs");
        assert!(error.to_string().contains("no answer within 1s"), "{error}");
        assert_eq!(began.elapsed(), LIMIT * 2);
    }

    /// A clock that shows Tokio's paused time.
    #[derive(Debug)]
    struct PausedClock(Instant);

    impl Clock for PausedClock {
        #[allow(clippy::disallowed_methods, reason = "the test pauses Tokio's clock")]
        fn now(&self) -> Moment {
            let since = self.0.elapsed();
            Moment::new(since, since, since)
        }
    }

    /// A store whose listings skip a page every 0.7 s while `is_slow` is true. `longest` is the
    /// greatest number of pages that one listing has skipped.
    #[derive(Debug, Default)]
    struct Pages {
        inner: MemoryStore,
        is_slow: AtomicBool,
        longest: AtomicUsize,
    }

    #[async_trait]
    impl Store for Pages {
        async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
            for page in 1..=20 {
                if self.is_slow.load(Ordering::SeqCst) {
                    pause(Duration::from_millis(700)).await;
                    read_past_a_page();
                    self.longest.fetch_max(page, Ordering::SeqCst);
                }
            }
            self.inner.list(prefix, after, limit).await
        }

        async fn get(
            &self,
            key: &str,
            unless: Option<ETag>,
            max_len: usize,
        ) -> Result<GetOutcome, StoreError> {
            self.inner.get(key, unless, max_len).await
        }

        async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
            self.inner.create(key, body).await
        }

        async fn replace(
            &self,
            key: &str,
            body: Bytes,
            etag: ETag,
        ) -> Result<PutOutcome, StoreError> {
            self.inner.replace(key, body, etag).await
        }

        async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
            self.inner.delete(keys).await
        }

        fn describe(&self) -> String {
            self.inner.describe()
        }
    }

    /// One timeout applies to all pages of a leader's listing together, because the leader needs
    /// the rest of its lease for renewals.
    #[tokio::test(start_paused = true)]
    #[allow(clippy::disallowed_methods, reason = "the test pauses Tokio's clock")]
    async fn one_timeout_applies_to_all_pages_of_a_leaders_listing() {
        let store = Arc::new(Pages::default());
        let clock = Arc::new(PausedClock(Instant::now()));
        let election = Election::builder(Arc::clone(&store) as Arc<dyn Store>, "app")
            .validity(LIMIT * 10)
            .request_timeout(LIMIT * 2)
            .verify_renewals(true)
            .check_store(false)
            .process(Process::system().with_clock(clock));
        let leadership = election.build().unwrap().campaign().await.unwrap();
        store.is_slow.store(true, Ordering::SeqCst);
        leadership.lost().await;
        assert_eq!(store.longest.load(Ordering::SeqCst), 2, "pages in 2 s");
    }
}
