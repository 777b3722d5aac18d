//! Simulated time, of one run on each thread.

use std::time::Duration;

/// A run begins now on this thread.
pub fn start() {
    START.with(|start| start.set(Some(instant())));
}

/// Simulated time since the start of the run.
pub fn now() -> Duration {
    START.with(|start| instant() - start.get().expect("a run has begun on this thread"))
}

#[allow(clippy::disallowed_methods, reason = "this is where simulated time is read")]
fn instant() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

#[allow(clippy::disallowed_methods, reason = "this is where the simulation sleeps")]
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

std::thread_local! {
    static START: std::cell::Cell<Option<tokio::time::Instant>> =
        const { std::cell::Cell::new(None) };
}
