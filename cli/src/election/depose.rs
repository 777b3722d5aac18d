//! `tenure depose`: seals the epoch of the current leader.

use serde::Serialize;
use tenure::{Deposed, Epoch, EpochEnd};

use super::operator::{holder, needs_force, then, unknown};
use crate::args::common::{LayoutArg, StoreArg, default_name, name};
use crate::exit::{self, Failure};
use crate::output::print::{millis, print, print_json};
use crate::store::open::IfMissing;

#[derive(Debug, clap::Args)]
pub struct DeposeArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// Depose the leader only if this epoch is still the newest
    #[arg(long, value_name = "EPOCH")]
    pub epoch: Option<Epoch>,
    /// Declare that the leader is dead: its successor does not wait for the end of its lease.
    ///
    /// If the leader is alive, two processes lead for up to its validity.
    #[arg(long)]
    pub force: bool,
    /// Name of the operator, for people [default: HOSTNAME-PID]
    #[arg(long, value_name = "NAME", value_parser = name, env = "TENURE_NAME")]
    pub name: Option<String>,
    /// Reason, for people: `status` and `history` show it. At most 1,000 bytes
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct DeposeReport {
    /// `deposed`, or `already` if the epoch was already sealed.
    outcome: &'static str,
    epoch: u64,
    candidate: Option<String>,
    ended: EpochEnd,
    /// Maximum time for which a successor waits before it leads; null if no epoch was sealed.
    wait_ms: Option<u64>,
}

pub async fn depose(args: DeposeArgs) -> Result<u8, Failure> {
    let urls = args.store.urls()?;
    let opened = urls.open(IfMissing::Refuse).await?;
    let election = opened.builder();
    // The session of a group member is also an election. Its location ends with `members/` and an
    // id. With `file://` the prefix is empty, so this function checks the whole URL.
    let place = urls.to_string();
    let place = place.split_once('?').map_or(&*place, |(place, _)| place);
    let election = match args.store.layout {
        LayoutArg::SingleObject if tenure_groups::is_session(place) => {
            tenure_groups::session_election(election)
        }
        layout => election.layout(layout.into()),
    };
    let election = election.name(args.name.unwrap_or_else(default_name));
    let election = match args.reason {
        Some(reason) => election.reason(reason),
        None => election,
    };
    let election = election.build()?;
    let deposed = match args.force {
        true => election.depose_dead(args.epoch).await,
        false => election.depose(args.epoch).await,
    };
    let deposed = deposed.map_err(unknown)?;
    let (leader, ended, wait) = match deposed {
        Deposed::Sealed { leader, wait } if args.force => {
            (leader, EpochEnd::DeposedDead, Some(wait))
        }
        Deposed::Sealed { leader, wait } => (leader, EpochEnd::Deposed, Some(wait)),
        Deposed::Already { leader, ended } => (leader, ended, None),
        refused => {
            if refused == Deposed::NoLeader {
                opened.refuse_all_else(args.store.layout, "tenure group depose").await?;
            }
            return Err(Failure::new(exit::REFUSED, why_not(&refused, args.store.layout)));
        }
    };
    let (epoch, holder) = (leader.epoch, holder(&leader));
    let (outcome, line) = match wait {
        Some(wait) => ("deposed", format!("deposed {holder} from epoch {epoch}; {}", then(wait))),
        None => ("already", format!("epoch {epoch} of {holder} is sealed already: {ended}")),
    };
    let report = DeposeReport {
        outcome,
        epoch: epoch.get(),
        candidate: leader.candidate,
        ended,
        wait_ms: wait.map(millis),
    };
    let _ = if args.json { print_json(&report)? } else { print(&line)? };
    Ok(0)
}

fn why_not(refused: &Deposed, layout: LayoutArg) -> String {
    match refused {
        Deposed::NotCurrent(leader) => {
            format!(
                "the newest epoch is {}, granted to {}: nothing was changed",
                leader.epoch,
                holder(leader)
            )
        }
        Deposed::NeedsForce(leader) => needs_force(leader),
        Deposed::Held(epoch) => format!(
            "the election is vacant: epoch {epoch} belongs to an unfinished restore; run `tenure \
             restore --epoch {epoch}` again"
        ),
        Deposed::Renewed(leader) => format!(
            "{} renewed epoch {} each time before it could be sealed; try again",
            holder(leader),
            leader.epoch
        ),
        _ if layout == LayoutArg::SingleObject => {
            "the election is vacant: lock.json is missing".to_owned()
        }
        _ => "the election is vacant: there is no epoch".to_owned(),
    }
}
