//! How far a connection is, and how long each stage may last.

use std::time::Duration;

use tokio::sync::watch;

use super::{CONNECTION_LIMIT, HANDLER_LIMIT, REQUEST_LIMIT};
use crate::process::timer::pause;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its request has not come as a whole.
    Reading,
    Answering,
    Writing,
    /// Sends events. Set again each time the peer takes more.
    Streaming,
}

impl Stage {
    /// How long it may last.
    fn limit(self) -> Duration {
        match self {
            Stage::Reading => REQUEST_LIMIT,
            Stage::Writing | Stage::Streaming => CONNECTION_LIMIT,
            Stage::Answering => HANDLER_LIMIT,
        }
    }
}

/// Waits until a stage has lasted too long.
pub(super) async fn overdue(mut stage: watch::Receiver<Stage>) {
    loop {
        let limit = stage.borrow_and_update().limit();
        tokio::select! {
            changed = stage.changed() => if changed.is_err() { return },
            () = pause(limit) => return,
        }
    }
}
