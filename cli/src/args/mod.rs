//! The arguments that all verbs accept, and the list of the verbs. The module of each verb defines
//! its own arguments.

pub mod common;
pub mod data_file;
pub mod lease;
pub mod member;
pub mod partitions;
pub mod variables;

use clap::{ColorChoice, Parser, Subcommand};

use crate::across::AcrossArgs;
use crate::cost::{AFTER_COST, CostArgs};
use crate::election::compact::CompactArgs;
use crate::election::depose::DeposeArgs;
use crate::election::history::HistoryArgs;
use crate::election::restore::RestoreArgs;
use crate::election::status::{AFTER_STATUS, StatusArgs};
use crate::election::wait::{AFTER_WAIT, WaitArgs};
use crate::election::watch::{AFTER_WATCH, WatchArgs};
use crate::group::GroupArgs;
use crate::guard::{GateArgs, GuardArgs};
use crate::output::logs::LogFormat;
use crate::pages::{CompletionsArgs, ManArgs};
use crate::probe::{AFTER_PROBE, ProbeArgs};
use crate::run::{AFTER_RUN, RunArgs};
use crate::serve::{AFTER_SERVE, ServeArgs};
use crate::table::TableArgs;
use crate::ui::{AFTER_UI, UiArgs};
use common::{COMPACT_CODES, EXIT_CODES, RECORD_CODES};

/// Leader election on object storage: one leader at a time, a bucket, and nothing else.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, max_term_width = 100, after_long_help = EXIT_CODES)]
#[command(arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Verb,
    /// The format of the logs and all other output on stderr
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value_t)]
    #[arg(env = "TENURE_LOG_FORMAT", hide_short_help = true)]
    pub log_format: LogFormat,
    /// Log only errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log more: -v elections and losses, -vv also renewals
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Whether stdout has colours. With `auto`, NO_COLOR and CLICOLOR_FORCE decide
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    #[arg(hide_short_help = true)]
    pub color: ColorChoice,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Wait until elected, then run CMD for as long as the lease holds
    #[command(after_long_help = AFTER_RUN)]
    Run(Box<RunArgs>),
    /// Run a sidecar: campaign or own partitions for an application that uses an HTTP API
    #[command(after_long_help = AFTER_SERVE)]
    Serve(Box<ServeArgs>),
    /// Show all elections, groups and jobs of a store on a web page
    #[command(after_long_help = AFTER_UI)]
    Ui(UiArgs),
    /// Show the current leader
    #[command(after_long_help = AFTER_STATUS)]
    Status(StatusArgs),
    /// Follow the leader: one line per change
    #[command(after_long_help = AFTER_WATCH)]
    Watch(WatchArgs),
    /// Wait until the election is held or vacant
    #[command(after_long_help = AFTER_WAIT)]
    Wait(WaitArgs),
    /// List each epoch with its leader and its end, the times without a leader, and the periods of
    /// a job
    #[command(after_long_help = RECORD_CODES)]
    History(HistoryArgs),
    /// Seal the current epoch, so that its leader loses the leadership
    #[command(after_long_help = RECORD_CODES)]
    Depose(DeposeArgs),
    /// After records were deleted: continue above a given epoch
    #[command(after_long_help = RECORD_CODES)]
    Restore(RestoreArgs),
    /// Delete superseded epoch objects, never the newest
    #[command(after_long_help = COMPACT_CODES)]
    Compact(CompactArgs),
    /// Create, show and replace the stores of an election across 3 or 5 stores
    #[command(after_long_help = EXIT_CODES, disable_help_subcommand = true)]
    Across(AcrossArgs),
    /// Share partitions among processes, and show and change their owners
    #[command(after_long_help = EXIT_CODES, disable_help_subcommand = true)]
    Group(GroupArgs),
    /// Create the table of a DynamoDB store
    #[command(after_long_help = EXIT_CODES, disable_help_subcommand = true)]
    Table(TableArgs),
    /// Check that a store gives the guarantees that elections need: about 2,400 requests
    #[command(after_long_help = AFTER_PROBE)]
    Probe(ProbeArgs),
    /// Estimate the requests of an election or a group in a month, and their cost
    #[command(after_long_help = AFTER_COST)]
    Cost(CostArgs),
    /// Write a completion script for a shell to stdout
    Completions(CompletionsArgs),
    /// Write the manual pages, one for each verb, to a directory
    Man(ManArgs),
    /// Starts the guard, and takes over if the guard dies; started by `run`
    #[command(name = "__standby", hide = true)]
    Standby(GuardArgs),
    /// Runs CMD, and ends it and its descendants when its lease ends; started by the standby
    #[command(name = "__guard", hide = true)]
    Guard(GuardArgs),
    /// Resigns the epoch of a `run` that has died; reads the epoch from stdin; started by the guard
    #[command(name = "__resign", hide = true)]
    Resign,
    /// Replaces this process by CMD; started by the guard
    #[command(name = "__gate", hide = true)]
    Gate(GateArgs),
}

impl Args {
    /// Returns the log levels that apply if `RUST_LOG` is not set.
    pub fn log_levels(&self) -> &'static str {
        match self.verbose {
            _ if self.quiet => "error",
            0 => self.verb.default_log_levels(),
            1 => "warn,tenure=info",
            _ => "info,tenure=debug",
        }
    }
}

