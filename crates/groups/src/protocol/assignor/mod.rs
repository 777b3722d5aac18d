//! Who should own what: sticky and balanced.

mod table;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::marks::Marks;
use super::partition_number::PartitionNumber;
use table::Table;

/// Places partitions at members. A pure function: the same input gives the same plan.
///
/// # Examples
///
/// Each partition has one member that it belongs to by its number, and moves as members come and
/// go. [`StickyAssignor`] moves fewer.
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
///
/// let seats = ["a", "b"].map(|name| Seat::new(name, 1)); let (marks, pinned) = (Marks::default(),
/// Marks { pinned: Some("a".into()), ..Marks::default() }); let share = |n, name, marks|
/// Share::new(PartitionNumber(n), name, marks); let shares = [
///     share(0, "de", &marks),
///     share(1, "fr", &marks),
///     share(2, "it", &marks),
///     share(3, "uk", &pinned),
/// ];
/// assert_eq!(RoundRobin.assign(&seats, &shares), [0, 1, 0, 0].map(Some));
/// ```
pub trait Assignor: fmt::Debug + Send + Sync + 'static {
    /// Returns its name in the assignment: 1 to 256 bytes. A process whose assignor has another
    /// name than the group's moves no partition that has an owner.
    fn name(&self) -> &str;

    /// Returns for each share the number of its seat, or `None` where no seat may have it
    /// ([`Share::allows`]).
    ///
    /// While some shares are [failing](Share::is_failing), each plan takes two calls. In the first
    /// call these [avoid](Share::avoid) no seat. In the second call each other share is
    /// [`kept`](Share::kept) for the seat that the first call gave it, and a failing one for its
    /// holder. Of the second call only the seats of failing shares count.
    fn assign(&self, seats: &[Seat<'_>], shares: &[Share<'_>]) -> Vec<Option<usize>>;
}

/// A member that takes partitions.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seat<'a> {
    /// Its display name.
    pub name: &'a str,
    /// At least 1; 0 counts as 1.
    pub weight: u32,
    /// JSON.
    data: Option<&'a str>,
}

/// A partition to place.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Share<'a> {
    /// Its number, never used again for another.
    pub number: PartitionNumber,
    /// Its name.
    pub name: &'a str,
    /// The seat that has it or is to have it next.
    pub holder: Option<usize>,
    /// What operators said of it.
    pub marks: &'a Marks,
    /// No seat of these names, for now.
    pub avoid: &'a [Arc<str>],
    /// Only a seat of this name, for now.
    pub kept: Option<&'a str>,
    /// Each seat that may have it has released it with a back-off within the last ten minutes, or
    /// within ten minutes before a later such release.
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

    /// Returns the data of the member, as [`GroupBuilder::data`](crate::GroupBuilder::data)
    /// sets it; null if it has none. Each call parses it.
    #[must_use]
    pub fn data(&self) -> Value {
        self.data.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
    }

    fn parts(&self) -> u64 {
        u64::from(self.weight.max(1))
    }
}

// Not derived: the data of a member must not reach a log.
impl fmt::Debug for Seat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat")
            .field("name", &self.name)
            .field("weight", &self.weight)
            .finish_non_exhaustive()
    }
}

impl<'a> Share<'a> {
    /// Returns a partition without a holder that any seat may have by its marks, for tests of an
    /// assignor. Set the other fields afterwards.
    #[must_use]
    pub fn new(number: PartitionNumber, name: &'a str, marks: &'a Marks) -> Share<'a> {
        Share { number, name, holder: None, marks, avoid: &[], kept: None, is_failing: false }
    }

    /// Returns whether this seat may have it.
    pub fn allows(&self, seat: &Seat<'_>) -> bool {
        self.marks.allow(seat.name)
            && !self.avoid.iter().any(|name| **name == *seat.name)
            && self.kept.is_none_or(|kept| kept == seat.name)
    }

    /// No seat of another name may have it.
    fn named(&self) -> Option<&'a str> {
        self.marks.pinned.as_deref().or(self.kept)
    }

    /// Moves in place of others. One that is named may have no other seat.
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

/// How choosy a share is, the choosiest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Choice {
    Named,
    Barred,
    Free,
}

/// Balances by weight, and moves few shares for that. Assigning its own plan again changes nothing.
///
/// A seat's proportion is its part, by weight, of the shares that some seat may have, however they
/// are marked. Without marks each count is the floor or the ceiling of the proportion; of all such
/// plans it takes one that moves the fewest shares away from a holder, and of these the fewest that
/// are not [failing](Share::is_failing).
///
/// Marks can make that impossible. Then as few shares as possible are beyond a ceiling or missing
/// below a floor, and these are spread by weight: the sum of count² / weight is the least. With
/// equal weights this is the least sum of squares, so also the least maximum and the greatest
/// minimum. A share moves away from a holder that may have it only where that improves the balance;
/// with marks this can be a share more than the fewest.
///
/// # Examples
///
/// A third member joins two that have three partitions each.
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
/// assert_eq!(moved, 2); // the fewest that balance them
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
