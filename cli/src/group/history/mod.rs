//! `tenure group history`: each remaining assignment with its changes.

mod change;
mod json;
mod picture;
mod read;
mod table;

use std::path::Path;

use self::read::GroupHistory;
use super::GroupHistoryArgs;
use crate::election::history::draw;
use crate::exit::{self, Failure};
use crate::output::print::{Reader, plain, print, print_json, print_styled};
use crate::output::progress::Progress;
use crate::store::open::{IfMissing, Opened, open, refuse_election};

pub async fn history(args: GroupHistoryArgs) -> Result<u8, Failure> {
    if args.at.json && args.svg.as_deref() == Some(Path::new("-")) {
        let why = "--json and --svg - would both go to stdout: draw into a file";
        return Err(Failure::new(exit::USAGE, why));
    }
    let Opened { store, prefix } = open(&args.at.store, IfMissing::RefuseGroup).await?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut history = {
        let progress = Progress::of("reading assignments");
        read::read(store, &prefix, limit, |done, of| progress.at(done, of)).await?
    };
    if history.changes.is_empty() {
        refuse_election(&args.at.store, "tenure history").await?;
    }
    nothing_can_be_said(&history).map_or(Ok(()), Err)?;
    if let Some(name) = &args.partition
        && !history.keep_only(name)
    {
        let why = format!("no assignment that was read has a partition {}", plain(name));
        return Err(Failure::new(exit::REFUSED, why));
    }
    if let Some(file) = &args.svg {
        let title = match &args.partition {
            Some(name) => format!("Who owned the partition {name} of {}", args.at.store),
            None => format!("Who owned the partitions of {}", args.at.store),
        };
        let svg = picture::of(&history, &title).svg();
        if file.as_os_str() == "-" {
            let _ = print(svg.trim_end())?;
            return Ok(0);
        }
        draw(file, &svg)?;
    }
    if !args.at.json {
        let _ = print_styled(&table::of(&history))?;
        return Ok(0);
    }
    for change in &history.changes {
        if print_json(&json::AssignmentLine::of(change))? == Reader::HasLeft {
            return Ok(0);
        }
    }
    let _ = print_json(&json::AssignmentsSummary::of(&history))?;
    Ok(0)
}

/// Returns a failure if no assignment can be read: a table would suggest that some are known.
fn nothing_can_be_said(history: &GroupHistory) -> Option<Failure> {
    let last = history.changes.last()?;
    let why = last.unreadable.as_deref()?;
    let unreadable = history.changes.iter().all(|change| change.unreadable.is_some());
    unreadable.then(|| {
        let number = last.epoch.get();
        let why = format!("no assignment can be read; assignment-{number:010}.json: {why}");
        Failure::new(exit::UNSAFE, why)
    })
}
