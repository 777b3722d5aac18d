//! Waiting: in slices of at most a second, as a timer may stand still while the machine sleeps.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crate::clock::Moment;
use crate::process::Process;
use crate::store::{Happened, StoreError, StoreErrorKind};

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

/// What `future` comes to, or `None` once `limit` has passed by the process's clock. The future is
/// dropped then; what it had sent may still take effect.
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

/// Waits for `duration` where nothing depends on its being exact.
#[allow(clippy::disallowed_methods, reason = "this is where the driver sleeps")]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// The answer to a request that no lease depends on, or an error once `limit` has passed; the
/// request is dropped then.
#[allow(clippy::disallowed_methods, reason = "this is where requests without a lease are bounded")]
pub(crate) async fn within<T>(
    limit: Duration,
    happened: Happened,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(limit, request).await.unwrap_or_else(|_| {
        let why = format!("no answer within {limit:?}");
        Err(StoreError::new(StoreErrorKind::Transient, happened, why))
    })
}

/// Notices when the process was not running for a while: stopped, suspended, or starved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pulse {
    last: Duration,
    longest_gap: Duration,
    /// When the longest gap was over.
    gap_over: Duration,
}

impl Pulse {
    pub(crate) fn new(now: Moment) -> Pulse {
        Pulse { last: now.boot, longest_gap: Duration::ZERO, gap_over: now.boot }
    }

    /// The longest time between two looks at the boot clock since it was made.
    pub(crate) fn longest_gap(&self) -> Duration {
        self.longest_gap
    }

    /// When that was over, on the boot clock.
    pub(crate) fn gap_over(&self) -> Duration {
        self.gap_over
    }

    pub(crate) fn beat(&mut self, now: Moment) {
        let gap = now.boot.saturating_sub(self.last);
        if gap > self.longest_gap {
            (self.longest_gap, self.gap_over) = (gap, now.boot);
        }
        self.last = now.boot;
    }
}
