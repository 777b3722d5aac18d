//! The task in `tenure` that tends one group: it reaps CMD, keeps the guard informed, and sees to
//! the end of the whole group.

use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tenure::{Clock as _, SystemClock};
use tokio::process::Child;
use tokio::sync::watch;
use tracing::{debug, error, warn};

use super::guard_process::GuardProcess;
use super::id::GroupId;
use super::orders::{Order, Report};
use super::rest::Rest;
use super::vigil::{Deadlines, Due, Vigil};
use super::{GroupEnd, KILL_AGAIN_AFTER, Phase, Stop};

/// How often to see whether the group is gone, once CMD has ended. Nothing reports the end of
/// processes that are no children of this one.
const LOOK_FOR_REST_EVERY: Duration = Duration::from_millis(50);
/// How long a guard may take to answer a ping before it is taken for stopped.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

pub struct Tender {
    group: GroupId,
    command: Child,
    guard: GuardProcess,
    deadlines: watch::Receiver<Deadlines>,
    phase: watch::Sender<Phase>,
    vigil: Vigil,
    rest: Rest,
    status: Option<ExitStatus>,
    stop: Option<Stop>,
    guard_lost: bool,
    /// The guard has not answered the last deadlines yet. One at a time, so that the pipe to a
    /// stopped guard never fills.
    unanswered: bool,
    ponged: bool,
    abandoned: bool,
    /// Seen once, it holds for ever: the number may belong to another group by then.
    gone: bool,
}

impl Tender {
    pub fn new(
        command: Child,
        group: GroupId,
        guard: GuardProcess,
        deadlines: watch::Receiver<Deadlines>,
        phase: watch::Sender<Phase>,
    ) -> Tender {
        let vigil = Vigil::new(*deadlines.borrow());
        Tender {
            group,
            command,
            guard,
            deadlines,
            phase,
            vigil,
            rest: Rest::of(group),
            status: None,
            stop: None,
            guard_lost: false,
            unanswered: false,
            ponged: false,
            abandoned: false,
            gone: false,
        }
    }

    /// Returns once the guard watches over the group; false if it has died instead.
    pub async fn put_under_guard(&mut self) -> bool {
        let deadlines = *self.deadlines.borrow_and_update();
        self.unanswered = true;
        self.tell(Order::Watch(self.group, deadlines)).await;
        while self.unanswered && !self.guard_lost {
            let report = self.guard.hear().await;
            self.heard(report);
        }
        !self.guard_lost
    }

    /// Tends the group until it is gone, or until nobody holds its [`Group`](super::Group).
    pub async fn tend(mut self) {
        while self.status.is_none() && !self.abandoned {
            self.step().await;
        }
        if let Some(status) = self.status {
            self.settle().await;
            debug!(group = %self.group, %status, "the command has ended");
            self.phase.send_replace(Phase::Ended(GroupEnd { status, stop: self.stop }));
        }
        while !self.gone && !self.abandoned {
            self.step().await;
        }
        if self.abandoned {
            // The end of its stdin has the guard do the same, until nothing is left.
            if !self.gone {
                self.group.signal(Signal::SIGKILL);
            }
            return;
        }
        debug!(group = %self.group, "the group is gone");
        self.guard.dismiss().await;
        self.phase.send_modify(Phase::become_gone);
    }

    /// Waits for the next thing to happen, and handles it.
    async fn step(&mut self) {
        let pause = self.look();
        tokio::select! {
            report = self.guard.hear(), if !self.guard_lost => self.heard(report),
            changed = self.deadlines.changed(), if !self.unanswered && !self.guard_lost => {
                match changed {
                    Ok(()) => self.pass_on_deadlines().await,
                    Err(_) => self.abandoned = true,
                }
            }
            () = self.phase.closed() => self.abandoned = true,
            status = self.command.wait(), if self.status.is_none() => match status {
                Ok(status) => self.status = Some(status),
                Err(error) => self.lost_sight(&error),
            },
            () = sleep(pause) => {}
        }
    }

    /// Does what is due, and says when to look again.
    fn look(&mut self) -> Duration {
        let now = SystemClock.now();
        if self.status.is_some() {
            self.reap_adopted();
            self.gone = self.gone || self.rest.is_gone(now.boot);
        }
        if self.gone {
            return LOOK_FOR_REST_EVERY;
        }
        // SIGTERM is left to the guard: two of them mean "at once" to many a program. SIGKILL is
        // not, as somebody may have stopped the guard.
        self.vigil.set(*self.deadlines.borrow());
        if self.vigil.due(now) == Some(Due::Kill) {
            self.stop = Some(Stop::Killed);
        }
        if self.guard_lost || self.stop == Some(Stop::Killed) {
            self.group.signal(Signal::SIGKILL);
            return KILL_AGAIN_AFTER;
        }
        let pause = self.vigil.next_look(now);
        if self.status.is_some() { pause.min(LOOK_FOR_REST_EVERY) } else { pause }
    }

    /// Finds out whether CMD ended by itself: what the guard did before, it has reported by the
    /// time it answers a ping.
    async fn settle(&mut self) {
        let since = SystemClock.now().boot;
        self.tell(Order::Ping).await;
        while !self.ponged && !self.guard_lost && !self.abandoned {
            if SystemClock.now().boot.saturating_sub(since) >= PING_TIMEOUT {
                warn!(group = %self.group, "the guard does not answer; was it stopped?");
                return;
            }
            self.step().await;
        }
    }

    async fn pass_on_deadlines(&mut self) {
        let deadlines = *self.deadlines.borrow_and_update();
        self.unanswered = true;
        self.tell(Order::Lease(deadlines)).await;
    }

    async fn tell(&mut self, order: Order) {
        if self.guard.tell(order).await.is_err() {
            self.heard(None);
        }
    }

    fn heard(&mut self, report: Option<Report>) {
        match report {
            Some(Report::Watching) => self.unanswered = false,
            Some(Report::Pong) => self.ponged = true,
            Some(Report::Terminated) => {
                warn!(outcome = "terminated", group = %self.group, "the group of CMD was told to end (SIGTERM)");
                self.stop = self.stop.or(Some(Stop::Terminated));
            }
            Some(Report::Killed) => {
                error!(outcome = "killed", group = %self.group, "the group of CMD was killed (SIGKILL)");
                self.stop = Some(Stop::Killed);
            }
            None => {
                error!(outcome = "unguarded", group = %self.group, "the guard has died: killing the group");
                self.guard_lost = true;
                // What it had already done for the lease stays the reason.
                self.stop = self.stop.or(Some(Stop::Unguarded));
            }
        }
    }

    /// Without its status nobody can tell when the group is gone, so it must not go on.
    fn lost_sight(&mut self, why: &std::io::Error) {
        use std::os::unix::process::ExitStatusExt as _;
        error!(group = %self.group, error = %why, "cannot wait for the command: killing the group");
        self.group.signal(Signal::SIGKILL);
        self.stop = self.stop.or(Some(Stop::Unguarded));
        self.status = Some(ExitStatus::from_raw(Signal::SIGKILL as i32));
    }

    /// As the first process of a container, `tenure` is given the orphans of the group, and has to
    /// reap them before the group is gone. Only once the leader has been reaped: that one's status
    /// belongs to `command`.
    fn reap_adopted(&self) {
        let members = Pid::from_raw(-self.group.leader().as_raw());
        loop {
            match waitpid(members, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "the command is not simulated, and has no driver")]
async fn sleep(pause: Duration) {
    tokio::time::sleep(pause).await;
}
