//! `tenure history`: lists each epoch with its leader and its end, the times without a leader, and
//! the periods of a job.

mod json;
mod periods;
mod picture;
mod table;
#[cfg(test)]
mod tests;

pub use self::json::{Lengths, pairs, time};
pub use self::picture::seconds;
pub use self::table::{extent, holes};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tenure::{Epoch, EpochEnd};
use tenure_history::drawing::Drawing;
use tenure_history::{LeadershipSpan, Reader};

use crate::args::common::{CENTURY, StoreArg, count, positive_up_to};
use crate::cron::RecordPlace;
use crate::election::LeaseState;
use crate::exit::{self, Failure};
use crate::output::logs::{complain, complain_of};
use crate::output::print::{StdoutReader, plain, print, print_json, print_styled};
use crate::output::progress::Progress;
use crate::store::open::IfMissing;

#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// Maximum number of epochs to read, newest first, with one GET each: at most 100000
    #[arg(long, value_name = "COUNT", default_value = "1000")]
    #[arg(value_parser = count(1..=100_000_u32))]
    pub limit: u32,
    /// Read only epochs that were written within this time before now: at most 36525d
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(CENTURY))]
    pub since: Option<Duration>,
    /// Also draw the timeline as an SVG in this file, for light and dark pages.
    ///
    /// `-` is stdout, which then has no other output.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Print JSON instead of tables: one object for each epoch or period, and then a summary
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum HistoryLine<'a> {
    Epoch(Box<json::EpochLine<'a>>),
    Period(periods::PeriodLine<'a>),
}

pub async fn history(args: HistoryArgs) -> Result<u8, Failure> {
    refuse_both_on_stdout(args.json, args.svg.as_deref())?;
    let urls = args.store.urls()?;
    let opened = urls.open(IfMissing::Refuse).await?;
    let (layout, prefix) = (args.store.layout, &*opened.prefix);
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let reader = Reader::across(opened.stores.iter().cloned(), prefix)?;
    let mut reader = reader.layout(layout.into()).limit(limit);
    if let Some(since) = args.since {
        reader = reader.since(since);
    }
    let mut history = {
        let progress = Progress::of("reading epochs");
        reader.read_with(|read, of| progress.at(read, of)).await?
    };
    if history.spans.is_empty() {
        opened.refuse_all_else(layout, "tenure group history").await?;
    }
    history.unread.iter().for_each(|why| complain(&plain(why)));
    let objects = history.spans.iter().map(|span| (span.epoch, span.unreadable.as_deref()));
    refuse_unreadable(objects, ("epoch object", "lock"))?;
    // An election across stores has no job.
    let record = match urls.are_several() {
        true => Ok(None),
        false => {
            history.requests += 1;
            RecordPlace::new(Arc::clone(opened.first()), prefix).observe().await
        }
    };
    // The epochs are shown, but the exit code reports that the periods are missing.
    let incomplete = record.as_ref().map_or_else(
        |failure| {
            complain_of(failure);
            failure.code
        },
        |_| 0,
    );
    let record = record.as_ref().ok().and_then(Option::as_ref);
    let rows = record.map(|record| record.rows(periods::is_running(record, &history)));
    let rows = rows.unwrap_or_default();
    let without = record.map(|record| periods::without_attempt(record, &history));
    let without = without.unwrap_or_else(|| vec![false; history.spans.len()]);
    let epochs = history.spans.iter().zip(&without);
    let epochs = epochs.map(|(span, without)| json::EpochLine::of(span, &history, *without));
    let epochs = epochs.map(|line| HistoryLine::Epoch(Box::new(line)));
    let shown = show(
        (args.json, args.svg.as_deref()),
        || picture::of(&history, &format!("Leaders of {urls}"), record.is_some()),
        || {
            let periods = record.map(|record| periods::of(record, &rows, history.now) + "\n\n");
            periods.unwrap_or_default() + &table::of(&history, &without, record.is_some())
        },
        epochs.chain(rows.iter().map(|row| HistoryLine::Period(periods::PeriodLine::of(row)))),
        &json::EpochsSummary::of(&history),
    )?;
    Ok(shown.max(incomplete))
}

/// Fails if `--json` and `--svg -` are both given, because both write to stdout.
pub fn refuse_both_on_stdout(json: bool, svg: Option<&Path>) -> Result<(), Failure> {
    let both = json && svg == Some(Path::new("-"));
    let why = "--json and --svg - both use stdout: draw into a file";
    if both { Err(Failure::new(exit::USAGE, why)) } else { Ok(()) }
}

/// Writes the drawing, if a file for it is given. Then prints the table, or, if `json` is true,
/// `lines` and `summary` as JSON. If the drawing goes to stdout, prints nothing else.
pub fn show(
    (json, svg): (bool, Option<&Path>),
    drawing: impl FnOnce() -> Drawing,
    table: impl FnOnce() -> String,
    lines: impl Iterator<Item: Serialize>,
    summary: &impl Serialize,
) -> Result<u8, Failure> {
    if let Some(file) = svg {
        let svg = drawing().svg();
        if file.as_os_str() == "-" {
            let _ = print(svg.trim_end())?;
            return Ok(0);
        }
        std::fs::write(file, svg).map_err(|error| {
            Failure::new(exit::OS, format!("cannot write {}: {error}", file.display()))
        })?;
    }
    if !json {
        let _ = print_styled(&table())?;
        return Ok(0);
    }
    for line in lines {
        if print_json(&line)? == StdoutReader::HasLeft {
            return Ok(0);
        }
    }
    let _ = print_json(summary)?;
    Ok(0)
}

/// Fails if no object can be read, because a table would suggest that some were read. Each element
/// of `objects` is an epoch. If the object of the epoch cannot be read, the element also contains
/// the reason.
pub fn refuse_unreadable<'a>(
    objects: impl Iterator<Item = (Epoch, Option<&'a str>)>,
    (kind, file): (&str, &str),
) -> Result<(), Failure> {
    let mut newest = None;
    for (epoch, unreadable) in objects {
        let Some(why) = unreadable else { return Ok(()) };
        newest = Some(format!("no {kind} can be read; {file}-{:010}.json: {why}", epoch.get()));
    }
    newest.map_or(Ok(()), |why| Err(Failure::new(exit::UNSAFE, why)))
}

/// Returns one word for the end of an epoch, or for its state if it has not ended.
pub fn end_word(span: &LeadershipSpan) -> String {
    match span.end {
        None if span.unreadable.is_some() => "unreadable".to_owned(),
        None if span.lapsed => EpochEnd::Lapsed.to_string(),
        None => LeaseState::Held.to_string(),
        Some(EpochEnd::Unknown) => "sealed".to_owned(),
        Some(end) => end.to_string(),
    }
}
