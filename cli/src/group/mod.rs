//! CMD and its descendants, none of which outlives the lease.
//!
//! `tenure` starts the *standby*, which starts the *guard*, which starts the *gate*, which becomes
//! CMD. The guard ends CMD and all its descendants at the deadlines of the lease, or when `tenure`
//! dies. On Linux it is a child subreaper: whatever process group or session a descendant moves
//! to, it stays a descendant of the guard when its parent ends. If the guard dies, the kernel kills
//! CMD, and the standby, a subreaper too, kills the rest. The *supervisor*, a task in `tenure`,
//! passes new deadlines on, and kills the descendants itself should the guard be stopped.
//!
//! Where there is no subreaper, the guard ends the process group of CMD instead.

mod deadlines;
mod descendants;
mod gate;
mod guard;
mod guard_process;
mod id;
mod ipc;
mod pipes;
mod standby;
mod supervisor;

use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

use guard_process::GuardProcess;
use ipc::Order;
use supervisor::Supervisor;

pub use deadlines::Deadlines;
pub use gate::{NOT_EXECUTABLE, NOT_FOUND, run as run_gate};
pub use guard::run as run_guard;
pub use pipes::Pipes;
pub use standby::run as run_standby;

/// This command itself, as standby, guard and gate are started of it.
#[derive(Debug)]
pub struct Tenure {
    /// See [`own_binary`].
    pub binary: PathBuf,
    /// What they get besides their own arguments.
    pub options: &'static [&'static str],
}

/// A running CMD and its descendants, under guard.
///
/// Dropping it kills them all.
#[derive(Debug)]
#[must_use = "dropping it kills the group"]
pub struct Group {
    deadlines: watch::Sender<Deadlines>,
    orders: mpsc::UnboundedSender<Order>,
    phase: watch::Receiver<Phase>,
}

/// How CMD ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupEnd {
    pub status: ExitStatus,
    /// What was done to CMD before it ended; nothing if it ended by itself.
    pub stop: Option<Stop>,
}

/// What was done to a CMD that did not end by itself.
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

/// Whether a process of CMD may be left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    Nothing,
    /// Guard and standby were both killed: nobody knows where processes are that left the group.
    Unknown,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Running,
    Ended(GroupEnd),
    Gone(GroupEnd, Left),
}

impl Group {
    /// Starts the command, with these variables added to its environment, under a guard.
    ///
    /// CMD that cannot be executed is no error here: it ends with 126 or 127, as in a shell.
    /// Dropping the future leaves nothing that runs.
    pub async fn start(
        tenure: &Tenure,
        command: &[OsString],
        environment: &[(&str, String)],
        deadlines: Deadlines,
    ) -> io::Result<Group> {
        // A SIGCHLD that is ignored when `tenure` starts would be for the guard too, and then exit
        // statuses are lost.
        drop(signal(SignalKind::child()).map_err(|error| failed("handle SIGCHLD", &error))?);
        let guard = GuardProcess::spawn(tenure, command, environment)
            .map_err(|error| failed("start a guard", &error))?;
        let (deadlines, new_deadlines) = watch::channel(deadlines);
        let (new_phase, phase) = watch::channel(Phase::Running);
        let (orders, new_orders) = mpsc::unbounded_channel();
        let mut supervisor = Supervisor::new(guard, new_deadlines, new_orders, new_phase)?;
        if !supervisor.put_under_guard().await {
            return Err(io::Error::other("the guard died before it started CMD"));
        }
        supervisor.start().await;
        tokio::spawn(supervisor.supervise().in_current_span());
        Ok(Group { deadlines, orders, phase })
    }

    /// The lease has new deadlines. What is already past is acted on at once: `term_at` in the past
    /// tells CMD to end now.
    pub fn set_deadlines(&self, deadlines: Deadlines) {
        self.deadlines.send_replace(deadlines);
    }

    /// Passes a signal on to the process group of CMD.
    pub fn forward(&self, signal: Signal) {
        self.order(Order::Signal(signal));
    }

    /// CMD has ended: tells the processes that it left behind to end, unless they have been told.
    pub fn end_rest(&self) {
        self.order(Order::EndRest);
    }

    fn order(&self, order: Order) {
        // An error says that nothing is left to signal.
        let _ = self.orders.send(order);
    }

    /// Kills CMD and all its descendants, until they are gone.
    pub fn kill(&self) {
        self.set_deadlines(Deadlines::long_past());
    }

    /// How CMD ended, once it has. Descendants of it may live on: see [`Group::gone`].
    pub async fn wait(&self) -> GroupEnd {
        self.phase_with(Phase::end).await
    }

    /// Returns once nothing of CMD is left, or nobody can tell any more; gives how CMD had ended.
    /// Only if nothing is left may the leadership be resigned.
    pub async fn gone(&self) -> (GroupEnd, Left) {
        self.phase_with(|phase| match phase {
            Phase::Gone(end, left) => Some((end, left)),
            Phase::Running | Phase::Ended(_) => None,
        })
        .await
    }

    async fn phase_with<T>(&self, find: impl Fn(Phase) -> Option<T>) -> T {
        let mut phases = self.phase.clone();
        let phase = phases.wait_for(|phase| find(*phase).is_some()).await;
        phase
            .ok()
            .and_then(|phase| find(*phase))
            .expect("the supervisor runs until CMD is gone, as long as this Group is held")
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
            Phase::Ended(end) | Phase::Gone(end, _) => Some(end),
        }
    }
}

fn failed(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}

/// The path by which this very binary can be started again, even if its file was replaced since:
/// all must be of one version with `tenure`.
pub fn own_binary() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Whether orphans come to this process once it has asked for them.
const ADOPTS: bool = cfg!(target_os = "linux");

/// Asks for the orphans among the descendants of this process.
#[cfg(target_os = "linux")]
fn adopt_orphans() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// How long to wait until SIGKILL is sent again: shortly at first, as a process may fork just then
/// and end; later what is left is in the kernel's hands, or belongs to another user.
#[derive(Debug, Default)]
struct KillPace {
    rounds: u32,
}

impl KillPace {
    fn next(&mut self) -> Duration {
        self.rounds = self.rounds.saturating_add(1);
        Duration::from_millis(match self.rounds {
            ..=100 => 5,
            101..=200 => 100,
            _ => 1_000,
        })
    }
}
