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

use crate::args::common::after_help;
use crate::args::lease::{GraceArg, LeaseArgs};
use crate::args::member::MemberArgs;
use crate::args::partitions::{Names, partitions};
use crate::exit::{self, Failure};
use crate::http::Sites;
use crate::http::health::recent;
use crate::http::metrics::MetricsArg;
use crate::output::logs::GROUP_SPAN;
use crate::output::print::{millis, plain};
use crate::process::app_health::{AppHealth, AppHealthArgs};
use crate::process::cmd::{Cmd, look_up};
use crate::process::margins::Margins;
use crate::process::signals::{self, FORWARDED, Signals};
use crate::process::timer::pause;
use crate::store::open::{IfMissing, Opened, open, prefix, refuse_election_at};
use crate::store::patience::patiently;
use crate::store::url::{StoreUrl, store_url};
use health::{GroupHealth, GroupHealthArg};
use work::Works;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Group")]
pub struct GroupRunArgs {
    /// Location of the group, such as s3://BUCKET/PREFIX or ./DIRECTORY.
    ///
    /// `tenure run --help` lists the forms, their settings and options.
    #[arg(long, value_name = "URL", value_parser = store_url, env = "TENURE_STORE")]
    store: StoreUrl,
    /// Partitions of a new group: ranges such as 0..64 (without 64) and names, separated by commas.
    ///
    /// All members must give the same partitions. An existing group keeps its partitions; `group
    /// resize` changes them.
    #[arg(long, value_name = "NAMES", value_parser = partitions, env = "TENURE_PARTITIONS")]
    partitions: Names,
    #[command(flatten)]
    member: MemberArgs,
    #[command(flatten)]
    grace: GraceArg,
    #[command(flatten)]
    app: AppHealthArgs,
    #[command(flatten)]
    health: GroupHealthArg,
    #[command(flatten)]
    metrics: MetricsArg,
    #[command(flatten)]
    lease: LeaseArgs,
    /// The command to run for each partition, and its arguments.
    ///
    /// All words after the first word of CMD belong to CMD, flags included.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD", help_heading = None)]
    command: Vec<OsString>,
}

pub const AFTER_GROUP_RUN: &str = after_help!(
    "\
One CMD runs for each partition that this member owns, in a separate process group and under a \
separate guard. CMD has TENURE_PARTITION (the name of the partition), TENURE_EPOCH (its fencing \
token), TENURE_NAME and TENURE_STORE in its environment. CMD must send TENURE_EPOCH with each \
write, and the written resource must refuse lower tokens of that partition.

When a partition must move to another member, or the session is at risk, the CMD of the partition \
gets SIGTERM, and all descendants of CMD get SIGKILL after the grace. Once all of them have ended, \
the partition is released. The guard sends these signals even if `tenure` itself is killed or \
stopped. `tenure run --help` lists the processes that a guard cannot end.

The end of a CMD without a signal releases its partition, too. The partition then goes to a member \
where its CMD has not ended within the last ten minutes. Without such a member, CMD starts again \
after 1s. After exit codes other than 0 this time doubles with each failure, up to 60s.

With --unique-name, this member takes over the partitions of a killed predecessor as soon as the \
guards must have ended its CMDs: a grace and max(200ms, VALIDITY/20) after the start.

At SIGINT, SIGTERM or SIGQUIT this member leaves: it takes no more partitions, and each CMD gets \
SIGTERM. Once all CMDs have ended, the session is resigned, so that other members need not wait \
for its end. A second signal kills all CMDs. SIGHUP is forwarded to each CMD. After the loss of \
its session this process joins again.

If the store denies access or does not exist, `tenure` retries without a time limit and logs it.

With --health-addr, /livez is 200 while `tenure` itself works, whatever the state of the store. \
/readyz is 200 while the store has answered recently. /partitions returns the partitions of this \
member in JSON.",
    "
   0  left the group after a signal
  64  wrong usage or settings
  70  store unsafe, or an object in it corrupt
  71  the operating system refused an operation, or a guard and its standby have
      died
 126  CMD cannot be executed, 127 CMD was not found; nothing was sent
 129  ended by SIGHUP, 130 by SIGINT, 131 by SIGQUIT or 143 by SIGTERM while
      opening the store or waiting for the CMDs of a predecessor"
);

pub async fn run(args: GroupRunArgs) -> Result<u8, Failure> {
    let name = args.lease.name();
    // The span adds the name of the member to all log lines.
    let span = error_span!(GROUP_SPAN, store = %args.store, member = name);
    let margins = args.lease.margins(args.grace)?;
    let app = AppHealth::of_cmd(&args.app)?;
    // Checks the settings with a store in memory first. If the settings are invalid, no directory
    // is created: opening a store in a directory would create it.
    group(&args, &name, Arc::new(MemoryStore::new()), prefix(&args.store))?;
    let program = args.command.first().expect("clap requires a CMD");
    look_up(program, std::env::var_os("PATH").as_deref())?;
    let health = Arc::new(GroupHealth::new(
        &name,
        recent(args.lease.longest_pause(), args.lease.request_timeout()),
    ));
    health.of(run_as(&args, &name, margins, app, &health)).instrument(span).await
}

async fn run_as(
    args: &GroupRunArgs,
    name: &str,
    margins: Margins,
    app: AppHealth,
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
    tokio::select! {
        biased;
        signal = signals.next() => return Ok(signals::exit_code(signal)),
        refused = refuse_election_at(&store, &prefix, "tenure run") => refused?,
    }
    let group = group(args, name, store, &prefix)?;
    if args.member.name_is_unique() {
        tokio::select! {
            biased;
            signal = signals.next() => return Ok(signals::exit_code(signal)),
            () = outlast_predecessor(&group, name, margins) => {}
        }
    }
    health.opened(&group);
    let works = Works::new(cmd, app, Arc::clone(health));
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
                // The second signal ends `tenure` only if no CMD runs, because another member must
                // not own a partition while this member's CMD for the partition runs.
                signal if health.is_idle() => return Ok(signals::exit_code(signal)),
                signal => {
                    info!("{signal} again: each CMD is killed");
                    works.forward(Signal::SIGKILL);
                }
            },
            () = works.unguarded() => {
                let why = "a guard and its standby were killed, and processes that left the \
                           process group of their CMD may still run: the session is not resigned, \
                           and other members wait until it lapses";
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

/// Waits until no CMD of a predecessor with the same name can run any more. `--unique-name` implies
/// that the predecessor is dead, but its guards give each CMD a grace period before they kill the
/// CMD. After this function, the join ends the predecessor's session without a further wait.
async fn outlast_predecessor(group: &Group, name: &str, margins: Margins) {
    let owns = |snapshot: &GroupSnapshot| {
        let own = |owner: usize| snapshot.members.get(owner).is_some_and(|it| it.name == name);
        snapshot.partitions.iter().filter_map(|it| it.owner).any(own)
    };
    // If the assignment cannot be read, it may contain the predecessor as an owner, so this
    // function waits for the grace period. The error is ignored here: the join waits for the store
    // or reports the error.
    if group.snapshot().await.is_ok_and(|snapshot| !owns(&snapshot)) {
        return;
    }
    let delay = margins.grace + margins.kill_margin;
    info!(
        outcome = "waiting",
        "a predecessor with this name may have been killed: its CMDs have {} to end",
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

/// A map with an entry for each partition whose CMD runs. The key is the number of the partition.
type Running<T> = BTreeMap<u32, T>;
