//! `/livez`: whether the main task runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::Clock;

use crate::http::Reply;
use crate::output::print::in_seconds;
use crate::process::lock::lock;
use crate::process::timer::pause;

/// A task that has not run for so long does not come back by itself: it should every second.
const STUCK_AFTER: Duration = Duration::from_secs(30);
pub const EVERY_TURN: Duration = Duration::from_secs(1);

/// When the main task last ran.
#[derive(Debug)]
pub struct Pulse {
    clock: Arc<dyn Clock>,
    /// On the boot clock.
    turned: Mutex<Duration>,
}

impl Pulse {
    pub fn new(clock: &Arc<dyn Clock>) -> Pulse {
        Pulse { clock: Arc::clone(clock), turned: Mutex::new(clock.now().boot) }
    }

    /// Runs the task, and notes each second that it does.
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

    /// Not whether the store answers: a restart fixes no store, and would cost a leader its lease.
    pub fn livez(&self) -> Reply {
        let stuck = self.clock.now().boot.saturating_sub(*lock(&self.turned));
        if stuck < STUCK_AFTER {
            return Reply::text(200, "ok");
        }
        Reply::text(503, &format!("the main task has not run for {}", in_seconds(stuck)))
    }
}
