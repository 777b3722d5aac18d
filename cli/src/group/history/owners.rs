//! Computes the owners of each partition, in chronological order, from the history of a group.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use tenure::Epoch;
use tenure_groups::PartitionNumber;
use tenure_history::Extent;

use super::change::{PartitionEvent, Person};
use super::read::GroupHistory;

/// An interval in which a partition has the same owner, or has no owner.
#[derive(Debug)]
pub struct OwnerSpan {
    pub owner: Option<Person>,
    pub token: Option<Epoch>,
    pub from: DateTime<Utc>,
    /// True if the span may have begun before `from`.
    pub or_before: bool,
    /// `None` if the span has not ended.
    pub until: Option<DateTime<Utc>>,
    /// Time without a live owner after `until`. Set only if the owner's lease lapsed.
    pub gap: Option<Extent>,
}

/// The name of a partition, and the spans of its owners.
pub type Owners = (String, Vec<OwnerSpan>);

/// The events that begin or end the span of an owner.
const BOUNDS: [PartitionEvent; 6] = [
    PartitionEvent::Stood,
    PartitionEvent::Added,
    PartitionEvent::Granted,
    PartitionEvent::Moved,
    PartitionEvent::Released,
    PartitionEvent::Removed,
];

/// Returns the owners of each partition. The key is the number of the partition.
pub fn of(history: &GroupHistory) -> BTreeMap<PartitionNumber, Owners> {
    let mut all = BTreeMap::<_, Owners>::new();
    let mut at = history.changes.iter().filter_map(|it| it.created).min().unwrap_or_default();
    for change in &history.changes {
        // An assignment for which the store reports no date gets the date of the previous
        // assignment.
        at = change.created.map_or(at, |created| created.max(at));
        for it in &change.partitions {
            let (name, spans) = all.entry(it.number).or_default();
            name.clone_from(&it.name);
            if !BOUNDS.iter().any(|event| it.has(*event)) {
                continue;
            }
            if let Some(last) = spans.last_mut() {
                last.until = Some(it.gap.map_or(at, |gap| gap.from.clamp(last.from, at)));
                last.gap = it.gap.map(|gap| gap.length);
            }
            if !it.has(PartitionEvent::Removed) {
                let or_before = it.has(PartitionEvent::Stood);
                let (owner, token) = (it.to.clone(), it.token);
                let (until, gap) = (None, None);
                spans.push(OwnerSpan { owner, token, from: at, or_before, until, gap });
            }
        }
    }
    all
}
