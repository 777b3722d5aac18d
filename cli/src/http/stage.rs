//! The stages of a connection and their time limits.

use std::time::Duration;

use tokio::sync::watch;

use super::{CONNECTION_LIMIT, HANDLER_LIMIT, REQUEST_LIMIT};
use crate::process::timer::pause;

/// The stage of a connection. Each stage has a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The server has not received the whole request.
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

/// Waits until the connection has been in one stage for longer than the time limit of the stage.
pub(super) async fn overdue(mut stage: watch::Receiver<Stage>) {
    loop {
        let limit = stage.borrow_and_update().limit();
        tokio::select! {
            changed = stage.changed() => if changed.is_err() { return },
            () = pause(limit) => return,
        }
    }
}
