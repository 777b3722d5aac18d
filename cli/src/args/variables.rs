//! The environment variables with the prefix `TENURE_`. Some are settings of the command,
//! and `tenure` sets others for CMD. The command warns of unknown variables.
//!
//! A flag that is a setting has a variable. The variable applies if the flag is not given. A flag
//! for a single action, such as `depose --force`, has no variable. `restore --epoch` has no
//! variable, because in the environment of CMD `TENURE_EPOCH` means the epoch of the leader.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command, CommandFactory as _, FromArgMatches as _, ValueEnum as _};
use tenure::store::printable;

use super::Args;
use crate::exit::{self, Failure};
use crate::output::logs::LogFormat;
use crate::output::print::plain;

const LOG_FORMAT: &str = "TENURE_LOG_FORMAT";

const START: &str = "TENURE_";

/// Variable that `run` and `group run` set for CMD. A `tenure` process inside CMD then knows that
/// it has inherited settings of an outer process.
pub const INSIDE_RUN: &str = "TENURE_RUN";
/// Variable with the epoch, for CMD of `run`, `group run` and `watch --exec`.
const EPOCH: &str = "TENURE_EPOCH";

/// Variables that cause no warning even if no flag reads them. `tenure` sets most of them for CMD.
const OTHERS: [&str; 16] = [
    // The systemd units use these two variables in their command lines.
    "TENURE_COMPACT_OPTIONS",
    "TENURE_OPTIONS",
    INSIDE_RUN,
    EPOCH,
    "TENURE_NAME",
    "TENURE_STORE",
    "TENURE_PARTITION",
    "TENURE_PERIOD_START",
    "TENURE_ATTEMPT",
    "TENURE_LAST_COMPLETED",
    "TENURE_LOSS",
    "TENURE_STATE",
    "TENURE_CANDIDATE",
    "TENURE_OWNER",
    "TENURE_DATA",
    "TENURE_REASON",
];

/// Settings that apply to one process only. CMD inherits their variables. A `tenure` process inside
/// CMD ignores these variables, because it must not use the name or the epoch file of the outer
/// process.
const OF_RUN: [&str; 11] = [
    "TENURE_NAME",
    "TENURE_UNIQUE_NAME",
    "TENURE_DATA",
    "TENURE_DATA_FILE",
    "TENURE_SUCCESSOR",
    "TENURE_ON_ELECTED",
    "TENURE_ON_LOST",
    "TENURE_HOOK_TIMEOUT",
    "TENURE_EPOCH_FILE",
    "TENURE_APP_HEALTH",
    "TENURE_APP_HEALTH_DEADLINE",
];
/// Settings that a `tenure` process ignores inside every CMD, including the CMD of `watch --exec`.
/// In the CMD of `watch --exec`, `TENURE_DATA` contains the data of the observed leader. The other
/// two are addresses on which the outer process already listens.
const OF_ALL: [&str; 3] = ["TENURE_DATA", "TENURE_HEALTH_ADDR", "TENURE_METRICS_ADDR"];

/// The error of a refused command line. Either an argument or a setting in the environment is
/// wrong.
#[derive(Debug)]
pub enum Refused {
    Arguments(clap::Error),
    Settings(Failure),
}

/// Parses the arguments of the command line and the settings in environment variables.
pub fn parse(line: &[OsString]) -> Result<Args, Refused> {
    // The hidden verbs read no variables, so an invalid setting cannot end the guard.
    let is_hidden = line.get(1).is_some_and(|verb| verb.as_encoded_bytes().starts_with(b"__"));
    let command = match is_hidden {
        true => Args::command().mut_args(|arg| arg.env(None::<&str>)),
        false => command(),
    };
    let parsed = command.try_get_matches_from(line);
    parsed
        .and_then(|mut all| Args::from_arg_matches_mut(&mut all))
        .map_err(|error| explain(with_variables(error, line), line))
}

/// Replaces the usage in the error: clap lists a flag as required although its variable is set.
/// Adds the names of the variables that can replace the missing flags.
fn with_variables(mut error: clap::Error, line: &[OsString]) -> clap::Error {
    if error.get(ContextKind::Usage).is_none() {
        return error;
    }
    let mut command = Args::command();
    command.build();
    let mut verb = command;
    for word in line.iter().skip(1).take_while(|word| *word != "--") {
        verb = verb.find_subcommand(word).cloned().unwrap_or(verb);
    }
    error.insert(ContextKind::Usage, ContextValue::StyledStr(verb.render_usage()));
    if let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) {
        let settings = settings();
        let with_variable = |arg: &String| match variable_of(arg) {
            name if settings.contains(&name) => format!("{arg} (or {name})"),
            _ => arg.clone(),
        };
        let missing = missing.iter().map(with_variable).collect();
        error.insert(ContextKind::InvalidArg, ContextValue::Strings(missing));
    }
    error
}

