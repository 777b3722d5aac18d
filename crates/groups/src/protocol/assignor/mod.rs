//! The assignor chooses an owner for each partition (GB1).

mod table;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::assignment::{Marks, PartitionNumber};
use table::Table;

/// Chooses a member for each partition. An assignor is a pure function: the same input gives the
/// same plan.
///
/// # Examples
/// This assignor chooses the member by the number of the partition. Many partitions move when a
/// member joins or leaves. [`StickyAssignor`] moves fewer.
/// ```
/// # use tenure_groups::{Assignor, Marks, PartitionNumber, Seat, Share};
/// #[derive(Debug)]
/// struct RoundRobin;
///
/// impl Assignor for RoundRobin {
///     fn name(&self) -> &str {
///         "round-robin"
///     }
///
///     fn assign(&self, seats: &[Seat<'_>], shares: &[Share<'_>]) -> Vec<Option<usize>> {
///         let from = |n| (0..seats.len()).map(move |next| (n + next) % seats.len());
///         let shares = shares.iter().enumerate();
///         shares.map(|(n, it)| from(n).find(|&seat| it.allows(&seats[seat]))).collect()
///     }
/// }
/// let seats = ["a", "b"].map(|name| Seat::new(name, 1));
/// let marks = Marks::default();
/// let pinned = Marks { pinned: Some("a".into()), ..Marks::default() };
/// let share = |n, name, marks| Share::new(PartitionNumber(n), name, marks);
/// let shares = [
///     share(0, "de", &marks),
///     share(1, "fr", &marks),
///     share(2, "it", &marks),
///     share(3, "uk", &pinned),
/// ];
/// assert_eq!(RoundRobin.assign(&seats, &shares), [0, 1, 0, 0].map(Some));
/// ```
pub trait Assignor: fmt::Debug + Send + Sync + 'static {
    /// Returns the assignor's name, from 1 to 256 bytes. The coordinator writes it to the
    /// assignment. If an assignment has the name of another assignor, this process moves no owned
    /// partition.
    fn name(&self) -> &str;

    /// Returns for each share the index of its seat, or `None` if no seat may have it
    /// ([`Share::allows`]).
    ///
    /// While some shares are [failing](Share::is_failing), a coordinator calls this method twice
    /// for each plan. In the first call [`avoid`](Share::avoid) is empty for each failing share. In
    /// the second call, each healthy share must stay at the seat that it got in the first call.
    /// Each failing share must stay at its holder, if that holder may have it:
    /// [`kept`](Share::kept) names this seat. The plan takes the seats of healthy shares from the
    /// first call, and the seats of failing shares from the second call.
    fn assign(&self, seats: &[Seat<'_>], shares: &[Share<'_>]) -> Vec<Option<usize>>;
}

/// A member that may get partitions from an assignor.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seat<'a> {
    /// Display name of the member.
    pub name: &'a str,
    /// Weight of the member. The weight 0 counts as 1.
    pub weight: u32,
    /// Data of the member, as JSON.
    data: Option<&'a str>,
}

/// A partition for which an assignor chooses a member.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Share<'a> {
    /// Number of the partition. No other partition of the group ever gets this number.
    pub number: PartitionNumber,
    /// Name of the partition.
    pub name: &'a str,
    /// Index of the seat that owns the partition. If the partition is already moving to a seat, the
    /// index of that seat.
    pub holder: Option<usize>,
    /// The marks that operators have set on the partition, such as a pin.
    pub marks: &'a Marks,
    /// Seats with one of these names may not have the partition in this plan.
    pub avoid: &'a [Arc<str>],
    /// If set, only seats with this name may have the partition in this plan.
    pub kept: Option<&'a str>,
    /// Whether the work on the partition fails at each seat that may have it (GC8). Each of these
    /// seats has released the partition with a back-off. Between two consecutive releases, at most
    /// ten minutes have passed, or at most the back-off of the first of them if that is longer.
    pub is_failing: bool,
}

