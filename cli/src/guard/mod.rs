//! CMD and its descendants, none of which outlives the lease.
//!
//! `tenure` starts the *standby*, which starts the *guard*, which starts the *gate*, which becomes
//! CMD. The guard ends CMD and all its descendants at the deadlines of the lease, or when `tenure`
//! dies. On Linux it is a child subreaper: whatever process group or session a descendant moves
//! to, it stays a descendant of the guard when its parent ends. If the guard dies, the kernel kills
//! CMD, and the standby, a subreaper too, kills the rest. The *supervisor*, a task in `tenure`,
//! passes new deadlines on, and kills the descendants itself should the guard be stopped. If both are
//! stopped, a timer of the kernel kills the guard before the lease ends.
//!
//! Where there is no subreaper, the guard ends the process group of CMD instead.

mod alarm;
mod cmd_phase;
mod deadlines;
mod descendants;
mod epoch_file;
mod event_loop;
mod gate;
mod guard_process;
mod hook;
mod messages;
mod pipes;
mod process_group;
mod resignation;
mod standby;
mod supervisor;
mod tenure_binary;

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

use cmd_phase::CmdPhase;
use guard_process::GuardProcess;
use messages::GuardOrder;
use supervisor::Supervisor;

pub use cmd_phase::{GroupEnd, Left, Stop};
pub use deadlines::Deadlines;
pub use epoch_file::{EpochFile, prepare as prepare_epoch_file};
pub use event_loop::{GuardArgs, run as run_guard};
pub use gate::{GateArgs, NOT_EXECUTABLE, NOT_FOUND, run as run_gate};
pub use hook::{Hook, log_end as log_hook_end, to_stderr};
pub use pipes::Pipes;
pub use resignation::{ResignTask, Resignation};
pub use standby::run as run_standby;
pub use tenure_binary::{Tenure, own_binary};

/// What a guard does besides ending CMD in time.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// Between the deadline for SIGKILL and the end of the lease: a guard that has not acted after
    /// half of it is killed.
    pub kill_margin: Option<Duration>,
    /// What to resign if `tenure` dies, and then nothing of CMD is left.
    pub resignation: Option<Resignation>,
    /// What to run beside CMD, from its start on.
    pub on_elected: Option<Hook>,
    /// Written before CMD starts, and removed when it is to end.
    pub epoch_file: Option<EpochFile>,
}

/// A running CMD and its descendants, under guard.
///
/// Dropping it kills them all.
#[derive(Debug)]
#[must_use = "dropping it kills the group"]
pub struct Group {
    deadlines: watch::Sender<Deadlines>,
    orders: mpsc::UnboundedSender<GuardOrder>,
    phase: watch::Receiver<CmdPhase>,
}

impl Group {
    /// Starts the command, with these variables added to its environment, under a guard that also
    /// does the extras.
    ///
    /// CMD that cannot be executed is no error here: it ends with 126 or 127, as in a shell.
    /// Dropping the future leaves nothing that runs.
    pub async fn start(
        tenure: &Tenure,
        command: &[OsString],
        environment: &[(&str, String)],
        deadlines: Deadlines,
        extras: Extras,
    ) -> io::Result<Group> {
        // A SIGCHLD that is ignored when `tenure` starts would be for the guard too, and then exit
        // statuses are lost.
        drop(signal(SignalKind::child()).map_err(|error| failed("handle SIGCHLD", &error))?);
        let guard = GuardProcess::spawn(tenure, command, environment, &extras)
            .map_err(|error| failed("start a guard", &error))?;
        let (deadlines, new_deadlines) = watch::channel(deadlines);
        let (new_phase, phase) = watch::channel(CmdPhase::Running);
        let (orders, new_orders) = mpsc::unbounded_channel();
        let mut supervisor = Supervisor::new(guard, new_deadlines, new_orders, new_phase)?;
        if !supervisor.put_under_guard(extras).await {
            return Err(io::Error::other("the guard died before it started CMD"));
        }
        supervisor.start().await;
        tokio::spawn(supervisor.supervise().in_current_span());
        Ok(Group { deadlines, orders, phase })
    }

    /// The lease has new deadlines. What is already past is acted on at once: `term_at` in the past
    /// sends SIGTERM now.
    pub fn set_deadlines(&self, deadlines: Deadlines) {
        self.deadlines.send_replace(deadlines);
    }

    /// Passes a signal on to the process group of CMD.
    pub fn forward(&self, signal: Signal) {
        self.order(GuardOrder::Signal(signal));
    }

    /// CMD has ended: sends SIGTERM to the processes that it left behind, once.
    pub fn end_rest(&self) {
        self.order(GuardOrder::EndRest);
    }

    fn order(&self, order: GuardOrder) {
        // An error says that nothing is left to signal.
        let _ = self.orders.send(order);
    }

    /// Kills CMD and all its descendants, until they are gone.
    pub fn kill(&self) {
        self.set_deadlines(Deadlines::long_past());
    }

    /// How CMD ended, once it has. Descendants of it may live on: see [`Group::gone`].
    pub async fn wait(&self) -> GroupEnd {
        self.phase_with(CmdPhase::end).await
    }

    /// Returns once nothing of CMD is left, or nobody can tell any more; gives how CMD had ended.
    /// Only if nothing is left may the leadership be resigned.
    pub async fn gone(&self) -> (GroupEnd, Left) {
        self.phase_with(|phase| match phase {
            CmdPhase::Gone(end, left) => Some((end, left)),
            CmdPhase::Running | CmdPhase::Ended(_) => None,
        })
        .await
    }

    async fn phase_with<T>(&self, find: impl Fn(CmdPhase) -> Option<T>) -> T {
        let mut phases = self.phase.clone();
        let phase = phases.wait_for(|phase| find(*phase).is_some()).await;
        phase
            .ok()
            .and_then(|phase| find(*phase))
            .expect("the supervisor runs until CMD is gone, as long as this Group is held")
    }
}

fn failed(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {what}: {error}"))
}
