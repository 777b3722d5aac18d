//! `/livez`: reports whether the main task runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::Clock;

use crate::http::Reply;
use crate::output::print::in_seconds;
use crate::process::lock::lock;
use crate::process::timer::pause;

/// The pause after which the main task counts as dead. A live task runs every second.
const STUCK_AFTER: Duration = Duration::from_secs(30);
pub const EVERY_TURN: Duration = Duration::from_secs(1);

/// The time at which the main task last ran.
#[derive(Debug)]
pub struct Pulse {
    clock: Arc<dyn Clock>,
    /// Time on the boot clock.
    turned: Mutex<Duration>,
}

impl Pulse {
    pub fn new(clock: &Arc<dyn Clock>) -> Pulse {
        Pulse { clock: Arc::clone(clock), turned: Mutex::new(clock.now().boot) }
    }

    /// Runs the main task, and records each second in which the task runs.
    pub async fn of<T>(&self, task: impl Future<Output = T>) -> T {
        let mut task = std::pin::pin!(task);
        loop {
            *lock(&self.turned) = self.clock.now().boot;
            tokio::select! {
                biased;
                value = &mut task => return value,
                () = pause(EVERY_TURN) => {}
            }
        }
    }

    /// The reply does not depend on the store. If it did, a supervisor would restart this process
    /// during a failure of the store. A restart cannot repair the store, and a restarted leader
    /// loses its lease.
    pub fn livez(&self) -> Reply {
        let stuck = self.clock.now().boot.saturating_sub(*lock(&self.turned));
        if stuck < STUCK_AFTER {
            return Reply::text(200, "ok");
        }
        Reply::text(503, &format!("the main task has not run for {}", in_seconds(stuck)))
    }
}
