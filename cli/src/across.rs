//! `tenure across`: the operator's verbs for an election across stores.

use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;
use tenure::{Election, Epoch, ReplacedStore, SetState, StoreSet, StoreStatus};

use crate::args::common::{
    DAY, RECORD_CODES, StoreArg, default_name, duration, name, positive_up_to,
};
use crate::election::operator::unknown;
use crate::exit::{self, Failure};
use crate::output::print::{ATTENTION, plain, print, print_json, print_styled, styled};
use crate::store::open::{IfMissing, open};
use crate::store::url::{StoreUrl, store_url};
use crate::store::urls::OpenedStores;

#[derive(Debug, clap::Args)]
pub struct AcrossArgs {
    #[command(subcommand)]
    verb: AcrossVerb,
}

#[derive(Debug, Subcommand)]
enum AcrossVerb {
    /// Create the markers of a new set of stores, once, before the first candidate starts. For a
    /// lost store use `replace` instead
    #[command(after_long_help = RECORD_CODES)]
    Init(InitArgs),
    /// Show the marker, the newest epoch and any error of each store
    #[command(after_long_help = RECORD_CODES)]
    Status(AcrossArg),
    /// Replace a store that was lost or wiped. --store gives the new store in the position of the
    /// old one
    #[command(after_long_help = RECORD_CODES)]
    Replace(ReplaceArgs),
    /// Move a store while its old contents can be reached. --store gives the new store in the
    /// position of the old one
    #[command(after_long_help = RECORD_CODES)]
    Move(MoveArgs),
}

#[derive(Debug, clap::Args)]
struct AcrossArg {
    #[command(flatten)]
    store: StoreArg,
    /// Name of the operator, for people [default: HOSTNAME-PID]
    #[arg(long, value_name = "NAME", value_parser = name, env = "TENURE_NAME")]
    name: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct InitArgs {
    #[command(flatten)]
    at: AcrossArg,
    /// Epoch to continue above, if a majority of an older set was lost.
    ///
    /// The epoch must be at least the greatest token that any guarded resource has seen. First stop
    /// all processes of the old set.
    #[arg(long, value_name = "EPOCH")]
    epoch: Option<Epoch>,
    /// Time that the first new leader waits, at most 24h: the longest validity of the old
    /// candidates that may still run
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    #[arg(requires = "epoch")]
    wait: Duration,
}

#[derive(Debug, clap::Args)]
struct NewStoreArgs {
    #[command(flatten)]
    at: AcrossArg,
    /// Number of the store, from 1, in the order of --store
    #[arg(long, value_name = "NUMBER")]
    number: usize,
    /// Longest validity of all candidates, at most 24h.
    ///
    /// For this time, the last leader may rely on a lease in the old contents.
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(DAY))]
    #[arg(env = "TENURE_VALIDITY", default_value = "30s")]
    validity: Duration,
}

#[derive(Debug, clap::Args)]
struct ReplaceArgs {
    #[command(flatten)]
    new: NewStoreArgs,
    /// Declare that no process reaches the old contents.
    ///
    /// The bucket is deleted, or its objects are deleted, or all credentials for it are revoked. If
    /// a process still reached the old contents, two processes could lead with the same epoch. If
    /// the old contents can be reached, use `move`.
    #[arg(long, required = true)]
    old_is_unreachable: bool,
}

#[derive(Debug, clap::Args)]
struct MoveArgs {
    #[command(flatten)]
    new: NewStoreArgs,
    /// Location of the old store
    #[arg(long, value_name = "URL", value_parser = store_url)]
    old: StoreUrl,
}

pub async fn across(args: AcrossArgs) -> Result<u8, Failure> {
    match args.verb {
        AcrossVerb::Init(InitArgs { at, epoch, wait }) => {
            let (election, opened) = at.election(IfMissing::Create).await?;
            match epoch {
                Some(epoch) => election.init_stores_above(epoch, wait).await,
                None => election.init_stores().await,
            }
            .map_err(unknown)?;
            let count = opened.stores.len();
            let above = epoch.map_or_else(String::new, |epoch| format!(" above epoch {epoch}"));
            let line =
                format!("the {count} stores have their markers: candidates can start{above}");
            let report =
                serde_json::json!({ "outcome": "marked", "stores": count, "epoch": epoch });
            let _ = if at.json { print_json(&report)? } else { print(&line)? };
            Ok(0)
        }
        AcrossVerb::Status(at) => status(&at).await,
        AcrossVerb::Replace(ReplaceArgs { new, old_is_unreachable: _ }) => {
            let (election, _) = new.at.election(IfMissing::Create).await?;
            let replaced = election.replace_store(new.index()?, new.validity).await;
            new.report(&replaced.map_err(unknown)?)
        }
        AcrossVerb::Move(MoveArgs { new, old }) => {
            let old = open(&old, IfMissing::Refuse).await?.store;
            let (election, _) = new.at.election(IfMissing::Create).await?;
            let moved = election.move_store(old, new.index()?, new.validity).await;
            new.report(&moved.map_err(unknown)?)
        }
    }
}

