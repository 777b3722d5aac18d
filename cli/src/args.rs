//! The arguments of the command.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tenure::Layout;

use super::cost::{AFTER_COST, CostArgs};
use super::group::Pipes;
use super::health::HealthArg;
use super::logs::LogFormat;
use super::metrics::MetricsArg;
use super::pages::CompletionsArgs;
use super::probe::{AFTER_PROBE, ProbeArgs};
use super::store_url::StoreUrl;

/// Leader election on object storage: one leader at a time, a bucket, and nothing else.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
    /// What the logs on stderr look like, and whatever else is said there
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Wait until elected, then run CMD for as long as the lease holds
    #[command(after_help = AFTER_RUN)]
    Run(RunArgs),
    /// Say who leads now
    #[command(after_help = EXIT_CODES)]
    Status(StatusArgs),
    /// Follow who leads: one line per change
    #[command(after_help = EXIT_CODES)]
    Watch(WatchArgs),
    /// Tell who led when, how each epoch ended, and how long nobody led
    #[command(after_help = EXIT_CODES)]
    History(super::history::HistoryArgs),
    /// Seal the current epoch, so that its leader loses it
    #[command(after_help = EXIT_CODES)]
    Depose(super::depose::DeposeArgs),
    /// After an accident: count on above an epoch
    #[command(after_help = EXIT_CODES)]
    Restore(super::restore::RestoreArgs),
    /// Delete superseded epoch objects, never the newest
    #[command(after_help = EXIT_CODES)]
    Compact(CompactArgs),
    /// Make the table of a DynamoDB store
    #[command(after_help = EXIT_CODES, disable_help_subcommand = true)]
    Table(TableArgs),
    /// Does this store keep its promises? Try what elections rest on: about 2,300 requests
    #[command(after_help = AFTER_PROBE)]
    Probe(ProbeArgs),
    /// Say how many requests an election makes in a month, and what they cost
    #[command(after_help = AFTER_COST)]
    Cost(CostArgs),
    /// Write a script to stdout that completes this command's arguments in a shell
    Completions(CompletionsArgs),
    /// Write the manual page to stdout, as roff: `tenure man | man -l -`
    Man,
    /// Starts the guard, and takes over if it dies; started by `run`
    #[command(name = "__standby", hide = true)]
    Standby(GuardArgs),
    /// Runs CMD, and ends it and its descendants when its lease ends; started by the standby
    #[command(name = "__guard", hide = true)]
    Guard(GuardArgs),
    /// Becomes CMD; started by the guard
    #[command(name = "__gate", hide = true)]
    Gate(GateArgs),
}

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// What people see of this candidate; need not be unique [default: HOSTNAME-PID]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub name: Option<String>,
    /// Length of the lease: how long a dead leader can keep others waiting. At least 2s with the
    /// default grace
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = positive_duration)]
    pub validity: Duration,
    /// How often to look at the current leader while waiting [default: a sixth of the validity]
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub poll: Option<Duration>,
    /// Time between SIGTERM and SIGKILL when the lease is at risk [default: a sixth of the
    /// validity]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub grace: Option<Duration>,
    /// The machine is never paused from outside, so a wall clock that is set forward does not end the
    /// lease
    #[arg(long)]
    pub machine_never_paused: bool,
    /// Campaign again when the lease was lost, instead of exiting with 75
    #[arg(long)]
    pub forever: bool,
    /// The candidate that is to lead next: when CMD has ended the others let it go first, for one
    /// poll
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub successor: Option<String>,
    /// The priority: how much longer than others to wait before taking over. Those with 0s lead when
    /// they can; for others it should be longer than the poll interval
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub priority_delay: Duration,
    #[command(flatten)]
    pub health: HealthArg,
    #[command(flatten)]
    pub metrics: MetricsArg,
    /// The command to run while leading, and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// One JSON object instead of a line for people
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = positive_duration)]
    pub poll: Duration,
    /// One JSON object per change instead of a line for people
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArg,
}

#[derive(Debug, clap::Args)]
pub struct CompactArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// How many epoch objects to keep, the newest included; at least 1
    #[arg(long, value_name = "COUNT", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    pub keep: u64,
    /// Delete only what is older than this by the store's clock. Below 1h a delayed request may
    /// bring back a deleted epoch
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
    pub min_age: Duration,
    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Compact again and again, this long after each run, instead of once
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub every: Option<Duration>,
    /// One JSON object per run instead of a line for people
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArg,
}

