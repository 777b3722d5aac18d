//! `tenure group resize`, `retire`, `pin`, `bar`, `pause`, `resume` and `unreserve`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tenure_groups::{Group, GroupSnapshot, PartitionSnapshot};

use super::status::{restored_above, unfinished};
use super::view::PartitionStatus;
use super::{BarArgs, GroupStoreArg, MarkArgs, PinArgs, ResizeArgs, builder};
use crate::args::partitions::Names;
use crate::election::operator::unknown;
use crate::exit::{self, Failure};
use crate::output::logs::complain;
use crate::output::print::{plain, print, print_json};
use crate::store::open::refuse_election;

/// Maximum number of partition names in a message. Further names are only counted.
const SHOWN_NAMES: usize = 10;

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct ChangeReport<'a> {
    /// `changed`, or `already` if no change was needed.
    outcome: &'static str,
    epoch: Option<u64>,
    /// The changed partitions in their new state.
    partitions: Vec<PartitionStatus<'a>>,
}

/// An opened group, and its newest assignment before the operator changes it.
struct Operated {
    group: Group,
    before: GroupSnapshot,
    json: bool,
    /// Text after the list of the changed partitions.
    note: &'static str,
}

pub async fn resize(args: ResizeArgs) -> Result<u8, Failure> {
    let operated = Operated::open(&args.at, None).await?;
    let wanted: BTreeSet<_> = args.partitions.0.iter().collect();
    let mut retiring = operated.before.partitions.iter().filter(|it| it.marks.retiring);
    // The library also refuses a partition that is retiring, but its error has no remedy for
    // operators.
    if let Some(it) = retiring.find(|it| wanted.contains(&it.name)) {
        let name = plain(&it.name);
        let why = format!(
            "the partition {name} is retiring: nothing was changed; try again once it is removed"
        );
        return Err(Failure::new(exit::REFUSED, why));
    }
    let after = operated.group.resize(args.partitions.0).await.map_err(unknown)?;
    operated.report(&after, None, "retired")
}

pub async fn retire(args: MarkArgs) -> Result<u8, Failure> {
    let operated = Operated::open(&args.at, Some(&args.names)).await?;
    let after = operated.group.retire(&args.names.borrowed()).await.map_err(unknown)?;
    operated.report(&after, Some(&args.names), "retired")
}

pub async fn pin(PinArgs { of: args, to, any }: PinArgs) -> Result<u8, Failure> {
    let mut operated = Operated::open(&args.at, Some(&args.names)).await?;
    let (names, to) = (args.names.borrowed(), to.filter(|_| !any));
    let after = operated.group.pin(&names, to.as_deref()).await.map_err(unknown)?;
    if let Some(to) = &to {
        let moves = |it: &&str| after.owner(it).is_some_and(|owner| owner.name != *to);
        if after.members.iter().all(|it| it.name != *to) {
            let to = plain(to);
            let why = format!(
                "no member is named {to}: the partitions have no owner until such a member joins"
            );
            complain(&why);
        } else if names.iter().any(moves) {
            operated.note = "; a move takes about two polls after the owner's work has stopped";
        }
    }
    let done = to.map_or("unpinned".to_owned(), |to| format!("pinned to {}", plain(&to)));
    operated.report(&after, Some(&args.names), &done)
}

pub async fn bar(BarArgs { of: args, from, any }: BarArgs) -> Result<u8, Failure> {
    let operated = Operated::open(&args.at, Some(&args.names)).await?;
    let (names, from) = (args.names.borrowed(), from.filter(|_| !any));
    let after = operated.group.bar(&names, from.as_deref()).await.map_err(unknown)?;
    let done =
        from.map_or("no longer barred".to_owned(), |it| format!("barred from {}", plain(&it)));
    operated.report(&after, Some(&args.names), &done)
}

pub async fn pause(args: MarkArgs, paused: bool) -> Result<u8, Failure> {
    let operated = Operated::open(&args.at, Some(&args.names)).await?;
    let after = operated.group.pause(&args.names.borrowed(), paused).await.map_err(unknown)?;
    operated.report(&after, Some(&args.names), if paused { "paused" } else { "resumed" })
}

pub async fn unreserve(args: MarkArgs) -> Result<u8, Failure> {
    let operated = Operated::open(&args.at, Some(&args.names)).await?;
    let after = operated.group.unreserve(&args.names.borrowed()).await.map_err(unknown)?;
    operated.report(&after, Some(&args.names), "no longer reserved")
}

