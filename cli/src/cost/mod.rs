//! `tenure cost`: how many requests an election or a group makes in a month, and what they cost.
//! Nothing is sent.

mod arithmetic;
mod group;
pub mod prices;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tenure::Layout;

use self::arithmetic::{DAYS, Requests, Roles, Shape};
use self::group::GroupReport;
use self::prices::Prices;
use super::exit::{self, Failure};
use crate::args::common::{DAY, LayoutArg, positive_duration, positive_up_to};
use crate::output::print::{millis, plain, print, print_json};

#[derive(Debug, clap::Args)]
pub struct CostArgs {
    /// The number of elections that are alike. All other options are of one of them
    #[arg(long, value_name = "COUNT", default_value = "1", conflicts_with = "partitions")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub elections: u32,
    /// The number of candidates: one leads, the others follow
    #[arg(long, value_name = "COUNT", default_value = "3")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub candidates: u32,
    /// Of a group in place of an election: the number of its partitions. The tables show an election
    /// for each of them beside it
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["candidates", "layout"])]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub partitions: Option<u32>,
    /// The number of members of the group
    #[arg(long, value_name = "COUNT", default_value = "3", requires = "partitions")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub members: u32,
    /// The number of observers
    #[arg(long, value_name = "COUNT", default_value = "0")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub observers: u32,
    /// Length of the lease, at most 24h: it is renewed three times in it
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = positive_up_to(DAY))]
    pub validity: Duration,
    /// How often followers, observers and members poll: at most the validity [default: a sixth of
    /// the validity]
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub poll: Option<Duration>,
    /// How often the leader changes; of a group, how often a member dies and another joins
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = per_day)]
    pub elections_per_day: f64,
    /// How often `tenure compact` runs
    #[arg(long, value_name = "COUNT", default_value = "24", value_parser = per_day)]
    pub compactions_per_day: f64,
    /// How the election is stored
    #[arg(long, value_name = "LAYOUT", value_enum, default_value_t = LayoutArg::EpochFiles)]
    pub layout: LayoutArg,
    /// Price lists to use in place of the built-in ones
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// One JSON object instead of tables for people
    #[arg(long)]
    pub json: bool,
}

pub const AFTER_COST: &str = r#"The built-in prices are list prices without free tiers. Their sources: see
docs/reference/stores.md.
A month has 30 days. Traffic and the storing of a few small objects are left out.

A file of prices is one JSON object, or a list of them; prices are for a million requests:

  {"name": "ours", "write": 5.0, "list": 5.0, "read": 0.4, "delete": 0,
   "delete_by_key": false, "currency": "USD", "date": "2026-11", "source": "…"}

The last line's fields may be left out. With delete_by_key every deleted key is paid for, and
otherwise every request for up to 1,000 keys.

Exit codes:
   0  done
  64  wrong usage, or a file of prices that cannot be read"#;

impl CostArgs {
    /// The poll interval, with the library's default.
    fn poll(&self) -> Duration {
        self.poll.unwrap_or(self.validity / 6)
    }
}

pub fn cost(args: &CostArgs) -> Result<u8, Failure> {
    if args.poll() > args.validity {
        let (poll, validity) = (args.poll(), args.validity);
        let why = format!("a --poll of {poll:?} is longer than the validity of {validity:?}");
        return Err(Failure::new(exit::USAGE, why));
    }
    let prices = match &args.prices {
        Some(path) => prices::from_file(path)?,
        None => prices::built_in(),
    };
    if let Some(partitions) = args.partitions {
        if args.validity > group::MAX_VALIDITY {
            let (validity, most) = (args.validity, group::MAX_VALIDITY);
            let why =
                format!("a validity of {validity:?} is not possible in a group: at most {most:?}");
            return Err(Failure::new(exit::USAGE, why));
        }
        let report = GroupReport::new(args, partitions, prices);
        let _ = if args.json { print_json(&report)? } else { print(&report.for_people())? };
        return Ok(0);
    }
    let shape = shape(args);
    let month = DAY.mul_f64(DAYS);
    let report = Report::new(args, shape.requests(month), prices);
    let _ = if args.json { print_json(&report)? } else { print(&report.for_people())? };
    Ok(0)
}

