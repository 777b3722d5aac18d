//! `tenure cost`: computes the requests of an election or of a group in a month, and their price.
//! Sends no request.

pub mod prices;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::ValueEnum as _;
use humantime::format_duration;
use serde_json::{Map, Value, json};
use tenure::internals::{DEFAULT_VALIDITY, observer_poll_interval, poll_interval};
use tenure_groups::assignment_record::MAX_VALIDITY;

use self::prices::Prices;
use self::requests::{KINDS, Requests, Role, roles};
use super::exit::{self, Failure};
use crate::args::common::{DAY, LayoutArg, count, positive_duration, positive_up_to};
use crate::output::print::{millis, plain, print, print_json};

/// Days in a month.
const DAYS: u32 = 30;
const MONTH: Duration = Duration::from_secs(DAYS as u64 * 24 * 60 * 60);

static DEFAULT_VALIDITY_TEXT: LazyLock<String> =
    LazyLock::new(|| format_duration(DEFAULT_VALIDITY).to_string());

#[derive(Debug, clap::Args)]
pub struct CostArgs {
    /// The number of candidates: one leads, the others follow
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = count(1..=100_000_u32))]
    pub candidates: u32,
    /// Compute the requests of a group with this number of partitions
    #[arg(long, value_name = "COUNT", value_parser = count(1..=100_000_u32))]
    #[arg(conflicts_with_all = ["candidates", "layout", "stores"])]
    pub partitions: Option<u32>,
    /// The number of members of the group
    #[arg(long, value_name = "COUNT", default_value = "3", value_parser = count(1..=100_000_u32))]
    #[arg(requires = "partitions")]
    pub members: u32,
    /// The number of stores: 3 or 5 for an election across stores
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = one_three_or_five)]
    pub stores: u32,
    /// The number of observers
    #[arg(long, value_name = "COUNT", default_value = "0", value_parser = count(0..=100_000_u32))]
    pub observers: u32,
    /// Length of the lease, at most 24h.
    ///
    /// The leader renews the lease three times in this time.
    #[arg(long, value_name = "DURATION", default_value = DEFAULT_VALIDITY_TEXT.as_str())]
    #[arg(value_parser = positive_up_to(DAY), env = "TENURE_VALIDITY")]
    pub validity: Duration,
    /// Poll interval, at most the validity [default: a sixth of the validity]
    ///
    /// Followers, observers and members poll at this interval. The default for observers is from 1s
    /// to 1m.
    #[arg(long, value_name = "DURATION", value_parser = positive_duration, env = "TENURE_POLL")]
    pub poll: Option<Duration>,
    /// Deaths of the leader per day, at most 1000. In a group, deaths of members, each replaced by
    /// a new member
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = per_day)]
    pub elections_per_day: f64,
    /// How the election is stored
    #[arg(long, value_name = "LAYOUT", value_enum, default_value_t = LayoutArg::EpochFiles)]
    #[arg(env = "TENURE_LAYOUT")]
    pub layout: LayoutArg,
    /// File with price lists that replace the built-in lists
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

pub const AFTER_COST: &str = "\
A column has the requests of one process of a role. The columns takeovers, changes, compactor and \
all have the sum of all processes. `tenure compact` runs each hour.

The built-in prices are list prices without free tiers; docs/reference/stores.md has their \
sources. A month has 30 days. The prices exclude traffic and storage.

