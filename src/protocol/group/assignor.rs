//! Who should own what: sticky and balanced.

use std::fmt;

use super::assignment::Marks;

/// Places partitions at members.
pub trait Assignor: fmt::Debug + Send + Sync + 'static {
    /// For each share the number of its seat, or `None` where nobody may have it.
    fn assign(&self, seats: &[Seat<'_>], shares: &[Share<'_>]) -> Vec<Option<usize>>;
}

/// A member that takes partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat<'a> {
    pub name: &'a str,
    /// At least 1.
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
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StickyAssignor;

impl Assignor for StickyAssignor {
    fn assign(&self, seats: &[Seat<'_>], shares: &[Share<'_>]) -> Vec<Option<usize>> {
        let most = shares.len().div_ceil(seats.len().max(1));
        let mut counts = vec![0; seats.len()];
        let mut placed = vec![None; shares.len()];
        for (share, seat) in shares.iter().zip(&mut placed) {
            *seat = share.holder.filter(|it| share.allows(&seats[*it]) && counts[*it] < most);
            if let Some(seat) = *seat {
                counts[seat] += 1;
            }
        }
        for (share, seat) in shares.iter().zip(&mut placed).filter(|(_, seat)| seat.is_none()) {
            let able = (0..seats.len()).filter(|it| share.allows(&seats[*it]));
            *seat = able.min_by_key(|it| counts[*it]);
            if let Some(seat) = *seat {
                counts[seat] += 1;
            }
        }
        placed
    }
}
