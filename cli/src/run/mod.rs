//! `tenure run`: campaigns, runs CMD while leading, and resigns.

mod hooks;
mod lead;
mod turn;

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde_json::Value;
use tenure::store::{MemoryStore, Store};
use tenure::{CampaignEvent, Election, ElectionBuilder, Error, Leadership, Process, Snapshot};
use tracing::{Instrument as _, error_span, info, warn};

use super::cron::{CronArgs, OncePer, RecordPlace, wall};
use super::exit::{self, Failure};
use super::http::Sites;
use crate::args::common::{StoreArg, after_help, name};
use crate::args::lease::{ElectionArgs, GraceArg, OwnArgs};
use crate::http::health::{CandidatePhase, ElectionHealth, HealthArg, recent};
use crate::http::metrics::MetricsArg;
use crate::output::logs::Throttle;
use crate::output::print::{in_ms, plain};
use crate::process::cmd::{Cmd, look_up};
use crate::process::margins::Margins;
use crate::process::signals::{self, FORWARDED, Signals};
use crate::process::timer::pause;
use crate::store::open::{IfMissing, Opened, open, prefix};
use crate::store::patience::{AFTER_A_FAILURE, AT_START, patiently};
use hooks::HooksArgs;
use lead::{Job, Outcome};

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub store: StoreArg,
    #[command(flatten)]
    pub election: ElectionArgs,
    #[command(flatten)]
    pub own: OwnArgs,
    #[command(flatten)]
    pub grace: GraceArg,
    /// Run as a service: campaign again when the lease was lost, instead of exiting with 75, and
    /// retry without an end after all errors that may pass, such as denied access. Exit codes of
    /// CMD are not passed on
    #[arg(long)]
    pub forever: bool,
    /// The candidate that leads next: once CMD has ended, the others wait one poll for it
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub successor: Option<String>,
    #[command(flatten)]
    pub cron: CronArgs,
    #[command(flatten)]
    pub hooks: HooksArgs,
    #[command(flatten)]
    pub health: HealthArg,
    #[command(flatten)]
    pub metrics: MetricsArg,
    /// The command to run while leading, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

pub const AFTER_RUN: &str = after_help!(
    "\
CMD runs in a process group of its own, with TENURE_EPOCH (the fencing token), TENURE_NAME and
TENURE_STORE in its environment. When it has ended, the processes that it left behind get SIGTERM,
and after the grace SIGKILL. Once no descendant of CMD is left, the leadership is resigned.

With --try, or --no-wait, `tenure` exits at once if another candidate leads. With --once-per, CMD
has TENURE_PERIOD_START, TENURE_ATTEMPT and TENURE_LAST_COMPLETED (the start of the last completed
period, empty before the first). Without --retries CMD starts at most once in a period, with
--retries N at most N+1 times, and never twice at the same time.

When the lease is at risk of ending, the group of CMD gets SIGTERM, as do descendants outside of
it whose parents have ended; after the grace all descendants get SIGKILL, before the lease ends:
by max(200ms, VALIDITY/20). A guard process does this even if `tenure` itself is killed or stopped:
if it is killed, CMD gets SIGTERM at once, and SIGKILL after the grace or when the lease is about
to end, whichever is sooner; after a deposition when the lease is about to end. Once no descendant
of CMD is left, the guard resigns the leadership.
Not on systems other than Linux, nor if the guard is killed too: then others wait for the lapse.
If the guard is killed, CMD and its descendants are killed. If `tenure` and the guard are stopped,
the kernel kills the guard before the lease ends; if the parent of the guard is stopped, too, CMD is
killed, and its descendants once that parent goes on.

--on-elected runs beside CMD and under the same guard: it gets SIGTERM and SIGKILL as CMD's
descendants do, and the leadership is not resigned while it runs. --on-lost runs after CMD, when
others may lead already, so it must not touch what only a leader may. TENURE_LOSS is resigned,
not_resigned or the reason of the loss: lease_ended, suspended, sealed, superseded, … What hooks
print goes to stderr; that they fail is logged and changes nothing else.

The file of --epoch-file is renamed into its place, and not synced: have it in a directory that a
restart of the machine empties, such as /run. It is removed when CMD gets SIGTERM for its lease, at
the death of `tenure` or of its guard, and at the end of CMD: before the lease ends. It stays if the
guard and its standby are killed with `tenure`; the next `tenure run` that is given it removes it
first. CMD does not start if it cannot be written. It tells who leads; it is no fence.

SIGINT, SIGTERM, SIGHUP and SIGQUIT sent to `tenure` are passed on to the group; while it waits
they end `tenure` at once.

What the guard cannot reach: processes that others start for CMD (systemd-run, docker run, cron), a
process that becomes another user, a guard that is killed together with its standby, and a machine
that is paused as a whole. On systems other than Linux: whatever leaves the group of CMD. There
only the token protects: hand TENURE_EPOCH to the resource that CMD writes, and let it refuse lower
ones.

With --health-addr, /livez is 200 while `tenure` itself works, whatever the store does; /readyz
while the store has answered lately; and /leader, with JSON, while this candidate leads and CMD
runs. A 200 is true for that moment only: what comes after it still needs the token.

CMD is not in the foreground of a terminal, and is stopped when it reads from one.",
    "
   N  CMD's own exit code, if the lease was valid when it ended; 128+N if signal N ended it,
      126 if it cannot be executed, 127 if it was not found, both before any campaign
   0  with --forever: CMD ended with 0, or was asked to end
   1  with --forever: CMD ended with another code, which the log has
  64  wrong usage or settings
  69  no such bucket or directory for 10s; a store that cannot be reached is waited for
  70  store unsafe, or an object in it corrupt
  71  the operating system refused to start a process, or the guard has died
  73  with --once-per: a clock is wrong, and CMD was not run
  75  lost the lease: CMD was stopped, or had ended too late
  76  with --try: another candidate leads, and CMD was not run; see --busy-exit-code
  77  access denied by the store for 10s, or for 60s by the machine's metadata service
 129  ended by SIGHUP while it waited, 130 by SIGINT, 131 by SIGQUIT, 143 by SIGTERM"
);

