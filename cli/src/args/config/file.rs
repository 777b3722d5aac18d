//! The file of settings, in TOML.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Command;
use serde_json::{Map, Value};

use super::{Added, Given, Kind, Origin, SETTINGS, setting};
use crate::exit::{self, Failure};
use crate::output::print::plain;

type Table = Map<String, Value>;

/// A file whose keys are all settings.
#[derive(Debug)]
pub struct File {
    path: PathBuf,
    table: Table,
}

impl File {
    /// Refuses a key that no verb has, as it may be one that was written wrong.
    pub fn read(path: &Path, command: &Command) -> Result<File, Failure> {
        let shown = plain(&path.to_string_lossy());
        let refuse = |why: String| Failure::new(exit::USAGE, format!("{shown}: {why}"));
        let text = std::fs::read_to_string(path)
            .map_err(|error| refuse(format!("cannot read the settings: {error}")))?;
        let table: Table = basic_toml::from_str(&text)
            .map_err(|error| refuse(format!("not TOML: {}", plain(&error.to_string()))))?;
        check(&table, command, "").map_err(refuse)?;
        Ok(File { path: path.to_owned(), table })
    }

    /// A setting as a flag takes it: that of the verb's own table, or the one for all verbs.
    pub fn setting(
        &self,
        verb: &[&str],
        long: &'static str,
        kind: Kind,
    ) -> Result<Option<Added>, Failure> {
        let own = verb.iter().try_fold(&self.table, |table, name| table.get(*name)?.as_object());
        // The table of the verb `group` is not the setting of that name.
        let top = || self.table.get(long).filter(|value| long != "group" || !value.is_object());
        let value = own.and_then(|own| own.get(long)).or_else(top);
        let Some(value) = value else { return Ok(None) };
        let wrong = |what: &str| {
            let path = plain(&self.path.to_string_lossy());
            Err(Failure::new(exit::USAGE, format!("{path}: {long} must be {what}")))
        };
        let value = match value {
            Value::Bool(on) if kind == Kind::Nothing => Given::Flag(*on),
            _ if kind == Kind::Nothing => return wrong("true or false"),
            Value::Array(values) if kind == Kind::Values => {
                let text = |value: &Value| value.as_str().map(str::to_owned);
                match values.iter().map(text).collect() {
                    Some(values) => Given::Values(values),
                    None => return wrong("a list of texts in quotes"),
                }
            }
            Value::String(text) => Given::Value(text.clone()),
            Value::Number(number) => Given::Value(number.to_string()),
            Value::Object(_) if long == "data" => Given::Value(value.to_string()),
            _ if long == "data" => return wrong("a table, or JSON in quotes"),
            _ => return wrong("in quotes, as the flag takes it"),
        };
        Ok(Some(Added { long, value, origin: Origin::File(self.path.clone()) }))
    }
}

/// A table is for a verb, unless its name is that of a setting.
fn check(table: &Table, command: &Command, within: &str) -> Result<(), String> {
    for (key, value) in table {
        let shown = plain(key);
        let is_setting = SETTINGS.contains(&&**key) && (key != "group" || !value.is_object());
        match value {
            _ if is_setting => {
                if !within.is_empty() && setting(command, key).is_none() {
                    return Err(format!("{within} has no setting {shown}"));
                }
            }
            Value::Object(below) => match command.find_subcommand(key) {
                Some(verb) if !verb.is_hide_set() => {
                    let space = if within.is_empty() { "" } else { " " };
                    check(below, verb, &format!("{within}{space}{key}"))?;
                }
                _ => return Err(format!("{shown} is no verb and no setting")),
            },
            _ => {
                let mut why = format!("{shown} is no setting; these are:");
                SETTINGS.iter().for_each(|long| {
                    // Writing to a String cannot fail.
                    let _ = write!(why, " {long}");
                });
                return Err(why);
            }
        }
    }
    Ok(())
}
