//! Waits for a duration in steps of at most a second, because a timer may stop during a suspension
//! of the machine. All waits use this module, except the timeouts in `store/time_limits.rs`.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use crate::env::process::Process;

/// Maximum time between two readings of the clock during a wait.
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

/// Returns the output of `future`, or `None` after `limit` by the process's clock. After the limit
/// the future is dropped, and a request that it has sent may still take effect.
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

/// Waits for about `duration`. This function uses only Tokio's timer, and does not read the clock.
#[allow(clippy::disallowed_methods, reason = "this is the only sleep")]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}