/// How often to look whether a predecessor has gone.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);

impl RunArgs {
    /// The time for retries of errors that may pass. `None`: without an end.
    fn patience(&self) -> Option<Duration> {
        (!self.forever).then_some(AT_START)
    }
}

pub async fn run(args: RunArgs) -> Result<u8, Failure> {
    let lease = &args.election.lease;
    let name = lease.name();
    // All logs name the candidate.
    let span = error_span!("run", store = %args.store.store, candidate = name);
    let margins = lease.margins(args.grace)?;
    let data = args.own.first_data()?;
    args.cron.rules()?;
    // A directory is made when it is opened, so the settings are checked beforehand.
    let unused = || Arc::new(MemoryStore::new());
    election(&args, &name, data.clone(), unused(), prefix(&args.store.store)).build()?;
    if let Some(successor) = &args.successor {
        // Refuses a name that no candidate can have.
        Election::builder(unused(), "").name(successor).build()?;
    }
    let program = args.command.first().expect("clap requires a CMD");
    look_up(program, std::env::var_os("PATH").as_deref())?;
    args.hooks.prepare()?;
    let recent = recent(args.election.longest_pause(), lease.request_timeout());
    let health = Arc::new(ElectionHealth::new(&name, recent, margins));
    health.of(run_as(&args, &name, data, margins, &health)).instrument(span).await
}

async fn run_as(
    args: &RunArgs,
    name: &str,
    data: Value,
    margins: Margins,
    health: &Arc<ElectionHealth>,
) -> Result<u8, Failure> {
    // Named before the waits for the store and for a predecessor.
    let planned = args.cron.rules()?.map(|rules| (rules, rules.period_at(wall())));
    let job = job(args, name, &data, margins, health)?;
    let mut sites = Sites::default();
    args.health.add_to(&mut sites, health);
    args.metrics.add_to(&mut sites)?;
    let _serving = sites.start()?;
    let mut signals = Signals::listen(&FORWARDED)?;
    let Opened { store, prefix } = tokio::select! {
        biased;
        signal = signals.next() => return Ok(signals::exit_code(signal)),
        opened = patiently(args.patience(), || open(&args.store.store, IfMissing::Create)) => {
            opened?
        }
    };
    let election = election(args, name, data, Arc::clone(&store), &prefix).build()?;
    if args.own.unique_name {
        tokio::select! {
            biased;
            signal = signals.next() => return Ok(signals::exit_code(signal)),
            () = outlast_predecessor(&election, name, margins) => {}
        }
    }
    health.opened(&election);
    let once = planned.map(|planned| OncePer::new(planned, RecordPlace::new(store, &prefix), name));
    if let ControlFlow::Break(code) = turn::look_first(once.as_ref(), &mut signals).await? {
        return Ok(code);
    }
    lead_until_done(args, &job, &election, once, &mut signals).await
}

