//! `tenure group`: works on the partitions of a group, shows their owners, and changes the group
//! for operators.

mod change;
mod depose;
mod history;
mod restore;
mod run;
mod status;
pub mod view;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Subcommand};
use tenure::Epoch;
use tenure_groups::{Group, GroupBuilder};

use super::exit::Failure;
use crate::args::common::{RECORD_CODES, count, duration, name, positive_up_to};
use crate::args::partitions::{Names, partitions};
use crate::http::metrics::MetricsArg;
use crate::process::exec::command as exec_command;
use crate::store::open::{IfMissing, Opened, open};
use crate::store::url::{StoreUrl, store_url};
use run::{AFTER_GROUP_RUN, GroupRunArgs};
use status::AFTER_GROUP_STATUS;
pub use status::GroupStatus;
use watch::AFTER_GROUP_WATCH;
pub use watch::{LONGEST_POLL, OFTEN, observer};

#[derive(Debug, clap::Args)]
pub struct GroupArgs {
    #[command(subcommand)]
    verb: GroupVerb,
}

#[derive(Debug, Subcommand)]
enum GroupVerb {
    /// Join a group, and run CMD for each partition that this member is granted
    #[command(after_long_help = AFTER_GROUP_RUN)]
    Run(Box<GroupRunArgs>),
    /// Show the members and their partitions
    #[command(after_long_help = AFTER_GROUP_STATUS)]
    Status(GroupStatusArgs),
    /// Follow the partitions: first a line for each owned partition, then a line for each change of
    /// owner
    #[command(after_long_help = AFTER_GROUP_WATCH)]
    Watch(GroupWatchArgs),
    /// Set the partitions of the group: add missing partitions, and retire all others
    #[command(after_long_help = RECORD_CODES)]
    Resize(ResizeArgs),
    /// Remove partitions permanently, after their owners have released them
    #[command(after_long_help = RECORD_CODES)]
    Retire(MarkArgs),
    /// Pin partitions: only members with a given name own them
    #[command(after_long_help = RECORD_CODES)]
    Pin(PinArgs),
    /// Bar members with a given name from owning partitions
    #[command(after_long_help = RECORD_CODES)]
    Bar(BarArgs),
    /// Pause partitions: their owners release them, and no member owns them until `resume`
    #[command(after_long_help = RECORD_CODES)]
    Pause(MarkArgs),
    /// End the pause of partitions
    #[command(after_long_help = RECORD_CODES)]
    Resume(MarkArgs),
    /// End the reservation of partitions for a member that left with --leave-for
    #[command(after_long_help = RECORD_CODES)]
    Unreserve(MarkArgs),
    /// List each assignment with the members and the partitions that it changed
    #[command(after_long_help = RECORD_CODES)]
    History(GroupHistoryArgs),
    /// End a member's session, so that its partitions move. A living member joins again: exclude it
    /// with `bar`
    #[command(after_long_help = RECORD_CODES)]
    Depose(GroupDeposeArgs),
    /// After assignments were deleted: continue above a given epoch. Takes all partitions from
    /// their owners, and returns once the longest lease has ended
    #[command(after_long_help = RECORD_CODES)]
    Restore(GroupRestoreArgs),
}

#[derive(Debug, clap::Args)]
struct GroupStoreArg {
    /// Location of the group, such as s3://BUCKET/PREFIX or ./DIRECTORY.
    ///
    /// `tenure run --help` lists the forms, their settings and options.
    #[arg(long, value_name = "URL", value_parser = store_url, env = "TENURE_STORE")]
    store: StoreUrl,
    /// Print one JSON object instead of text; `watch` and `history` print one for each line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct GroupStatusArgs {
    #[command(flatten)]
    at: GroupStoreArg,
    /// Also list the partitions; `--json` always lists them
    #[arg(long)]
    partitions: bool,
    /// Print only this field of the JSON object.
    ///
    /// A string is printed without quotes, null as an empty line, and other values as JSON.
    #[arg(long, value_name = "NAME", value_parser = status::FIELDS)]
    #[arg(conflicts_with_all = ["json", "partitions"])]
    field: Option<String>,
    /// Exit with 1 if the group does not exist, or a partition has no live owner
    #[arg(long)]
    exit_code: bool,
}

#[derive(Debug, clap::Args)]
struct GroupWatchArgs {
    #[command(flatten)]
    at: GroupStoreArg,
    /// Interval between polls, at most 1h [default: a sixth of the members' shortest validity]
    ///
    /// The default is from 1s to 1m, and 5s before the first member.
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(LONGEST_POLL))]
    #[arg(env = "TENURE_POLL")]
    poll: Option<Duration>,
    /// Run `sh -c CMD` for each owned partition at the start, and for each change.
    ///
    /// CMD has TENURE_STATE, TENURE_PARTITION, TENURE_EPOCH and TENURE_OWNER in its environment,
    /// and the JSON object of --json on stdin.
    #[arg(long, value_name = "CMD", value_parser = exec_command)]
    exec: Option<String>,
    #[command(flatten)]
    metrics: MetricsArg,
}

