//! `tenure status`: the newest epoch object, as it stands.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tenure::{Election, EpochEnd, Leader, Snapshot};

use super::common_args::StoreArg;
use super::exit::Failure;
use super::open::{Missing, Opened, open, refuse_other_layout};
use super::print::{ATTENTION, FAINT, GOOD, NAME, in_ms, in_seconds, millis, plain, print_json};
use super::print::{print_styled, styled};

#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// One JSON object instead of a line for people
    #[arg(long)]
    pub json: bool,
}

/// What is shown of the data; it can have 48 KiB.
const SHOWN_DATA_CHARS: usize = 200;

pub async fn status(args: StatusArgs) -> Result<u8, Failure> {
    let Opened { store, prefix } = open(&args.store.store, Missing::Refuse).await?;
    let layout = args.store.layout;
    let election = Election::builder(Arc::clone(&store), prefix.as_str()).layout(layout.into());
    let snapshot = election.build()?.snapshot().await?;
    if snapshot.leader.is_none() {
        refuse_other_layout(&store, &prefix, layout).await?;
    }
    let status = Status::of(&snapshot);
    let _ =
        if args.json { print_json(&status)? } else { print_styled(&status.for_people(&snapshot))? };
    Ok(0)
}

/// The object that `--json` prints. What does not apply is null.
#[derive(Debug, Default, Serialize)]
struct Status {
    state: &'static str,
    epoch: Option<u64>,
    candidate: Option<String>,
    validity_ms: Option<u64>,
    /// Only of a single object.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    heartbeat: Option<u64>,
    ended: Option<EpochEnd>,
    lapsed: bool,
    age_ms: Option<u64>,
    data: Value,
}

impl Status {
    fn of(snapshot: &Snapshot) -> Status {
        let Some(leader) = &snapshot.leader else {
            return Status { state: "vacant", ..Status::default() };
        };
        Status {
            state: if snapshot.end.is_none() { "held" } else { "sealed" },
            epoch: Some(leader.epoch.get()),
            candidate: leader.candidate.clone(),
            validity_ms: leader.validity.map(millis),
            expires_at: leader.expires_at.map(|at| at.format("%FT%T%.3fZ").to_string()),
            heartbeat: Some(leader.heartbeat),
            ended: snapshot.end,
            lapsed: snapshot.lapsed,
            age_ms: snapshot.age.map(millis),
            data: leader.data.clone(),
        }
    }

    fn for_people(&self, snapshot: &Snapshot) -> String {
        match (&snapshot.leader, snapshot.end) {
            (None, _) => line("state", &styled(ATTENTION, "vacant: nobody has led yet")),
            (Some(leader), None) => {
                let state = if snapshot.lapsed { "held, but lapsed" } else { "held" };
                lines(state, "leader", leader, snapshot.age)
            }
            (Some(leader), Some(ended)) => {
                let by = match &snapshot.sealed_by {
                    Some(by) if leader.candidate.as_ref() != Some(by) => {
                        format!(" by {}", plain(by))
                    }
                    _ => String::new(),
                };
                let state = format!("sealed: {ended}{by}; nobody leads");
                lines(&state, "last", leader, snapshot.age)
            }
        }
    }
}

fn lines(state: &str, role: &str, leader: &Leader, age: Option<Duration>) -> String {
    let colour = if state == "held" { GOOD } else { ATTENTION };
    let mut lines = vec![
        ("state", styled(colour, state)),
        (role, styled(NAME, plain(leader.name()))),
        ("epoch", leader.epoch.to_string()),
        ("validity", validity(leader)),
    ];
    if let Some(expires_at) = leader.expires_at.filter(|_| role == "leader") {
        lines.push(("expires", format!("{} by its own clock", expires_at.format("%FT%TZ"))));
    }
    if let Some(elected_at) = leader.elected_at {
        lines.push(("elected", format!("{} by its own clock", elected_at.format("%FT%TZ"))));
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

pub fn line(name: &str, value: &str) -> String {
    styled(FAINT, format_args!("{name:<10}")) + " " + value
}

fn validity(leader: &Leader) -> String {
    match (leader.validity, leader.expires_at) {
        (Some(validity), _) => short(validity),
        (None, Some(_)) => "it does not say".to_owned(),
        (None, None) => "it never lapses".to_owned(),
    }
}

pub fn data(data: &Value) -> String {
    let text = plain(&data.to_string());
    match text.char_indices().nth(SHOWN_DATA_CHARS) {
        None => text,
        Some((end, _)) => format!("{}… (--json shows all of it)", &text[..end]),
    }
}

/// A duration in as many digits as people need.
fn short(duration: Duration) -> String {
    let cut = if duration < Duration::from_secs(10) { in_ms } else { in_seconds };
    cut(duration).to_string()
}
