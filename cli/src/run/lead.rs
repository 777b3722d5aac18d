//! One leadership, from the start of CMD to the end of the last descendant of CMD.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum as _;
use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _};
use nix::sys::signal::Signal;
use serde_json::Value;
use tenure::{Epoch, EpochEnd, ErrorKind, Leadership, LeadershipEvent, Loss, Process};
use tracing::{info, warn};

use super::health::{CandidatePhase, ElectionHealth};
use super::hooks::HooksArgs;
use super::outcome::{Outcome, loss_text, outcome_of, why_lost};
use crate::args::common::LayoutArg;
use crate::args::data_file;
use crate::cron::Turn;
use crate::exit::{self, Failure};
use crate::guard::{Deadlines, Extras, Group, Left, Resignation};
use crate::output::print::{millis, plain};
use crate::process::app_health::AppHealth;
use crate::process::cmd::{Cmd, GroupWatch, inside_run, shown};
use crate::process::signals::{self, Signals};
use crate::process::timer::pause;

/// Minimum time that a resignation gets. After this time, a signal ends the wait for the
/// resignation.
const HURRIED_RESIGNATION: Duration = Duration::from_secs(1);

/// The value of `TENURE_LOSS` for an epoch that was not resigned. Other candidates wait until the
/// lease of the epoch lapses.
const NOT_RESIGNED: &str = "not_resigned";

/// A CMD to run in one leadership, and the values that the supervision of this CMD needs.
pub struct Job {
    pub cmd: Cmd,
    pub app: AppHealth,
    pub health: Arc<ElectionHealth>,
    /// The name of the preferred next leader.
    pub successor: Option<String>,
    /// Data that the record contains immediately after the election. Later data comes from
    /// `data_file`.
    pub data: Value,
    pub data_file: Option<PathBuf>,
    pub hooks: HooksArgs,
    pub layout: LayoutArg,
    pub validity: Duration,
    pub request_timeout: Duration,
}

impl Job {
    fn extras(&self, leadership: &Leadership) -> Extras {
        Extras {
            kill_margin: Some(self.cmd.margins.kill_margin),
            resignation: Some(self.resignation(leadership)),
            on_elected: self.hooks.beside_cmd(),
            epoch_file: self.hooks.epoch_file(leadership),
            partition: None,
        }
    }

    /// Returns the data that the guard needs in order to resign this leadership after the death of
    /// this process.
    fn resignation(&self, leadership: &Leadership) -> Resignation {
        let [(_, name), (_, store)] = &self.cmd.environment;
        let layout = self.layout.to_possible_value().expect("no layout is hidden");
        Resignation {
            store: store.clone(),
            layout: layout.get_name().to_owned(),
            candidate: name.clone(),
            validity_ms: millis(self.validity),
            request_timeout_ms: millis(self.request_timeout),
            key: leadership.resign_key().to_string(),
            successor: self.successor.clone(),
            kill_margin_ms: millis(self.cmd.margins.kill_margin),
        }
    }
}

/// Runs CMD while the lease is valid, and records the end of CMD in `turn`. Returns after CMD has
/// ended and the leadership is resigned or lost. If descendants of CMD may still run, because the
/// guard and its standby were killed, the leadership is not resigned.
pub async fn lead(
    job: &Job,
    mut turn: Option<Turn>,
    leadership: Leadership,
    signals: &mut Signals,
) -> Result<Outcome, Failure> {
    let epoch = leadership.epoch();
    job.health.enter(CandidatePhase::Elected(leadership.lease()));
    info!(outcome = "elected", "elected: epoch {epoch}; running {}", shown(&job.cmd.command));
    let environment = environment(job, epoch, turn.as_ref());
    let (leadership, group) = match start(job, &environment, leadership, signals).await? {
        ControlFlow::Continue(started) => started,
        ControlFlow::Break(outcome) => return Ok(outcome),
    };
    let mut watch = LeadWatch {
        job,
        leadership: &leadership,
        group: &group,
        events: leadership.events(),
        data: Box::pin(data_file::follow(job.data_file.clone(), &leadership, job.data.clone())),
        app: job.app.until_unhealthy().boxed(),
        signals,
        lost: false,
        at_risk: false,
        unhealthy: None,
        asked_to_end: false,
    };
    // No task has sent the guard new deadlines during the start of CMD, although the lease may have
    // been renewed. So the current deadlines are sent now.
    group.set_deadlines(job.cmd.margins.deadlines(leadership.ends_at()));
    job.health.enter(CandidatePhase::Leading(leadership.lease()));
    let end = watch.until(group.wait()).await;
    job.health.enter(CandidatePhase::Ending(leadership.lease()));
    watch.app = pending().boxed();
    let at_the_end = leadership.check();
    let left = watch.end_descendants().await;
    let (mut asked_to_end, unhealthy) = (watch.asked_to_end, watch.unhealthy.take());
    drop(watch);
    let recorded = match &mut turn {
        Some(turn) if end.stop.is_none() && at_the_end.is_ok() => {
            turn.end(end.exit_code(), &leadership, signals).await
        }
        _ => Ok(()),
    };
    let loss = leadership.check().err();
    let over = match (&loss, left) {
        (Some(loss), _) => loss.outcome(),
        (None, Left::Nothing) => resign(job, leadership, signals).await,
        (None, Left::Unknown) => do_not_resign(epoch),
    };
    asked_to_end |= job.hooks.run_on_lost(&environment, over, signals).await;
    if end.stop.is_none() && at_the_end.is_ok() {
        return outcome_of(end.exit_code(), turn, recorded, asked_to_end);
    }
    let (is_unhealthy, loss) = (unhealthy.is_some(), at_the_end.err().or(loss));
    let why = why_lost(end.stop, unhealthy, loss, epoch)?;
    Ok(Outcome::Lost { why, asked_to_end, unhealthy: is_unhealthy })
}

