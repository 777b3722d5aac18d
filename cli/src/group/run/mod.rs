//! `tenure group run`: joins a group, and runs CMD for each partition that it is granted.

mod health;
mod work;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use humantime::format_duration;
use nix::sys::signal::Signal;
use serde_json::Value;
use tenure::store::{MemoryStore, Store};
use tenure_groups::{Group, GroupBuilder, GroupSnapshot};
use tracing::{Instrument as _, error_span, info};

use super::names::{self, Names};
use crate::args::common::{default_name, duration, json, name, positive_duration};
use crate::exit::{self, Failure};
use crate::http::Sites;
use crate::http::metrics::MetricsArg;
use crate::output::print::{millis, plain};
use crate::process::cmd::{Cmd, look_up};
use crate::process::margins::Margins;
use crate::process::signals::{self, FORWARDED, Signals};
use crate::process::timer::pause;
use crate::store::open::{IfMissing, Opened, open, prefix};
use crate::store::patience::patiently;
use crate::store::url::StoreUrl;
use health::{GroupHealth, GroupHealthArg};
use work::Works;

#[derive(Debug, clap::Args)]
pub struct GroupRunArgs {
    /// Where the group lives: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX,
    /// dynamodb://TABLE/PREFIX, or file:///PATH, with the settings and options that `run` takes
    #[arg(long, value_name = "URL")]
    store: StoreUrl,
    /// The partitions that the group is created with: ranges such as 0..64, which leaves out 64,
    /// and names, separated by commas. All members give the same; a group that exists keeps its
    /// own, and `group resize` changes them
    #[arg(long, value_name = "NAMES", value_parser = names::parse)]
    partitions: Names,
    /// The name of this member, to which partitions are pinned and for which they are kept. Give
    /// each process one that outlasts its restart [default: HOSTNAME-PID]
    #[arg(long, value_name = "NAME", value_parser = name)]
    name: Option<String>,
    /// No two living processes have this name: a process that starts ends the session of its
    /// predecessor at once, and gets back what that owned. If that was killed, it first waits for
    /// the end of its CMDs, which still have their grace: give the same --grace
    #[arg(long, requires = "name")]
    unique_name: bool,
    /// At the end, keep what this member owns for its name for so long, at most 1h: a restart under
    /// that name moves no partition
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, requires = "name")]
    leave_for: Option<Duration>,
    /// What this member says of itself, any JSON, such as its address; `group status` and routers
    /// see it
    #[arg(long, value_name = "JSON", value_parser = json)]
    data: Option<Value>,
    /// How many shares of the partitions this member takes
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    weight: u32,
    /// Length of the session: how long the partitions of a dead member are without an owner at
    /// most. At least 2s with the default grace; at most 1h
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = positive_duration)]
    validity: Duration,
    /// How often to look for a change: at most the validity [default: a sixth of the validity]
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    poll: Option<Duration>,
    /// How long the member that plans gathers members that join, so that a rollout is one rebalance:
    /// at most 1h
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    rebalance_delay: Duration,
    /// Time between SIGTERM and SIGKILL when a partition is to move or the session is at risk: at
    /// most what a renewal, its retry and the time to kill leave of the validity, 6.5s of 30s
    /// [default: a sixth of the validity]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    grace: Option<Duration>,
    /// The machine is never paused from outside, so a wall clock that is set forward does not end
    /// the session
    #[arg(long)]
    machine_never_paused: bool,
    #[command(flatten)]
    health: GroupHealthArg,
    #[command(flatten)]
    metrics: MetricsArg,
    /// The command to run for each partition, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub const AFTER_GROUP_RUN: &str = "\
One CMD runs for each partition that this member owns, in a process group and under a guard of its
own, with TENURE_PARTITION (the name of the partition), TENURE_EPOCH (its fencing token),
TENURE_NAME and TENURE_STORE in its environment. Hand TENURE_EPOCH to the resource that CMD writes,
and let it refuse lower ones of that partition.

When a partition is to move to another member, or the session is at risk of ending, its CMD gets
SIGTERM, and after the grace all its descendants get SIGKILL. Once none of them is left, the
partition is released. The guard does this even if `tenure` itself is killed or stopped; what it
cannot reach: `tenure run --help`.

A CMD that ends by itself releases its partition, too. The partition goes to members where this
has not happened within ten minutes. If there are none, a CMD runs again after 1s. After exit
codes other than 0 the time doubles with each failure, up to 60s.

With --unique-name, what a killed predecessor owned is taken over as soon as its guards must have
ended its CMDs: a grace and max(200ms, VALIDITY/20) after the start.

SIGINT, SIGTERM and SIGQUIT make it leave: no partition is taken any more, each CMD gets SIGTERM,
and once all have ended the session is resigned, so that nobody waits for its end. A second one
kills them all. SIGHUP is passed on to each CMD. When the session was lost, it joins anew.

A store that denies access or does not exist is tried again without an end, with a line in the log.

With --health-addr, /livez is 200 while `tenure` itself works, whatever the store does; /readyz
while the store has answered lately; and /partitions shows, in JSON, what this member owns.

Durations are a number and a unit: 500ms, 30s, 10m, 1h.

Exit codes:
   0  a signal asked it to leave, and it has left
  64  wrong usage or settings
  70  store unsafe, or an object in it corrupt
  71  the operating system refused something; or a guard and its standby have died
 126  CMD cannot be executed, 127 it was not found: nothing was sent
 129  ended by SIGHUP while the store was opened, or while a predecessor's CMDs were waited for, 130
      by SIGINT, 131 by SIGQUIT, 143 by SIGTERM";