#[derive(Debug, clap::Args)]
pub struct TableArgs {
    #[command(subcommand)]
    pub verb: TableVerb,
}

#[derive(Debug, Subcommand)]
pub enum TableVerb {
    /// Make the table, paid by the request, and wait until it can be used; a table that is there
    /// already is left as it is
    #[command(after_help = EXIT_CODES)]
    Create(TableCreateArgs),
}

#[derive(Debug, clap::Args)]
pub struct TableCreateArgs {
    #[command(flatten)]
    pub store: StoreArg,
}

#[derive(Debug, clap::Args)]
pub struct StoreArg {
    /// Where the election lives: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX,
    /// dynamodb://TABLE/PREFIX, or file:///PATH for the processes of one machine. Settings come from
    /// the usual environment and files of the service (AWS_PROFILE, AWS_ENDPOINT_URL,
    /// GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME, …). s3:// also takes ?sse=AES256 or
    /// ?sse=aws:kms, kms-key-id=KEY, bucket-key=true, expected-bucket-owner=ACCOUNT; file:// takes
    /// ?share=group
    #[arg(long, value_name = "URL")]
    pub store: StoreUrl,
    /// How the election lies there. All who take part in it must say the same
    #[arg(long, value_name = "LAYOUT", value_enum, default_value_t = LayoutArg::EpochFiles)]
    pub layout: LayoutArg,
}

/// A [`Layout`], as it is spelled on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LayoutArg {
    /// An object for each epoch, lock-0000000001.json and so on
    EpochFiles,
    /// One object, lock.json, that is overwritten: needs no `compact`
    SingleObject,
}

impl From<LayoutArg> for Layout {
    fn from(layout: LayoutArg) -> Layout {
        match layout {
            LayoutArg::EpochFiles => Layout::EpochFiles,
            LayoutArg::SingleObject => Layout::SingleObject,
        }
    }
}

#[derive(Debug, clap::Args)]
pub struct GuardArgs {
    #[command(flatten)]
    pub pipes: Pipes,
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

#[derive(Debug, clap::Args)]
pub struct GateArgs {
    /// The number of the guard.
    #[arg(long)]
    pub parent: i32,
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

impl Verb {
    /// What is logged without `RUST_LOG`: `run` says what it does, the others answer on stdout.
    /// What the library and the SDK warn of, the command says in its own words.
    pub fn default_log_level(&self) -> &'static str {
        match self {
            Verb::Run(_) => "warn,aws=error,tenure=error,tenure::store=warn,tenure_cli=info",
            // Where they serve, if they were asked to.
            _ => "warn,aws=error,tenure=error,tenure::store=warn,tenure_cli::serve=info",
        }
    }
}

/// The name of a candidate that was not given one.
pub fn default_name() -> String {
    let host = nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned();
    let host = if host.is_empty() { "unknown".to_owned() } else { host };
    format!("{host}-{}", std::process::id())
}

pub fn name(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("a name has at least one character".to_owned());
    }
    Ok(text.to_owned())
}

pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write a number and a unit, such as 500ms, 30s, 10m, 1h"))
}

pub fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be longer than nothing".to_owned()),
        duration => Ok(duration),
    }
}

pub const EXIT_CODES: &str = "\
Durations are a number and a unit: 500ms, 30s, 10m, 1h.
Logs go to stderr; RUST_LOG sets their level, such as RUST_LOG=tenure=debug, and --log-format json
makes each line a JSON object.

Exit codes:
   0  done
  64  wrong usage or settings
  69  store unreachable or missing, or some epochs could not be deleted
  70  store unsafe, or an object in it corrupt
  71  the operating system refused something, such as starting a process
  73  the election is not as it would have to be; nothing was changed
  75  lost the lease
  77  access denied by the store
 130  ended by SIGINT before its end, 143 by SIGTERM, and `run` and `probe` 129 by SIGHUP; what was
      done is told. What goes on for ever, `watch` and `compact --every`, has no such end: 0";

const AFTER_RUN: &str = "\
CMD runs in a process group of its own, with TENURE_EPOCH (the fencing token), TENURE_NAME and
TENURE_STORE in its environment. When it has ended, the processes that it left behind get SIGTERM,
and after the grace SIGKILL. Once no descendant of CMD is left, the leadership is resigned.