impl<'a> Seat<'a> {
    /// Returns the seat of a member without data, for tests of an assignor.
    #[must_use]
    pub fn new(name: &'a str, weight: u32) -> Seat<'a> {
        Seat { name, weight, data: None }
    }

    /// Sets the data of the member, as JSON. Text that is not JSON counts as null.
    #[must_use]
    pub fn with_data(self, json: &'a str) -> Seat<'a> {
        Seat { data: Some(json), ..self }
    }

    /// Returns the data of the member, as [`GroupBuilder::data`](crate::GroupBuilder::data) sets
    /// it. Returns null if the member has no data. Each call parses the JSON.
    #[must_use]
    pub fn data(&self) -> Value {
        self.data.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
    }

    fn parts(&self) -> u64 {
        u64::from(self.weight.max(1))
    }
}

// `Debug` is not derived, because the data of a member must not reach a log.
impl fmt::Debug for Seat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("name", &self.name)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}

impl<'a> Share<'a> {
    /// Returns a partition with these marks and without a holder, for tests of an assignor. Set the
    /// other fields afterwards.
    #[must_use]
    pub fn new(number: PartitionNumber, name: &'a str, marks: &'a Marks) -> Share<'a> {
        Share { number, name, holder: None, marks, avoid: &[], kept: None, is_failing: false }
    }

    /// Returns whether this seat may have the partition.
    pub fn allows(&self, seat: &Seat<'_>) -> bool {
        self.marks.allow(seat.name)
            && !self.avoid.iter().any(|name| **name == *seat.name)
            && self.kept.is_none_or(|kept| kept == seat.name)
    }

    /// Returns the member name that the pin or the reservation of the partition requires.
    fn named(&self) -> Option<&'a str> {
        self.marks.pinned.as_deref().or(self.kept)
    }

    /// Returns whether the plan prefers to move this share instead of a healthy one. Returns false
    /// if a pin or a reservation requires a name, because the share may not move to a seat with
    /// another name.
    fn goes_first(&self) -> bool {
        self.is_failing && self.named().is_none()
    }

    fn choice(&self) -> Choice {
        if self.named().is_some() {
            Choice::Named
        } else if !self.avoid.is_empty() || self.marks.barred.is_some() {
            Choice::Barred
        } else {
            Choice::Free
        }
    }
}

/// The restriction of a share to some seats. The variant for the most restricted shares comes
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Choice {
    Named,
    Barred,
    Free,
}

/// Balances the shares by weight, and moves few shares. If each share is already at the seat that
/// an earlier call chose, no share moves.
///
/// A share counts if at least one seat is permitted to have it. The proportion of a seat is the
/// number of these shares, times the weight of this seat, divided by the sum of all weights.
/// Without marks, the number of shares of each seat is its proportion, rounded down (the floor) or
/// up (the ceiling). Among the plans with such numbers, this assignor chooses a plan that moves the
/// fewest shares away from a holder. If several plans tie, it prefers to move
/// [failing](Share::is_failing) shares: it chooses a plan that leaves as many of the other shares
/// as possible in place.
///
/// Marks of partitions can make it impossible to keep all floors and ceilings. In this case the
/// plan minimizes the number of shares above the ceilings plus the number missing below the floors.
/// Among the plans with this minimum, the assignor chooses a plan with the least sum of count² /
/// weight over all seats. With equal weights the plan also has the least maximum and the greatest
/// minimum. A share moves away from a permitted holder only if the move improves the balance. With
/// marks the plan can move one share more than necessary.
///
/// # Examples
/// A third member joins two members with three partitions each.
/// ```
/// # use tenure_groups::{Assignor, Marks, PartitionNumber, Seat, Share, StickyAssignor};
/// # let marks = Marks::default();
/// let seats = ["a", "b", "c"].map(|name| Seat::new(name, 1));
/// let held = [0, 0, 0, 1, 1, 1].map(Some);
/// let shares = held.map(|holder| {
///     let mut share = Share::new(PartitionNumber(0), "", &marks);
///     share.holder = holder;
///     share
/// });
/// let plan = StickyAssignor.assign(&seats, &shares);
/// let has = |seat| plan.iter().filter(|it| **it == Some(seat)).count();
/// assert_eq!([has(0), has(1), has(2)], [2, 2, 2]);
/// let moved = plan.iter().zip(held).filter(|(new, old)| **new != *old).count();
/// assert_eq!(moved, 2); // the fewest moves that balance the seats
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StickyAssignor;

impl Assignor for StickyAssignor {
    fn name(&self) -> &str {
        "sticky"
    }

    fn assign(&self, seats: &[Seat<'_>], shares: &[Share<'_>]) -> Vec<Option<usize>> {
        let mut table = Table::new(seats, shares);
        table.fill();
        table.level();
        table.placed()
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