#[derive(Debug, clap::Args)]
struct ResizeArgs {
    #[command(flatten)]
    at: GroupStoreArg,
    /// All partitions of the group after the change.
    ///
    /// Ranges such as 0..64 (without 64) and names, separated by commas.
    #[arg(long, value_name = "NAMES", value_parser = partitions, env = "TENURE_PARTITIONS")]
    partitions: Names,
}

#[derive(Debug, clap::Args)]
struct MarkArgs {
    #[command(flatten)]
    at: GroupStoreArg,
    /// Partitions: ranges such as 0..64 (without 64) and names, separated by commas
    #[arg(value_name = "NAMES", value_parser = partitions)]
    names: Names,
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("target").args(["to", "any"]).required(true))]
struct PinArgs {
    #[command(flatten)]
    of: MarkArgs,
    /// The name of the member
    #[arg(long, value_name = "MEMBER", value_parser = name)]
    to: Option<String>,
    /// Let any member own the partitions again
    #[arg(long)]
    any: bool,
}

#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("target").args(["from", "any"]).required(true))]
struct BarArgs {
    #[command(flatten)]
    of: MarkArgs,
    /// The name of the member
    #[arg(long, value_name = "MEMBER", value_parser = name)]
    from: Option<String>,
    /// Let any member own the partitions again
    #[arg(long)]
    any: bool,
}

#[derive(Debug, clap::Args)]
struct GroupHistoryArgs {
    #[command(flatten)]
    at: GroupStoreArg,
    /// Maximum number of assignments to read, newest first: at most 100000.
    ///
    /// Costs one GET for each assignment, and one for each member.
    #[arg(long, value_name = "COUNT", default_value = "1000")]
    #[arg(value_parser = count(1..=100_000_u32))]
    limit: u32,
    /// Show only the changes of this partition
    #[arg(long, value_name = "NAME", value_parser = name)]
    partition: Option<String>,
    /// Also draw the owners of the partitions as an SVG in this file, for light and dark pages.
    ///
    /// `-` is stdout, which then has no other output.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct GroupDeposeArgs {
    #[command(flatten)]
    at: GroupStoreArg,
    /// Name of the member, or at least the first 8 digits of its session; `status` shows both
    #[arg(value_name = "MEMBER", value_parser = name)]
    member: String,
    /// Declare that the member is dead: its partitions move before the end of its lease.
    ///
    /// If the member is alive, its partitions have two owners for up to its validity.
    #[arg(long)]
    force: bool,
    /// Name of the operator, for people [default: HOSTNAME-PID]
    #[arg(long, value_name = "NAME", value_parser = name, env = "TENURE_NAME")]
    name: Option<String>,
    /// Reason, for people: it is written into the session. At most 1,000 bytes
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, clap::Args)]
struct GroupRestoreArgs {
    #[command(flatten)]
    at: GroupStoreArg,
    /// Epoch to continue above: at least the greatest token that any guarded resource has seen.
    ///
    /// With a lower epoch, resources refuse the tokens of the next owners, or tokens repeat.
    #[arg(long, value_name = "EPOCH")]
    epoch: Epoch,
    /// Minimum time that this command waits, because members from before the deletion may still
    /// run.
    ///
    /// Pass their longest validity, at most 1h. Must be above 0s if a session cannot be read.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    wait: Duration,
    /// Partitions of the group, if no assignment is left.
    ///
    /// Ranges such as 0..64 (without 64) and names, separated by commas.
    #[arg(long, value_name = "NAMES", value_parser = partitions, env = "TENURE_PARTITIONS")]
    partitions: Option<Names>,
    /// Name of the operator, for people [default: HOSTNAME-PID]
    #[arg(long, value_name = "NAME", value_parser = name, env = "TENURE_NAME")]
    name: Option<String>,
}

impl GroupArgs {
    /// Returns whether this verb runs CMD under a guard. Such a verb logs events.
    pub fn runs(&self) -> bool {
        matches!(self.verb, GroupVerb::Run(_))
    }
}

pub async fn group(args: GroupArgs) -> Result<u8, Failure> {
    match args.verb {
        GroupVerb::Run(args) => run::run(*args).await,
        GroupVerb::Status(args) => status::status(args).await,
        GroupVerb::Watch(args) => watch::watch(args).await,
        GroupVerb::Resize(args) => change::resize(args).await,
        GroupVerb::Retire(args) => change::retire(args).await,
        GroupVerb::Pin(args) => change::pin(args).await,
        GroupVerb::Bar(args) => change::bar(args).await,
        GroupVerb::Pause(args) => change::pause(args, true).await,
        GroupVerb::Resume(args) => change::pause(args, false).await,
        GroupVerb::Unreserve(args) => change::unreserve(args).await,
        GroupVerb::History(args) => history::history(args).await,
        GroupVerb::Depose(args) => depose::depose(args).await,
        GroupVerb::Restore(args) => restore::restore(args).await,
    }
}

/// Returns the builder of a group for a verb that observes or changes the group. If the store is a
/// bucket, sends no request.
async fn builder(at: &GroupStoreArg) -> Result<GroupBuilder, Failure> {
    let Opened { store, prefix } = open(&at.store, IfMissing::RefuseGroup).await?;
    Ok(Group::builder(store, prefix))
}
