//! Waits, in slices of at most a second, as a timer may stop while the machine sleeps. All waits
//! use this module; `store/time_limits.rs` bounds single requests.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crate::env::process::Process;

/// Greatest time between two readings of the clock in a wait.
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
/// future is then dropped; a request that it had sent may still take effect.
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

/// Waits for about `duration`, by the timer alone.
#[allow(clippy::disallowed_methods, reason = "this is the only sleep")]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}
