//! `tenure status`: shows the newest epoch.

mod period;

use std::sync::Arc;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use serde::Serialize;
use serde_json::Value;
use tenure::{EpochEnd, Leader, Snapshot};

use crate::args::common::{StoreArg, after_help};
use crate::cron::RecordPlace;
use crate::election::LeaseState;
use crate::election::end::EndFields;
use crate::exit::{self, Failure};
use crate::output::columns::{SHORTENED, WIDTH, fit, legend, wrap};
use crate::output::logs::{complain, complain_of};
use crate::output::print::{ATTENTION, FAINT, NAME, in_ms, in_seconds, json_line, millis, plain};
use crate::output::print::{print, print_json, print_styled, styled};
use crate::store::open::IfMissing;
use period::{PeriodArg, PeriodStatus};

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// Print one JSON object instead of lines for people
    #[arg(long)]
    pub json: bool,
    /// Print only this field of the JSON object.
    ///
    /// A string is printed without quotes, null as an empty line, and other values as JSON.
    /// `leader` is the candidate while the state is held, else an empty line.
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    #[arg(value_parser = PossibleValuesParser::new(FIELDS.into_iter().chain(["leader"])))]
    pub field: Option<String>,
    /// Exit with 1 if the election is vacant.
    ///
    /// The election is vacant if it has no epoch, or if the newest epoch is sealed or has lapsed by
    /// the store's clock.
    #[arg(long)]
    pub exit_code: bool,
    #[command(flatten)]
    pub period: PeriodArg,
}

pub const AFTER_STATUS: &str = after_help!(
    "\
With --exit-code, `status` exits with 0 while an epoch is held, and with 1 if the election is \
vacant. The answer holds for the moment of the read only. A leader that has died counts as the \
leader until its validity has passed. A deposed leader does not count, although it may not know of \
its end. To act as the leader use `run`, and send its token.

With --last-period-within, --exit-code has no effect, and the exit code depends only on the \
periods of `run --once-per`: 0 if a completed period began within that duration, and 1 otherwise. \
The clock of this host measures the duration.",
    "
   0  done
   1  the election is vacant (with --exit-code), or no recent period is
      completed (with --last-period-within)
  64  wrong usage or settings
  69  store unreachable or missing
  70  an object in the store is corrupt, or too new
  71  the operating system refused something
  77  access denied by the store
 130  interrupted by SIGINT, 143 by SIGTERM"
);

/// Width of the name of a value and of the space after the name, in columns of a terminal.
const NAME_OF_VALUE: usize = 11;
/// Width of a value that fits on one line, in columns of a terminal.
pub const VALUE: usize = WIDTH - NAME_OF_VALUE;

pub async fn status(args: StatusArgs) -> Result<u8, Failure> {
    let urls = args.store.urls()?;
    if args.period.last_period_within.is_some() {
        urls.clone().one("status --last-period-within")?;
    }
    let opened = urls.open(IfMissing::Refuse).await?;
    let layout = args.store.layout;
    let snapshot = opened.builder().layout(layout.into()).build()?.snapshot().await?;
    if snapshot.leader.is_none() {
        opened.refuse_all_else(layout, "tenure group status").await?;
    }
    let periods = RecordPlace::new(Arc::clone(opened.first()), &opened.prefix);
    let (record, unreadable) = match args.period.last_period_within {
        // An election across stores has no job.
        _ if urls.are_several() => (None, None),
        Some(_) => (periods.read().await?, None),
        None => match periods.observe().await {
            Ok(record) => (record, None),
            Err(failure) => (None, Some(failure)),
        },
    };
    if let Some(failure) = unreadable.as_ref().filter(|_| args.json || args.field.is_some()) {
        complain_of(failure);
    }
    let period = record.as_ref().map(|record| PeriodStatus::of(record, &snapshot));
    let status = Status { period, ..Status::of(&snapshot) };
    let field = match args.field.as_deref() {
        Some("leader") if status.state == LeaseState::Held => Some("candidate"),
        field => field,
    };
    show(&status, field, args.json, || {
        let unreadable = unreadable.map(|failure| format!("unreadable: {}", plain(&failure.why)));
        let period = match (&status.period, unreadable) {
            (Some(period), _) => period.for_people() + "\n",
            (None, Some(why)) => line("period", &styled(ATTENTION, why)) + "\n",
            (None, None) => String::new(),
        };
        let text = period + &status.for_people(&snapshot);
        let legend = legend(&text, &[SHORTENED]);
        text + &legend
    })?;
    let is_well = match args.period.is_met(record.as_ref()) {
        Some(is_met) => is_met,
        None => !args.exit_code || status.state == LeaseState::Held,
    };
    if let Some(within) = args.period.last_period_within.filter(|_| !is_well) {
        complain(&format!("no completed period began within {}", in_ms(within)));
    }
    Ok(if is_well { 0 } else { exit::VACANT })
}

/// Names of the JSON fields of [`Status`], in the order of the structure.
const FIELDS: [&str; 14] = [
    "state",
    "epoch",
    "candidate",
    "validity_ms",
    "expires_at",
    "heartbeat",
    "ended",
    "sealed_by",
    "forced_by",
    "reason",
    "lapsed",
    "age_ms",
    "data",
    "period",
];

