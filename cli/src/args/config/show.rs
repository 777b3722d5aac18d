//! `tenure config`: the settings that are in force for a verb, and from where.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, FromArgMatches as _};
use serde::Serialize;
use serde_json::Value;
use tenure::store::MemoryStore;

use super::{
    Found, Kind, Origin, Refused, SETTINGS, given, in_a_line, leaf, lenient, setting, variable,
};
use crate::args::common::LayoutArg;
use crate::args::config_args::ConfigArgs;
use crate::args::lease::{OwnArgs, Poll, SettingsArgs};
use crate::exit::{self, Failure};
use crate::output::print::{FAINT, in_ms, plain, print_json, print_styled, styled};
use crate::process::margins::Margins;

/// One setting.
#[derive(Debug, Serialize)]
struct Row {
    setting: &'static str,
    /// As the flag takes it. Null where there is none and no default.
    value: Option<String>,
    source: &'static str,
    variable: String,
    /// The file that it is from.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

pub fn show(args: &ConfigArgs, config: Option<OsString>) -> Result<u8, Failure> {
    let mut line: Vec<OsString> = vec!["tenure".into()];
    line.extend(config.into_iter().flat_map(|file| [OsString::from("--config"), file]));
    line.extend(args.line.iter().cloned());
    if args.line.is_empty() {
        line.push("run".into());
    }
    let mut command = lenient();
    let refuse = |error: clap::Error| Failure::new(exit::USAGE, in_a_line(&error));
    let given = given(&command, &line).map_err(refuse)?;
    let found = Found::of(&command, &given)?;
    found.add_to(&mut line);
    let all =
        command.try_get_matches_from_mut(&line).map_err(|error| match found.explain(error) {
            Refused::Arguments(error) => refuse(error),
            Refused::Settings(failure) => failure,
        })?;
    let (rows, outcome) = rows(&command, &given, &all, &found);
    for row in &rows {
        let _ = if args.json { print_json(row)? } else { print_styled(&row.for_people())? };
    }
    outcome.map(|()| 0)
}

/// The settings, and whether they fit together.
fn rows(
    command: &Command,
    given: &ArgMatches,
    all: &ArgMatches,
    found: &Found,
) -> (Vec<Row>, Result<(), Failure>) {
    let (verb, own) = leaf(command, all);
    let (_, given) = leaf(command, given);
    let settings = (verb.names == ["run"]).then(|| SettingsArgs::from_arg_matches(own).ok());
    let settings = settings.flatten();
    let grace = own.try_get_one("grace").ok().flatten().copied();
    let outcome = settings.as_ref().map_or(Ok(()), |settings| {
        settings.margins(grace)?;
        let data =
            OwnArgs::from_arg_matches(own).map_or(Ok(Value::Null), |own| own.first_data())?;
        let (name, store) = (settings.name(), Arc::new(MemoryStore::new()));
        settings.election(LayoutArg::EpochFiles, &name, store, "").data(data).build()?;
        Ok(())
    });
    let follows = match (&settings, own.try_get_one("validity")) {
        (Some(settings), _) => derived(settings, grace),
        (None, Ok(Some(validity))) => derived_of_session(*validity, grace),
        (None, _) => BTreeMap::new(),
    };
    let rows = SETTINGS.iter().filter_map(|long| {
        let arg = setting(verb.command, long)?;
        let id = arg.get_id().as_str();
        let value = match Kind::of(arg) == Kind::Nothing {
            true => Some(own.get_flag(id).to_string()),
            false => own.get_raw(id).map(|words| {
                let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
                words.join(" ")
            }),
        };
        let origin = found.get(long).map(|added| &added.origin);
        let source = match (origin, given.value_source(id)) {
            (Some(Origin::Variable(_)), _) => "variable",
            (Some(Origin::File(_)), _) => "file",
            (None, Some(ValueSource::CommandLine)) => "flag",
            (None, _) => "default",
        };
        let file = match origin {
            Some(Origin::File(path)) => Some(path.to_string_lossy().into_owned()),
            _ => None,
        };
        let value = value.or_else(|| follows.get(long).cloned());
        Some(Row { setting: long, value, source, variable: variable(long), file })
    });
    (rows.collect(), outcome)
}

/// What is computed from other settings.
fn derived(settings: &SettingsArgs, grace: Option<Duration>) -> BTreeMap<&'static str, String> {
    let poll = match settings.poll() {
        Poll::Every(interval) => in_ms(interval).to_string(),
        Poll::AtLapse => settings.poll().to_string(),
    };
    let mut derived = BTreeMap::from([
        ("name", "HOSTNAME-PID".to_owned()),
        ("renew", in_ms(settings.renew_interval()).to_string()),
        ("request-timeout", in_ms(settings.request_timeout()).to_string()),
        ("poll", poll),
    ]);
    if let Ok(margins) = settings.margins(grace) {
        derived.insert("grace", in_ms(margins.grace).to_string());
    }
    derived
}

/// The same of a group's member.
fn derived_of_session(
    validity: Duration,
    grace: Option<Duration>,
) -> BTreeMap<&'static str, String> {
    let poll = in_ms(validity / 6).to_string();
    let mut derived = BTreeMap::from([("name", "HOSTNAME-PID".to_owned()), ("poll", poll)]);
    if let Ok(margins) = Margins::new(validity, grace) {
        derived.insert("grace", in_ms(margins.grace).to_string());
    }
    derived
}

impl Row {
    fn for_people(&self) -> String {
        let value = self.value.as_deref().map_or("-".to_owned(), plain);
        let from = match &self.file {
            Some(file) => plain(file),
            None if self.source == "variable" => self.variable.clone(),
            None => self.source.to_owned(),
        };
        let from = styled(FAINT, from);
        format!("{:<21} {value:<24} {from}", self.setting)
    }
}