/// Returns the name of the variable of the flag in an error, if the flag is a setting.
fn variable_of(arg: &str) -> String {
    let flag = arg.split([' ', '=', '[']).next().unwrap_or_default();
    format!("{START}{}", flag.trim_start_matches('-').replace('-', "_").to_uppercase())
}

/// Removes the secrets of refused URLs from the error.
fn without_secrets(mut error: clap::Error) -> clap::Error {
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg] {
        let Some(ContextValue::String(text)) = error.get(kind) else { continue };
        if text.contains("://") {
            error.insert(kind, ContextValue::String(printable(text)));
        }
    }
    error
}

/// Returns the definitions of the arguments. An argument has no variable if the variable would have
/// no effect in this process.
pub fn command() -> Command {
    with_effective_variables(Args::command())
}

fn with_effective_variables(verb: Command) -> Command {
    let verb = verb.mut_args(with_effective_variable);
    verb.mut_subcommands(with_effective_variables)
}

/// Removes the variable from the argument if the variable would have no effect in this process. An
/// empty variable has no effect, as in most programs.
fn with_effective_variable(arg: Arg) -> Arg {
    let Some(name) = arg.get_env().map(OsStr::to_owned) else { return arg };
    let value = env::var_os(&name);
    let arg = arg.hide_env_values(true);
    match (arg.get_action(), value) {
        (_, Some(value)) if value.is_empty() || is_of_the_outer_process(&name) => {
            arg.env(None::<&str>)
        }
        (ArgAction::SetTrue, Some(value)) if is_off(&value) => arg.env(None::<&str>),
        (ArgAction::SetTrue, _) => arg.value_parser(BoolishValueParser::new()),
        // The flag is `--store`. Its parser splits the value. A default value would not satisfy a
        // required flag.
        (ArgAction::Append, Some(_)) if arg.is_required_set() => arg,
        (ArgAction::Append, Some(values)) => {
            let values = values.to_string_lossy();
            let words: Vec<String> = values.split_whitespace().map(str::to_owned).collect();
            arg.env(None::<&str>).default_values(words).hide_default_value(true)
        }
        (_, _) => arg,
    }
}

/// Returns whether the value of a variable turns its flag off. The variable then counts as not set,
/// because a flag that is off must not conflict with others.
fn is_off(value: &OsStr) -> bool {
    let value = value.to_ascii_lowercase();
    ["0", "f", "false", "n", "no", "off"].iter().any(|off| value == *off)
}

/// Returns whether the variable of this setting was set for an outer `tenure` process. If it was,
/// this process runs inside the CMD of the outer process.
fn is_of_the_outer_process(name: &OsStr) -> bool {
    let is_set = |name| env::var_os(name).is_some();
    OF_RUN.iter().any(|one| name == *one) && is_set(INSIDE_RUN)
        || OF_ALL.iter().any(|one| name == *one) && is_set(EPOCH)
}

/// If the value of a variable has caused the error, adds the name of the variable to the error.
fn explain(error: clap::Error, line: &[OsString]) -> Refused {
    let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg) else {
        return Refused::Arguments(without_secrets(error));
    };
    let flag = arg.split([' ', '=', '[']).next().unwrap_or_default();
    let is_given = line.iter().take_while(|word| *word != "--").any(|word| {
        let word = word.to_string_lossy();
        word.split('=').next() == Some(flag)
    });
    let name = variable_of(arg);
    let value = env::var(&name).unwrap_or_default();
    let is_of_variable = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(invalid)) => {
            value == *invalid || value.split_whitespace().any(|word| word == invalid)
        }
        _ => !is_given,
    };
    if value.is_empty() || !is_of_variable || !settings().contains(&name) {
        return Refused::Arguments(without_secrets(error));
    }
    let why = format!("{name}: {}", in_a_line(&without_secrets(error)));
    Refused::Settings(Failure::new(exit::USAGE, why))
}

