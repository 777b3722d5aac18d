//! The changes from one assignment of a group to the next.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use tenure::{Epoch, EpochEnd};
use tenure_groups::{GroupSnapshot, Marks, MemberSnapshot, PartitionNumber, PartitionSnapshot};
use tenure_history::{Extent, TimeEstimate};

/// An assignment, and its changes since the previous assignment.
#[derive(Debug)]
pub struct AssignmentChange {
    pub epoch: Epoch,
    /// Time at which the assignment was created, by the store's clock.
    pub created: Option<DateTime<Utc>>,
    pub author: Author,
    pub coordinator: Option<String>,
    /// True if the previous assignment had another coordinator.
    pub coordinator_changed: bool,
    /// True if the assignment with the previous number was read.
    follows: bool,
    /// True if the assignment is the first readable one, but not the first of the group. Its
    /// changes are unknown, and the history shows its state.
    pub is_first_known: bool,
    pub joined: Vec<Person>,
    pub left: Vec<DepartedMember>,
    /// Partitions that the assignment has changed, in the order of their numbers.
    pub partitions: Vec<PartitionChange>,
    /// Reason why the assignment cannot be read. If it is set, only `epoch` and `created` are
    /// known.
    pub unreadable: Option<String>,
}

/// The author of an assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Author {
    /// An operator. Only operators mark partitions, or add partitions after the first assignment.
    Operator,
    /// The member that is the coordinator in the assignment.
    Member(String),
    Unknown,
}

/// A member, identified by its session.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Person {
    pub name: String,
    pub session: String,
}

/// A member of the previous assignment that the assignment does not contain.
#[derive(Debug)]
pub struct DepartedMember {
    pub member: MemberSnapshot,
    /// How the member's session ended. `None` if the session's record contains no end, or if a
    /// compaction has deleted the record.
    pub ended: Option<EpochEnd>,
    /// End of the member's lease, if the session lapsed.
    pub lapse: Option<TimeEstimate>,
}

/// The time without a live owner before a change of a partition.
#[derive(Debug, Clone, Copy)]
pub struct OwnerGap {
    /// Start, by the best estimate.
    pub from: DateTime<Utc>,
    /// Time until the assignment with the change was created.
    pub length: Extent,
}

#[derive(Debug)]
pub struct PartitionChange {
    pub number: PartitionNumber,
    pub name: String,
    /// Changes of the partition; never empty.
    pub events: Vec<PartitionEvent>,
    pub from: Option<Person>,
    pub to: Option<Person>,
    /// Set only if the lease of `from` lapsed.
    pub gap: Option<OwnerGap>,
    /// The token of the newest grant of the partition.
    pub token: Option<Epoch>,
    /// The member that gets the partition after its owner has released it.
    pub target: Option<Person>,
    /// Name that the partition is reserved for. A reserved partition has no owner.
    pub reserved_for: Option<String>,
    pub marks_before: Marks,
    pub marks: Marks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartitionEvent {
    /// The partition is in the oldest readable assignment, so its earlier changes are unknown.
    Stood,
    Added,
    /// The partition had no owner, and gets one.
    Granted,
    /// The owner is replaced by another owner.
    Moved,
    /// The partition has no owner any more: the owner released it, or the owner's session has
    /// ended.
    Released,
    /// The partition has no owner until a member with the name `reserved_for` returns.
    Reserved,
    /// The reservation has ended, and the partition has no owner.
    Unreserved,
    /// The owner must release the partition. Another member then gets the partition.
    Revoked,
    /// A revocation was withdrawn: the owner keeps the partition.
    Kept,
    Marked,
    Removed,
}

impl AssignmentChange {
    pub fn unreadable(
        epoch: Epoch,
        created: Option<DateTime<Utc>>,
        why: String,
    ) -> AssignmentChange {
        AssignmentChange { unreadable: Some(why), ..AssignmentChange::blank(epoch, created) }
    }