When the lease is at risk of ending, the group of CMD gets SIGTERM, as do descendants outside of
it whose parents have ended; after the grace all descendants get SIGKILL, before the lease ends:
by max(200ms, VALIDITY/20). A guard process does this even if `tenure` itself is killed or stopped:
if it is killed, CMD gets SIGTERM at once, and SIGKILL after the grace or when the lease is about
to end, whichever is sooner. If the guard is killed, CMD and its descendants are killed.

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

CMD is not in the foreground of a terminal, and is stopped when it reads from one.

Durations are a number and a unit: 500ms, 30s, 10m, 1h.
Logs go to stderr; RUST_LOG sets their level, such as RUST_LOG=tenure=debug, and --log-format json
makes each line a JSON object.

Exit codes:
   N  CMD's own exit code, if the lease was valid when it ended; 128+N if signal N ended it,
      126 if it cannot be executed, 127 if it was not found, both before any campaign
  64  wrong usage or settings
  69  no such bucket or directory; a store that cannot be reached is waited for
  70  store unsafe, or an object in it corrupt
  71  the operating system refused to start a process, or the guard has died
  75  lost the lease: CMD was stopped, or had ended too late
  77  access denied by the store
 129  ended by SIGHUP while it waited, 130 by SIGINT, 131 by SIGQUIT, 143 by SIGTERM";

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &[&str]) -> Result<Verb, ErrorKind> {
        Args::try_parse_from(std::iter::once(&"tenure").chain(line))
            .map(|args| args.verb)
            .map_err(|error| error.kind())
    }

    #[test]
    fn definitions_are_consistent() {
        Args::command().debug_assert();
    }

    /// Help is 100 columns wide: longer lines of a text that has its own line breaks broke twice.
    #[test]
    fn regression_texts_below_the_options_fit_into_the_help() {
        fn check(command: &clap::Command) {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in after.lines() {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Args::command());
    }

    #[test]
    fn run_has_the_documented_defaults() {
        let Ok(Verb::Run(run)) =
            parse(&["run", "--store", "file:///tmp/x", "--", "echo", "--forever"])
        else {
            panic!("a plain run parses");
        };
        assert_eq!(run.validity, Duration::from_secs(30));
        assert_eq!((run.poll, run.grace, run.name), (None, None, None));
        assert!(!run.forever);
        assert_eq!(run.command, ["echo", "--forever"]);
    }

    #[test]
    fn run_needs_a_command_after_two_dashes() {
        assert!(parse(&["run", "--store", "file:///tmp/x"]).is_err());
        assert!(parse(&["run", "--store", "file:///tmp/x", "--"]).is_err());
        assert!(parse(&["run", "--store", "file:///tmp/x", "echo"]).is_err());
    }

    #[test]
    fn compact_keeps_at_least_one() {
        let with = |keep| parse(&["compact", "--store", "s3://b/p", "--keep", keep]);
        assert_eq!(with("0").err(), Some(ErrorKind::ValueValidation));
        assert!(matches!(with("1"), Ok(Verb::Compact(CompactArgs { keep: 1, .. }))));
        let Ok(Verb::Compact(compact)) = parse(&["compact", "--store", "s3://b/p"]) else {
            panic!("a plain compact parses");
        };
        assert_eq!((compact.keep, compact.min_age), (10, Duration::from_secs(3600)));
        assert_eq!(compact.every, None);
    }

    #[test]
    fn durations_need_a_unit_and_a_length() {
        let watch = |poll| parse(&["watch", "--store", "s3://b/p", "--poll", poll]);
        for wrong in ["30", "0s", "-1s", "fast", ""] {
            assert!(watch(wrong).is_err(), "--poll {wrong:?}");
        }
        let min_age = |age| parse(&["compact", "--store", "s3://b/p", "--min-age", age]);
        assert!(matches!(
            min_age("0s"),
            Ok(Verb::Compact(CompactArgs { min_age: Duration::ZERO, .. }))
        ));
    }

    #[test]
    fn a_wrong_store_is_a_usage_error() {
        assert_eq!(
            parse(&["status", "--store", "ftp://b/p"]).err(),
            Some(ErrorKind::ValueValidation)
        );
    }

    #[test]
    fn a_default_name_tells_the_process() {
        assert!(default_name().ends_with(&format!("-{}", std::process::id())));
    }
}
