//! `tenure group history`: shows each assignment that still exists, with its changes.

mod change;
mod json;
mod owners;
mod picture;
mod read;
mod table;

use std::sync::Arc;

use super::GroupHistoryArgs;
use crate::election::history::{refuse_both_on_stdout, refuse_unreadable, show};
use crate::exit::{self, Failure};
use crate::output::logs::complain;
use crate::output::print::plain;
use crate::output::progress::Progress;
use crate::store::open::{IfMissing, Opened, open, refuse_election};

pub async fn history(args: GroupHistoryArgs) -> Result<u8, Failure> {
    refuse_both_on_stdout(args.at.json, args.svg.as_deref())?;
    let Opened { store, prefix } = open(&args.at.store, IfMissing::RefuseGroup).await?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut history = {
        let progress = Progress::of("reading assignments");
        read::read(Arc::clone(&store), &prefix, limit, |done, of| progress.at(done, of)).await?
    };
    if history.changes.is_empty() {
        refuse_election(&args.at.store, "tenure history").await?;
    }
    let objects = history.changes.iter().map(|it| (it.epoch, it.unreadable.as_deref()));
    refuse_unreadable(objects, ("assignment", "assignment"))?;
    if let Some(name) = &args.partition
        && !history.keep_only(name)
    {
        let why = format!("no assignment that was read has a partition {}", plain(name));
        return Err(Failure::new(exit::REFUSED, why));
    }
    if let Err(error) = history.read_sessions(store, &prefix).await {
        complain(&format!("{error}; the states of the sessions are unknown"));
    }
    let title = match &args.partition {
        Some(name) => format!("Owners of the partition {name} of {}", args.at.store),
        None => format!("Owners of the partitions of {}", args.at.store),
    };
    show(
        (args.at.json, args.svg.as_deref()),
        || picture::of(&history, &title),
        || table::of(&history),
        history.changes.iter().map(json::AssignmentLine::of),
        &json::AssignmentsSummary::of(&history),
    )
}