/// Returns the error of clap in one line, without the usage.
fn in_a_line(error: &clap::Error) -> String {
    let all = error.render().to_string();
    let all = all.trim_start_matches("error: ");
    let why = all.split("\n\nUsage:").next().unwrap_or(all);
    let why = why.split("\n\nFor more").next().unwrap_or(why);
    why.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the log format for an error about the command line. The format comes from `--log-format`
/// on this command line, or else from the environment.
pub fn log_format(line: &[OsString]) -> LogFormat {
    let of_variable = || {
        let value = env::var(LOG_FORMAT).ok()?;
        LogFormat::from_str(&value, false).ok()
    };
    let by_line = LogFormat::asked(line.iter().map(OsString::as_os_str));
    by_line.or_else(of_variable).unwrap_or_default()
}

/// Returns the names of the environment variables of all flags.
fn settings() -> BTreeSet<String> {
    fn collect(verb: &Command, all: &mut BTreeSet<String>) {
        let names = verb.get_arguments().filter_map(Arg::get_env);
        all.extend(names.map(|name| name.to_string_lossy().into_owned()));
        verb.get_subcommands().for_each(|verb| collect(verb, all));
    }
    let mut all = BTreeSet::new();
    collect(&Args::command(), &mut all);
    all
}

/// Returns a warning for each unknown variable that begins with `TENURE_`, because it may be a
/// misspelt setting.
pub fn without_effect() -> Vec<String> {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut all: Vec<String> = names.filter_map(|name| complaint(&name)).collect();
    all.sort();
    all
}

fn complaint(name: &str) -> Option<String> {
    let rest = name.strip_prefix(START)?;
    let settings = settings();
    let known = settings.iter().map(String::as_str).chain(OTHERS);
    let of_tests = rest.starts_with("TEST_");
    if known.clone().any(|other| other == name) || is_of_kubernetes(rest) || of_tests {
        return None;
    }
    let likeness = |other: &&str| strsim::jaro(rest, &other[START.len()..]);
    let nearest = known.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    let advice = match nearest.filter(|nearest| likeness(nearest) > LIKE) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "`tenure VERB --help` names the variables".to_owned(),
    };
    Some(format!("the variable {} is not a setting and has no effect; {advice}", plain(name)))
}

/// Minimum similarity between an unknown variable and the variable that the warning suggests. Clap
/// uses the same minimum for flags.
const LIKE: f64 = 0.7;

/// Returns whether Kubernetes has set the variable for a Service of the namespace. `rest` is the
/// name of the variable after `TENURE_`. Variables of the Services `tenure` and `tenure-…` begin
/// with `TENURE_`.
fn is_of_kubernetes(rest: &str) -> bool {
    let parts = ["SERVICE_HOST", "SERVICE_PORT", "PORT"];
    parts.iter().any(|part| {
        rest.split_once(part).is_some_and(|(before, after)| {
            (before.is_empty() || before.ends_with('_'))
                && (after.is_empty() || after.starts_with('_'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_the_warning_names_the_setting_nearest_to_a_misspelt_variable() {
        for (wrong, nearest) in [
            ("TENURE_VALIDTY", "TENURE_VALIDITY"),
            ("TENURE_STORE_URL", "TENURE_STORE"),
            ("TENURE_TAKEOVER_DELAYS", "TENURE_TAKEOVER_DELAY"),
            ("TENURE_POOL", "TENURE_POLL"),
            ("TENURE_METRIC_ADDR", "TENURE_METRICS_ADDR"),
        ] {
            let why = complaint(wrong).expect(wrong);
            assert!(why.contains(wrong) && why.contains(&format!("mean {nearest}?")), "{why}");
        }
        let why = complaint("TENURE_QQ").expect("no setting");
        assert!(why.contains("no effect") && !why.contains("did you mean"), "{why}");
    }

    #[test]
    fn known_variables_get_no_warning() {
        for name in settings() {
            assert_eq!(complaint(&name), None);
        }
        for name in OTHERS.into_iter().chain([
            "HOME",
            "MY_TENURE_X",
            "TENURE_SERVICE_HOST",
            "TENURE_SERVICE_PORT_HTTP",
            "TENURE_PORT",
            "TENURE_PORT_4040_TCP_ADDR",
            "TENURE_METRICS_SERVICE_HOST",
            "TENURE_METRICS_PORT_9090_TCP",
            "TENURE_TEST_S3_BUCKET",
        ]) {
            assert_eq!(complaint(name), None, "{name}");
        }
    }

    #[test]
    fn definitions_with_variables_are_consistent() {
        command().debug_assert();
    }

    /// `explain` computes the name of a variable from the name of its flag, so the two names must
    /// correspond.
    #[test]
    fn each_variable_has_the_name_of_its_flag() {
        fn check(verb: &Command) {
            for arg in verb.get_arguments().filter(|arg| arg.get_env().is_some()) {
                let flag = arg.get_long().expect("a setting is a flag").replace('-', "_");
                let name = format!("{START}{}", flag.to_uppercase());
                assert_eq!(arg.get_env(), Some(OsStr::new(&name)), "{}", verb.get_name());
            }
            verb.get_subcommands().for_each(check);
        }
        check(&Args::command());
        assert!(settings().len() > 30, "{:?}", settings());
    }

    #[test]
    fn each_ignored_variable_is_a_setting() {
        for name in OF_RUN.iter().chain(&OF_ALL) {
            assert!(settings().contains(*name), "{name}");
        }
    }
}
