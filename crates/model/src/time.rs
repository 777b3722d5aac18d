//! Simulated time. Each thread has a separate simulated time.

use std::time::Duration;

/// Begins a run on this thread: its simulated time is zero now.
pub fn start() {
    START.with(|start| start.set(Some(instant())));
}

/// Returns the simulated time since the start of the run.
pub fn now() -> Duration {
    START.with(|start| instant() - start.get().expect("a run has begun on this thread"))
}

#[allow(clippy::disallowed_methods, reason = "this function reads simulated time")]
fn instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "this function sleeps in simulated time")]
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

std::thread_local! {
    static START: std::cell::Cell<Option<tokio::time::Instant>> =
        const { std::cell::Cell::new(None) };
}
