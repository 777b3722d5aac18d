//! `tenure watch`: one line for every change of the leader.

use std::time::Duration;

use futures::StreamExt as _;
use humantime::format_duration;
use nix::sys::signal::Signal;
use serde::Serialize;
use serde_json::Value;
use tenure::{Election, Leader, Observation, Process};

use super::common_args::{StoreArg, positive_duration};
use super::exit::{self, Failure};
use super::metrics::MetricsArg;
use super::open::{Missing, Opened, open, refuse_other_layout};
use super::print::{ATTENTION, FAINT, GOOD, NAME, Reader, is_for_the_eye, plain, print_json};
use super::print::{millis, print_styled, styled};
use super::serve::Sites;
use super::signals::Signals;

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

/// An observer has no lease: these are for how long the store may be silent before the observer
/// says that it does not know, and for how long a request may take.
const PATIENCE: Duration = Duration::from_secs(30);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(6);
const LONGEST_POLL: Duration = Duration::from_secs(24 * 3600);

pub async fn watch(args: WatchArgs) -> Result<u8, Failure> {
    if args.poll > LONGEST_POLL {
        let why = format!("--poll is at most {}", format_duration(LONGEST_POLL));
        return Err(Failure::new(exit::USAGE, why));
    }
    let mut sites = Sites::default();
    args.metrics.add_to(&mut sites)?;
    let _serving = sites.start()?;
    let mut signals = Signals::listen(&[Signal::SIGINT, Signal::SIGTERM])?;
    let Opened { store, prefix } = open(&args.store.store, Missing::Refuse).await?;
    tokio::select! {
        biased;
        _ = signals.next() => return Ok(0),
        looked = refuse_other_layout(&store, &prefix, args.store.layout) => looked?,
    }
    let election = Election::builder(store, prefix)
        .layout(args.store.layout.into())
        // Whole seconds, as a validity has no fractions of a millisecond.
        .validity(PATIENCE.max(Duration::from_secs(args.poll.as_secs() + 1).min(LONGEST_POLL)))
        .request_timeout(REQUEST_TIMEOUT)
        .poll_interval(args.poll)
        .build()?;
    let mut changes = election.observe();
    loop {
        let change = tokio::select! {
            biased;
            _ = signals.next() => return Ok(0),
            change = changes.next() => change,
        };
        let Some(change) = change else { return Ok(0) };
        let change = Change::of(&change?);
        let reader = if args.json {
            print_json(&change)?
        } else {
            print_styled(&change.for_people(is_for_the_eye()))?
        };
        if reader == Reader::HasLeft {
            return Ok(0);
        }
    }
}

/// The object that `--json` prints. What does not apply is null.
#[derive(Debug, Serialize)]
struct Change {
    /// When it was seen, by the clock of this machine.
    at: String,
    state: &'static str,
    epoch: Option<u64>,
    candidate: Option<String>,
    validity_ms: Option<u64>,
    data: Value,
}

impl Change {
    fn of(observation: &Observation) -> Change {
        let (state, leader) = match observation {
            Observation::Leader(leader) => ("held", Some(leader)),
            Observation::NoLeader => ("nobody", None),
            _ => ("unknown", None),
        };
        Change {
            at: Process::system().now().time_of_day().format("%FT%TZ").to_string(),
            state,
            epoch: leader.map(|leader| leader.epoch.get()),
            candidate: leader.and_then(|leader| leader.candidate.clone()),
            validity_ms: leader.and_then(|leader| leader.validity).map(millis),
            data: leader.map(|leader: &Leader| leader.data.clone()).unwrap_or_default(),
        }
    }

    /// For the eye in columns, otherwise as a sentence.
    fn for_people(&self, eye: bool) -> String {
        let at = styled(FAINT, &self.at);
        let name = self.candidate.as_deref().map_or("-".to_owned(), plain);
        match (self.state, self.epoch) {
            (_, Some(epoch)) if eye => {
                let (state, name) = (styled(GOOD, "held   "), styled(NAME, name));
                format!("{at}  {state}  epoch {epoch:>10}  {name}")
            }
            (_, Some(epoch)) => format!("{at}  {name} leads epoch {epoch}"),
            ("nobody", _) if eye => {
                format!("{at}  {}  nobody leads", styled(ATTENTION, "vacant "))
            }
            ("nobody", _) => format!("{at}  nobody leads"),
            _ if eye => {
                format!("{at}  {}  the store does not answer", styled(ATTENTION, "unknown"))
            }
            _ => format!("{at}  unknown: the store does not answer"),
        }
    }
}
