//! The work on one partition, from the start of CMD to the end of its last descendant.

use std::error::Error as StdError;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use nix::sys::signal::Signal;
use tenure::{EpochEnd, Loss, Moment, Process};
use tenure_groups::{Partition, PartitionLoss};
use tokio::sync::{Notify, broadcast};
use tracing::{Instrument as _, error_span, info, warn};

use super::health::GroupHealth;
use crate::guard::{Deadlines, Extras, Group, GroupEnd, Left, Stop};
use crate::output::logs::{LoggedPartition, PARTITION_SPAN};
use crate::output::print::plain;
use crate::process::app_health::AppHealth;
use crate::process::cmd::{Cmd, GroupWatch, inside_run, shown};
use crate::process::margins::Margins;
use crate::process::timer::pause;

/// Maximum number of queued signals for the task of a CMD. If the queue is full, the oldest signals
/// are dropped.
const MOST_SIGNALS: usize = 16;
/// Maximum interval between two checks of whether the member's session was renewed or lost.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// The CMDs of all partitions that this member owns, and their common settings.
pub struct Works {
    cmd: Cmd,
    app: AppHealth,
    health: Arc<GroupHealth>,
    signals: broadcast::Sender<Signal>,
    unguarded: Notify,
}

impl Works {
    pub fn new(cmd: Cmd, app: AppHealth, health: Arc<GroupHealth>) -> Works {
        let (signals, _) = broadcast::channel(MOST_SIGNALS);
        Works { cmd, app, health, signals, unguarded: Notify::new() }
    }

    /// Forwards a signal to each CMD. SIGKILL also kills the descendants of each CMD.
    pub fn forward(&self, signal: Signal) {
        // The send fails only if no CMD runs to receive the signal.
        let _ = self.signals.send(signal);
    }

    /// Waits until a guard and its standby are both dead. Then this process cannot find all
    /// processes of their CMD, so some may still run.
    pub async fn unguarded(&self) {
        self.unguarded.notified().await;
    }

    /// Runs CMD while this member owns the partition. When this function returns, all descendants
    /// of CMD have ended.
    pub async fn work(&self, partition: Partition) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let (name, epoch) = (plain(partition.name()), partition.token().get());
        let span = error_span!(PARTITION_SPAN, partition = %name, epoch);
        let partition = Arc::new(partition);
        self.health.begin(&partition);
        let outcome = self.run_cmd(&partition).instrument(span).await;
        self.health.end(&partition);
        outcome
    }

    async fn run_cmd(
        &self,
        partition: &Arc<Partition>,
    ) -> Result<(), Box<dyn StdError + Send + Sync>> {
        let Cmd { tenure, command, environment: [name, store], margins } = &self.cmd;
        info!(outcome = "granted", "granted: running {}", shown(command));
        let environment = [
            ("TENURE_PARTITION", partition.name().to_owned()),
            ("TENURE_EPOCH", partition.token().to_string()),
            inside_run(),
            name.clone(),
            store.clone(),
        ];
        let signals = self.signals.subscribe();
        let ends_at = partition.ends_at();
        let deadlines = margins.deadlines(ends_at);
        let logged = LoggedPartition::new(partition.name(), partition.token().get());
        let extras = Extras {
            kill_margin: Some(margins.kill_margin),
            partition: Some(logged),
            ..Extras::default()
        };
        let started = Group::start(tenure, command, &environment, deadlines, extras);
        // If the partition is revoked before CMD has started, the future of the start is dropped.
        // This ends all processes that the future has started.
        let group = tokio::select! {
            biased;
            () = cancelled(partition) => return Ok(()),
            group = started => group?,
        };
        let app = self.app.of_partition(partition.name());
        let mut watch = WorkWatch {
            app: app.until_unhealthy().boxed(),
            unhealthy: None,
            margins: *margins,
            partition,
            group: &group,
            signals,
            ends_at,
            stopping: false,
            lost: false,
        };
        let end = watch.until(group.wait()).await;
        watch.app = pending().boxed();
        if watch.end_descendants().await == Left::Unknown {
            // This future never completes, so the partition is not released while a process of CMD
            // may still run.
            self.unguarded.notify_one();
            pending::<()>().await;
        }
        outcome_of(end, watch.stopping, watch.unhealthy)?;
        info!(outcome = "released", "released: no process of CMD is left");
        Ok(())
    }
}

/// Returns an error if the end of CMD means that the work on the partition has failed.
fn outcome_of(end: GroupEnd, stopping: bool, unhealthy: Option<String>) -> Result<(), String> {
    match (end.stop, unhealthy) {
        (Some(Stop::Unguarded), _) => Err("its guard has died, so CMD was killed".to_owned()),
        (_, Some(why)) => Err(format!("{why}, so CMD was stopped")),
        (None, None) if !stopping && !end.status.success() => {
            Err(format!("CMD ended with exit code {}", end.exit_code()))
        }
        _ => Ok(()),
    }
}