fn job(
    args: &RunArgs,
    name: &str,
    data: &Value,
    margins: Margins,
    health: &Arc<ElectionHealth>,
) -> Result<Job, Failure> {
    Ok(Job {
        cmd: Cmd::new(&args.command, name, &args.store.store, margins)?,
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

/// Campaigns and leads until one leadership decides the exit code.
async fn lead_until_done(
    args: &RunArgs,
    job: &Job,
    election: &Election,
    mut once: Option<OncePer>,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let [(_, name), (_, store)] = &job.cmd.environment;
    let poll = args.election.lease.look_every();
    loop {
        info!(outcome = "campaigning", "campaigning as {} in {}", plain(name), plain(store));
        let elected = match args.cron.once {
            true => {
                let busy = args.cron.busy_exit_code();
                let busy = once.as_ref().map_or(busy, |once| once.code_or(busy));
                job.health.enter(CandidatePhase::Campaigning);
                turn::try_once(election, poll, busy, signals).await?
            }
            false => campaign(election, signals, &job.health, args.forever).await?,
        };
        let leadership = match elected {
            ControlFlow::Continue(leadership) => leadership,
            ControlFlow::Break(code) => return Ok(code),
        };
        let span = error_span!("lead", epoch = leadership.epoch().get());
        let turn = turn::lead_in_turn(job, once.as_ref(), leadership, signals);
        let outcome = match turn.instrument(span).await {
            Err(failure) if args.forever && failure.code != exit::USAGE => {
                Outcome::Lost { why: failure.why, asked_to_end: false }
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
            Outcome::Lost { why, asked_to_end } if asked_to_end || !args.forever => {
                return Err(Failure::new(exit::LEASE_LOST, why));
            }
            Outcome::Lost { why, .. } => {
                warn!(outcome = "lost", "{why}");
                // The start of a process may fail again, and must not spin.
                tokio::select! {
                    signal = signals.next() => return Ok(signals::exit_code(signal)),
                    () = pause(LOOK_AGAIN_AFTER) => {}
                }
            }
        }
    }
}

/// The exit code of a service after the end of its CMD under a valid lease. A supervisor goes by the
/// codes of `tenure`, and must not take one of CMD for them.
fn code_of_service(code: u8, asked_to_end: bool) -> u8 {
    match code {
        0 => 0,
        code if asked_to_end => {
            info!(outcome = "ended", "CMD was asked to end, and ended with exit code {code}");
            0
        }
        code => {
            warn!(outcome = "cmd_failed", "CMD ended with exit code {code}");
            exit::CMD_FAILED
        }
    }
}

/// Returns once nothing of a predecessor of this name runs. By its promise it is dead, but its CMD
/// has a grace before the guard kills it, and its lease, for which others would wait until then, is
/// about to be ended at once.
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
    // What cannot be read may name it. The campaign then waits for the store, or says what is wrong.
    while !election.snapshot().await.is_ok_and(|snapshot| !holds(&snapshot)) && !left().is_zero() {
        if !std::mem::replace(&mut said, true) {
            let delay = in_ms(delay);
            info!(
                outcome = "waiting",
                "a predecessor of this name was killed: its CMD has up to {delay} to end"
            );
        }
        pause(LOOK_AGAIN_AFTER.min(left())).await;
    }
}

fn election(
    args: &RunArgs,
    name: &str,
    data: Value,
    store: Arc<dyn Store>,
    prefix: &str,
) -> ElectionBuilder {
    let builder = args.election.builder(args.store.layout, name, store, prefix);
    let builder = builder.retry_denied(args.patience());
    builder.name_is_unique(args.own.unique_name).data(data)
}

/// Waits until elected. Breaks with the exit code at a signal: then what was written lapses within
/// a validity. A service campaigns again after each error that may pass.
async fn campaign(
    election: &Election,
    signals: &mut Signals,
    health: &ElectionHealth,
    forever: bool,
) -> Result<ControlFlow<u8, Leadership>, Failure> {
    let mut throttle = Throttle::default();
    let has_worked = || election.since_last_answer().is_some();
    loop {
        health.enter(CandidatePhase::Campaigning);
        let error = match campaign_once(election, signals, health, &mut throttle).await {
            Ok(elected) => return Ok(elected),
            Err(error) if forever && !error.kind().ends_a_service(has_worked()) => error,
            Err(error) => return Err(error.into()),
        };
        if throttle.is_due(&error) {
            let why = plain(&error.to_string());
            warn!(outcome = "failed", "the campaign failed, and is repeated: {why}");
        }
        health.failed(&error);
        tokio::select! {
            signal = signals.next() => return Ok(ControlFlow::Break(signals::exit_code(signal))),
            () = pause(AFTER_A_FAILURE) => {}
        }
    }
}

async fn campaign_once(
    election: &Election,
    signals: &mut Signals,
    health: &ElectionHealth,
    throttle: &mut Throttle,
) -> Result<ControlFlow<u8, Leadership>, Error> {
    let mut events = election.events();
    let mut campaign = pin!(election.campaign());
    let mut followed = None;
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => {
                return Ok(ControlFlow::Break(signals::exit_code(signal)));
            }
            elected = &mut campaign => return Ok(ControlFlow::Continue(elected?)),
            Some(event) = events.next() => match event {
                CampaignEvent::Following(leader) => {
                    let (name, epoch) = (plain(leader.name()), leader.epoch);
                    // Each seal that fails is followed by the same one.
                    if followed.replace(epoch) != Some(epoch) {
                        info!(outcome = "following", "waiting: {name} leads epoch {epoch}");
                    }
                    health.enter(CandidatePhase::Following { leader: leader.candidate, epoch });
                }
                CampaignEvent::StoreFailed(error) if throttle.is_due(&error) => {
                    let why = plain(&error.to_string());
                    warn!(outcome = "store_failed", "the store fails, trying again: {why}");
                }
                _ => {}
            },
        }
    }
}