    fn blank(epoch: Epoch, created: Option<DateTime<Utc>>) -> AssignmentChange {
        AssignmentChange {
            epoch,
            created,
            author: Author::Unknown,
            coordinator: None,
            coordinator_changed: false,
            follows: false,
            is_first_known: false,
            joined: Vec::new(),
            left: Vec::new(),
            partitions: Vec::new(),
            unreadable: None,
        }
    }

    /// Returns the changes from `before`, the previous readable assignment, to `now`.
    pub fn between(
        before: Option<&GroupSnapshot>,
        now: &GroupSnapshot,
        epoch: Epoch,
        created: Option<DateTime<Utc>>,
    ) -> AssignmentChange {
        let is_first_known = before.is_none() && epoch != Epoch::FIRST;
        let partitions = partitions(before, now, is_first_known);
        let coordinator = coordinator(now);
        // If the previous assignment is missing, `now` combines the changes of several assignments,
        // and their author is unknown.
        let last = before.and_then(|before| before.epoch).map_or(0, Epoch::get);
        let follows = last + 1 == epoch.get();
        let author = match (&coordinator, follows) {
            (_, true) if partitions.iter().any(|it| it.is_an_operators(before)) => Author::Operator,
            // Both the coordinator and operators can end reservations, so the author is unknown.
            (_, true) if partitions.iter().any(|it| it.has(PartitionEvent::Unreserved)) => {
                Author::Unknown
            }
            (Some(name), true) => Author::Member(name.name.clone()),
            _ => Author::Unknown,
        };
        AssignmentChange {
            author,
            follows,
            coordinator_changed: !is_first_known
                && before.and_then(self::coordinator) != coordinator,
            coordinator: coordinator.map(|it| it.name),
            is_first_known,
            joined: missing_in(Some(now), if is_first_known { Some(now) } else { before })
                .map(person)
                .collect(),
            left: missing_in(before, Some(now))
                .map(|member| DepartedMember { member: member.clone(), ended: None, lapse: None })
                .collect(),
            partitions,
            ..AssignmentChange::blank(epoch, created)
        }
    }

    /// Keeps only the changes of the partition with this name. Drops all joins and departures of
    /// members, except the departure of an owner that lost this partition.
    pub fn keep_only(&mut self, name: &str) {
        self.partitions.retain(|it| it.name == name);
        self.joined.clear();
        let owners: Vec<_> = self.partitions.iter().filter_map(|it| it.from.as_ref()).collect();
        self.left.retain(|it| owners.iter().any(|owner| owner.session == it.member.session));
        self.coordinator_changed = false;
    }

    /// Computes the gap of each partition whose owner lapsed. If assignments are missing before
    /// this one, another member may have owned the partition meanwhile, so the gap is unknown.
    pub fn find_gaps(&mut self) {
        let Some(created) = self.created.filter(|_| self.follows) else { return };
        for it in &mut self.partitions {
            let is_owner = |left: &&DepartedMember| {
                it.from.as_ref().is_some_and(|from| from.session == left.member.session)
            };
            let lapse = self.left.iter().find(is_owner).and_then(|left| left.lapse);
            it.gap = lapse.and_then(|lapse| {
                Some(OwnerGap { from: lapse.at?, length: lapse.until_write(created)? })
            });
        }
    }
}

impl PartitionChange {
    pub fn has(&self, event: PartitionEvent) -> bool {
        self.events.contains(&event)
    }

