//! CMD in a process group of its own that never outlives the lease.
//!
//! Three processes take part. The *guard* ends the group at the deadlines of the lease, or when
//! `tenure` dies. The *gate* becomes CMD, but only after the guard has said that it watches. The
//! *tender*, a task in `tenure`, reaps CMD, passes new deadlines on, and kills the group if the
//! guard is lost. So at no moment does CMD run without somebody who would end it.

mod gate;
mod guard;
mod guard_process;
mod id;
mod orders;
mod rest;
mod tender;
mod vigil;

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::Signal;
use tenure::Moment;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing::Instrument as _;

use guard_process::GuardProcess;
use id::GroupId;
use tender::Tender;

pub use gate::run as run_gate;
pub use guard::run as run_guard;
pub use vigil::Deadlines;

const KILL_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// This command itself, as guard and gate are started of it.
#[derive(Debug)]
pub struct Tenure {
    /// See [`own_binary`].
    pub binary: PathBuf,
    /// What they get besides their own arguments.
    pub options: &'static [&'static str],
}

/// A running CMD and its process group, under guard.
///
/// Dropping it kills the group.
#[derive(Debug)]
#[must_use = "dropping it kills the group"]
pub struct Group {
    id: GroupId,
    deadlines: watch::Sender<Deadlines>,
    phase: watch::Receiver<Phase>,
}

/// How CMD ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupEnd {
    pub status: ExitStatus,
    /// What was done to the group before CMD ended; nothing if it ended by itself.
    pub stop: Option<Stop>,
}

/// What was done to a group that did not end by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It was told to end as the lease was at risk, and was not killed. The lease may have been
    /// renewed since.
    Terminated,
    /// It was killed as the lease was about to end, or by [`Group::kill`].
    Killed,
    /// It was killed as the guard had died.
    Unguarded,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Running,
    Ended(GroupEnd),
    Gone(GroupEnd),
}

impl Group {
    /// Starts the command, with these variables added to its environment, once a guard watches
    /// over it.
    ///
    /// CMD that cannot be executed is no error here: it ends with 126 or 127, as in a shell.
    /// Dropping the future leaves nothing that runs.
    pub async fn start(
        tenure: &Tenure,
        command: &[OsString],
        environment: &[(&str, String)],
        deadlines: Deadlines,
    ) -> io::Result<Group> {
        let failed = |what: &str, error: io::Error| {
            io::Error::new(error.kind(), format!("cannot {what}: {error}"))
        };
        // Whoever started `tenure` may have had SIGCHLD ignored, and then exit statuses are lost.
        drop(signal(SignalKind::child()).map_err(|error| failed("handle SIGCHLD", error))?);
        let guard = GuardProcess::spawn(tenure).map_err(|error| failed("start a guard", error))?;
        let (go, mut open) = io::pipe().map_err(|error| failed("create a pipe", error))?;
        let gate = spawn_gate(tenure, &go, command, environment)
            .map_err(|error| failed("start a process for CMD", error))?;
        drop(go);
        let id = gate
            .id()
            .and_then(|id| GroupId::new(i32::try_from(id).ok()?))
            .expect("a child that was not waited for has a number, and 1 is not a child");
        let (deadlines, new_deadlines) = watch::channel(deadlines);
        let (new_phase, phase) = watch::channel(Phase::Running);
        let mut tender = Tender::new(gate, id, guard, new_deadlines, new_phase);
        if !tender.put_under_guard().await {
            return Err(io::Error::other("the guard died before it watched over CMD"));
        }
        open_gate(&mut open);
        tokio::spawn(tender.tend().in_current_span());
        Ok(Group { id, deadlines, phase })
    }

    /// The lease has new deadlines. What is already past is acted on at once: `term_at` in the past
    /// tells the group to end now.
    pub fn set_deadlines(&self, deadlines: Deadlines) {
        self.deadlines.send_replace(deadlines);
    }

    /// Passes a signal on to the whole group.
    pub fn forward(&self, signal: Signal) {
        // A number that was given up may have been taken by others.
        if !matches!(*self.phase.borrow(), Phase::Gone(_)) {
            self.id.signal(signal);
        }
    }

    /// Kills the whole group, until it is gone.
    pub fn kill(&self) {
        self.forward(Signal::SIGKILL);
        let long_past = Moment { boot: Duration::ZERO, raw: Duration::ZERO, wall: Duration::ZERO };
        self.set_deadlines(Deadlines { term_at: long_past, kill_at: long_past });
    }

    /// How CMD ended, once it has. Other processes of its group may live on: see [`Group::gone`].
    pub async fn wait(&self) -> GroupEnd {
        self.phase_with(|phase| phase.end()).await
    }

    /// Returns once no process of the group is left; gives how CMD had ended. Only then may the
    /// leadership be resigned.
    pub async fn gone(&self) -> GroupEnd {
        self.phase_with(|phase| match phase {
            Phase::Gone(end) => Some(end),
            Phase::Running | Phase::Ended(_) => None,
        })
        .await
    }

    async fn phase_with(&self, find: impl Fn(Phase) -> Option<GroupEnd>) -> GroupEnd {
        let mut phases = self.phase.clone();
        let phase = phases.wait_for(|phase| find(*phase).is_some()).await;
        phase
            .ok()
            .and_then(|phase| find(*phase))
            .expect("the tender runs until the group is gone, as long as this Group is held")
    }
}

impl GroupEnd {
    /// The exit code as a shell gives it: 128 + n after signal n.
    pub fn exit_code(&self) -> u8 {
        let code = match (self.status.code(), self.status.signal()) {
            (Some(code), _) => code,
            (None, Some(signal)) => 128 + signal,
            (None, None) => i32::from(u8::MAX),
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

impl Phase {
    fn end(self) -> Option<GroupEnd> {
        match self {
            Phase::Running => None,
            Phase::Ended(end) | Phase::Gone(end) => Some(end),
        }
    }

    fn become_gone(&mut self) {
        if let Some(end) = self.end() {
            *self = Phase::Gone(end);
        }
    }
}

/// The path by which this very binary can be started again, even if its file was replaced since:
/// guard and gate must be of one version with `tenure`.
pub fn own_binary() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// The child leads a new group from its first moment, and inherits `go` besides the three standard
/// files.
fn spawn_gate(
    tenure: &Tenure,
    go: &PipeReader,
    command: &[OsString],
    environment: &[(&str, String)],
) -> io::Result<Child> {
    // Another thread that starts a process right now leaks the reading end to it, which does no
    // harm: what counts is that nobody else has the writing end.
    fcntl(go, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Command::new(&tenure.binary)
        .arg0("tenure")
        .args(["__gate", "--fd"])
        .arg(go.as_raw_fd().to_string())
        .args(tenure.options)
        .arg("--")
        .args(command)
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .process_group(0)
        .spawn()
}

fn open_gate(pipe: &mut PipeWriter) {
    // An error says that the gate was killed meanwhile; its status tells that too.
    let _ = pipe.write_all(&[gate::GO]);
}
