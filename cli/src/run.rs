//! `tenure run`: campaigns, runs CMD while leading, and resigns.

mod lead;
mod lookup;

use std::ffi::OsString;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use nix::sys::signal::Signal;
use tenure::store::{MemoryStore, Store};
use tenure::{
    CampaignEvent, Clock as _, Election, ElectionBuilder, Error, Leadership, SystemClock,
};
use tracing::{Instrument as _, error_span, info, warn};

use super::args::{RunArgs, default_name};
use super::exit::{self, Failure};
use super::group::Tenure;
use super::health::Health;
use super::margins::Margins;
use super::open::{Missing, Opened, open, prefix};
use super::print::plain;
use super::serve::Sites;
use super::signals::{self, Signals};
use super::{args, group, logs};
use lead::{Job, Outcome};
use lookup::look_up;

/// While the store fails, it is said again this often.
const SAY_AGAIN_AFTER: Duration = Duration::from_secs(60);

pub async fn run(args: RunArgs) -> Result<u8, Failure> {
    let name = args.name.clone().unwrap_or_else(default_name);
    // As long as anything is said at all, it is said of whom.
    let span = error_span!("run", store = %args.store.store, candidate = name);
    let margins = Margins::new(args.validity, args.grace)
        .map_err(|no_room| Failure::new(exit::USAGE, no_room.to_string()))?;
    // A directory is made when it is opened, so the settings are checked beforehand.
    let unused = || Arc::new(MemoryStore::new());
    election(&args, &name, unused(), prefix(&args.store.store)).build()?;
    if let Some(successor) = &args.successor {
        // Refuses a name that no candidate can have.
        Election::builder(unused(), "").name(successor).build()?;
    }
    let program = args.command.first().expect("clap requires a CMD");
    look_up(program, std::env::var_os("PATH").as_deref())?;
    let health = Arc::new(Health::new(&name, args.validity, args.poll, margins));
    health.of(run_as(&args, &name, margins, &health)).instrument(span).await
}

async fn run_as(
    args: &RunArgs,
    name: &str,
    margins: Margins,
    health: &Arc<Health>,
) -> Result<u8, Failure> {
    let url = &args.store.store;
    let job = Job {
        tenure: own().map_err(|error| {
            Failure::new(exit::OS, format!("cannot find the file of this command: {error}"))
        })?,
        command: args.command.clone(),
        environment: [("TENURE_NAME", name.to_owned()), ("TENURE_STORE", url.to_string())],
        margins,
        health: Arc::clone(health),
        successor: args.successor.clone(),
    };
    let mut sites = Sites::default();
    args.health.add_to(&mut sites, health);
    args.metrics.add_to(&mut sites)?;
    let _serving = sites.start()?;
    let mut signals = Signals::listen(&SIGNALS)?;
    let Opened { store, prefix } = tokio::select! {
        biased;
        signal = signals.next() => return Ok(signals::exit_code(signal)),
        opened = open(url, Missing::Make) => opened?,
    };
    let election = election(args, name, store, &prefix).build()?;
    health.opened(&election);
    loop {
        let place = plain(&url.to_string());
        info!(outcome = "campaigning", "campaigning as {} in {place}", plain(name));
        let leadership = match campaign(&election, &mut signals, health).await? {
            Campaign::Elected(leadership) => leadership,
            Campaign::Signalled(signal) => return Ok(signals::exit_code(signal)),
        };
        let span = error_span!("lead", epoch = leadership.epoch().get());
        match lead::lead(&job, leadership, &mut signals).instrument(span).await? {
            Outcome::Done(code) => return Ok(code),
            Outcome::Lost { why, told_to_end } if told_to_end || !args.forever => {
                return Err(Failure::new(exit::LEASE_LOST, why));
            }
            Outcome::Lost { why, .. } => warn!(outcome = "lost", "{why}"),
        }
    }
}

/// What CMD is told too; to `tenure` itself each means to end.
const SIGNALS: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

fn election(
    args: &args::RunArgs,
    name: &str,
    store: Arc<dyn Store>,
    prefix: &str,
) -> ElectionBuilder {
    let builder = Election::builder(store, prefix)
        .layout(args.store.layout.into())
        .name(name)
        .validity(args.validity)
        .machine_is_never_paused(args.machine_never_paused)
        .priority_delay(args.priority_delay);
    match args.poll {
        Some(poll) => builder.poll_interval(poll),
        None => builder,
    }
}

/// This command, for the processes that are started of it.
pub fn own() -> io::Result<Tenure> {
    Ok(Tenure { binary: group::own_binary()?, options: logs::format().options() })
}

enum Campaign {
    Elected(Leadership),
    Signalled(Signal),
}

/// Waits until elected, or until told to end: then what was written lapses within a validity.
async fn campaign(
    election: &Election,
    signals: &mut Signals,
    health: &Health,
) -> Result<Campaign, Failure> {
    health.campaigning();
    let mut events = election.events();
    let mut campaign = pin!(election.campaign());
    let mut failing = Failing::default();
    loop {
        tokio::select! {
            biased;
            signal = signals.next() => return Ok(Campaign::Signalled(signal)),
            elected = &mut campaign => return Ok(Campaign::Elected(elected?)),
            Some(event) = events.next() => match event {
                CampaignEvent::Following(leader) => {
                    health.following(&leader);
                    let (name, epoch) = (plain(leader.name()), leader.epoch);
                    info!(outcome = "following", "waiting: {name} leads epoch {epoch}");
                }
                CampaignEvent::StoreFailed(error) => failing.say(&error),
                _ => {}
            },
        }
    }
}

/// Keeps a store that fails for hours from filling the log.
#[derive(Debug, Default)]
struct Failing {
    said_at: Option<Duration>,
}

impl Failing {
    fn say(&mut self, error: &Error) {
        let now = SystemClock.now().boot;
        if self.said_at.is_none_or(|at| now.saturating_sub(at) >= SAY_AGAIN_AFTER) {
            self.said_at = Some(now);
            let why = plain(&error.to_string());
            warn!(outcome = "store_failed", "the store fails, trying again: {why}");
        }
    }
}

/// A command as people write it, cut short.
fn shown(command: &[OsString]) -> String {
    const MOST: usize = 60;
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let text = plain(&words.join(" "));
    match text.char_indices().nth(MOST) {
        None => text,
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}