/// The object that `--json` prints. Fields that do not apply are null.
#[derive(Debug, Default, Serialize)]
struct Status {
    state: LeaseState,
    epoch: Option<u64>,
    candidate: Option<String>,
    validity_ms: Option<u64>,
    /// Present only with `--layout single-object`.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    heartbeat: Option<u64>,
    ended: Option<EpochEnd>,
    /// Name of the process that ended the epoch.
    sealed_by: Option<String>,
    /// Name of the operator, if the leader was deposed as dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    forced_by: Option<String>,
    /// Reason that the operator gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    lapsed: bool,
    age_ms: Option<u64>,
    data: Value,
    /// The last period of `run --once-per`, if one was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    period: Option<PeriodStatus>,
}

impl Status {
    fn of(snapshot: &Snapshot) -> Status {
        let Some(leader) = &snapshot.leader else {
            return Status::default();
        };
        Status {
            state: LeaseState::held_if(snapshot.end.is_none() && !snapshot.lapsed),
            epoch: Some(leader.epoch.get()),
            candidate: leader.candidate.clone(),
            validity_ms: leader.validity.map(millis),
            expires_at: leader.expires_at.map(|at| at.format("%FT%T%.3fZ").to_string()),
            heartbeat: Some(leader.heartbeat),
            ended: snapshot.end,
            sealed_by: snapshot.sealed_by.clone(),
            forced_by: snapshot.forced_by.clone(),
            reason: snapshot.reason.clone(),
            lapsed: snapshot.lapsed,
            age_ms: snapshot.age.map(millis),
            data: leader.data.clone(),
            period: None,
        }
    }

    fn for_people(&self, snapshot: &Snapshot) -> String {
        let Some(leader) = &snapshot.leader else {
            return state_line(self.state, ": no process has led");
        };
        let role = if snapshot.end.is_none() { "leader" } else { "last" };
        let end = EndFields::of_newest(snapshot).text().map(|end| format!(": {end}"));
        state_line(self.state, &end.unwrap_or_default()) + "\n" + &lines(role, leader, snapshot.age)
    }
}

fn state_line(state: LeaseState, reason: &str) -> String {
    line("state", &styled(state.style(), format_args!("{state}{reason}")))
}

/// Prints the field `field_name`, the whole JSON object, or the lines for people.
pub fn show(
    status: &impl Serialize,
    field_name: Option<&str>,
    json: bool,
    for_people: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let _ = match field_name {
        Some(name) => print(&field(status, name))?,
        None if json => print_json(status)?,
        None => print_styled(&for_people())?,
    };
    Ok(())
}

/// Returns the value of a field of the JSON object, on one line and escaped for a terminal.
fn field(status: &impl Serialize, name: &str) -> String {
    let all = serde_json::to_value(status).expect("plain structs serialize to JSON");
    match &all[name] {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        other => json_line(other),
    }
}

fn lines(role: &str, leader: &Leader, age: Option<Duration>) -> String {
    let mut lines = vec![
        (role, styled(NAME, plain(leader.name()))),
        ("epoch", leader.epoch.to_string()),
        ("validity", validity(leader)),
    ];
    if let Some(expires_at) = leader.expires_at.filter(|_| role == "leader") {
        lines.push(("expires", format!("{} by the leader's clock", expires_at.format("%FT%TZ"))));
    }
    if let Some(elected_at) = leader.elected_at {
        lines.push(("elected", format!("{} by the leader's clock", elected_at.format("%FT%TZ"))));
    }
    if let Some(age) = age {
        lines.push(("written", format!("{} ago", short(age))));
    }
    lines.push(("heartbeat", leader.heartbeat.to_string()));
    if !leader.data.is_null() {
        lines.push(("data", data(&leader.data)));
    }
    let lines = lines.iter().map(|(name, value)| line(name, value));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns a line with the name and the value. A long value continues on indented lines.
pub fn line(name: &str, value: &str) -> String {
    styled(FAINT, format_args!("{name:<10}")) + " " + &wrap(value, NAME_OF_VALUE)
}

fn validity(leader: &Leader) -> String {
    match (leader.validity, leader.expires_at) {
        (Some(validity), _) => short(validity),
        (None, Some(_)) => "not in the record".to_owned(),
        (None, None) => "none: the epoch never lapses".to_owned(),
    }
}

/// Returns the beginning of the data of a leader or of a member, escaped for a terminal.
pub fn data(data: &Value) -> String {
    fit(&plain(&data.to_string()), VALUE)
}

/// Formats a duration below 10 s in milliseconds, and a longer duration in whole seconds.
fn short(duration: Duration) -> String {
    let cut = if duration < Duration::from_secs(10) { in_ms } else { in_seconds };
    cut(duration).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_the_object_is_available() {
        let (expires_at, period) = (Some(String::new()), Some(PeriodStatus::default()));
        let (forced_by, reason) = (expires_at.clone(), expires_at.clone());
        let status = Status { expires_at, forced_by, reason, period, ..Status::default() };
        let line = json_line(&status);
        let object: Value = serde_json::from_str(&line).expect("JSON");
        let object = object.as_object().expect("an object");
        assert_eq!(object.len(), FIELDS.len());
        let at = |name: &str| line.find(&format!("\"{name}\":")).expect("it has the field");
        assert!(FIELDS.is_sorted_by_key(|name| at(name)), "{line}");
    }
}
