//! The task in `tenure` that supervises one CMD.
//!
//! It sends orders to the guard, receives the reports of the guard, and kills the descendants of
//! CMD if the guard does not.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tenure::Process;
use tokio::sync::{mpsc, watch};
use tracing::{debug, error, info, warn};

use super::Extras;
use super::cmd_phase::{CmdPhase, GroupEnd, Left, Stop};
use super::deadlines::{DeadlineTimer, Deadlines, Due};
use super::descendants::{self, Living};
use super::epoch_file::EpochFile;
use super::guard_process::{GuardMessage, GuardProcess};
use super::hook;
use super::messages::{GuardOrder, GuardReport};
use super::process_group::GroupId;
use crate::process::timer::pause;

/// If no check has found a living descendant for this time, and the guard has not reported the end
/// of all descendants, the supervisor kills the guard.
const SILENT_AFTER: Duration = Duration::from_secs(1);
/// If the guard does not answer an order for this time, it counts as suspended (SIGSTOP). A running
/// guard answers immediately.
const STOPPED_AFTER: Duration = Duration::from_secs(5);
/// Maximum number of `Signal` orders that the guard has not answered. Further signals wait.
const MAX_SIGNALS: u32 = 16;
const KILL_AGAIN_AFTER: Duration = Duration::from_millis(100);

pub struct Supervisor {
    guard: GuardProcess,
    standby: Pid,
    /// Process number of the guard. `None` until the guard runs, or if /proc cannot be read.
    guard_pid: Option<Pid>,
    group: Option<GroupId>,
    deadlines: watch::Receiver<Deadlines>,
    orders: mpsc::UnboundedReceiver<GuardOrder>,
    phase: watch::Sender<CmdPhase>,
    timer: DeadlineTimer,
    status: Option<ExitStatus>,
    stop: Option<Stop>,
    killed: bool,
    guard_lost: bool,
    standby_lost: bool,
    /// True while the guard has not answered the last order with deadlines. At any time, the guard
    /// has at most one unanswered order with deadlines and a few unanswered signals, so the pipe to
    /// a suspended guard never fills. A full pipe would block this task, and this task must kill
    /// CMD if the guard is suspended.
    unanswered: bool,
    /// Number of `Signal` orders that the guard has not answered.
    signals: u32,
    /// Signals that wait until the guard has answered earlier `Signal` orders.
    waiting: Vec<Signal>,
    /// Time of the first check that found the last order with deadlines unanswered, on the boot
    /// clock.
    unanswered_since: Option<Duration>,
    /// Time of the first check that found no living descendant, on the boot clock.
    lifeless_since: Option<Duration>,
    abandoned: bool,
    /// The epoch file. The guard removes the file. If the guard cannot, this process removes it.
    epoch_file: Option<EpochFile>,
    /// The processes of CMD that are left, set at the end of the supervision.
    left: Option<Left>,
}

impl Supervisor {
    pub fn new(
        guard: GuardProcess,
        deadlines: watch::Receiver<Deadlines>,
        orders: mpsc::UnboundedReceiver<GuardOrder>,
        phase: watch::Sender<CmdPhase>,
    ) -> io::Result<Supervisor> {
        let timer = DeadlineTimer::new(*deadlines.borrow());
        let standby = guard.standby();
        Ok(Supervisor {
            standby: standby
                .ok_or_else(|| io::Error::other("the standby of the guard has already ended"))?,
            guard_pid: None,
            guard,
            group: None,
            deadlines,
            orders,
            phase,
            timer,
            status: None,
            stop: None,
            killed: false,
            guard_lost: false,
            standby_lost: false,
            unanswered: false,
            signals: 0,
            waiting: Vec::new(),
            unanswered_since: None,
            lifeless_since: None,
            abandoned: false,
            epoch_file: None,
            left: None,
        })
    }

    /// Sends the first deadlines, and waits until the guard watches them. Returns false if the
    /// guard has died.
    pub async fn put_under_guard(&mut self, extras: Extras) -> bool {
        let deadlines = *self.deadlines.borrow_and_update();
        self.unanswered = true;
        self.send(GuardOrder::Watch(deadlines)).await;
        self.epoch_file = extras.epoch_file;
        if let Some(resignation) = extras.resignation {
            self.send(GuardOrder::Resign(Box::new(resignation))).await;
        }
        if let Some(hook) = extras.on_elected {
            self.send(GuardOrder::OnElected(Box::new(hook))).await;
        }
        while self.unanswered && !self.guard_lost {
            match self.guard.recv().await {
                GuardMessage::Report(report) => self.handle(report),
                GuardMessage::Silence | GuardMessage::Exit(_) => self.lose_guard("the guard"),
            }
        }
        // CMD has not started, so the guard is the only other process in the group of the standby.
        let all = descendants::living(self.standby, None);
        self.guard_pid = all.iter().find(|one| one.group == self.standby).map(|one| one.pid);
        !self.guard_lost
    }