fn shape(args: &CostArgs) -> Shape {
    Shape {
        elections: args.elections,
        layout: args.layout.into(),
        candidates: args.candidates,
        observers: args.observers,
        validity: args.validity,
        poll: args.poll(),
        elections_per_day: args.elections_per_day,
        compactions_per_day: args.compactions_per_day,
    }
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    elections: u32,
    candidates: u32,
    observers: u32,
    validity_ms: u64,
    poll_ms: u64,
    elections_per_day: f64,
    layout: &'static str,
    days: f64,
    requests: Roles<Requests>,
    costs: Vec<Cost>,
}

/// What a month costs by one price list.
#[derive(Debug, Serialize)]
struct Cost {
    prices: Prices,
    #[serde(flatten)]
    of: Roles<f64>,
}

impl Report {
    fn new(args: &CostArgs, requests: Roles<Requests>, prices: Vec<Prices>) -> Report {
        let cost = |prices: Prices| {
            let of = requests.map(|requests| requests.cost(&prices));
            Cost { prices, of }
        };
        Report {
            elections: args.elections,
            candidates: args.candidates,
            observers: args.observers,
            validity_ms: millis(args.validity),
            poll_ms: millis(args.poll()),
            elections_per_day: args.elections_per_day,
            layout: match Layout::from(args.layout) {
                Layout::EpochFiles => "epoch-files",
                _ => "single-object",
            },
            days: DAYS,
            requests,
            costs: prices.into_iter().map(cost).collect(),
        }
    }

    fn for_people(&self) -> String {
        let Roles { leader, follower, observer, elections, compactor, all } = self.requests;
        let mut text = format!(
            "{:<24} {:>12} {:>12} {:>12} {:>12}\n",
            "requests a month", "writes", "lists", "reads", "deletes"
        );
        // One of so many in all elections.
        let of = |count: u32| u64::from(count) * u64::from(self.elections);
        let followers = self.candidates - 1;
        let mut rows = vec![match self.elections {
            1 => ("the leader".to_owned(), leader),
            elections => (format!("a leader, of {elections}"), leader),
        }];
        if followers > 0 {
            rows.push((format!("a follower, of {}", of(followers)), follower));
        }
        if self.observers > 0 {
            rows.push((format!("an observer, of {}", of(self.observers)), observer));
        }
        rows.push(("takeovers, at most".to_owned(), elections));
        if self.layout == "epoch-files" {
            let compactors = if self.elections == 1 { "the compactor" } else { "all compactors" };
            rows.push((compactors.to_owned(), compactor));
        }
        rows.push(("all together".to_owned(), all));
        for (role, Requests { writes, lists, reads, deletes, .. }) in rows {
            let counts = [writes, lists, reads, deletes].map(grouped);
            let [writes, lists, reads, deletes] = counts;
            let _ = writeln!(text, "{role:<24} {writes:>12} {lists:>12} {reads:>12} {deletes:>12}");
        }
        let _ = writeln!(
            text,
            "\n{:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "money a month", "leader", "follower", "observer", "takeovers", "compactor", "all"
        );
        for Cost { prices, of } in &self.costs {
            let Roles { leader, follower, observer, elections, compactor, all } = of;
            let name = format!("{}, {}", plain(&prices.name), plain(&prices.currency));
            let _ = writeln!(
                text,
                "{name:<24} {leader:>9.2} {follower:>9.2} {observer:>9.2} {elections:>9.2} \
                 {compactor:>9.2} {all:>9.2}"
            );
        }
        text + &prices_for_people(self.costs.iter().map(|cost| &cost.prices))
    }
}

/// Where the prices are from: the last lines, without a line end.
fn prices_for_people<'a>(all: impl Iterator<Item = &'a Prices>) -> String {
    let mut text = "\nprices\n".to_owned();
    for Prices { name, date, source, .. } in all {
        let _ = writeln!(text, "  {}: {} ({})", plain(name), plain(source), plain(date));
    }
    text.trim_end().to_owned()
}

/// A count with a comma after every third digit.
fn grouped(count: f64) -> String {
    // Counts of a month are far below what a u64 holds.
    let digits = (count.round().max(0.0) as u64).to_string();
    let mut grouped = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn per_day(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(count) if (0.0..=1e6).contains(&count) => Ok(count),
        _ => Err("write a number from 0 to 1000000".to_owned()),
    }
}

#[cfg(test)]
mod tests;