impl Names {
    fn borrowed(&self) -> Vec<&str> {
        self.0.iter().map(|name| &**name).collect()
    }
}

impl Operated {
    /// Opens a group. Fails if the group does not exist, if a restore is unfinished, or if any of
    /// `names` is not the name of a partition.
    async fn open(at: &GroupStoreArg, names: Option<&Names>) -> Result<Operated, Failure> {
        let group = builder(at).await?.build()?;
        let before = group.snapshot().await?;
        let refuse = |why| Err(Failure::new(exit::REFUSED, why));
        if before.epoch.is_none() {
            refuse_election(&at.store, "tenure status").await?;
            let why = format!("there is no group at {}: its first member creates it", at.store);
            return refuse(why);
        }
        if let Some(epoch) = restored_above(&before) {
            return refuse(format!("a restore is {}; nothing was changed", unfinished(epoch)));
        }
        let there = by_name(&before);
        let missing = names.and_then(|names| names.0.iter().find(|it| !there.contains_key(&***it)));
        if let Some(name) = missing {
            let name = plain(name);
            return refuse(format!("the group has no partition {name}: nothing was changed"));
        }
        Ok(Operated { group, before, json: at.json, note: "" })
    }

    /// Prints the partitions that the operator has changed. If `names` is given, omits the
    /// partitions with other names.
    fn report(
        &self,
        after: &GroupSnapshot,
        names: Option<&Names>,
        done: &str,
    ) -> Result<u8, Failure> {
        let (before, now) = (by_name(&self.before), by_name(after));
        let mut seen = BTreeSet::new();
        let named: Vec<&PartitionSnapshot> = match names {
            // A name that appears twice on the command line is reported once.
            Some(names) => {
                let once = names.0.iter().filter(|it| seen.insert(&***it));
                once.filter_map(|it| now.get(&**it).copied()).collect()
            }
            None => after.partitions.iter().collect(),
        };
        let was =
            |it: &PartitionSnapshot| before.get(&*it.name).filter(|was| was.number == it.number);
        let (mut added, mut marked) = (Vec::new(), Vec::new());
        for it in named {
            match was(it) {
                None => added.push(it),
                Some(was) if changed(was, it) => marked.push(it),
                Some(_) => {}
            }
        }
        let changed = added.iter().chain(&marked);
        let report = ChangeReport {
            outcome: if added.is_empty() && marked.is_empty() { "already" } else { "changed" },
            epoch: after.epoch.map(|epoch| epoch.get()),
            partitions: changed.map(|it| PartitionStatus::of(it, after)).collect(),
        };
        let _ = match self.json {
            true => print_json(&report)?,
            false => {
                let lines = [("added", added), (done, marked)];
                let lines = lines.iter().filter(|(_, all)| !all.is_empty());
                let line = |(done, all): &(&str, Vec<&PartitionSnapshot>)| {
                    sentence(done, &all.iter().map(|it| &*it.name).collect::<Vec<_>>())
                };
                let lines: Vec<_> = lines.map(line).collect();
                match lines.is_empty() {
                    true => print("nothing was changed: the group has this state already")?,
                    false => print(&(lines.join("\n") + self.note))?,
                }
            }
        };
        Ok(0)
    }
}

/// Returns whether an operator has changed the marks of the partition or ended its reservation.
fn changed(was: &PartitionSnapshot, it: &PartitionSnapshot) -> bool {
    was.marks != it.marks || was.reserved_for.is_some() && it.reserved_for.is_none()
}

fn by_name(group: &GroupSnapshot) -> BTreeMap<&str, &PartitionSnapshot> {
    group.partitions.iter().map(|it| (&*it.name, it)).collect()
}

/// Returns a sentence such as `2 partitions paused: a, b`.
pub fn sentence(done: &str, names: &[&str]) -> String {
    let partitions = if names.len() == 1 { "partition" } else { "partitions" };
    format!("{} {partitions} {done}: {}", names.len(), named(names))
}

/// Returns the first names as a list, and the number of further names.
pub fn named(names: &[&str]) -> String {
    let shown: Vec<_> = names.iter().take(SHOWN_NAMES).map(|name| plain(name)).collect();
    let more = match names.len().saturating_sub(SHOWN_NAMES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}
