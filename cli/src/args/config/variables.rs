//! Variables `TENURE_…`: settings, variables for CMD, and unknown ones.

use std::env;

use super::{Added, Given, Kind, Origin, SETTINGS};
use crate::exit;
use crate::exit::Failure;
use crate::output::print::plain;

const START: &str = "TENURE_";

/// The environment of each process that `run` and `group run` start has it.
pub const INSIDE_RUN: &str = "TENURE_RUN";
/// The environment of CMD of `watch --exec` has it, too.
const EPOCH: &str = "TENURE_EPOCH";

/// Variables that give no setting of a verb.
const OTHERS: [&str; 16] = [
    "TENURE_CONFIG",
    // The unit of systemd for `compact`.
    "TENURE_COMPACT_OPTIONS",
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

/// Settings of one process. Its CMD inherits their variables and the name of its file. A `tenure`
/// inside CMD must not pass for its own leader, must not write the file of its epoch, and cannot
/// listen at its address.
const OF_RUN: [&str; 9] = [
    "name",
    "unique-name",
    "data",
    "data-file",
    "successor",
    "on-elected",
    "on-lost",
    "hook-timeout",
    "epoch-file",
];
/// The same of `run` and of `watch --exec`, which sets `TENURE_DATA`.
const OF_ALL: [&str; 3] = ["data", "health-addr", "metrics-addr"];

/// Whether the variable and the file of this setting belong to the process that has started this
/// one.
pub fn is_of_the_outer_process(long: &str) -> bool {
    let is_set = |name| env::var_os(name).is_some();
    OF_RUN.contains(&long) && is_set(INSIDE_RUN) || OF_ALL.contains(&long) && is_set(EPOCH)
}

/// The value of a variable. An empty variable gives no setting, as in most programs.
pub fn of_variable(long: &'static str, kind: Kind) -> Result<Option<Added>, Failure> {
    let name = variable(long);
    let Some(value) = std::env::var_os(&name).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    let refuse = |why: &str| Failure::new(exit::USAGE, format!("{name} {why}"));
    let value = value.into_string().map_err(|_| refuse("is not UTF-8"))?;
    let value = match &*value.to_lowercase() {
        _ if kind == Kind::Value => Given::Value(value),
        _ if kind == Kind::Values => {
            Given::Values(value.split_whitespace().map(str::to_owned).collect())
        }
        "true" | "yes" | "on" | "1" => Given::Flag(true),
        "false" | "no" | "off" | "0" => Given::Flag(false),
        _ => return Err(refuse("must be true or false")),
    };
    Ok(Some(Added { long, value, origin: Origin::Variable(name) }))
}

/// The variable that gives a setting.
pub fn variable(long: &str) -> String {
    format!("{START}{}", long.replace('-', "_").to_uppercase())
}

/// Says of each variable of the environment that begins with `TENURE_` and means nothing here that
/// it has no effect: it may be a setting that was written wrong.
pub fn without_effect() -> Vec<String> {
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut all: Vec<String> = names.filter_map(|name| complaint(&name)).collect();
    all.sort();
    all
}

fn complaint(name: &str) -> Option<String> {
    let rest = name.strip_prefix(START)?;
    let settings: Vec<String> = SETTINGS.iter().map(|long| variable(long)).collect();
    let known = settings.iter().map(String::as_str).chain(OTHERS);
    let of_tests = rest.starts_with("TEST_");
    if known.clone().any(|other| other == name) || is_of_kubernetes(rest) || of_tests {
        return None;
    }
    let likeness = |other: &&str| strsim::jaro(rest, &other[START.len()..]);
    let nearest = known.max_by(|one, other| likeness(one).total_cmp(&likeness(other)));
    let advice = match nearest.filter(|nearest| likeness(nearest) > LIKE) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "`tenure config VERB` lists the settings".to_owned(),
    };
    Some(format!("the variable {} is no setting and has no effect; {advice}", plain(name)))
}

/// Two words are alike from here on, as in clap.
const LIKE: f64 = 0.7;

/// Kubernetes gives each container variables for each Service of its namespace. For the Services
/// `tenure` and `tenure-…` they begin with `TENURE_`.
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
    fn regression_a_misspelt_variable_is_named_with_the_nearest_setting() {
        for (wrong, nearest) in [
            ("TENURE_VALIDTY", "TENURE_VALIDITY"),
            ("TENURE_STORE_URL", "TENURE_STORE"),
            ("TENURE_TAKEOVER_DELAYS", "TENURE_TAKEOVER_DELAY"),
            ("TENURE_POOL", "TENURE_POLL"),
            ("TENURE_CONFIG_FILE", "TENURE_CONFIG"),
            ("TENURE_METRIC_ADDR", "TENURE_METRICS_ADDR"),
        ] {
            let why = complaint(wrong).expect(wrong);
            assert!(why.contains(wrong) && why.contains(&format!("mean {nearest}?")), "{why}");
        }
        let why = complaint("TENURE_QQ").expect("no setting");
        assert!(why.contains("no effect") && !why.contains("did you mean"), "{why}");
    }

    #[test]
    fn settings_and_variables_of_others_are_known() {
        for long in SETTINGS {
            assert_eq!(complaint(&variable(long)), None);
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
    fn each_name_is_a_setting() {
        for long in OF_RUN.iter().chain(&OF_ALL) {
            assert!(SETTINGS.contains(long), "--{long}");
        }
    }
}
