//! `tenure run`: campaigns, runs CMD while leading, and resigns.

mod bound;
mod campaign;
mod health;
mod help;
mod hooks;
mod lead;
mod outcome;
mod turn;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tenure::internals::check_name;
use tenure::store::{MemoryStore, Store};
use tenure::{Election, ElectionBuilder, Process, Snapshot};
use tracing::{Instrument as _, error_span, info, warn};

use super::cron::{CronArgs, OncePer, Period, PeriodRules, RecordPlace, wall};
use super::exit::{self, Failure};
use super::http::Sites;
use crate::args::common::{LayoutArg, StoreArg, name};
use crate::args::lease::{ElectionArgs, GraceArg, OwnArgs};
use crate::http::health::recent;
use crate::http::metrics::MetricsArg;
use crate::output::print::{in_ms, plain};
use crate::process::app_health::{AppHealth, AppHealthArgs};
use crate::process::cmd::{Cmd, look_up};
use crate::process::margins::Margins;
use crate::process::signals::{self, FORWARDED, Signals};
use crate::process::timer::pause;
use crate::store::open::{self, IfMissing};
use crate::store::patience::{AT_START, patiently};
use crate::store::urls::{OpenedStores, StoreUrls};
use bound::Bound;
use campaign::campaign;
use health::{CandidatePhase, ElectionHealth, HealthArg};
pub use help::AFTER_RUN;
use hooks::HooksArgs;
use lead::Job;
use outcome::{Outcome, code_of_service};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Election")]
pub struct RunArgs {
    #[command(flatten)]
    pub store: StoreArg,
    #[command(flatten)]
    pub own: OwnArgs,
    /// Run as a service: campaign again after a loss.
    ///
    /// `tenure` campaigns again instead of exiting with 75, and retries without a time limit after
    /// temporary errors, such as denied access. Exit codes of CMD are not passed on.
    #[arg(long, env = "TENURE_FOREVER")]
    pub forever: bool,
    /// Preferred next leader.
    ///
    /// After the resignation the other candidates wait one poll interval for this candidate.
    #[arg(long, value_name = "NAME", value_parser = name)]
    #[arg(env = "TENURE_SUCCESSOR", hide_short_help = true)]
    pub successor: Option<String>,
    #[command(flatten)]
    pub cron: CronArgs,
    #[command(flatten)]
    pub grace: GraceArg,
    #[command(flatten)]
    pub hooks: HooksArgs,
    #[command(flatten)]
    pub app: AppHealthArgs,
    #[command(flatten)]
    pub health: HealthArg,
    #[command(flatten)]
    pub metrics: MetricsArg,
    #[command(flatten, next_help_heading = "Election")]
    pub election: ElectionArgs,
    /// The command to run while leading, and its arguments.
    ///
    /// All words after the first word of CMD belong to CMD, flags included.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD", help_heading = None)]
    pub command: Vec<OsString>,
}

/// Interval between reads of the record during the wait for a predecessor.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl RunArgs {
    /// Returns the time limit for retries of temporary errors. `None` means no limit.
    fn patience(&self) -> Option<Duration> {
        (!self.forever).then_some(AT_START)
    }
}

pub async fn run(args: RunArgs) -> Result<u8, Failure> {
    let lease = &args.election.lease;
    let name = lease.name();
    // The span adds the candidate's name to all log lines.
    let urls = args.store.urls()?;
    let span = error_span!("run", store = %urls, candidate = name);
    let margins = lease.margins(args.grace)?;
    let data = args.own.first_data()?;
    // The job belongs to the period in which `tenure` was started. So the period is computed before
    // `tenure` waits for the store and for a predecessor.
    let planned = args.cron.rules()?.map(|rules| (rules, rules.period_at(wall())));
    let app = AppHealth::of_cmd(&args.app)?;
    // The settings are checked with a store in memory first, because opening a store in a directory
    // creates the directory.
    let unused = || Arc::new(MemoryStore::new()) as Arc<dyn Store>;
    let stores = urls.urls().iter().map(|_| unused()).collect();
    election(&args, &name, data.clone(), stores, urls.prefix()).build()?;
    if urls.are_several() && planned.is_some() {
        let why = "--once-per keeps its record in one store: give --store once";
        return Err(Failure::new(exit::USAGE, why));
    }
    if let Some(successor) = &args.successor {
        check_name(successor)?;
    }
    let program = args.command.first().expect("clap requires a CMD");
    look_up(program, std::env::var_os("PATH").as_deref())?;
    args.hooks.prepare()?;
    let recent = recent(args.election.longest_pause(), lease.request_timeout());
    let health = Arc::new(ElectionHealth::new(&name, recent, margins));
    let job = job(&args, &urls, &name, &data, margins, &health, app)?;
    health.of(run_as(&args, &urls, &name, data, planned, &job)).instrument(span).await
}

