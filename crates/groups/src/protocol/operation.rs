//! The changes of operators (R4): adding and retiring partitions, and setting marks.
//!
//! An operation makes the next assignment from the newest assignment that its writer has read. The
//! operation grants no partition, takes no partition from an owner, and keeps the coordinator.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::assignment::{AssignedPartition, Assignment, Marks, PartitionNumber};
use tenure::Epoch;
use tenure::internals::groups::Nonce;

/// An operator's change.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Adds partitions with these names, without owners.
    Add(Vec<Arc<str>>),
    /// Sets or removes a mark of these partitions.
    Mark(Vec<PartitionNumber>, Mark),
    /// Ends the reservations of these partitions.
    Unreserve(Vec<PartitionNumber>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Mark {
    /// Only members of this name may own the partition. `None` removes the pin.
    Pinned(Option<Arc<str>>),
    /// Members of this name may not own the partition. `None` removes the bar.
    Barred(Option<Arc<str>>),
    /// If true, pauses the partition: no member may own it. If false, ends the pause.
    Paused(bool),
    /// The partition retires: its owner releases it, and then the group removes it. No operation
    /// takes this mark back.
    Retiring,
}

/// The reason for the refusal of an operation. A refused operation writes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The operation would give two partitions this name.
    NameTaken(Arc<str>),
    /// A partition of this name is retiring.
    Retires(Arc<str>),
    /// No partition has this number.
    NoSuchPartition(PartitionNumber),
    /// No unused number is left for an assignment or a partition.
    Exhausted,
    /// An operator's restore of the group is unfinished.
    Restoring,
}

impl Operation {
    /// Returns the assignment after `now`; `None` if the operation changes nothing.
    #[cfg(any(test, feature = "internals"))]
    pub fn apply(&self, now: &Assignment, nonce: Nonce) -> Result<Option<Assignment>, Refusal> {
        Operation::apply_all(std::slice::from_ref(self), now, nonce)
    }

    /// Returns the assignment after `now` with all of these operations. Returns `None` if the
    /// operations change nothing.
    pub fn apply_all(
        all: &[Operation],
        now: &Assignment,
        nonce: Nonce,
    ) -> Result<Option<Assignment>, Refusal> {
        if now.restoring.is_some() {
            return Err(Refusal::Restoring);
        }
        let epoch = now.epoch.next().ok_or(Refusal::Exhausted)?;
        let mut next = Assignment { epoch, nonce, ..now.clone() };
        for operation in all {
            operation.change(&mut next)?;
        }
        Ok((next.partitions != now.partitions).then_some(next))
    }

    /// Returns whether the operation can permanently add bytes to the assignment.
    pub fn grows(&self) -> bool {
        match self {
            Operation::Add(names) => !names.is_empty(),
            Operation::Mark(_, mark) => {
                matches!(mark, Mark::Pinned(Some(_)) | Mark::Barred(Some(_)) | Mark::Paused(true))
            }
            Operation::Unreserve(_) => false,
        }
    }

    fn change(&self, next: &mut Assignment) -> Result<(), Refusal> {
        match self {
            Operation::Add(names) => add(next, names)?,
            Operation::Mark(numbers, mark) => {
                // The group never uses a number again. So a missing partition with a used number
                // was retired, and retiring it again succeeds.
                let retires = *mark == Mark::Retiring;
                each(next, numbers, retires, |it| mark.set(&mut it.marks))?;
            }
            Operation::Unreserve(numbers) => each(next, numbers, true, |it| it.kept = None)?,
        }
        Ok(())
    }
}

fn each(
    next: &mut Assignment,
    numbers: &[PartitionNumber],
    may_be_gone: bool,
    change: impl Fn(&mut AssignedPartition),
) -> Result<(), Refusal> {
    for number in numbers {
        match next.partitions.binary_search_by_key(number, |it| it.number) {
            Ok(place) => change(&mut next.partitions[place]),
            Err(_) if may_be_gone && *number < next.next_number => {}
            Err(_) => return Err(Refusal::NoSuchPartition(*number)),
        }
    }
    Ok(())
}

/// Returns the assignment that begins a restore (D9). No partition has an owner, and no member
/// plans from this assignment. The restore ends with [`release`]. `newest` is the newest existing
/// assignment.
pub fn hold(newest: Assignment, at: Epoch, nonce: Nonce, wait: Duration) -> Assignment {
    let wait = newest.restoring.map_or(wait, |before| before.max(wait));
    let mut held = Assignment {
        epoch: at,
        nonce,
        coordinator: None,
        members: Vec::new(),
        restoring: Some(wait),
        ..newest
    };
    for partition in &mut held.partitions {
        (partition.owner, partition.target, partition.kept) = (None, None, None);
    }
    held
}

/// Returns the assignment that ends a restore (D12). Returns `None` if no assignment number is
/// left.
pub fn release(held: &Assignment, nonce: Nonce) -> Option<Assignment> {
    let epoch = held.epoch.next()?;
    Some(Assignment { epoch, nonce, restoring: None, ..held.clone() })
}