/// Starts CMD. Returns `Break` with an outcome if a signal arrives, or the leadership is lost,
/// before CMD has started.
async fn start(
    job: &Job,
    environment: &[(&str, String)],
    leadership: Leadership,
    signals: &mut Signals,
) -> Result<ControlFlow<Outcome, (Leadership, Group)>, Failure> {
    let deadlines = job.cmd.margins.deadlines(leadership.ends_at());
    let extras = job.extras(&leadership);
    let started = Group::start(&job.cmd.tenure, &job.cmd.command, environment, deadlines, extras);
    // If another branch completes first, the future of the start is dropped. The drop ends all
    // processes that the future has started.
    tokio::select! {
        biased;
        signal = signals.next() => {
            resign(job, leadership, signals).await;
            Ok(ControlFlow::Break(Outcome::Done(signals::exit_code(signal))))
        }
        loss = leadership.lost() => {
            Ok(ControlFlow::Break(Outcome::lost_before_start(leadership.epoch(), &loss)))
        }
        group = started => match group {
            Ok(group) => Ok(ControlFlow::Continue((leadership, group))),
            Err(error) => {
                resign(job, leadership, signals).await;
                Err(Failure::new(exit::OS, error.to_string()))
            }
        },
    }
}

fn environment(job: &Job, epoch: Epoch, turn: Option<&Turn>) -> Vec<(&'static str, String)> {
    let mut environment = vec![("TENURE_EPOCH", epoch.to_string()), inside_run()];
    environment.extend(job.cmd.environment.iter().cloned());
    environment.extend(turn.into_iter().flat_map(Turn::environment));
    environment
}

/// Watches the CMD of a leader. Forwards signals to CMD, and sends new deadlines to the guard after
/// each renewal.
struct LeadWatch<'a, E> {
    job: &'a Job,
    leadership: &'a Leadership,
    group: &'a Group,
    events: E,
    /// Proclaims the data after each change of the data file. Never completes.
    data: BoxFuture<'a, Infallible>,
    /// Checks the health of CMD, and completes with the reason to stop CMD. Once CMD has been asked
    /// to end, this future never completes.
    app: BoxFuture<'a, String>,
    signals: &'a mut Signals,
    /// True after the loss of the leadership. From then on, renewals do not change the deadlines.
    lost: bool,
    at_risk: bool,
    /// The reason to stop CMD, after a check has found CMD unhealthy. From then on, renewals do not
    /// change the deadlines.
    unhealthy: Option<String>,
    /// True if a signal has asked `tenure` to end. SIGHUP does not count, because many daemons
    /// reload their settings at SIGHUP.
    asked_to_end: bool,
}

impl<'a, E: Stream<Item = LeadershipEvent> + Unpin> GroupWatch<'a> for LeadWatch<'a, E> {
    fn group(&self) -> &'a Group {
        self.group
    }

    fn grace(&self) -> Duration {
        self.job.cmd.margins.grace
    }

    fn lost(&self) -> bool {
        self.lost
    }

    async fn until<T>(&mut self, what: impl Future<Output = T>) -> T {
        let mut what = pin!(what);
        loop {
            tokio::select! {
                biased;
                value = &mut what => return value,
                loss = self.leadership.lost(), if !self.lost => self.lose(&loss),
                Some(event) = self.events.next() => self.handle(event),
                never = &mut self.data => match never {},
                why = &mut self.app => self.stop(why),
                signal = self.signals.next() => self.pass_on(signal),
            }
        }
    }
}

