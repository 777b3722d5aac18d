//! A bound on a single request.

use std::future::Future;
use std::time::Duration;

use super::{Determinacy, StoreError, StoreErrorKind};

/// The answer to a request that no lease depends on, or an error once `limit` has passed; the
/// request is dropped then.
pub(crate) async fn within<T>(
    limit: Duration,
    determinacy: Determinacy,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    timed(limit, request).await.unwrap_or_else(|| {
        let why = format!("no answer within {limit:?}");
        Err(StoreError::new(StoreErrorKind::Transient, determinacy, why))
    })
}

/// The output of `future`, or `None` once `limit` has passed.
#[allow(clippy::disallowed_methods, reason = "this is where requests without a lease are bounded")]
pub(super) async fn timed<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    tokio::time::timeout(limit, future).await.ok()
}
