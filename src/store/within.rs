//! A bound on a single request.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;

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

/// The answer to a request. One that panics has failed: the SDKs do where the system has no thread
/// left, and the next attempt may find one.
pub(crate) async fn caught<T>(
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    AssertUnwindSafe(request).catch_unwind().await.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        let why = format!("the request panicked: {}", text.unwrap_or_default());
        Err(StoreError::new(StoreErrorKind::Transient, Determinacy::Indeterminate, why))
    })
}

/// The output of `future`, or `None` once `limit` has passed.
#[allow(clippy::disallowed_methods, reason = "this is where requests without a lease are bounded")]
pub(super) async fn timed<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}
