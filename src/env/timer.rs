//! Waits, in slices of at most a second: a timer may stand still while the machine sleeps. All
//! waits go through here; `store/within.rs` bounds single requests. Checks, too, that there are
//! timers.

use std::future::Future;
use std::panic::catch_unwind;
use std::pin::pin;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::env::process::Process;
use crate::error::{Error, ErrorKind};
use crate::store::{StoreError, answer_or_page, caught};

/// How often a wait looks at the clock, at least.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

/// Waits for `duration` by the process's clock.
pub(crate) async fn sleep(process: &Process, duration: Duration) {
    let end = process.now().boot.saturating_add(duration);
    loop {
        let left = end.saturating_sub(process.now().boot);
        if left.is_zero() {
            return;
        }
        pause(left.min(LOOK)).await;
    }
}

/// Returns the output of `future`, or `None` once `limit` has passed by the process's clock. The
/// future is then dropped; what it had sent may still take effect.
pub(crate) async fn bounded<F: Future>(
    process: &Process,
    limit: Duration,
    future: F,
) -> Option<F::Output> {
    let end = process.now().boot.saturating_add(limit);
    let mut future = pin!(future);
    loop {
        let left = end.saturating_sub(process.now().boot);
        if left.is_zero() {
            return None;
        }
        tokio::select! {
            biased;
            output = &mut future => return Some(output),
            () = pause(left.min(LOOK)) => {}
        }
    }
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

/// Waits for `duration` where nothing depends on its being exact.
#[allow(clippy::disallowed_methods, reason = "this is the only sleep")]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Refuses a call outside of a Tokio runtime with timers, before its first request. Without this
/// check a campaign wins its epoch first and panics then.
pub(crate) fn require_timers() -> Result<(), Error> {
    if Handle::try_current().is_err() {
        return refuse(
            "this call needs a Tokio runtime and runs outside of one: call it from a task of a \
             runtime, or within Runtime::block_on or Runtime::enter",
        );
    }
    // Tokio has no call that tells whether timers are enabled: making one panics if not.
    #[allow(clippy::disallowed_methods, reason = "it is dropped at once")]
    let timer = catch_unwind(|| drop(tokio::time::sleep(Duration::ZERO)));
    timer.or_else(|_| {
        refuse(
            "this Tokio runtime has no timers: build it with enable_time or enable_all of \
             tokio::runtime::Builder",
        )
    })
}

fn refuse(why: &str) -> Result<(), Error> {
    Err(Error::new(ErrorKind::NoRuntime, why))
}