impl Verb {
    /// Returns the log level that applies if `RUST_LOG` is not set. `run` logs its actions; other
    /// verbs print to stdout. Most warnings of the library and the SDK are off, because the command
    /// itself reports the errors of requests.
    fn default_log_levels(&self) -> &'static str {
        match self {
            Verb::Run(_) | Verb::Serve(_) => {
                "warn,aws=error,tenure=error,tenure::store=warn,tenure::lease=info,tenure_cli=info"
            }
            // The level of `tenure_groups` is `info`, so the log contains changes of the member's
            // session and failures of CMD.
            Verb::Group(args) if args.runs() => {
                "warn,aws=error,tenure=error,tenure::store=warn,tenure::access=warn,\
                 tenure::lease=warn,tenure_groups=info,tenure_cli=info"
            }
            // The level of `tenure_cli::http` is `info`, so a verb with an HTTP server logs the
            // address.
            _ => {
                "warn,aws=error,tenure=error,tenure::store=warn,tenure::access=warn,\
                 tenure_cli=warn,tenure_cli::http=info"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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

    /// Clap finds inconsistent definitions of arguments only with the debug assertions of its
    /// crate. This test fails if the Cargo profile turns these assertions off.
    #[cfg(debug_assertions)]
    #[test]
    #[should_panic(expected = "no_such_argument")]
    fn regression_inconsistent_definitions_are_found() {
        let argument = clap::Arg::new("one").conflicts_with("no_such_argument");
        clap::Command::new("tenure").arg(argument).debug_assert();
    }

    #[test]
    fn run_has_the_documented_defaults() {
        let Ok(Verb::Run(run)) =
            parse(&["run", "--store", "file:///tmp/x", "--", "echo", "--forever"])
        else {
            panic!("a plain run parses");
        };
        assert_eq!(run.election.lease.validity, Duration::from_secs(30));
        assert_eq!(
            (run.election.lease.poll, run.grace.grace, run.election.lease.name),
            (None, None, None)
        );
        assert!(!run.forever);
        assert_eq!(run.command, ["echo", "--forever"]);
    }

    #[test]
    fn words_after_the_first_word_of_cmd_belong_to_cmd() {
        let with =
            |line: &[&str]| parse(&[&["run", "--store", "file:///tmp/x"][..], line].concat());
        for (line, command) in [
            (&["echo", "--forever", "-h"][..], &["echo", "--forever", "-h"][..]),
            (&["echo", "--", "--try"], &["echo", "--", "--try"]),
            (&["--", "echo", "--forever"], &["echo", "--forever"]),
            (&["--", "-x", "--"], &["-x", "--"]),
        ] {
            let Ok(Verb::Run(run)) = with(line) else { panic!("{line:?} parses") };
            assert_eq!(
                (run.command, run.forever),
                (command.iter().map(Into::into).collect(), false)
            );
        }
        assert!(matches!(with(&["--forever", "echo"]), Ok(Verb::Run(run)) if run.forever));
        let group = ["group", "run", "--store", "file:///tmp/x", "--partitions", "0..4"];
        assert!(parse(&[&group[..], &["echo", "--partitions", "-x"]].concat()).is_ok());
        for wrong in [&[][..], &["--"], &["--valdity", "3s", "echo"], &["-x"]] {
            assert!(with(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn compact_keeps_at_least_one_epoch() {
        let with = |keep| parse(&["compact", "--store", "s3://b/p", "--keep", keep]);
        assert_eq!(with("0").err(), Some(ErrorKind::ValueValidation));
        assert!(matches!(with("1"), Ok(Verb::Compact(CompactArgs { keep: 1, .. }))));
        let Ok(Verb::Compact(compact)) = parse(&["compact", "--store", "s3://b/p"]) else {
            panic!("`compact` needs only --store");
        };
        assert_eq!((compact.keep, compact.min_age), (10, Duration::from_secs(3600)));
        assert_eq!(compact.every, None);
    }

    #[test]
    fn durations_need_a_unit_and_some_may_be_zero() {
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

    /// Each flag for a duration has an upper bound, because a mistyped unit would otherwise go
    /// unnoticed.
    #[test]
    fn the_help_of_each_duration_has_an_upper_bound() {
        fn check(command: &clap::Command, seen: &mut usize) {
            let is_duration = |arg: &&clap::Arg| {
                let names = arg.get_value_names().unwrap_or_default();
                names.iter().any(|name| name == "DURATION")
            };
            for arg in command.get_arguments().filter(is_duration) {
                let help = arg.get_long_help().or(arg.get_help());
                let help = help.map(ToString::to_string).unwrap_or_default();
                let says = ["at most", "At most", "less than"].iter().any(|it| help.contains(it));
                assert!(says, "{} --{}: {help}", command.get_name(), arg.get_id());
                *seen += 1;
            }
            command.get_subcommands().for_each(|command| check(command, seen));
        }
        let mut seen = 0;
        check(&Args::command(), &mut seen);
        assert!(seen > 30, "{seen} durations");
    }

    #[test]
    fn a_wrong_store_is_a_usage_error() {
        assert_eq!(
            parse(&["status", "--store", "ftp://b/p"]).err(),
            Some(ErrorKind::ValueValidation)
        );
    }
}
