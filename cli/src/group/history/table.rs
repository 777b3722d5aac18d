//! The table of a group's history for people.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure::EpochEnd;
use tenure_groups::Marks;

use super::change::{AssignmentChange, Author, DepartedMember};
use super::change::{PartitionChange, PartitionEvent, Person};
use super::owners::{self, OwnerSpan};
use super::read::GroupHistory;
use crate::election::history::{extent, holes, seconds};
use crate::election::status::line;
use crate::group::change::{named, sentence};
use crate::group::status::{GroupStatus, short};
use crate::group::view::owner;
use crate::output::columns::{SHORTENED, legend, table, wrap};
use crate::output::print::{ATTENTION, FAINT, GOOD, NAME, plain, styled};

/// Indentation of the lines about the changes of an assignment, in columns.
const INDENT: usize = 4;
/// Symbols of the tables, with their meanings.
const SYMBOLS: [(char, &str); 3] =
    [('~', "an estimate; --json prints its bounds"), ('?', "or before"), SHORTENED];
/// The possible reasons why an assignment is missing. The store does not show the actual reason.
const GONE: &str = "compacted, deleted, or skipped by a restore";

pub fn of(history: &GroupHistory) -> String {
    if history.changes.is_empty() {
        return styled(ATTENTION, "no group yet: its first member creates it");
    }
    let rows: Vec<_> = history.changes.iter().map(row).collect();
    let heads = table(["epoch", "created (UTC)", "by"], &rows, &[2]);
    let mut heads = heads.lines();
    let mut lines: Vec<_> = heads.next().map(str::to_owned).into_iter().collect();
    for (head, change) in heads.zip(&history.changes) {
        lines.push(head.to_owned());
        lines.extend(
            sentences(change).iter().map(|it| format!("{:INDENT$}{}", "", wrap(it, INDENT))),
        );
    }
    if history.only.is_some() {
        lines.extend([String::new(), owners_table(history)]);
    }
    let mut text = lines.join("\n");
    text += &legend(&text, &SYMBOLS);
    text + "\n\n" + &summary(history).join("\n")
}

/// Returns the table of the owners of the partition that `--partition` selects. An interval without
/// an owner has no row if its length rounds to 0 s.
fn owners_table(history: &GroupHistory) -> String {
    let all = owners::of(history);
    let status = history.newest.as_ref();
    let status = status.map(|it| GroupStatus::with_sessions(it, history.sessions.as_deref()));
    let has_ended = status.is_some_and(|status| status.unattended == Some(1));
    let owner_row = |span: &OwnerSpan| {
        let length = (span.until.unwrap_or(history.now) - span.from).to_std().unwrap_or_default();
        if span.owner.is_none() && length < Duration::from_millis(500) {
            return None;
        }
        let mark = if span.or_before { "?" } else { "" };
        let about = if span.gap.is_some() { "~" } else { "" };
        let token = span.token.filter(|_| span.owner.is_some());
        let name = owner(span.owner.as_ref().map(|it| &*it.name));
        let is_dead = has_ended && span.until.is_none() && span.owner.is_some();
        Some([
            if is_dead { name + " (session ended)" } else { name },
            token.map_or("-".to_owned(), |token| token.to_string()),
            styled(FAINT, format_args!("{mark}{}", span.from.format("%F %T"))),
            format!("{about}{}", seconds(length)),
        ])
    };
    let gap_row = |span: &OwnerSpan| {
        let (from, length) = span.until.zip(span.gap)?;
        Some([
            styled(ATTENTION, "(no live owner)"),
            "-".to_owned(),
            styled(FAINT, format_args!("~{}", from.format("%F %T"))),
            extent(length),
        ])
    };
    let spans = all.values().flat_map(|(_, spans)| spans);
    let rows: Vec<_> = spans.flat_map(|span| [owner_row(span), gap_row(span)]).flatten().collect();
    table(["owner", "token", "from (UTC)", "for"], &rows, &[0])
}

fn row(change: &AssignmentChange) -> [String; 3] {
    let created = change.created.map_or("-".to_owned(), |at| at.format("%F %T").to_string());
    let by = match &change.author {
        Author::Member(name) => styled(NAME, plain(name)),
        Author::Operator => "(operator)".to_owned(),
        Author::Unknown => "-".to_owned(),
    };
    [change.epoch.to_string(), styled(FAINT, created), by]
}

/// Returns one sentence for each kind of change in the assignment.
fn sentences(change: &AssignmentChange) -> Vec<String> {
    if let Some(why) = &change.unreadable {
        return vec![styled(ATTENTION, format_args!("unreadable: {}", plain(why)))];
    }
    let mut lines = Vec::new();
    if change.is_first_known {
        lines.push("(its changes are unknown; this is its state)".to_owned());
    }
    let joined: Vec<&str> = change.joined.iter().map(|it| &*it.name).collect();
    lines.extend(members(&joined, "joined"));
    let mut left: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for DepartedMember { member, ended, .. } in &change.left {
        let end = match ended {
            None | Some(EpochEnd::Unknown) => "left".to_owned(),
            Some(EpochEnd::DeposedDead) => "deposed as dead".to_owned(),
            Some(end) => end.to_string(),
        };
        left.entry(end).or_default().push(&member.name);
    }
    lines.extend(left.iter().filter_map(|(end, names)| members(names, end)));
    if change.coordinator_changed {
        lines.push(match &change.coordinator {
            Some(name) => format!("{} coordinates", plain(name)),
            None => "no member coordinates".to_owned(),
        });
    }
    let mut events: BTreeMap<(PartitionEvent, String), Vec<&str>> = BTreeMap::new();
    for it in &change.partitions {
        for event in &it.events {
            events.entry((*event, done(*event, it))).or_default().push(&it.name);
        }
    }
    lines.extend(events.iter().map(|((_, done), names)| sentence(done, names)));
    if lines.is_empty() {
        lines.push("no change of an owner, a member, a mark or a reservation".to_owned());
    }
    lines
}