impl<E> LeadWatch<'_, E> {
    fn handle(&mut self, event: LeadershipEvent) {
        match event {
            LeadershipEvent::Renewed { .. } if !self.lost && self.unhealthy.is_none() => {
                self.group.set_deadlines(self.job.cmd.margins.deadlines(self.leadership.ends_at()));
                if std::mem::take(&mut self.at_risk) {
                    info!(outcome = "renewed", "the lease is renewed again");
                }
            }
            LeadershipEvent::AtRisk { remaining, last_error } => {
                self.at_risk = true;
                let margins = self.job.cmd.margins.grace + self.job.cmd.margins.kill_margin;
                let left = remaining.saturating_sub(margins).as_millis();
                let error = last_error.map_or_else(String::new, |error| format!(": {error}"));
                let error = plain(&error);
                warn!(
                    outcome = "at_risk",
                    "the lease is at risk: CMD gets SIGTERM in {left} ms{error}"
                );
            }
            _ => {}
        }
    }

    /// Ends a CMD that is not healthy. The lease is still renewed until the end of CMD.
    fn stop(&mut self, why: String) {
        let deadlines = self.job.cmd.margins.deadlines(self.leadership.ends_at());
        self.group.set_deadlines(deadlines.brought_forward(Process::system().now()));
        self.job.health.enter(CandidatePhase::Ending(self.leadership.lease()));
        self.app = pending().boxed();
        self.unhealthy = Some(why);
    }

    /// Ends CMD after the loss of the leadership. If the leader was deposed without `--force`, CMD
    /// gets SIGTERM, and SIGKILL shortly before the end of the lease. After any other loss CMD is
    /// killed immediately.
    fn lose(&mut self, loss: &Loss) {
        self.lost = true;
        self.app = pending().boxed();
        self.job.health.enter(CandidatePhase::Ending(self.leadership.lease()));
        if let Loss::Sealed { ended: EpochEnd::Deposed, .. } = loss {
            // After a deposition without `--force`, the next leader waits for the end of the old
            // lease. So CMD has this time to end.
            let Deadlines { term_at, .. } = Deadlines::long_past();
            let Deadlines { kill_at, .. } =
                self.job.cmd.margins.deadlines(self.leadership.ends_at());
            self.group.set_deadlines(Deadlines { term_at, kill_at });
            warn!(outcome = loss.outcome(), "{}: CMD gets SIGTERM", loss_text(loss));
        } else {
            self.group.kill();
            warn!(outcome = loss.outcome(), "{}: CMD is killed", loss_text(loss));
        }
    }

    fn pass_on(&mut self, signal: Signal) {
        self.group.forward(signal);
        info!("{signal} is passed on to CMD");
        if signal != Signal::SIGHUP {
            self.asked_to_end = true;
            // The health is not checked any more, because a CMD that is about to end may fail the
            // check.
            self.app = pending().boxed();
            self.job.health.enter(CandidatePhase::Ending(self.leadership.lease()));
        }
    }
}

/// Resigns the epoch and returns the value of `TENURE_LOSS`. Called only after all descendants of
/// CMD have ended.
pub async fn resign(job: &Job, leadership: Leadership, signals: &mut Signals) -> &'static str {
    let epoch = leadership.epoch();
    let hurried = async {
        pause(HURRIED_RESIGNATION).await;
        signals.next().await
    };
    let resigned = async {
        match &job.successor {
            Some(name) => leadership.resign_to(name).await,
            None => leadership.resign().await,
        }
    };
    let why = tokio::select! {
        biased;
        outcome = resigned => match outcome {
            Ok(()) => {
                info!(outcome = "resigned", "resigned epoch {epoch}");
                return "resigned";
            }
            // Another process has sealed the epoch, or the lease has ended, so there is no
            // leadership to resign.
            Err(error) if error.kind() == ErrorKind::LeadershipLost => {
                let why = plain(&error.to_string());
                warn!(outcome = "not_resigned", "epoch {epoch} is not resigned: {why}");
                return NOT_RESIGNED;
            }
            Err(error) => error.to_string(),
        },
        signal = hurried => signal.to_string(),
    };
    let why = plain(&why);
    warn!(
        outcome = "not_resigned",
        "epoch {epoch} is not resigned ({why}): other candidates wait for its lapse"
    );
    NOT_RESIGNED
}

fn do_not_resign(epoch: Epoch) -> &'static str {
    warn!(
        outcome = "not_resigned",
        "epoch {epoch} is not resigned: the guard and its standby were killed, and processes that \
         left the process group of CMD may still run"
    );
    NOT_RESIGNED
}
