//! A hook: a command line that the operator has set. It runs at the same time as CMD, under the
//! same guard.

use std::io::{self, stderr};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tenure::{Moment, Process};
use tracing::{debug, warn};

use super::descendants::Living;
use super::process_group::GroupId;
use super::tenure_binary::Tenure;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Command line for `sh -c`.
    pub line: String,
    pub limit_ms: u64,
}

/// A hook that was started. Its child process has not been reaped.
#[derive(Debug)]
pub struct RunningHook {
    group: GroupId,
    kill_at: Moment,
}

impl Hook {
    /// Starts the hook in a new process group, so that signals for CMD do not reach it.
    pub fn start(&self, tenure: &Tenure, parent: &[String]) -> io::Result<RunningHook> {
        let words = ["sh", "-c", &self.line].map(Into::into);
        let mut command = tenure.command("__gate", parent, &words);
        let child = command.process_group(0).stdin(Stdio::null()).stdout(to_stderr()).spawn()?;
        let group = GroupId::of(&child)?;
        let kill_at = Process::system().now().plus(Duration::from_millis(self.limit_ms));
        Ok(RunningHook { group, kill_at })
    }
}

impl RunningHook {
    pub fn leader(&self) -> Pid {
        self.group.leader()
    }

    pub fn until_kill(&self, now: Moment) -> Duration {
        now.until(self.kill_at)
    }

    /// Sends SIGKILL to the group of the hook if `living` contains a member of the group. If the
    /// group has no living member, the system may have given its number to another group.
    pub fn kill(&self, living: &[Living]) {
        if living.iter().any(|one| one.group == self.group.leader()) {
            self.group.signal(Signal::SIGKILL);
        }
    }
}

/// Returns the stderr of this process as the standard output of a hook, because stdout belongs to
/// CMD.
pub fn to_stderr() -> Stdio {
    stderr().as_fd().try_clone_to_owned().map_or_else(|_| Stdio::null(), Stdio::from)
}

/// Logs the exit status of a hook.
pub fn log_end(hook: &str, status: ExitStatus) {
    if status.success() {
        debug!("{hook} has ended");
    } else {
        warn!(outcome = "hook_failed", "{hook} failed: {status}");
    }
}
