//! The end of CMD and of what it leaves behind, whatever it ran for.

use std::ffi::OsString;
use std::time::Duration;

use tracing::{info, warn};

use crate::group::{Group, Left};
use crate::print::{in_ms, plain};
use crate::timer::pause;

/// For how long nothing is done about what CMD leaves behind: most often nothing is left.
const UNTIL_THE_REST_IS_TOLD: Duration = Duration::from_millis(200);

/// Watches over a group while it waits.
pub trait Watching<'a> {
    fn group(&self) -> &'a Group;

    /// Between SIGTERM and SIGKILL.
    fn grace(&self) -> Duration;

    /// Whether the group is killed already, or gets its SIGTERM for the end of the lease.
    fn lost(&self) -> bool;

    /// Waits for what is to come, and watches meanwhile.
    async fn until<T>(&mut self, what: impl Future<Output = T>) -> T;

    /// CMD has ended: sees to the end of the processes that it left behind.
    async fn end_the_rest(&mut self) -> Left {
        if let Some(left) = self.gone_within(UNTIL_THE_REST_IS_TOLD).await {
            return left;
        }
        self.group().end_rest();
        if !self.lost() {
            info!("CMD has ended; the processes that it left behind get SIGTERM");
        }
        let grace = self.grace();
        if let Some(left) = self.gone_within(grace).await {
            return left;
        }
        self.group().kill();
        let grace = in_ms(grace);
        warn!(
            "CMD has ended, and processes that it left behind have not within {grace}: they are \
             killed"
        );
        let group = self.group();
        self.until(group.gone()).await.1
    }

    async fn gone_within(&mut self, limit: Duration) -> Option<Left> {
        let group = self.group();
        self.until(async {
            tokio::select! {
                biased;
                (_, left) = group.gone() => Some(left),
                () = pause(limit) => None,
            }
        })
        .await
    }
}

/// A command as people write it, cut short.
pub fn shown(command: &[OsString]) -> String {
    const MOST: usize = 60;
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let text = plain(&words.join(" "));
    match text.char_indices().nth(MOST) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