    fn is_an_operators(&self, before: Option<&GroupSnapshot>) -> bool {
        // In the first assignment, the member that creates the group adds all partitions. Later
        // only operators add partitions.
        self.has(PartitionEvent::Marked) || self.has(PartitionEvent::Added) && before.is_some()
    }
}

fn person(member: &MemberSnapshot) -> Person {
    Person { name: member.name.clone(), session: member.session.clone() }
}

fn coordinator(group: &GroupSnapshot) -> Option<Person> {
    group.members.iter().find(|it| it.coordinates).map(person)
}

/// Returns the members of `one` that the other snapshot does not contain.
fn missing_in<'a>(
    one: Option<&'a GroupSnapshot>,
    other: Option<&'a GroupSnapshot>,
) -> impl Iterator<Item = &'a MemberSnapshot> {
    let there = other.into_iter().flat_map(|it| &it.members);
    let there: std::collections::BTreeSet<&str> = there.map(|it| &*it.session).collect();
    let members = one.into_iter().flat_map(|it| &it.members);
    members.filter(move |it| !there.contains(&*it.session))
}

fn partitions(
    before: Option<&GroupSnapshot>,
    now: &GroupSnapshot,
    is_first_known: bool,
) -> Vec<PartitionChange> {
    let mut both: BTreeMap<PartitionNumber, [Option<&PartitionSnapshot>; 2]> = BTreeMap::new();
    for it in before.into_iter().flat_map(|it| &it.partitions) {
        both.entry(it.number).or_default()[0] = Some(it);
    }
    for it in &now.partitions {
        both.entry(it.number).or_default()[1] = Some(it);
    }
    let change = |[was, is]: [Option<&PartitionSnapshot>; 2]| {
        let newest = is.or(was)?;
        let member = |group: Option<&GroupSnapshot>, place: Option<usize>| {
            group?.members.get(place?).map(person)
        };
        let from = member(before, was.and_then(|it| it.owner));
        let to = member(Some(now), is.and_then(|it| it.owner));
        let target = member(Some(now), is.and_then(|it| it.target));
        let mut change = PartitionChange {
            number: newest.number,
            name: newest.name.clone(),
            events: Vec::new(),
            token: newest.token,
            marks_before: was.map(|it| it.marks.clone()).unwrap_or_default(),
            marks: newest.marks.clone(),
            from,
            to,
            gap: None,
            target,
            reserved_for: is.and_then(|it| it.reserved_for.clone()),
        };
        change.events = match is_first_known {
            true => vec![PartitionEvent::Stood],
            false => events(&change, was, is),
        };
        (!change.events.is_empty()).then_some(change)
    };
    both.into_values().filter_map(change).collect()
}

fn events(
    change: &PartitionChange,
    was: Option<&PartitionSnapshot>,
    is: Option<&PartitionSnapshot>,
) -> Vec<PartitionEvent> {
    let mut events = Vec::new();
    if was.is_none() {
        events.push(PartitionEvent::Added);
    }
    if change.marks != change.marks_before {
        events.push(PartitionEvent::Marked);
    }
    let same_grant = was.map(|it| it.token) == is.map(|it| it.token);
    match (&change.from, &change.to) {
        (None, Some(_)) => events.push(PartitionEvent::Granted),
        (Some(_), None) => events.push(PartitionEvent::Released),
        // If the owner is the same but the token differs, a missing assignment moved the partition
        // to another owner, and a later one moved it back.
        (Some(from), Some(to)) if from != to || !same_grant => events.push(PartitionEvent::Moved),
        (Some(_), Some(_)) => {
            let [had, has] = [was, is].map(|it| it.is_some_and(|it| it.target.is_some()));
            match (had, has) {
                (false, true) => events.push(PartitionEvent::Revoked),
                (true, false) => events.push(PartitionEvent::Kept),
                _ => {}
            }
        }
        (None, None) => {}
    }
    match was.and_then(|it| it.reserved_for.as_ref()) {
        before if change.reserved_for.is_some() && change.reserved_for.as_ref() != before => {
            events.push(PartitionEvent::Reserved);
        }
        Some(_) if change.reserved_for.is_none() && change.to.is_none() && is.is_some() => {
            events.push(PartitionEvent::Unreserved);
        }
        _ => {}
    }
    if is.is_none() {
        events.push(PartitionEvent::Removed);
    }
    events
}