async fn cancelled(partition: &Partition) {
    partition.revoked().cancelled().await;
}

/// Supervises one guard: sends it the signals for CMD, and new deadlines after a renewal or a
/// revocation.
struct WorkWatch<'a> {
    /// Checks the health of CMD, and completes with the reason to stop CMD. Never completes after
    /// this process has asked CMD to end.
    app: BoxFuture<'a, String>,
    /// The reason to stop CMD, after a check has found CMD unhealthy.
    unhealthy: Option<String>,
    margins: Margins,
    partition: &'a Partition,
    group: &'a Group,
    signals: broadcast::Receiver<Signal>,
    /// The end of the lease that determined the current deadlines of the guard.
    ends_at: Moment,
    /// True after CMD got SIGTERM: renewals no longer change its deadlines.
    stopping: bool,
    /// True after CMD was killed.
    lost: bool,
}

impl<'a> GroupWatch<'a> for WorkWatch<'a> {
    fn group(&self) -> &'a Group {
        self.group
    }

    fn grace(&self) -> Duration {
        self.margins.grace
    }

    fn lost(&self) -> bool {
        self.lost
    }

    async fn until<T>(&mut self, what: impl Future<Output = T>) -> T {
        let mut what = std::pin::pin!(what);
        let between = (self.margins.grace + self.margins.kill_margin) / 10;
        loop {
            tokio::select! {
                biased;
                value = &mut what => return value,
                () = cancelled(self.partition), if !self.stopping => self.stop(),
                why = &mut self.app => {
                    self.unhealthy = Some(why);
                    self.stop();
                }
                Ok(signal) = self.signals.recv() => self.pass_on(signal),
                () = pause(between.min(LOOK_AT_LEAST_EVERY)) => self.look(),
            }
        }
    }
}

impl WorkWatch<'_> {
    /// Ends CMD. Called if the partition must move, if the session is at risk or has ended, or if
    /// CMD is not healthy.
    fn stop(&mut self) {
        self.app = pending().boxed();
        self.look();
        self.stopping = true;
        if !self.lost {
            let deadlines = self.margins.deadlines(self.partition.ends_at());
            self.group.set_deadlines(deadlines.brought_forward(Process::system().now()));
            if self.unhealthy.is_none() {
                info!(outcome = "revoked", "revoked: CMD gets SIGTERM");
            }
        }
    }

    fn look(&mut self) {
        if self.lost {
            return;
        }
        if let Err(loss) = self.partition.check() {
            return self.lose(&loss);
        }
        let ends_at = self.partition.ends_at();
        if !self.stopping && ends_at != self.ends_at {
            self.ends_at = ends_at;
            self.group.set_deadlines(self.margins.deadlines(ends_at));
        }
    }

    /// Ends CMD after the loss of the partition. If the member was deposed without `--force`, the
    /// partition moves only after the end of the lease. So CMD gets SIGTERM, and SIGKILL shortly
    /// before that end. After any other loss CMD is killed immediately.
    fn lose(&mut self, loss: &PartitionLoss) {
        self.lost = true;
        let why = plain(&loss.to_string());
        if let PartitionLoss::Session(Loss::Sealed { ended: EpochEnd::Deposed, .. }) = loss {
            if !self.stopping {
                let Deadlines { term_at, .. } = Deadlines::long_past();
                let Deadlines { kill_at, .. } = self.margins.deadlines(self.ends_at);
                self.group.set_deadlines(Deadlines { term_at, kill_at });
            }
            warn!(outcome = loss.outcome(), "lost: {why}; CMD gets SIGTERM");
        } else {
            self.group.kill();
            warn!(outcome = loss.outcome(), "lost: {why}; CMD is killed");
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        match signal {
            Signal::SIGKILL => {
                self.lost = true;
                self.group.kill();
            }
            signal => self.group.forward(signal),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn regression_a_dead_guard_is_the_reason_even_if_cmd_is_unhealthy() {
        let unhealthy = || Some("no sign of health".to_owned());
        for (stop, why) in [(Stop::Unguarded, "guard has died"), (Stop::Terminated, "no sign of")] {
            let end = GroupEnd { status: ExitStatus::default(), stop: Some(stop) };
            let outcome = outcome_of(end, true, unhealthy());
            assert!(outcome.as_ref().is_err_and(|it| it.contains(why)), "{outcome:?}");
        }
    }
}