fn members(names: &[&str], done: &str) -> Option<String> {
    match names {
        [] => None,
        [name] => Some(format!("{} {done}", plain(name))),
        _ => Some(format!("{} members {done}: {}", names.len(), named(names))),
    }
}

/// Describes a change of a partition, such as `moved from w1 to w2`.
fn done(event: PartitionEvent, it: &PartitionChange) -> String {
    let name = |of: &Option<Person>| of.as_ref().map_or("-".to_owned(), |it| plain(&it.name));
    let from = name(&it.from);
    // A member that joins again under the same name counts as another member with another session.
    // So the text also shows the session.
    let of_same_name = |of: &Option<Person>| match (&it.from, of) {
        (Some(from), Some(of)) if from.name == of.name => {
            format!("{} (session {})", plain(&of.name), short(&of.session))
        }
        _ => name(of),
    };
    let [to, target] = match event {
        PartitionEvent::Moved | PartitionEvent::Revoked => [&it.to, &it.target].map(of_same_name),
        _ => [&it.to, &it.target].map(name),
    };
    let gap = it.gap.map(|gap| format!(" after {} without a live owner", extent(gap.length)));
    let gap = gap.unwrap_or_default();
    match event {
        PartitionEvent::Stood if it.to.is_none() => styled(ATTENTION, "without an owner"),
        PartitionEvent::Stood => format!("owned by {to}"),
        PartitionEvent::Added => "added".to_owned(),
        PartitionEvent::Granted => format!("granted to {to}"),
        // If both owners are equal, a missing assignment moved the partition to another owner, and
        // a later one moved it back.
        PartitionEvent::Moved if it.from == it.to => format!("granted to {from} again"),
        PartitionEvent::Moved => format!("moved from {from} to {to}{gap}"),
        PartitionEvent::Released => format!("no longer owned by {from}{gap}"),
        PartitionEvent::Reserved => {
            format!("reserved for {}", it.reserved_for.as_deref().map_or("-".to_owned(), plain))
        }
        PartitionEvent::Unreserved => "no longer reserved".to_owned(),
        PartitionEvent::Revoked => format!("to move from {from} to {target}"),
        PartitionEvent::Kept => format!("kept by {to}: the move was withdrawn"),
        PartitionEvent::Marked => marked(&it.marks_before, &it.marks),
        PartitionEvent::Removed => "removed".to_owned(),
    }
}

fn marked(before: &Marks, now: &Marks) -> String {
    let named = |before: &Option<Arc<str>>, now: &Option<Arc<str>>, on: &str, off: &str| match now {
        _ if before == now => None,
        Some(name) => Some(format!("{on} {}", plain(name))),
        None => Some(off.to_owned()),
    };
    let flag = |before: bool, now: bool, on: &str, off: &str| {
        (before != now).then(|| if now { on } else { off }.to_owned())
    };
    let all = [
        named(&before.pinned, &now.pinned, "pinned to", "unpinned"),
        named(&before.barred, &now.barred, "barred from", "no longer barred"),
        flag(before.paused, now.paused, "paused", "resumed"),
        flag(before.retiring, now.retiring, "retired", "no longer retired"),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Describes the present owner of the partition `name`, the only partition in `status`. `all` is
/// the number of partitions of the group.
fn state_of(name: &str, all: usize, status: &GroupStatus) -> String {
    let name = plain(name);
    let Some(partition) = status.partitions.first() else {
        return format!("{name}: removed; {all} partitions are left");
    };
    let owner = match partition.owner.map(plain) {
        None => styled(ATTENTION, "without an owner"),
        Some(owner) if status.unattended == Some(1) => {
            styled(ATTENTION, format_args!("owned by {owner}, whose session has ended"))
        }
        Some(owner) => styled(GOOD, format_args!("owned by {owner}")),
    };
    format!("{name} of {all}: {owner}")
}

fn summary(history: &GroupHistory) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(newest) = &history.newest {
        let status = GroupStatus::with_sessions(newest, history.sessions.as_deref());
        lines.push(line("members", &newest.members.len().to_string()));
        lines.push(match &history.only {
            None => line("partitions", &status.summary()),
            Some((name, all)) => line("partition", &state_of(name, *all, &status)),
        });
    }
    if !history.missing.is_empty() {
        lines.push(line("missing", &holes(&history.missing, "assignment", GONE)));
    }
    if history.left_out > 0 {
        lines.push(line("left out", &format!("{} older; see --limit", history.left_out)));
    }
    lines.push(line("requests", &history.requests.to_string()));
    lines
}