impl AcrossArg {
    async fn election(&self, if_missing: IfMissing) -> Result<(Election, OpenedStores), Failure> {
        let urls = self.store.urls()?;
        if !urls.are_several() {
            let why = "`tenure across` works on 3 or 5 stores: give --store 3 or 5 times";
            return Err(Failure::new(exit::USAGE, why));
        }
        let opened = urls.open(if_missing).await?;
        let name = self.name.clone().unwrap_or_else(default_name);
        Ok((opened.builder().name(name).build()?, opened))
    }
}

impl NewStoreArgs {
    /// Returns the index of the store.
    fn index(&self) -> Result<usize, Failure> {
        let why = "--number counts the stores from 1";
        self.number.checked_sub(1).ok_or_else(|| Failure::new(exit::USAGE, why))
    }

    fn report(&self, replaced: &ReplacedStore) -> Result<u8, Failure> {
        let ReplacedStore { generation, epoch, .. } = *replaced;
        let number = self.number;
        let floor = epoch.map_or_else(String::new, |epoch| format!(", from epoch {epoch}"));
        let line = format!(
            "store {number} has generation {generation}{floor}. Let the leader resign \
             soon: only the next leader uses the new store"
        );
        let report = serde_json::json!({
            "outcome": "replaced", "number": number, "generation": generation, "epoch": epoch,
        });
        let _ = if self.at.json { print_json(&report)? } else { print(&line)? };
        Ok(0)
    }
}

/// The object that `status --json` prints. Fields that do not apply are null.
#[derive(Debug, Serialize)]
struct SetReport {
    /// `held`, `vacant`, `electing` or `no_majority`.
    state: &'static str,
    epoch: Option<u64>,
    candidate: Option<String>,
    stores: Vec<StoreReport>,
}

/// One store of [`SetReport`].
#[derive(Debug, Serialize)]
pub struct StoreReport {
    store: String,
    /// Name of the set.
    set: Option<String>,
    number: Option<usize>,
    of: Option<usize>,
    generation: Option<u32>,
    epoch: Option<u64>,
    candidate: Option<String>,
    ended: Option<String>,
    error: Option<String>,
}

async fn status(at: &AcrossArg) -> Result<u8, Failure> {
    let (election, _) = at.election(IfMissing::Refuse).await?;
    let set = show(&election, at.json).await?;
    Ok(if set.state == SetState::NoMajority { exit::UNAVAILABLE } else { 0 })
}

/// Prints and returns the state of the set and of each store.
pub async fn show(election: &Election, json: bool) -> Result<StoreSet, Failure> {
    let set = election.store_set().await?;
    let (state, leader) = match &set.state {
        SetState::Leader(leader) => ("held", Some(leader)),
        SetState::NoLeader => ("vacant", None),
        SetState::Electing => ("electing", None),
        _ => ("no_majority", None),
    };
    let stores: Vec<StoreReport> = set.stores.iter().map(StoreReport::of).collect();
    let report = SetReport {
        state,
        epoch: leader.map(|leader| leader.epoch.get()),
        candidate: leader.and_then(|leader| leader.candidate.clone()),
        stores,
    };
    let _ = if json { print_json(&report)? } else { print_styled(&report.for_people())? };
    Ok(set)
}

impl SetReport {
    fn for_people(&self) -> String {
        let leader = match (&self.candidate, self.epoch) {
            (candidate, Some(epoch)) => {
                format!(": {} leads epoch {epoch}", plain(candidate.as_deref().unwrap_or("-")))
            }
            _ => String::new(),
        };
        let mut text = format!("{}{leader}", self.state.replace('_', " "));
        for store in &self.stores {
            text += &format!("\n{}", store.line(|error| styled(ATTENTION, error)));
        }
        text
    }
}

impl StoreReport {
    pub fn of(status: &StoreStatus) -> StoreReport {
        let marker = status.marker.as_ref();
        StoreReport {
            store: status.store.clone(),
            set: marker.map(|it| it.set.clone()),
            number: marker.map(|it| it.number),
            of: marker.map(|it| it.of),
            generation: marker.map(|it| it.generation),
            epoch: status.newest.map(tenure::Epoch::get),
            candidate: status.holder.as_ref().and_then(|it| it.candidate.clone()),
            ended: status.end.map(|end| end.to_string()),
            error: status.error.as_ref().map(ToString::to_string),
        }
    }

    /// Returns a line about this store for people.
    pub fn line(&self, style: impl Fn(String) -> String) -> String {
        let store = plain(&self.store);
        if let Some(error) = &self.error {
            return format!("{store}: {}", style(plain(error)));
        }
        let marker = match (self.number, self.of, self.generation) {
            (Some(number), Some(of), Some(generation)) => {
                format!("store {number} of {of}, generation {generation}")
            }
            _ => "no marker".to_owned(),
        };
        let epoch = match (self.epoch, &self.ended) {
            (None, _) => "no epoch".to_owned(),
            (Some(epoch), None) => {
                let holder = self.candidate.as_deref().map_or("-".to_owned(), plain);
                format!("epoch {epoch} held by {holder}")
            }
            (Some(epoch), Some(ended)) => format!("epoch {epoch} {ended}"),
        };
        format!("{store}: {marker}; {epoch}")
    }
}
