//! The stages of a connection and their time limits.

use std::time::Duration;

use tokio::sync::watch;

use super::{CONNECTION_LIMIT, HANDLER_LIMIT, REQUEST_LIMIT};
use crate::process::timer::pause;

/// The stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The request is incomplete.
    Reading,
    Answering,
    Writing,
    /// The connection sends events. The time limit begins again each time the peer reads.
    Streaming,
}

impl Stage {
    /// Returns the time limit of the stage.
    fn limit(self) -> Duration {
        match self {
            Stage::Reading => REQUEST_LIMIT,
            Stage::Writing | Stage::Streaming => CONNECTION_LIMIT,
            Stage::Answering => HANDLER_LIMIT,
        }
    }
}

/// Waits until a stage has exceeded its time limit.
pub(super) async fn overdue(mut stage: watch::Receiver<Stage>) {
    loop {
        let limit = stage.borrow_and_update().limit();
        tokio::select! {
            changed = stage.changed() => if changed.is_err() { return },
            () = pause(limit) => return,
        }
    }
}
