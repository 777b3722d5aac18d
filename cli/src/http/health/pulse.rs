//! Reports at `/livez` and to systemd whether the main task of a process runs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tenure::Clock;
use tokio::sync::Notify;

use crate::http::Reply;
use crate::output::print::in_seconds;
use crate::process::lock::lock;
use crate::process::systemd::{ServiceState, Systemd};
use crate::process::timer::pause;

/// If the main task has not run for this time, it counts as dead. A live task runs every second.
const STUCK_AFTER: Duration = Duration::from_secs(30);
pub const EVERY_TURN: Duration = Duration::from_secs(1);

/// The time at which the main task of this process last ran.
#[derive(Debug)]
pub struct Pulse {
    clock: Arc<dyn Clock>,
    /// Time on the boot clock at which the main task last ran.
    turned: Mutex<Duration>,
    systemd: Systemd,
    changed: Notify,
}

impl Pulse {
    pub fn new(clock: &Arc<dyn Clock>) -> Pulse {
        Pulse::with(clock, Systemd::of_this_process())
    }

    fn with(clock: &Arc<dyn Clock>, systemd: Systemd) -> Pulse {
        let turned = Mutex::new(clock.now().boot);
        Pulse { clock: Arc::clone(clock), turned, systemd, changed: Notify::new() }
    }

    /// Runs `task`, the main task of this process. At least once a second, records that the task is
    /// not stuck, and reports the state to systemd. Also reports each change of the state. The
    /// reports come from the Tokio task that runs `task`, so if `task` hangs, systemd gets no
    /// reports.
    pub async fn of<T>(
        &self,
        state: impl Fn() -> ServiceState,
        task: impl Future<Output = T>,
    ) -> T {
        let mut task = std::pin::pin!(task);
        let turn = self.systemd.notify_every().unwrap_or(EVERY_TURN).min(EVERY_TURN);
        let value = loop {
            *lock(&self.turned) = self.clock.now().boot;
            self.systemd.notify(&state);
            tokio::select! {
                biased;
                value = &mut task => break value,
                () = self.changed.notified() => {}
                () = pause(turn) => {}
            }
        };
        self.systemd.notify_stopping();
        value
    }

    /// Makes the main task send the state to systemd immediately.
    pub fn change(&self) {
        self.changed.notify_one();
    }

    /// Returns the reply of `/livez`. It does not depend on the store. If it did, a supervisor
    /// would restart this process during a failure of the store. A restart cannot repair the store,
    /// and a restarted leader loses its lease.
    pub fn livez(&self) -> Reply {
        let stuck = self.clock.now().boot.saturating_sub(*lock(&self.turned));
        if stuck < STUCK_AFTER {
            return Reply::text(200, "ok");
        }
        Reply::text(503, &format!("the main task has not run for {}", in_seconds(stuck)))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::sync::mpsc;

    use tenure::Process;

    use super::*;

    #[test]
    fn a_hung_task_sends_no_sign_of_life() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).expect("a socket");
        let watchdog = Duration::from_millis(100);
        systemd.set_read_timeout(Some(10 * watchdog)).expect("a timeout");
        let next = || systemd.recv(&mut [0; 4096]).is_ok();
        let (release, released) = mpsc::channel::<()>();
        let task = async move {
            pause(watchdog * 4).await;
            released.recv()
        };
        let hung = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            let clock: Arc<dyn Clock> = Arc::new(Process::system());
            let pulse = Pulse::with(&clock, Systemd::new(Some(path.into()), Some(watchdog)));
            let state = || ServiceState { ready: true, text: String::new() };
            runtime.expect("a runtime").block_on(pulse.of(state, task))
        });
        let mut count = 0;
        while next() {
            count += 1;
            assert!(count < 100, "the hung task sends no further sign of life");
        }
        assert!(count > 0, "the task sends signs of life before it hangs");
        drop(release);
        assert!(hung.join().expect("no panic").is_err());
        assert!(next(), "the end of the task is reported");
    }
}
