//! A bound on a single request, and on each request of a listing.

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

/// The answer to a request that no lease depends on, or an error once `limit` has passed; the
/// request is dropped then.
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

/// The store's answer to a request, or an error once `limit` has passed by the process's clock.
pub(crate) async fn answer_within<T>(
    process: &Process,
    limit: Duration,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let answer = bounded(process, limit, caught(request)).await;
    answer.unwrap_or_else(|| Err(StoreError::timed_out(format!("no answer within {limit:?}"))))
}

/// The store's answer to a listing. `limit` bounds each page that it reads past, and the last one:
/// started again, a listing of many pages without keys would never end.
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
    /// Pages that the listings of this thread have read past.
    static PAGES_READ_PAST: Cell<u64> = const { Cell::new(0) };
}

/// How many pages without a key one listing reads past. A versioned bucket answers such pages where
/// many keys in a row were deleted, up to 1,000 a page.
#[cfg(any(feature = "s3", feature = "object-store"))]
pub(super) const EMPTY_PAGES: usize = 100;

/// Notes that the listing that is being polled has received a page without an answer for its
/// caller, and sends another request.
#[cfg(any(test, feature = "s3", feature = "dynamodb", feature = "object-store"))]
pub(super) fn read_past_a_page() {
    PAGES_READ_PAST.set(PAGES_READ_PAST.get().wrapping_add(1));
}

/// Returns the answer to a listing, or `None` as soon as the listing has read past a page.
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

/// The answer to a listing that no lease depends on. `limit` bounds each page that it reads past,
/// and the last one.
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

/// The text of a panic, or nothing if it has none.
pub(super) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

/// The answer to a request. One that panics has failed: the SDKs do where the system has no thread
/// left, and the next attempt may find one.
pub(crate) async fn caught<T>(
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    AssertUnwindSafe(request).catch_unwind().await.unwrap_or_else(|panic| {
        let why = format!("the request panicked: {}", text_of(&*panic));
        Err(StoreError::new(StoreErrorKind::Transient, Determinacy::Indeterminate, why))
    })
}

/// The output of `future`, or `None` once `limit` has passed.
#[allow(clippy::disallowed_methods, reason = "this is where requests without a lease are bounded")]
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

    /// A listing that reads past pages, and waits for each of them.
    async fn listing(pages: &[Duration]) -> Result<usize, StoreError> {
        for page in pages {
            pause(*page).await;
            read_past_a_page();
        }
        Ok(pages.len())
    }

    #[tokio::test(start_paused = true)]
    async fn regression_a_listing_has_the_timeout_for_each_page() {
        let almost = LIMIT - Duration::from_millis(1);
        assert_eq!(listed_within(LIMIT, listing(&[almost; 60])).await.unwrap(), 60);
        let within_one = within(LIMIT, Determinacy::Determinate, listing(&[almost; 2])).await;
        within_one.expect_err("other requests have the timeout as a whole");
    }

    #[tokio::test(start_paused = true)]
    #[allow(clippy::disallowed_methods, reason = "the time is Tokio's, and paused")]
    async fn a_page_that_does_not_come_ends_the_listing_after_one_timeout() {
        let pages = [LIMIT / 2, LIMIT / 2, LIMIT * 9];
        let began = Instant::now();
        let error = listed_within(LIMIT, listing(&pages)).await.expect_err("the last one hangs");
        assert!(error.to_string().contains("no answer within 1s"), "{error}");
        assert_eq!(began.elapsed(), LIMIT * 2);
    }

    /// The paused time of Tokio.
    #[derive(Debug)]
    struct PausedClock(Instant);

    impl Clock for PausedClock {
        #[allow(clippy::disallowed_methods, reason = "tokio's clock is the test's")]
        fn now(&self) -> Moment {
            let since = self.0.elapsed();
            Moment::new(since, since, since)
        }
    }

    /// While it is slow, a listing reads past a page every 0.7 s. Keeps the number of pages that
    /// the longest listing has read past.
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

    /// A leader must renew in time.
    #[tokio::test(start_paused = true)]
    #[allow(clippy::disallowed_methods, reason = "tokio's clock is the test's")]
    async fn a_listing_of_a_leader_has_the_timeout_as_a_whole() {
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
