//! `tenure history`: each epoch with its leader and its end, and the time without a leader.

mod json;
mod picture;
mod table;
#[cfg(test)]
mod tests;

pub use self::json::time;
pub use self::table::holes;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tenure::EpochEnd;
use tenure_history::{History, LeadershipSpan, Reader};

use crate::args::common::{CENTURY, StoreArg, positive_up_to};
use crate::exit::{self, Failure};
use crate::output::print::{Reader as Audience, print, print_json};
use crate::output::progress::Progress;
use crate::store::open::{IfMissing, Opened, open, refuse_all_else};

#[derive(Debug, clap::Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// Read at most this many of the newest epochs: a request each. Up to 100000
    #[arg(long, value_name = "COUNT", default_value = "1000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// Only epochs that were written within this time: at most 36525d
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(CENTURY))]
    pub since: Option<Duration>,
    /// Also draw the timeline into this file, as an SVG for light and dark pages; `-` is stdout,
    /// and then nothing else goes there
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// One JSON object per epoch and one for all, instead of a table for people
    #[arg(long)]
    pub json: bool,
}

pub async fn history(args: HistoryArgs) -> Result<u8, Failure> {
    if args.json && args.svg.as_deref() == Some(Path::new("-")) {
        let why = "--json and --svg - would both go to stdout: draw into a file";
        return Err(Failure::new(exit::USAGE, why));
    }
    let Opened { store, prefix } = open(&args.store.store, IfMissing::Refuse).await?;
    let layout = args.store.layout;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let mut reader = Reader::new(Arc::clone(&store), &prefix)?.layout(layout.into()).limit(limit);
    if let Some(since) = args.since {
        reader = reader.since(since);
    }
    let history = {
        let progress = Progress::of("reading epochs");
        reader.read_with(|read, of| progress.at(read, of)).await?
    };
    if history.spans.is_empty() {
        refuse_all_else(&store, &prefix, layout, "tenure group history").await?;
    }
    all_unreadable(&history).map_or(Ok(()), Err)?;
    if let Some(file) = &args.svg {
        let title = format!("Who led {}", args.store.store);
        let svg = picture::of(&history, &title).svg();
        if file.as_os_str() == "-" {
            let _ = print(svg.trim_end())?;
            return Ok(0);
        }
        draw(file, &svg)?;
    }
    if !args.json {
        let _ = print(&table::of(&history))?;
        return Ok(0);
    }
    for span in &history.spans {
        if print_json(&json::EpochLine::of(span, &history))? == Audience::HasLeft {
            return Ok(0);
        }
    }
    let _ = print_json(&json::EpochsSummary::of(&history))?;
    Ok(0)
}

/// Returns a failure if no object can be read: a table would suggest that some are known.
fn all_unreadable(history: &History) -> Option<Failure> {
    if !history.spans.iter().all(|span| span.unreadable.is_some()) {
        return None;
    }
    let last = history.spans.last()?;
    let why = last.unreadable.as_deref().unwrap_or_default();
    let why = format!("no epoch object can be read; lock-{:010}.json: {why}", last.epoch.get());
    Some(Failure::new(exit::UNSAFE, why))
}

/// Writes a drawing into this file.
pub fn draw(file: &Path, svg: &str) -> Result<(), Failure> {
    std::fs::write(file, svg).map_err(|error| {
        Failure::new(exit::OS, format!("cannot write {}: {error}", file.display()))
    })
}

/// Returns the state or end of an epoch in one word.
fn end_word(span: &LeadershipSpan) -> String {
    match span.end {
        None if span.unreadable.is_some() => "unreadable".to_owned(),
        None => "held".to_owned(),
        Some(EpochEnd::Unknown) => "sealed".to_owned(),
        Some(end) => end.to_string(),
    }
}