async fn run_as(
    args: &RunArgs,
    urls: &StoreUrls,
    name: &str,
    data: Value,
    planned: Option<(PeriodRules, Period)>,
    job: &Job,
) -> Result<u8, Failure> {
    let health = &job.health;
    let mut sites = Sites::default();
    args.health.add_to(&mut sites, health);
    args.metrics.add_to(&mut sites)?;
    let _serving = sites.start()?;
    let mut signals = Signals::listen(&FORWARDED)?;
    let now = || Process::system().now().boot;
    let started = now();
    let patience = args.patience().map(|most| args.cron.bound().map_or(most, |it| it.min(most)));
    let opened = tokio::select! {
        biased;
        signal = signals.next() => return Ok(signals::exit_code(signal)),
        opened = patiently(patience, || urls.open(IfMissing::Create)) => opened?,
    };
    let election = election(args, name, data, opened.stores.clone(), &opened.prefix).build()?;
    let place = RecordPlace::new(Arc::clone(opened.first()), &opened.prefix);
    let once = planned.map(|planned| OncePer::new(planned, place, name));
    let ready = async {
        if args.own.unique_name {
            tokio::select! {
                biased;
                signal = signals.next() => {
                    return Ok(ControlFlow::Break(signals::exit_code(signal)));
                }
                () = outlast_predecessor(&election, name, job.cmd.margins) => {}
            }
        }
        health.opened(&election);
        let ready = turn::look_first(once.as_ref(), &mut signals).await?;
        if ready.is_break() {
            return Ok(ready);
        }
        tokio::select! {
            biased;
            signal = signals.next() => Ok(ControlFlow::Break(signals::exit_code(signal))),
            refused = refuse_group(&opened, args.store.layout) => {
                refused.map(ControlFlow::Continue)
            }
        }
    };
    let ready = match args.cron.bound() {
        Some(limit) => {
            let left = limit.saturating_sub(now().saturating_sub(started));
            bound::wait_at_most(Bound { limit, left }, &election, args.cron.busy_exit_code(), ready)
                .await?
        }
        None => ready.await?,
    };
    match ready {
        ControlFlow::Break(code) => Ok(code),
        ControlFlow::Continue(()) => {
            let waited = now().saturating_sub(started);
            lead_until_done(args, job, &election, once, waited, &mut signals).await
        }
    }
}

fn job(
    args: &RunArgs,
    urls: &StoreUrls,
    name: &str,
    data: &Value,
    margins: Margins,
    health: &Arc<ElectionHealth>,
    app: AppHealth,
) -> Result<Job, Failure> {
    Ok(Job {
        app,
        cmd: Cmd::new(&args.command, name, urls, margins)?,
        health: Arc::clone(health),
        successor: args.successor.clone(),
        data: data.clone(),
        data_file: args.own.data_file.clone(),
        hooks: args.hooks.clone(),
        layout: args.store.layout,
        validity: args.election.lease.validity,
        request_timeout: args.election.lease.request_timeout(),
    })
}

