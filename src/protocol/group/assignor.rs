//! Who should own what: sticky and balanced.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use super::assignment::Marks;

/// Places partitions at members. A pure function: the same input gives the same plan.
pub trait Assignor: fmt::Debug + Send + Sync + 'static {
    /// For each share the number of its seat, or `None` where no seat may have it.
    fn assign(&self, seats: &[Seat<'_>], shares: &[Share<'_>]) -> Vec<Option<usize>>;
}

/// A member that takes partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat<'a> {
    pub name: &'a str,
    /// At least 1; 0 counts as 1.
    pub weight: u32,
}

/// A partition to place.
#[derive(Debug, Clone, Copy)]
pub struct Share<'a> {
    /// The seat that has it or is to have it next.
    pub holder: Option<usize>,
    pub marks: &'a Marks,
    /// No seat of this name, for now.
    pub avoid: Option<&'a str>,
    /// Only a seat of this name, for now.
    pub kept: Option<&'a str>,
}

impl Seat<'_> {
    fn parts(&self) -> u128 {
        u128::from(self.weight.max(1))
    }
}

impl Share<'_> {
    /// Whether this seat may have it.
    pub fn allows(&self, seat: &Seat<'_>) -> bool {
        self.marks.allow(seat.name)
            && self.avoid != Some(seat.name)
            && self.kept.is_none_or(|kept| kept == seat.name)
    }
}

/// Counts differ by at most one, or are within one of their proportion by weight; of such plans it
/// takes one that moves the fewest.
///
/// Shares that the same seats may have are placed together, those that the fewest seats may have
/// first. Each such group fills its seats up to one level, over what they have of the groups
/// before; a seat that lies above the level already takes nothing. So marks can put more on a seat
/// than its part, and nothing else can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StickyAssignor;

impl Assignor for StickyAssignor {
    fn assign(&self, seats: &[Seat<'_>], shares: &[Share<'_>]) -> Vec<Option<usize>> {
        let mut placed = vec![None; shares.len()];
        let mut loads = vec![0; seats.len()];
        for (able, group) in groups(seats, shares) {
            let mut held = vec![0; seats.len()];
            for seat in group.iter().filter_map(|share| shares[*share].holder) {
                held[seat] += 1;
            }
            let quotas = quotas(seats, &able, &loads, &held, group.len());
            let mut room = quotas.clone();
            for share in &group {
                placed[*share] = shares[*share].holder.filter(|seat| room[*seat] > 0);
                if let Some(seat) = placed[*share] {
                    room[seat] -= 1;
                }
            }
            let mut open = able.iter().flat_map(|seat| std::iter::repeat_n(*seat, room[*seat]));
            for share in group {
                placed[share] = placed[share].or_else(|| open.next());
            }
            loads.iter_mut().zip(quotas).for_each(|(load, quota)| *load += quota);
        }
        placed
    }
}

/// The shares that the same seats may have, with these seats; the fewest seats first. Those that no
/// seat may have are left out.
fn groups(seats: &[Seat<'_>], shares: &[Share<'_>]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (number, share) in shares.iter().enumerate() {
        let Marks { pinned, barred, paused, retiring } = share.marks;
        let marks = (pinned.as_deref(), barred.as_deref(), paused | retiring);
        alike.entry((marks, share.avoid, share.kept)).or_default().push(number);
    }
    let able = |group: &[usize]| -> Vec<usize> {
        (0..seats.len()).filter(|seat| shares[group[0]].allows(&seats[*seat])).collect()
    };
    let mut groups: BTreeMap<(usize, Vec<usize>), Vec<usize>> = BTreeMap::new();
    for group in alike.into_values() {
        let able = able(&group);
        groups.entry((able.len(), able)).or_default().extend(group);
    }
    let sorted = |((_, able), mut group): ((usize, Vec<usize>), Vec<usize>)| {
        group.sort_unstable();
        (able, group)
    };
    groups.into_iter().map(sorted).filter(|(able, _)| !able.is_empty()).collect()
}

/// How many of `count` shares each seat is to have on top of its load. Their sum is `count`. What
/// rounding leaves goes to seats that hold more than their part: then that is not moved.
fn quotas(
    seats: &[Seat<'_>],
    able: &[usize],
    loads: &[usize],
    held: &[usize],
    count: usize,
) -> Vec<usize> {
    let mut level = able.to_vec();
    let (total, weight) = loop {
        let total = count + level.iter().map(|seat| loads[*seat]).sum::<usize>();
        let weight = level.iter().map(|seat| seats[*seat].parts()).sum();
        let before = level.len();
        // Without those, the level of all others is lower: what lies above it stays above it. The
        // least loaded lies never above it.
        level.retain(|seat| loads[*seat] <= part(total, &seats[*seat], weight));
        if level.len() == before {
            break (total, weight);
        }
    };
    let mut quotas = vec![0; seats.len()];
    for seat in &level {
        quotas[*seat] = part(total, &seats[*seat], weight) - loads[*seat];
    }
    let left = count - level.iter().map(|seat| quotas[*seat]).sum::<usize>();
    level.retain(|seat| {
        let share = total as u128 * seats[*seat].parts();
        !share.is_multiple_of(weight)
    });
    level.sort_by_key(|seat| (Reverse(held[*seat].saturating_sub(quotas[*seat])), *seat));
    level.iter().take(left).for_each(|seat| quotas[*seat] += 1);
    quotas
}

/// The part of `total` by weight, rounded down.
fn part(total: usize, seat: &Seat<'_>, all: u128) -> usize {
    let part = total as u128 * seat.parts() / all;
    usize::try_from(part).expect("a part is at most the whole")
}

#[cfg(test)]
mod tests;
