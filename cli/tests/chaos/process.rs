//! A process that the test kills, suspends (SIGSTOP), and starts again after its exit.

use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure_testkit::command::scene::pid;

use crate::backend::Backend;
use crate::child::now_ns;

pub const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

pub struct Process {
    pub name: String,
    process: Option<Child>,
    /// Time at which the test starts the exited process again.
    pub again_at_ns: u64,
    /// The suspended processes of this candidate, in the order in which they continue.
    pub stopped: Vec<Stopped>,
}

pub struct Stopped {
    pub pid: Pid,
    pub until_ns: u64,
    /// The epoch of the guarded child, if the process is a guard.
    pub guards: Option<u64>,
}

impl Process {
    pub fn new(name: String) -> Process {
        Process { name, process: None, again_at_ns: 0, stopped: Vec::new() }
    }

    pub fn is_due(&self) -> bool {
        self.process.is_none() && self.again_at_ns <= now_ns()
    }

    pub fn lives(&self) -> bool {
        self.process.is_some()
    }

    /// Returns whether a fault may affect the process now. The process must run, and no fault may
    /// have suspended the process, its guard or its child.
    pub fn is_free(&self) -> bool {
        self.lives() && self.stopped.is_empty()
    }

    pub fn start(&mut self, mut command: Command, folder: &Path) {
        let log = folder.join(format!("said-{}", self.name));
        let log = File::options().create(true).append(true).open(log).expect("a log");
        let output = log.try_clone().expect("a file can be shared");
        command.stdin(Stdio::null()).stdout(output).stderr(log).env_remove("RUST_LOG");
        self.process = Some(command.spawn().expect("the command starts"));
    }

    /// Returns the exit status if the process has exited since the last call.
    pub fn reap(&mut self) -> Option<ExitStatus> {
        let status = self.process.as_mut()?.try_wait().expect("a child can be polled")?;
        self.process = None;
        Some(status)
    }

    pub fn pid(&self) -> Option<Pid> {
        self.process.as_ref().map(|process| pid(process.id()))
    }

    pub fn signal(&self, signal: Signal) -> Option<()> {
        kill(self.pid()?, signal).ok()
    }

    pub fn stop(&mut self, pid: Pid, until_ns: u64, guards: Option<u64>) {
        let _ = kill(pid, Signal::SIGSTOP);
        self.stopped.push(Stopped { pid, until_ns, guards });
    }

    /// Continues the processes that have been suspended for long enough, and returns them.
    pub fn let_go_on(&mut self) -> Vec<Stopped> {
        let now_ns = now_ns();
        let due = self.stopped.extract_if(.., |stopped| stopped.until_ns <= now_ns);
        due.inspect(|stopped| _ = kill(stopped.pid, Signal::SIGCONT)).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stopped.iter_mut().for_each(|stopped| stopped.until_ns = 0);
        self.let_go_on();
        if let Some(mut process) = self.process.take() {
            // If this process has a guard, the guard notices the kill, and kills the child.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Returns `tenure compact` as a repeated job.
///
/// The job keeps epochs for longer than the delay of any request. The protocol requires that no
/// creation of an epoch takes effect after the compaction of this epoch.
pub fn compactor(backend: &Backend) -> Command {
    let min_age = if backend.is_of_the_environment() { "30s" } else { "6s" };
    let mut command = Command::new(TENURE);
    command.args(["compact", "--store", &backend.url(), "--json", "--every", "1s", "--keep", "2"]);
    command.args(["--min-age", min_age]).envs(backend.env(0));
    command
}

/// Returns the sum of the field at this JSON pointer over all reports of the compactor.
pub fn compacted(folder: &Path, pointer: &str) -> u64 {
    let said = std::fs::read_to_string(folder.join("said-compactor")).unwrap_or_default();
    let reports = said.lines().filter_map(|line| serde_json::from_str(line).ok());
    reports.filter_map(|report: serde_json::Value| report.pointer(pointer)?.as_u64()).sum()
}

/// Returns the exit code that a shell would report. After a signal n, this is 128 + n.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}
