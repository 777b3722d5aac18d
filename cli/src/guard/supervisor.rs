//! The task in `tenure` that supervises one CMD: it keeps the guard informed, learns how CMD ended,
//! and sees to the end of its descendants.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tenure::Process;
use tokio::sync::{mpsc, watch};
use tracing::{debug, error, warn};

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

/// For how long no descendant must be seen alive until a guard that says nothing is not waited for.
const SILENT_AFTER: Duration = Duration::from_secs(1);
/// A guard that does not answer for so long was stopped: it does next to nothing else.
const STOPPED_AFTER: Duration = Duration::from_secs(5);
/// More signals that the guard has not answered wait.
const MAX_SIGNALS: u32 = 16;
const KILL_AGAIN_AFTER: Duration = Duration::from_millis(100);

pub struct Supervisor {
    guard: GuardProcess,
    standby: Pid,
    /// Known once the guard runs, where processes can be found.
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
    /// The guard has not answered the last deadlines yet. One at a time, and few signals, so that
    /// the pipe to a stopped guard never fills: then nothing would kill CMD in its place.
    unanswered: bool,
    /// Signals that the guard has not answered yet, and those that wait until it has.
    signals: u32,
    waiting: Vec<Signal>,
    /// Since when, by the boot clock, the deadlines are unanswered at every look.
    unanswered_since: Option<Duration>,
    /// Since when, by the boot clock, no descendant has been seen alive.
    lifeless_since: Option<Duration>,
    abandoned: bool,
    /// The guard removes it; this process does if the guard cannot.
    epoch_file: Option<EpochFile>,
    /// Known once it is over.
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
            standby: standby.ok_or_else(|| io::Error::other("the guard died at once"))?,
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

    /// Returns once the guard watches the deadlines; false if it has died instead.
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
        // It shares the group of the standby, and no other process is there yet.
        let all = descendants::living(self.standby, None);
        self.guard_pid = all.iter().find(|one| one.group == self.standby).map(|one| one.pid);
        !self.guard_lost
    }

    /// Has CMD started. The order is written at once or, if this is dropped before, not at all.
    pub async fn start(&mut self) {
        self.send(GuardOrder::Start).await;
    }

    /// Supervises CMD until nothing of it is left, or until nobody holds its
    /// [`Group`](super::Group).
    pub async fn supervise(mut self) {
        while self.left.is_none() && !self.abandoned {
            self.step().await;
        }
        let Some(left) = self.left else {
            // The end of the orders alone would leave CMD its grace.
            self.send(GuardOrder::Lease(Deadlines::long_past())).await;
            return;
        };
        debug!(?left, "nothing of CMD runs any more");
        if self.guard.standby().is_some() {
            // It ends by itself, unless somebody has stopped it.
            self.kill_guard();
        }
        let status = self.status.unwrap_or(ExitStatus::from_raw(Signal::SIGKILL as i32));
        self.phase.send_replace(CmdPhase::Gone(GroupEnd { status, stop: self.stop }, left));
    }

    /// Waits for the next thing to happen, and handles it.
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

    /// Does what is due, and says when to look again.
    fn look(&mut self) -> Duration {
        if self.standby_lost && !self.guard.reporting {
            return self.kill_group();
        }
        let now = Process::system().now();
        // SIGTERM is left to the guard: two of them mean "at once" to many a program. SIGKILL is
        // not, as somebody may have stopped the guard.
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
            if killed && !self.guard_lost && !std::mem::replace(&mut self.killed, true) {
                self.note_killed();
            }
        }
        KILL_AGAIN_AFTER
    }

    /// Whether the guard has not answered for so long that it must have been stopped. The end of
    /// CMD would go unnoticed, too.
    fn is_stopped(&mut self, now: Duration) -> bool {
        if !self.unanswered {
            self.unanswered_since = None;
            return false;
        }
        let since = *self.unanswered_since.get_or_insert(now);
        now.saturating_sub(since) >= STOPPED_AFTER
    }

    /// No descendant was seen alive: gets rid of a guard, or of a standby, that was stopped and so
    /// does not say that nothing is left.
    fn see_no_life(&mut self, now: Duration) {
        let since = *self.lifeless_since.get_or_insert(now);
        if now.saturating_sub(since) < SILENT_AFTER {
            return;
        }
        warn!("nothing of CMD runs, and its guard does not say so: was it stopped?");
        if self.status.is_none() {
            self.stop = self.stop.or(Some(Stop::Unguarded));
        }
        self.kill_guard();
        self.left = Some(Left::Nothing);
    }

    /// The living descendants of the standby, or of the guard if the standby has died; without the
    /// guard itself.
    fn living(&self) -> Vec<Living> {
        let alone = self.guard_pid.filter(|_| self.standby_lost);
        let mut living = descendants::living(alone.unwrap_or(self.standby), self.group);
        living.retain(|one| Some(one.pid) != self.guard_pid);
        living
    }

    /// Guard and standby are in one group.
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
            // Once, if many wait: the kernel merges what is pending, too.
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
        // An error says that the guard has died, and so does the end of its reports.
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
                warn!(outcome = "terminated", "CMD got SIGTERM");
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

    /// The guard has sent SIGKILL, or this process has: to CMD, or to what it left behind.
    fn note_killed(&mut self) {
        let what = if self.status.is_none() {
            self.stop = Some(if self.standby_lost { Stop::Unguarded } else { Stop::Killed });
            "CMD"
        } else {
            "what CMD left behind"
        };
        error!(outcome = "killed", "{what} was killed (SIGKILL)");
        self.remove_epoch_file();
    }

    /// The guard has died, and its standby kills what runs; or the standby has, and the guard does.
    fn lose_guard(&mut self, what: &str) {
        if !std::mem::replace(&mut self.guard_lost, true) {
            // What the guard had already done for the lease stays the reason.
            if self.status.is_none() {
                self.stop = self.stop.or(Some(Stop::Unguarded));
            }
            error!(outcome = "unguarded", "{what} has died: CMD is killed");
            self.remove_epoch_file();
        }
    }

    fn remove_epoch_file(&self) {
        // Nobody waits for it: the thread goes on.
        drop(self.epoch_file.as_ref().map(EpochFile::remove));
    }

    async fn standby_ended(&mut self, status: Option<ExitStatus>) {
        if status.is_some_and(|status| status.success()) {
            // It ends so only when nothing is left. The reports may not have been read yet.
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
        // Alone, the guard still ends all before it ends itself.
        self.send(GuardOrder::Lease(Deadlines::long_past())).await;
    }

    async fn read_last_reports(&mut self) {
        while let GuardMessage::Report(report) = self.guard.recv().await {
            self.handle(report);
        }
    }

    /// Neither guard nor standby is there any more. The kernel kills CMD when the guard dies; of
    /// the rest only the group is known.
    fn kill_group(&mut self) -> Duration {
        match self.group.filter(|group| group.exists()) {
            Some(group) => group.signal(Signal::SIGKILL),
            None => self.left = Some(Left::Unknown),
        }
        KILL_AGAIN_AFTER
    }
}
