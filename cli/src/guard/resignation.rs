//! What the guard does once `tenure` has died and nothing of CMD is left: a fresh process of this
//! command resigns the epoch, so that nobody waits for its lapse.

use std::io::{self, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::{Moment, Process};

use super::tenure_binary::Tenure;
use crate::process::timer::block_for;

/// For how much longer than the lease the process may run, if it hangs.
const BEYOND_THE_LEASE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a fresh process must know to resign an epoch. It says nothing secret, but goes by pipes, as
/// the arguments of a process are for all to see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resignation {
    /// The URL of the store.
    pub store: String,
    /// As `--layout` has it.
    pub layout: String,
    pub candidate: String,
    pub validity_ms: u64,
    pub request_timeout_ms: u64,
    /// A `ResignKey` of the library.
    pub key: String,
    pub successor: Option<String>,
    /// Between the deadline for SIGKILL and the end of the lease.
    pub kill_margin_ms: u64,
}

/// What the process reads from its standard input.
#[derive(Debug, Serialize, Deserialize)]
pub struct ResignTask {
    pub resignation: Resignation,
    ends_at: [Duration; 3],
}

impl ResignTask {
    pub fn new(resignation: Resignation, ends_at: Moment) -> ResignTask {
        ResignTask { resignation, ends_at: [ends_at.boot, ends_at.raw, ends_at.wall] }
    }

    /// The end of the lease.
    pub fn ends_at(&self) -> Moment {
        let [boot, raw, wall] = self.ends_at;
        Moment::new(boot, raw, wall)
    }
}

impl Resignation {
    /// When the lease ends that has this deadline for SIGKILL.
    pub fn lease_end(&self, kill_at: Moment) -> Moment {
        kill_at.plus(Duration::from_millis(self.kill_margin_ms))
    }

    /// The epoch, for people.
    pub fn epoch(&self) -> &str {
        self.key.split_once('-').map_or("?", |(epoch, _)| epoch)
    }

    /// Runs the process, which says itself what it did; until the end of the lease, and no longer
    /// than a moment more.
    pub fn carry_out(self, tenure: &Tenure, kill_at: Moment, say: impl Fn(&'static str, &str)) {
        let ends_at = self.lease_end(kill_at);
        let epoch = self.epoch().to_owned();
        if Process::system().now().until(ends_at).is_zero() {
            say("not_resigned", &format!("epoch {epoch} is not resigned: its lease has ended"));
            return;
        }
        let failed = |what: &str| {
            let why = format!(
                "epoch {epoch} is not resigned, others wait until its lease lapses: {what}"
            );
            say("not_resigned", &why);
        };
        match start(tenure, &ResignTask::new(self, ends_at)) {
            Ok(mut process) => {
                if !ends_in_time(&mut process, ends_at) {
                    // It is a child that was not waited for, so the number is its own.
                    let _ = process.kill();
                    failed("the process that was to resign it hangs, and was killed");
                }
            }
            Err(error) => failed(&format!("no process could be started for it: {error}")),
        }
    }
}

fn start(tenure: &Tenure, task: &ResignTask) -> io::Result<Child> {
    let mut command: Command = tenure.command("__resign", &[""; 0], &[]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let mut input = process.stdin.take().ok_or_else(|| io::Error::other("it has no input"))?;
    // Its end is the end of the input. A process that reads nothing is noticed when it ends.
    let _ = input.write_all(&serde_json::to_vec(task)?);
    Ok(process)
}

fn ends_in_time(process: &mut Child, ends_at: Moment) -> bool {
    let last = ends_at.plus(BEYOND_THE_LEASE);
    loop {
        // An error says that nobody can wait for it any more.
        if !matches!(process.try_wait(), Ok(None)) {
            return true;
        }
        if Process::system().now().until(last).is_zero() {
            return false;
        }
        block_for(LOOK_EVERY);
    }
}