A file of prices is a JSON list of objects; prices are for a million requests:

  [{\"name\": \"ours\", \"write\": 5.0, \"list\": 5.0, \"read\": 0.4, \"delete\": 0,
    \"delete_by_key\": false,
    \"currency\": \"USD\", \"date\": \"2026-11\", \"source\": \"…\"}]

The fields of the last line are optional. With delete_by_key the service charges for each deleted \
key, otherwise for each request with up to 1,000 keys.

Exit codes:
   0  done
  64  wrong usage, or an unreadable file of prices";

fn per_day(text: &str) -> Result<f64, String> {
    let count = text.parse().ok().filter(|count| (0.0..=1e3).contains(count));
    count.ok_or_else(|| "write a number from 0 to 1000".to_owned())
}

fn one_three_or_five(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| matches!(count, 1 | 3 | 5));
    count.ok_or_else(|| "write 1, 3 or 5".to_owned())
}

impl CostArgs {
    /// Returns the poll interval of followers and members.
    fn poll(&self) -> Duration {
        self.poll.unwrap_or_else(|| poll_interval(self.validity))
    }

    /// Returns the poll interval of observers, such as `tenure watch`.
    fn observer_poll(&self) -> Duration {
        let own = poll_interval(DEFAULT_VALIDITY);
        self.poll.unwrap_or_else(|| observer_poll_interval(self.validity, own))
    }
}

pub fn cost(args: &CostArgs) -> Result<u8, Failure> {
    let (poll, validity, most) = (args.poll(), args.validity, MAX_VALIDITY);
    if poll > validity {
        let why = format!("--poll must be at most the validity of {validity:?}, got {poll:?}");
        return Err(Failure::new(exit::USAGE, why));
    }
    if args.stores > 1 && args.layout == LayoutArg::SingleObject {
        let why = "an election across stores has the layout epoch-files";
        return Err(Failure::new(exit::USAGE, why));
    }
    if args.partitions.is_some() && validity > most {
        let why = format!("the validity of a group must be at most {most:?}, got {validity:?}");
        return Err(Failure::new(exit::USAGE, why));
    }
    let prices =
        args.prices.as_deref().map_or_else(|| Ok(prices::built_in()), prices::from_file)?;
    let roles = roles(args);
    let _ = match args.json {
        true => print_json(&for_machines(args, &roles, &prices))?,
        false => print(&for_people(&roles, &prices))?,
    };
    Ok(0)
}

fn for_machines(args: &CostArgs, roles: &[Role], prices: &[Prices]) -> Value {
    let by_role = |value: &dyn Fn(Requests) -> Value| -> Map<String, Value> {
        roles.iter().map(|role| (role.name.to_owned(), value(role.requests))).collect()
    };
    let kinds = |requests| KINDS.into_iter().zip(requests).collect::<BTreeMap<_, f64>>();
    let costs = prices.iter().map(|prices| {
        let mut costs = by_role(&|requests| prices.cost(requests).into());
        costs.insert("prices".to_owned(), json!(prices));
        Value::from(costs)
    });
    let layout = args.layout.to_possible_value().map(|layout| layout.get_name().to_owned());
    let is_group = args.partitions.is_some();
    json!({
        "partitions": args.partitions,
        "members": is_group.then_some(args.members),
        "candidates": (!is_group).then_some(args.candidates),
        "stores": (!is_group).then_some(args.stores),
        "layout": layout.filter(|_| !is_group),
        "elections_per_day": args.elections_per_day,
        "observers": args.observers,
        "validity_ms": millis(args.validity),
        "poll_ms": millis(args.poll()),
        "days": DAYS,
        "requests": by_role(&|requests| json!(kinds(requests))),
        "costs": costs.collect::<Vec<_>>(),
    })
}

fn for_people(roles: &[Role], prices: &[Prices]) -> String {
    let roles = || roles.iter().filter(|role| role.processes != Some(0.0));
    let mut rows = Vec::new();
    let mut row = |name: &str, cell: &dyn Fn(&Role) -> String| {
        rows.push((name.to_owned(), roles().map(cell).collect::<Vec<_>>()));
    };
    row("a month", &|role| role.name.to_owned());
    row("processes", &|role| role.processes.map_or(String::new(), grouped));
    for (kind, name) in KINDS[..4].iter().enumerate() {
        row(name, &|role| grouped(role.requests[kind]));
    }
    for list in prices {
        let name = format!("{}, {}", plain(&list.name), plain(&list.currency));
        row(&name, &|role| format!("{:.2}", list.cost(role.requests)));
    }
    let width = |column: usize| rows.iter().map(|(_, cells)| cells[column].len() + 2).max();
    let mut text = String::new();
    for (name, cells) in &rows {
        let _ = write!(text, "{name:<20}");
        for (column, cell) in cells.iter().enumerate() {
            let _ = write!(text, "{cell:>0$}", width(column).unwrap_or_default());
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text.push_str("\nprices");
    for Prices { name, date, source, .. } in prices {
        let _ = write!(text, "\n  {}: {} ({})", plain(name), plain(source), plain(date));
    }
    text
}

/// Formats a count with a comma between groups of three digits.
fn grouped(count: f64) -> String {
    let digits = format!("{count:.0}");
    let mut grouped = String::new();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