    /// Orders the start of CMD. If the future is dropped, either the whole order is sent or no part
    /// of it.
    pub async fn start(&mut self) {
        self.send(GuardOrder::Start).await;
    }

    /// Supervises CMD until none of its processes is left, or until its [`Group`](super::Group) is
    /// dropped.
    pub async fn supervise(mut self) {
        while self.left.is_none() && !self.abandoned {
            self.step().await;
        }
        let Some(left) = self.left else {
            // With these deadlines, the guard kills CMD immediately. Without this order, it would
            // give CMD the grace first.
            self.send(GuardOrder::Lease(Deadlines::long_past())).await;
            return;
        };
        debug!(?left, "no process of CMD runs any more");
        if self.guard.standby().is_some() {
            // If the guard is suspended, it never exits, so this task kills it.
            self.kill_guard();
        }
        let status = self.status.unwrap_or(ExitStatus::from_raw(Signal::SIGKILL as i32));
        self.phase.send_replace(CmdPhase::Gone(GroupEnd { status, stop: self.stop }, left));
    }

    /// Waits for the next message, order or check of the deadlines, and handles it.
    async fn step(&mut self) {
        let next_look = self.look();
        tokio::select! {
            message = self.guard.recv() => match message {
                GuardMessage::Report(report) => {
                    self.handle(report);
                    self.pass_signals_on().await;
                }
                GuardMessage::Silence => self.lose_guard("the guard"),
                GuardMessage::Exit(status) => self.standby_ended(status).await,
            },
            changed = self.deadlines.changed(), if !self.unanswered && !self.guard_lost => {
                match changed {
                    Ok(()) => self.pass_on_deadlines().await,
                    Err(_) => self.abandoned = true,
                }
            }
            Some(order) = self.orders.recv() => self.pass_on(order).await,
            () = self.phase.closed() => self.abandoned = true,
            () = pause(next_look) => {}
        }
    }

    /// Sends SIGKILL if a deadline or the loss of the guard requires it. Returns the time until the
    /// next check.
    fn look(&mut self) -> Duration {
        if self.standby_lost && !self.guard.reporting {
            return self.kill_group();
        }
        let now = Process::system().now();
        // This task never sends SIGTERM, because many programs end without a cleanup at the second
        // SIGTERM, and the guard sends the first. This task sends SIGKILL in addition to the guard,
        // because the guard may be suspended.
        self.timer.set(*self.deadlines.borrow());
        let kill = self.timer.due(now) == Some(Due::Kill) || self.guard_lost;
        if !kill && !self.is_stopped(now.boot) {
            self.lifeless_since = None;
            return self.timer.next_look(now);
        }
        let living = self.living();
        if living.is_empty() {
            self.see_no_life(now.boot);
        } else {
            self.lifeless_since = None;
            let killed = kill && descendants::kill_all(&living, self.group);
            if killed && !self.guard_lost {
                self.note_killed();
            }
        }
        KILL_AGAIN_AFTER
    }

    /// Returns whether the guard counts as suspended. A suspended guard does not report the end of
    /// CMD.
    fn is_stopped(&mut self, now: Duration) -> bool {
        if !self.unanswered {
            self.unanswered_since = None;
            return false;
        }
        let since = *self.unanswered_since.get_or_insert(now);
        now.saturating_sub(since) >= STOPPED_AFTER
    }

    /// Handles a check that found no living descendant. If the guard does not report the end of all
    /// descendants within [`SILENT_AFTER`], kills the guard and the standby. One of the two must be
    /// suspended: if both ran, they would have reported the end.
    fn see_no_life(&mut self, now: Duration) {
        let since = *self.lifeless_since.get_or_insert(now);
        if now.saturating_sub(since) < SILENT_AFTER {
            return;
        }
        warn!(
            "no process of CMD runs, and the guard has not reported it: the guard may be stopped"
        );
        if self.status.is_none() {
            self.stop = self.stop.or(Some(Stop::Unguarded));
        }
        self.kill_guard();
        self.left = Some(Left::Nothing);
    }

    /// Returns the living descendants of the standby, or of the guard if the standby has died. The
    /// result does not contain the guard.
    fn living(&self) -> Vec<Living> {
        let alone = self.guard_pid.filter(|_| self.standby_lost);
        let mut living = descendants::living(alone.unwrap_or(self.standby), self.group);
        living.retain(|one| Some(one.pid) != self.guard_pid);
        living
    }

    /// Kills the guard and the standby, which are in one process group.
    fn kill_guard(&self) {
        if let Some(group) = GroupId::new(self.standby.as_raw()) {
            group.signal(Signal::SIGKILL);
        }
    }

    async fn pass_on_deadlines(&mut self) {
        let deadlines = *self.deadlines.borrow_and_update();
        self.unanswered = true;
        self.send(GuardOrder::Lease(deadlines)).await;
    }

