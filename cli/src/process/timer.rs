//! Sleeps for async code and for threads.

use std::thread;
use std::time::Duration;

#[allow(clippy::disallowed_methods, reason = "the command is not simulated, and has no driver")]
pub async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Blocks the thread. Only a process without other work may call this function, such as the
/// standby, which replaces a killed guard.
#[allow(clippy::disallowed_methods, reason = "the guard and the standby run no async code")]
pub fn block_for(duration: Duration) {
    thread::sleep(duration);
}
