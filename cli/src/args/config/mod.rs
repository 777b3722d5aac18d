//! Settings from the environment and from a file, beside the flags.
//!
//! A flag counts before a variable, and a variable before the file. What comes from the file is
//! put behind the flags of the command line, so that it is read and refused as they are.

mod file;
mod show;
mod variables;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _, Parser as _, ValueEnum as _};

use super::Args;
use crate::exit::{self, Failure};
use crate::output::logs::LogFormat;
use crate::output::print::plain;
use file::File;
pub use show::show;
pub use variables::{INSIDE_RUN, without_effect};
use variables::{of_variable, variable};

/// The flags that a variable and a file may give, too. Not those that say what to do just once,
/// such as `depose --force`, or that CMD finds in its environment, such as `restore --epoch`.
const SETTINGS: &[&str] = &[
    "store",
    "election",
    "group",
    "layout",
    "partitions",
    "name",
    "unique-name",
    "leave-for",
    "weight",
    "validity",
    "renew",
    "poll",
    "poll-backoff",
    "request-timeout",
    "grace",
    "takeover-delay",
    "priority-delay",
    "rebalance-delay",
    "clock-drift-max",
    "store-clock-margin",
    "verify-renewals",
    "no-check",
    "machine-never-paused",
    "data",
    "data-file",
    "forever",
    "successor",
    "on-elected",
    "on-lost",
    "hook-timeout",
    "epoch-file",
    "keep",
    "min-age",
    "every",
    "health-addr",
    "metrics-addr",
    LOG_FORMAT,
];
/// The only setting of all verbs.
const LOG_FORMAT: &str = "log-format";

/// Why the arguments cannot be used.
#[derive(Debug)]
pub enum Refused {
    Arguments(clap::Error),
    Settings(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Settings(failure)
    }
}

/// The arguments, with the settings of the environment and of the file.
pub fn parse(mut line: Vec<OsString>) -> Result<Args, Refused> {
    // The guard must not fail for a setting.
    let is_hidden = line.get(1).is_some_and(|verb| verb.as_encoded_bytes().starts_with(b"__"));
    let found = if is_hidden { Found::default() } else { Found::by(&line)? };
    found.add_to(&mut line);
    Args::try_parse_from(line).map_err(|error| found.explain(error))
}

/// The format of the logs that a command line asks for that was refused, itself or by a setting.
pub fn log_format(line: &[OsString]) -> LogFormat {
    let by_line = LogFormat::asked(line.iter().map(OsString::as_os_str));
    by_line.or_else(|| log_format_of_settings(line)).unwrap_or_default()
}

fn log_format_of_settings(line: &[OsString]) -> Option<LogFormat> {
    let given = |found: &Added| match &found.value {
        Given::Value(value) => LogFormat::from_str(value, false).ok(),
        _ => None,
    };
    if let Some(found) = of_variable(LOG_FORMAT, Kind::Value).ok()? {
        return given(&found);
    }
    let command = lenient();
    let matches = command.clone().ignore_errors(true).try_get_matches_from(line).ok()?;
    Found::of(&command, &matches).ok()?.get(LOG_FORMAT).and_then(given)
}

/// What the environment and the file add to a command line.
#[derive(Debug, Default)]
struct Found(Vec<Added>);

/// A setting that no flag gives.
#[derive(Debug)]
struct Added {
    long: &'static str,
    value: Given,
    origin: Origin,
}

#[derive(Debug)]
enum Given {
    /// A flag without a value is on or off.
    Flag(bool),
    Value(String),
    /// Of a flag that may be given more than once.
    Values(Vec<String>),
}

#[derive(Debug, Clone)]
enum Origin {
    Variable(String),
    File(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Variable(name) => f.write_str(name),
            Origin::File(path) => f.write_str(&plain(&path.to_string_lossy())),
        }
    }
}

impl Found {
    fn by(line: &[OsString]) -> Result<Found, Refused> {
        let command = lenient();
        match given(&command, line) {
            Ok(matches) => Ok(Found::of(&command, &matches)?),
            // Read once more by the strict definitions, which say it better.
            Err(_) => Ok(Found::default()),
        }
    }

    fn of(command: &Command, matches: &ArgMatches) -> Result<Found, Failure> {
        let path = matches.get_one::<PathBuf>("config");
        let file = path.map(|path| File::read(path, command)).transpose()?;
        let is_file_given = matches.value_source("config") == Some(ValueSource::CommandLine);
        let (verb, own) = leaf(command, matches);
        let mut added = Vec::new();
        for long in SETTINGS.iter().copied() {
            let Some(arg) = setting(verb.command, long) else { continue };
            let kind = Kind::of(arg);
            let given = own.value_source(arg.get_id().as_str());
            if given.is_some_and(|source| source != ValueSource::DefaultValue) {
                continue;
            }
            let is_own = variables::is_of_the_outer_process(long);
            let of_variable = if is_own { None } else { of_variable(long, kind)? };
            let file = file.as_ref().filter(|_| !is_own || is_file_given);
            let of_file = || match file {
                Some(file) => file.setting(&verb.names, long, kind),
                None => Ok(None),
            };
            added.extend(match of_variable {
                None => of_file()?,
                found => found,
            });
        }
        Ok(Found(added))
    }