/// As long as the library keeps partitions.
pub const LONGEST_KEPT: Duration = Duration::from_secs(3600);

pub async fn run(args: GroupRunArgs) -> Result<u8, Failure> {
    let name = args.name.clone().unwrap_or_else(default_name);
    // All logs name the member.
    let span = error_span!("group", store = %args.store, member = name);
    let margins = Margins::new(args.validity, args.grace)
        .map_err(|no_room| Failure::new(exit::USAGE, no_room))?;
    if let Some(delay) = args.leave_for.filter(|delay| *delay > LONGEST_KEPT) {
        let why = format!(
            "--leave-for {} is too long: at most {}",
            format_duration(delay),
            format_duration(LONGEST_KEPT)
        );
        return Err(Failure::new(exit::USAGE, why));
    }
    // A directory is made when it is opened, so the settings are checked beforehand.
    group(&args, &name, Arc::new(MemoryStore::new()), prefix(&args.store)).build()?;
    let program = args.command.first().expect("clap requires a CMD");
    look_up(program, std::env::var_os("PATH").as_deref())?;
    let health = Arc::new(GroupHealth::new(&name, args.validity, args.poll));
    health.pulse.of(run_as(&args, &name, margins, &health)).instrument(span).await
}

async fn run_as(
    args: &GroupRunArgs,
    name: &str,
    margins: Margins,
    health: &Arc<GroupHealth>,
) -> Result<u8, Failure> {
    let url = &args.store;
    let cmd = Cmd::new(&args.command, name, url, margins)?;
    let mut sites = Sites::default();
    args.health.add_to(&mut sites, health);
    args.metrics.add_to(&mut sites)?;
    let _serving = sites.start()?;
    let mut signals = Signals::listen(&FORWARDED)?;
    let Opened { store, prefix } = tokio::select! {
        biased;
        signal = signals.next() => return Ok(signals::exit_code(signal)),
        opened = patiently(None, || open(url, IfMissing::Create)) => opened?,
    };
    let group = group(args, name, store, &prefix).build()?;
    if args.unique_name {
        tokio::select! {
            biased;
            signal = signals.next() => return Ok(signals::exit_code(signal)),
            () = outlast_predecessor(&group, name, margins) => {}
        }
    }
    health.opened(&group);
    let works = Works::new(cmd, Arc::clone(health));
    info!(outcome = "joining", "joining {} as {}", plain(&url.to_string()), plain(name));
    let mut running = pin!(group.run(|partition| works.work(partition)));
    let mut leaving = false;
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => match signal {
                Signal::SIGHUP => works.forward(signal),
                signal if !leaving => {
                    leaving = true;
                    health.leave();
                    info!(outcome = "leaving", "{signal}: leaving; each CMD gets SIGTERM");
                    leave(&group, args.leave_for);
                }
                // Of one that runs, the partition would be owned before it is gone.
                signal if health.is_idle() => return Ok(signals::exit_code(signal)),
                signal => {
                    info!("{signal} again: each CMD is killed");
                    works.forward(Signal::SIGKILL);
                }
            },
            () = works.unguarded() => {
                let why = "a guard and its standby were killed, and processes that left the group of \
                           their CMD may run on: the session is not resigned, and others wait until \
                           it lapses";
                return Err(Failure::new(exit::OS, why));
            }
            outcome = &mut running => {
                outcome?;
                info!(outcome = "left", "left the group");
                return Ok(0);
            }
        }
    }
}

/// Returns once nothing of a predecessor of this name runs. By its promise it is dead, but each CMD
/// that it leaves behind has a grace before its guard kills it, and its session, which says that
/// it owns the partitions until then, is about to be ended without waiting.
async fn outlast_predecessor(group: &Group, name: &str, margins: Margins) {
    let owns = |snapshot: &GroupSnapshot| {
        let own = |owner: usize| snapshot.members.get(owner).is_some_and(|it| it.name == name);
        snapshot.partitions.iter().filter_map(|it| it.owner).any(own)
    };
    // What cannot be read may name it. To join then waits for the store, or says what is wrong.
    if group.snapshot().await.is_ok_and(|snapshot| !owns(&snapshot)) {
        return;
    }
    let delay = margins.grace + margins.kill_margin;
    info!(
        outcome = "waiting",
        "a predecessor of this name may have been killed: its CMDs have {} to end",
        format_duration(Duration::from_millis(millis(delay)))
    );
    pause(delay).await;
}

fn leave(group: &Group, keep: Option<Duration>) {
    match keep {
        Some(delay) => group.leave_for(delay),
        None => group.leave(),
    }
}

fn group(args: &GroupRunArgs, name: &str, store: Arc<dyn Store>, prefix: &str) -> GroupBuilder {
    let builder = Group::builder(store, prefix)
        .name(name)
        .name_is_unique(args.unique_name)
        .partitions(&args.partitions.0)
        .data(args.data.clone().unwrap_or_default())
        .weight(args.weight)
        .validity(args.validity)
        .rebalance_delay(args.rebalance_delay)
        .machine_is_never_paused(args.machine_never_paused)
        .retry_denied(None);
    match args.poll {
        Some(poll) => builder.poll_interval(poll),
        None => builder,
    }
}

/// What runs, by the number of the partition.
type Running<T> = BTreeMap<u32, T>;
