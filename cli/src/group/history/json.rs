//! The objects that `--json` prints: one for each assignment, then one for the whole history.
//! Fields that do not apply or are unknown are null.

use serde::Serialize;
use tenure::EpochEnd;

use super::change::{AssignmentChange, Author, DepartedMember};
use super::change::{PartitionChange, PartitionEvent, Person};
use super::read::GroupHistory;
use crate::election::history::{Lengths, pairs, time};
use crate::group::status::GroupStatus;

#[derive(Debug, Serialize)]
pub struct AssignmentLine<'a> {
    kind: &'static str,
    epoch: u64,
    /// Time at which the assignment was created, by the store's clock.
    created_at: Option<String>,
    /// Name of the member that wrote the assignment; null if unknown, or if an operator wrote it.
    by: Option<&'a str>,
    by_operator: bool,
    coordinator: Option<&'a str>,
    /// True if the changes are unknown. Then `partitions` contains the state of all partitions.
    first_known: bool,
    joined: &'a [Person],
    left: Vec<DepartedLine<'a>>,
    /// Partitions that the assignment has changed.
    partitions: Vec<PartitionLine<'a>>,
    unreadable: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct DepartedLine<'a> {
    name: &'a str,
    session: &'a str,
    /// How the member's session ended; null if unknown.
    ended: Option<EpochEnd>,
}

#[derive(Debug, Serialize)]
struct PartitionLine<'a> {
    partition: &'a str,
    number: u32,
    /// The events of the partition. Each is `stood`, `added`, `granted`, `moved`, `released`,
    /// `reserved`, `unreserved`, `revoked`, `kept`, `marked` or `removed`.
    events: &'a [PartitionEvent],
    from: Option<&'a str>,
    from_session: Option<&'a str>,
    to: Option<&'a str>,
    to_session: Option<&'a str>,
    /// Time without a live owner before this change, if the lease of `from` lapsed.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<GapLine>,
    token: Option<u64>,
    target: Option<&'a str>,
    target_session: Option<&'a str>,
    pinned: Option<&'a str>,
    barred: Option<&'a str>,
    paused: bool,
    retiring: bool,
    reserved_for: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct GapLine {
    from: String,
    #[serde(flatten)]
    length: Lengths,
}

#[derive(Debug, Serialize)]
pub struct AssignmentsSummary {
    kind: &'static str,
    assignments: usize,
    left_out: u64,
    /// Ranges of numbers without an assignment in the store. Each pair contains the first and the
    /// last number of a range.
    missing: Vec<[u64; 2]>,
    now: String,
    members: usize,
    partitions: usize,
    without_owner: usize,
    /// Number of partitions without a live owner; null if the sessions were not read.
    unattended: Option<usize>,
    requests: u64,
}

impl<'a> AssignmentLine<'a> {
    pub fn of(change: &'a AssignmentChange) -> AssignmentLine<'a> {
        AssignmentLine {
            kind: "assignment",
            epoch: change.epoch.get(),
            created_at: change.created.map(time),
            by: match &change.author {
                Author::Member(name) => Some(name),
                Author::Operator | Author::Unknown => None,
            },
            by_operator: change.author == Author::Operator,
            coordinator: change.coordinator.as_deref(),
            first_known: change.is_first_known,
            joined: &change.joined,
            left: change.left.iter().map(DepartedLine::of).collect(),
            partitions: change.partitions.iter().map(PartitionLine::of).collect(),
            unreadable: change.unreadable.as_deref(),
        }
    }
}

impl<'a> DepartedLine<'a> {
    fn of(DepartedMember { member, ended, .. }: &'a DepartedMember) -> DepartedLine<'a> {
        DepartedLine { name: &member.name, session: &member.session, ended: *ended }
    }
}

impl<'a> PartitionLine<'a> {
    fn of(it: &'a PartitionChange) -> PartitionLine<'a> {
        let name = |of: &'a Option<Person>| of.as_ref().map(|it| &*it.name);
        let session = |of: &'a Option<Person>| of.as_ref().map(|it| &*it.session);
        PartitionLine {
            partition: &it.name,
            number: it.number.0,
            events: &it.events,
            from: name(&it.from),
            from_session: session(&it.from),
            to: name(&it.to),
            to_session: session(&it.to),
            gap: it
                .gap
                .map(|gap| GapLine { from: time(gap.from), length: Lengths::of(gap.length) }),
            token: it.token.map(|token| token.get()),
            target: name(&it.target),
            target_session: session(&it.target),
            pinned: it.marks.pinned.as_deref(),
            barred: it.marks.barred.as_deref(),
            paused: it.marks.paused,
            retiring: it.marks.retiring,
            reserved_for: it.reserved_for.as_deref(),
        }
    }
}

impl AssignmentsSummary {
    pub fn of(history: &GroupHistory) -> AssignmentsSummary {
        let newest = history.newest.as_ref();
        let partitions = newest.map_or(&[][..], |it| &it.partitions);
        let status = |it| GroupStatus::with_sessions(it, history.sessions.as_deref());
        AssignmentsSummary {
            kind: "summary",
            assignments: history.changes.len(),
            left_out: history.left_out,
            missing: pairs(&history.missing),
            now: time(history.now),
            members: newest.map_or(0, |it| it.members.len()),
            partitions: partitions.len(),
            without_owner: partitions.iter().filter(|it| it.owner.is_none()).count(),
            unattended: newest.and_then(|it| status(it).unattended),
            requests: history.requests,
        }
    }
}