    /// Before CMD. The global setting goes before the verb: `config` takes all that follows for
    /// the line of another verb.
    fn add_to(&self, line: &mut Vec<OsString>) {
        let (global, own): (Vec<_>, Vec<_>) =
            self.0.iter().partition(|added| added.long == LOG_FORMAT);
        let end = line.iter().position(|word| word == "--").unwrap_or(line.len());
        line.splice(end..end, own.into_iter().flat_map(Added::words));
        line.splice(1..1, global.into_iter().flat_map(Added::words));
    }

    fn get(&self, long: &str) -> Option<&Added> {
        self.0.iter().find(|added| added.long == long)
    }

    /// Says where a setting is from that is wrong.
    fn explain(&self, error: clap::Error) -> Refused {
        let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg) else {
            return Refused::Arguments(error);
        };
        let long = arg.trim_start_matches('-').split([' ', '=']).next().unwrap_or_default();
        match self.get(long) {
            Some(added) => {
                let why = format!("{}: {}", added.origin, in_a_line(&error));
                Refused::Settings(Failure::new(exit::USAGE, why))
            }
            None => Refused::Arguments(error),
        }
    }
}

impl Added {
    fn words(&self) -> Vec<OsString> {
        // One word each, as a value may begin with a dash.
        let with = |value: &String| OsString::from(format!("--{}={value}", self.long));
        match &self.value {
            Given::Flag(false) => Vec::new(),
            Given::Flag(true) => vec![format!("--{}", self.long).into()],
            Given::Value(value) => vec![with(value)],
            Given::Values(values) => values.iter().map(with).collect(),
        }
    }
}

/// What is wrong, without the usage below it.
fn in_a_line(error: &clap::Error) -> String {
    let all = error.render().to_string();
    let all = all.trim_start_matches("error: ");
    let why = all.split("\n\nUsage:").next().unwrap_or(all);
    let why = why.split("\n\nFor more").next().unwrap_or(why);
    why.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The verb of a command line.
struct Verb<'a> {
    /// `group` and `run`, say.
    names: Vec<&'a str>,
    command: &'a Command,
}

/// The innermost verb, and its arguments.
fn leaf<'a>(command: &'a Command, matches: &'a ArgMatches) -> (Verb<'a>, &'a ArgMatches) {
    let mut verb = Verb { names: Vec::new(), command };
    let mut own = matches;
    while let Some((name, below)) = own.subcommand() {
        let Some(command) = verb.command.find_subcommand(name) else { break };
        verb.names.push(name);
        (verb.command, own) = (command, below);
    }
    (verb, own)
}

/// The argument of a verb that is this setting. `compact --group` says what to do, and is none.
fn setting<'a>(verb: &'a Command, long: &str) -> Option<&'a Arg> {
    let mut args = verb.get_arguments();
    let arg = args.find(|arg| arg.get_long() == Some(long))?;
    (long != "group" || Kind::of(arg) == Kind::Values).then_some(arg)
}

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    Value,
    /// A value each time that it is given.
    Values,
}

impl Kind {
    fn of(arg: &Arg) -> Kind {
        match arg.get_action() {
            ArgAction::SetTrue => Kind::Nothing,
            ArgAction::Append => Kind::Values,
            _ => Kind::Value,
        }
    }
}

/// What a command line gives. A flag may need another that the environment or the file has, as
/// `--unique-name` needs `--name`: whether that is there is seen once they are added.
fn given(command: &Command, line: &[OsString]) -> Result<ArgMatches, clap::Error> {
    match command.clone().try_get_matches_from(line) {
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            command.clone().ignore_errors(true).try_get_matches_from(line)
        }
        matches => matches,
    }
}

/// The definitions with nothing required: what is missing may be in the file.
fn lenient() -> Command {
    fn lift(command: Command) -> Command {
        let command = command.mut_args(|arg| arg.required(false));
        let names: Vec<_> =
            command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
        names.iter().fold(command, |command, name| command.mut_subcommand(name, lift))
    }
    let mut command = lift(Args::command());
    // Hands the global arguments down.
    command.build();
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_is_a_flag_of_some_verb() {
        fn longs(command: &Command, into: &mut Vec<String>) {
            into.extend(command.get_arguments().filter_map(Arg::get_long).map(str::to_owned));
            command.get_subcommands().for_each(|verb| longs(verb, into));
        }
        let mut all = Vec::new();
        longs(&Args::command(), &mut all);
        for long in SETTINGS {
            assert!(all.iter().any(|one| one == long), "--{long} is no flag");
        }
    }

    #[test]
    fn nothing_that_acts_once_is_a_setting() {
        for long in ["force", "epoch", "yes", "config", "json"] {
            assert!(!SETTINGS.contains(&long), "--{long}");
        }
    }
}
