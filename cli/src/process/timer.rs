//! Waiting.

use std::time::Duration;

#[allow(clippy::disallowed_methods, reason = "the command is not simulated, and has no driver")]
pub async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}
