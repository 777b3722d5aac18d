//! Runs CMD and ends it and all its descendants before the end of the lease.
//!
//! Each process starts the next process in this list:
//!
//! 1. `tenure` contains the *supervisor*, a task that sends new deadlines to the guard.
//! 2. The *standby* waits for the end of the guard.
//! 3. The *guard* ends CMD and all its descendants at the deadlines of the lease, or when `tenure`
//!    dies.
//! 4. The *gate* becomes CMD.
//!
//! On Linux the guard and the standby are child subreapers: a descendant whose parent ends remains
//! a descendant of the guard, in any process group or session. On systems without subreapers the
//! guard ends only the process group of CMD.
//!
//! | Failure | Consequence |
//! |---|---|
//! | The guard dies | The kernel kills CMD, and the standby kills the other descendants |
//! | The guard is suspended (SIGSTOP) | The supervisor kills the descendants |
//! | The guard and `tenure` are suspended | A kernel timer kills the guard before the lease ends |

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

use crate::output::logs::LoggedPartition;

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

/// Optional tasks of a guard. The main task of every guard is to end CMD at the deadlines.
#[derive(Debug, Clone, Default)]
pub struct Extras {
    /// Time from the deadline for SIGKILL to the end of the lease. A guard that has not acted after
    /// half of this time is killed.
    pub kill_margin: Option<Duration>,
    /// Epoch to resign after `tenure` has died and no process of CMD is left.
    pub resignation: Option<Resignation>,
    /// Hook that starts at the same time as CMD.
    pub on_elected: Option<Hook>,
    /// File that the guard writes before CMD starts, and removes when CMD ends or must end.
    pub epoch_file: Option<EpochFile>,
    /// The partition that the guard of `group run` adds to its log lines.
    pub partition: Option<LoggedPartition>,
}

/// A function that logs an event. Its arguments are the outcome in one word, and the message.
pub type Say<'a> = &'a dyn Fn(&'static str, &str);

/// A running CMD and its descendants, watched by a guard.
///
/// Dropping the group kills CMD and all its descendants.
#[derive(Debug)]
#[must_use = "dropping it kills the group"]
pub struct Group {
    deadlines: watch::Sender<Deadlines>,
    orders: mpsc::UnboundedSender<GuardOrder>,
    phase: watch::Receiver<CmdPhase>,
}

impl Group {
    /// Starts the command with these additional environment variables, under a guard that also
    /// carries out `extras`.
    ///
    /// Returns a group even if CMD cannot be executed: CMD then ends with 126 or 127, as in a
    /// shell. Dropping the future ends all processes that it has started.
    pub async fn start(
        tenure: &Tenure,
        command: &[OsString],
        environment: &[(&str, String)],
        deadlines: Deadlines,
        extras: Extras,
    ) -> io::Result<Group> {
        // `tenure` may have been started with SIGCHLD ignored. Without a handler for SIGCHLD, the
        // guard would inherit this setting, and the kernel would discard the exit statuses of its
        // children.
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

    /// Replaces the deadlines. The guard acts immediately on a deadline in the past. For example,
    /// it sends SIGTERM if `term_at` has passed.
    pub fn set_deadlines(&self, deadlines: Deadlines) {
        self.deadlines.send_replace(deadlines);
    }

    /// Forwards a signal to the process group of CMD.
    pub fn forward(&self, signal: Signal) {
        self.order(GuardOrder::Signal(signal));
    }

    /// Sends SIGTERM once to each remaining descendant of CMD. Called after the end of CMD.
    pub fn end_rest(&self) {
        self.order(GuardOrder::EndRest);
    }

    fn order(&self, order: GuardOrder) {
        // The send fails only if the supervisor has ended, and then no guard can carry out the
        // order.
        let _ = self.orders.send(order);
    }

    /// Kills CMD and all its descendants.
    pub fn kill(&self) {
        self.set_deadlines(Deadlines::long_past());
    }

    /// Waits for the end of CMD, and returns its exit status and the reason for its end.
    /// Descendants of CMD may still run: see [`Group::gone`].
    pub async fn wait(&self) -> GroupEnd {
        self.phase_with(CmdPhase::end).await
    }

    /// Waits until no process of CMD is left, or until this process cannot find out any more which
    /// processes of CMD are left. Returns how CMD has ended, and which processes may be left. The
    /// caller may resign the leadership only after [`Left::Nothing`].
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
            .expect("while this Group exists, the supervisor runs until CMD is gone")
    }
}

fn failed(action: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {action}: {error}"))
}