/// Campaigns and leads until the outcome of a leadership determines the exit code. `waited` is the
/// time that passed before the first campaign, and counts toward the bound of this campaign.
async fn lead_until_done(
    args: &RunArgs,
    job: &Job,
    election: &Election,
    mut once: Option<OncePer>,
    mut waited: Duration,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let [(_, name), (_, store)] = &job.cmd.environment;
    let poll = args.election.lease.look_every();
    let mut unhealthy = 0;
    loop {
        info!(outcome = "campaigning", "campaigning as {} in {}", plain(name), plain(store));
        let busy = args.cron.busy_exit_code();
        let busy = once.as_ref().map_or(busy, |once| once.code_or(busy));
        let elected = match args.cron.wait() {
            Some(Duration::ZERO) => {
                job.health.enter(CandidatePhase::Campaigning);
                bound::try_once(election, poll, busy, signals).await?
            }
            Some(limit) => {
                let patience = args.patience().map(|patience| patience.min(limit));
                let campaign = campaign(election, signals, &job.health, patience);
                let left = limit.saturating_sub(std::mem::take(&mut waited));
                bound::wait_at_most(Bound { limit, left }, election, busy, campaign).await?
            }
            None => campaign(election, signals, &job.health, args.patience()).await?,
        };
        let leadership = match elected {
            ControlFlow::Continue(leadership) => leadership,
            ControlFlow::Break(code) => return Ok(code),
        };
        let span = error_span!("lead", epoch = leadership.epoch().get());
        let turn = turn::lead_in_turn(job, once.as_ref(), leadership, signals);
        let outcome = match turn.instrument(span).await {
            Err(failure) if args.forever && failure.code != exit::USAGE => {
                Outcome::Lost { why: failure.why, asked_to_end: false, unhealthy: false }
            }
            outcome => outcome?,
        };
        match outcome {
            Outcome::Done(code) => return Ok(code),
            Outcome::Ended { code, asked_to_end } if args.forever => {
                return Ok(code_of_service(code, asked_to_end));
            }
            Outcome::Ended { code, .. } => return Ok(code),
            Outcome::Retry(code) => {
                once.as_mut().into_iter().for_each(|once| once.failed_with(code));
                if let ControlFlow::Break(code) = turn::let_others_try(poll, signals).await {
                    return Ok(code);
                }
            }
            Outcome::Lost { why, asked_to_end, .. } if asked_to_end || !args.forever => {
                return Err(Failure::new(exit::LEASE_LOST, why));
            }
            Outcome::Lost { why, unhealthy: is_unhealthy, .. } => {
                warn!(outcome = "lost", "{why}");
                unhealthy = if is_unhealthy { unhealthy + 1 } else { 0 };
                tokio::select! {
                    signal = signals.next() => return Ok(signals::exit_code(signal)),
                    () = pause(turn::pause_after(unhealthy, poll)) => {}
                }
            }
        }
    }
}

/// Waits until no CMD of a predecessor with the same name can run. `--unique-name` implies that the
/// predecessor is dead, but the guard of the predecessor kills CMD only after the grace. Once this
/// function returns, the campaign ends the predecessor's lease without a further wait.
async fn outlast_predecessor(election: &Election, name: &str, margins: Margins) {
    let holds = |snapshot: &Snapshot| {
        let leader = snapshot.leader.as_ref().filter(|_| snapshot.end.is_none());
        leader.is_some_and(|leader| leader.candidate.as_deref() == Some(name))
    };
    let process = Process::system();
    let delay = margins.grace + margins.kill_margin;
    let started = process.now().boot;
    let left = || delay.saturating_sub(process.now().boot.saturating_sub(started));
    let mut said = false;
    // If the record cannot be read, it may contain the predecessor's name, so this function waits.
    // The error is ignored here, because the campaign reports it.
    while !election.snapshot().await.is_ok_and(|snapshot| !holds(&snapshot)) && !left().is_zero() {
        if !std::mem::replace(&mut said, true) {
            let delay = in_ms(delay);
            info!(
                outcome = "waiting",
                "a predecessor with this name was killed: its CMD has up to {delay} to end"
            );
        }
        pause(LOOK_AGAIN_AFTER.min(left())).await;
    }
}

fn election(
    args: &RunArgs,
    name: &str,
    data: Value,
    stores: Vec<Arc<dyn Store>>,
    prefix: &str,
) -> ElectionBuilder {
    let builder = args.election.builder(args.store.layout, name, stores, prefix);
    let builder = builder.retry_denied(args.patience());
    builder.name_is_unique(args.own.unique_name).data(data)
}

/// Fails if the only store has a partition group and no election under the prefix.
async fn refuse_group(opened: &OpenedStores, layout: LayoutArg) -> Result<(), Failure> {
    match &*opened.stores {
        [store] => open::refuse_group(store, &opened.prefix, layout, "tenure group run").await,
        _ => Ok(()),
    }
}