    async fn pass_on(&mut self, order: GuardOrder) {
        match order {
            // A signal that already waits is not added again. In the same way, the kernel delivers
            // a pending signal only once.
            GuardOrder::Signal(signal) if self.waiting.contains(&signal) => {}
            GuardOrder::Signal(signal) => {
                self.waiting.push(signal);
                self.pass_signals_on().await;
            }
            order => self.send(order).await,
        }
    }

    async fn pass_signals_on(&mut self) {
        while self.signals < MAX_SIGNALS && !self.waiting.is_empty() {
            let signal = self.waiting.remove(0);
            self.signals += 1;
            self.send(GuardOrder::Signal(signal)).await;
        }
    }

    async fn send(&mut self, order: GuardOrder) {
        // The error is ignored: the send fails only after the death of the guard, and the end of
        // the pipe of reports shows this death.
        let _ = self.guard.send(order).await;
    }

    fn handle(&mut self, report: GuardReport) {
        match report {
            GuardReport::Watching => self.unanswered = false,
            GuardReport::Signalled(orders) => self.signals = self.signals.saturating_sub(orders),
            GuardReport::TooLate => {
                self.stop = Some(Stop::Killed);
                error!(outcome = "killed", "CMD was not started: its lease had ended");
            }
            GuardReport::Started(group) => {
                debug!(%group, "CMD runs");
                self.group = Some(group);
            }
            GuardReport::Terminated => {
                self.stop = self.stop.or(Some(Stop::Terminated));
                // An earlier line of the log contains the reason for the SIGTERM: a revocation, a
                // lease at risk, or a loss.
                info!(outcome = "terminated", "the guard sent SIGTERM to CMD");
            }
            GuardReport::Killed => self.note_killed(),
            GuardReport::Ended(status) => {
                let status = ExitStatus::from_raw(status);
                debug!(%status, "CMD has ended");
                self.status = Some(status);
                self.phase.send_replace(CmdPhase::Ended(GroupEnd { status, stop: self.stop }));
            }
            GuardReport::HookEnded(status) => {
                hook::log_end("--on-elected", ExitStatus::from_raw(status))
            }
            GuardReport::Gone => self.left = Some(Left::Nothing),
        }
    }

    /// Records and logs that the guard or this process has sent SIGKILL to CMD or its descendants.
    /// Both processes may send SIGKILL at the same deadline, so only the first call has an effect.
    fn note_killed(&mut self) {
        if std::mem::replace(&mut self.killed, true) {
            return;
        }
        let victim = if self.status.is_none() {
            self.stop = Some(if self.standby_lost { Stop::Unguarded } else { Stop::Killed });
            "CMD"
        } else {
            "a process that CMD left behind"
        };
        error!(outcome = "killed", "{victim} was killed (SIGKILL)");
        self.remove_epoch_file();
    }

    /// Records and logs the death of the guard or of the standby. The survivor of the two kills all
    /// descendants.
    fn lose_guard(&mut self, process: &str) {
        if !std::mem::replace(&mut self.guard_lost, true) {
            // If the guard has sent SIGTERM or SIGKILL before its death, this signal remains the
            // recorded reason for the end of CMD.
            if self.status.is_none() {
                self.stop = self.stop.or(Some(Stop::Unguarded));
            }
            error!(outcome = "unguarded", "{process} has died: CMD is killed");
            self.remove_epoch_file();
        }
    }

    fn remove_epoch_file(&self) {
        // The result is dropped, because this task must not wait for the thread that removes the
        // file.
        drop(self.epoch_file.as_ref().map(EpochFile::remove));
    }

    async fn standby_ended(&mut self, status: Option<ExitStatus>) {
        if status.is_some_and(|status| status.success()) {
            // The standby exits with success only after all descendants have ended. The pipe may
            // still contain reports of the guard.
            tokio::select! {
                () = self.read_last_reports() => {}
                () = pause(SILENT_AFTER) => {}
            }
            if self.left.is_none() {
                self.lose_guard("the guard");
                self.left = Some(Left::Nothing);
            }
            return;
        }
        self.lose_guard("the standby of the guard");
        self.standby_lost = true;
        // The standby is dead, but a living guard still kills all descendants of CMD before it
        // ends.
        self.send(GuardOrder::Lease(Deadlines::long_past())).await;
    }

    async fn read_last_reports(&mut self) {
        while let GuardMessage::Report(report) = self.guard.recv().await {
            self.handle(report);
        }
    }

    /// Kills the group of CMD after the guard and the standby have ended. The kernel has killed CMD
    /// at the death of the guard. Among the other descendants, this process can find only the
    /// members of the group.
    fn kill_group(&mut self) -> Duration {
        match self.group.filter(|group| group.exists()) {
            Some(group) => group.signal(Signal::SIGKILL),
            None => self.left = Some(Left::Unknown),
        }
        KILL_AGAIN_AFTER
    }
}
