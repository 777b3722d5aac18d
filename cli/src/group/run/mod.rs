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
use tenure::store::{MemoryStore, Store};
use tenure_groups::{Group, GroupSnapshot};
use tracing::{Instrument as _, error_span, info};

use crate::args::lease::{GraceArg, LeaseArgs};
use crate::args::member::MemberArgs;
use crate::args::partitions::{Names, partitions};
use crate::exit::{self, Failure};
use crate::http::Sites;
use crate::http::health::recent;
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
    #[arg(long, value_name = "NAMES", value_parser = partitions)]
    partitions: Names,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    member: MemberArgs,
    #[command(flatten)]
    grace: GraceArg,
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

pub async fn run(args: GroupRunArgs) -> Result<u8, Failure> {
    let name = args.lease.name();
    // All logs name the member.
    let span = error_span!("group", store = %args.store, member = name);
    let margins = args.lease.margins(args.grace)?;
    // Checks the settings first, because opening a directory creates it.
    group(&args, &name, Arc::new(MemoryStore::new()), prefix(&args.store))?;
    let program = args.command.first().expect("clap requires a CMD");
    look_up(program, std::env::var_os("PATH").as_deref())?;
    let health = Arc::new(GroupHealth::new(
        &name,
        recent(args.lease.longest_pause(), args.lease.request_timeout()),
    ));
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
    let group = group(args, name, store, &prefix)?;
    if args.member.name_is_unique() {
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
                    leave(&group, args.member.leave_for());
                }
                // If the predecessor's CMD still runs, the partition would be owned before its end.
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

/// Returns when no CMD of a predecessor with this name runs. `--unique-name` implies that the
/// predecessor is dead, but its guards give each CMD a grace period before they kill it. The join
/// then ends the predecessor's session without a wait.
async fn outlast_predecessor(group: &Group, name: &str, margins: Margins) {
    let owns = |snapshot: &GroupSnapshot| {
        let own = |owner: usize| snapshot.members.get(owner).is_some_and(|it| it.name == name);
        snapshot.partitions.iter().filter_map(|it| it.owner).any(own)
    };
    // An unreadable record may name the predecessor. The join waits for the store or reports
    // the error.
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

fn group(
    args: &GroupRunArgs,
    name: &str,
    store: Arc<dyn Store>,
    prefix: &str,
) -> Result<Group, Failure> {
    let builder = args.member.builder(&args.lease, &args.partitions, name, store, prefix)?;
    Ok(builder.retry_denied(None).build()?)
}

/// Running work, by the number of the partition.
type Running<T> = BTreeMap<u32, T>;