fn add(next: &mut Assignment, names: &[Arc<str>]) -> Result<(), Refusal> {
    let mut taken: BTreeSet<_> = next.partitions.iter().map(|it| Arc::clone(&it.name)).collect();
    let retiring = next.partitions.iter().filter(|it| it.marks.retiring);
    let retiring: BTreeSet<_> = retiring.map(|it| Arc::clone(&it.name)).collect();
    for name in names {
        if retiring.contains(name) {
            return Err(Refusal::Retires(Arc::clone(name)));
        }
        if !taken.insert(Arc::clone(name)) {
            return Err(Refusal::NameTaken(Arc::clone(name)));
        }
        let number = next.next_number;
        next.next_number = PartitionNumber(number.0.checked_add(1).ok_or(Refusal::Exhausted)?);
        next.partitions.push(AssignedPartition::new(number, Arc::clone(name)));
    }
    Ok(())
}

impl Mark {
    fn set(&self, marks: &mut Marks) {
        match self {
            Mark::Pinned(name) => marks.pinned.clone_from(name),
            Mark::Barred(name) => marks.barred.clone_from(name),
            Mark::Paused(paused) => marks.paused = *paused,
            Mark::Retiring => marks.retiring = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: Nonce = Nonce::from_bits(2);

    fn two() -> Assignment {
        Assignment::first(Nonce::from_bits(1), vec!["a".into(), "b".into()])
    }

    fn numbers(it: &Assignment) -> Vec<u32> {
        it.partitions.iter().map(|it| it.number.0).collect()
    }

    #[test]
    fn a_number_is_never_used_again() {
        let mut gone = two();
        gone.partitions.pop();
        let next = Operation::Add(vec!["b".into(), "c".into()]).apply(&gone, NONCE);
        let next = next.unwrap().unwrap();
        assert_eq!((numbers(&next), next.epoch), (vec![0, 2, 3], Epoch::new(2).unwrap()));
        gone.next_number = PartitionNumber(u32::MAX);
        let full = Operation::Add(vec!["c".into()]).apply(&gone, NONCE);
        assert_eq!(full, Err(Refusal::Exhausted));
    }

    #[test]
    fn two_partitions_never_have_the_same_name() {
        for names in [vec!["a"], vec!["c", "c"]] {
            let last = *names.last().unwrap();
            let names = names.into_iter().map(Arc::from).collect();
            let refused = Operation::Add(names).apply(&two(), NONCE);
            assert_eq!(refused, Err(Refusal::NameTaken(last.into())));
        }
    }

    #[test]
    fn regression_a_retiring_partition_is_not_added() {
        let mut retires = two();
        retires.partitions[1].marks.retiring = true;
        let refused = Operation::Add(vec!["c".into(), "b".into()]).apply(&retires, NONCE);
        assert_eq!(refused, Err(Refusal::Retires("b".into())));
    }

    #[test]
    fn an_operator_ends_reservations() {
        let mut kept = two();
        kept.partitions[1].kept = Some(("m".into(), Duration::from_secs(60)));
        let numbers = vec![PartitionNumber(0), PartitionNumber(1)];
        let ended = Operation::Unreserve(numbers).apply(&kept, NONCE).unwrap().unwrap();
        assert_eq!(ended.partitions, two().partitions);
    }

    #[test]
    fn a_restore_takes_all_partitions_and_stops_plans() {
        let mut newest = two();
        newest.partitions[0].marks.paused = true;
        newest.partitions[1].token = Some(Epoch::FIRST);
        let (at, wait) = (Epoch::new(43).unwrap(), Duration::from_secs(9));
        let held = hold(newest.clone(), at, NONCE, wait);
        assert_eq!((held.epoch, held.restoring), (at, Some(wait)));
        assert_eq!(held.partitions, newest.partitions);
        let pause = Operation::Mark(
            numbers(&held).into_iter().map(PartitionNumber).collect(),
            Mark::Paused(true),
        );
        assert_eq!(pause.apply(&held, NONCE), Err(Refusal::Restoring));
        let again = hold(held.clone(), at.next().unwrap(), NONCE, Duration::ZERO);
        assert_eq!(again.restoring, Some(wait), "the longest wait is kept");
        let released = release(&held, NONCE).unwrap();
        assert_eq!((released.epoch, released.restoring), (at.next().unwrap(), None));
    }

    #[test]
    fn an_operation_that_changes_nothing_writes_nothing() {
        let first = [PartitionNumber(0)];
        let pause = |paused| Operation::Mark(first.to_vec(), Mark::Paused(paused));
        assert_eq!(pause(false).apply(&two(), NONCE), Ok(None));
        let paused = pause(true).apply(&two(), NONCE).unwrap().unwrap();
        assert!(paused.partitions[0].marks.paused && !paused.partitions[1].marks.paused);
        let none = Operation::Mark(vec![PartitionNumber(7)], Mark::Retiring);
        let refused = none.apply(&two(), NONCE);
        assert_eq!(refused, Err(Refusal::NoSuchPartition(PartitionNumber(7))));
    }

    #[test]
    fn a_removed_partition_counts_as_retired() {
        let mut gone = two();
        gone.partitions.pop();
        let mark = |mark| Operation::Mark(vec![PartitionNumber(1)], mark).apply(&gone, NONCE);
        assert_eq!(mark(Mark::Retiring), Ok(None));
        assert_eq!(mark(Mark::Paused(true)), Err(Refusal::NoSuchPartition(PartitionNumber(1))));
    }
}
