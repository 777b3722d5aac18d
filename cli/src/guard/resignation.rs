//! The guard resigns the epoch after `tenure` has died and no process of CMD is left.
//!
//! Other candidates then do not wait until the lease lapses. The guard starts a new process of this
//! command, and this process sends the requests.

use std::io::{self, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{Moment, Process};

use super::tenure_binary::Tenure;
use crate::process::timer::block_for;

/// Maximum time for which the resigning process may run after the end of the lease.
const BEYOND_THE_LEASE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The epoch to resign, and the settings of the process that resigns it.
///
/// This value contains no secrets. Nevertheless the resigning process gets it through a pipe,
/// because all users can read the arguments of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resignation {
    /// URL of the store, as a value of `--store`.
    pub store: String,
    /// Layout of the election, as a value of `--layout`.
    pub layout: String,
    pub candidate: String,
    pub validity_ms: u64,
    pub request_timeout_ms: u64,
    /// A `ResignKey` of the library as text. The text begins with the epoch.
    pub key: String,
    pub successor: Option<String>,
    /// Time from the deadline for SIGKILL to the end of the lease, in milliseconds.
    pub kill_margin_ms: u64,
}

/// The JSON that the resigning process reads from its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub struct ResignTask {
    pub resignation: Resignation,
    ends_at: [Duration; 3],
}

impl ResignTask {
    pub fn new(resignation: Resignation, ends_at: Moment) -> ResignTask {
        ResignTask { resignation, ends_at: [ends_at.boot, ends_at.raw, ends_at.wall] }
    }

    /// Returns the end of the lease. Until then the resigning process may send requests.
    pub fn ends_at(&self) -> Moment {
        let [boot, raw, wall] = self.ends_at;
        Moment::new(boot, raw, wall)
    }
}

impl Resignation {
    /// Returns the end of the lease. `kill_at` is the deadline for SIGKILL under this lease.
    pub fn lease_end(&self, kill_at: Moment) -> Moment {
        kill_at.plus(Duration::from_millis(self.kill_margin_ms))
    }

    /// Returns the epoch as text for messages.
    pub fn epoch(&self) -> &str {
        self.key.split_once('-').map_or("?", |(epoch, _)| epoch)
    }

    /// Runs the process that resigns the epoch, and logs the outcome. Kills the process if it still
    /// runs 1 s after the end of the lease.
    pub fn carry_out(self, tenure: &Tenure, kill_at: Moment, say: impl Fn(&'static str, &str)) {
        let ends_at = self.lease_end(kill_at);
        let epoch = self.epoch().to_owned();
        if Process::system().now().until(ends_at).is_zero() {
            say("not_resigned", &format!("epoch {epoch} is not resigned: its lease has ended"));
            return;
        }
        let failed = |reason: &str| {
            let why = format!(
                "epoch {epoch} is not resigned ({reason}): other candidates wait for its lapse"
            );
            say("not_resigned", &why);
        };
        match start(tenure, &ResignTask::new(self, ends_at)) {
            Ok(mut process) => {
                if !ends_in_time(&mut process, ends_at) {
                    // This process has not reaped its child, so the system has not reused the
                    // child's process number.
                    let _ = process.kill();
                    failed("the process that resigns it hung and was killed");
                }
            }
            Err(error) => failed(&format!("cannot start a process that resigns it: {error}")),
        }
    }
}

fn start(tenure: &Tenure, task: &ResignTask) -> io::Result<Child> {
    let mut command: Command = tenure.command("__resign", &[""; 0], &[]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut input =
        process.stdin.take().ok_or_else(|| io::Error::other("the process has no stdin"))?;
    // The end of this function drops `input`, and so closes the pipe. A write error is ignored,
    // because `ends_in_time` kills a process that waits for its input.
    let _ = input.write_all(&serde_json::to_vec(task)?);
    Ok(process)
}

fn ends_in_time(process: &mut Child, ends_at: Moment) -> bool {
    let last = ends_at.plus(BEYOND_THE_LEASE);
    loop {
        // If `try_wait` fails, the system has no such child any more, so the child has ended.
        if !matches!(process.try_wait(), Ok(None)) {
            return true;
        }
        if Process::system().now().until(last).is_zero() {
            return false;
        }
        block_for(LOOK_EVERY);
    }
}
