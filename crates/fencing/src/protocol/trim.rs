//! The numbers that a trim may delete: entries before a number, and passed fences. It never deletes
//! a claim, the fences directly below a claim, or the newest entry.

use std::collections::BTreeMap;

use super::message::{Header, Kind};

/// The body of the trim marker. Both numbers only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Floor {
    /// Entries below are trimmed: readers ignore all objects there.
    pub floor: u64,
    /// Entries below are deleted.
    pub swept: u64,
}

impl Floor {
    /// Returns the marker that must be written before anything below `floor` is deleted.
    #[must_use]
    pub fn raised(self, floor: u64) -> Floor {
        Floor { floor: self.floor.max(floor), ..self }
    }

    /// Returns the marker after all objects below `swept` are deleted.
    #[must_use]
    pub fn swept(self, swept: u64) -> Floor {
        Floor { swept: self.swept.max(swept), ..self.raised(swept) }
    }
}

/// A trim. It first follows the chain of claims in the headers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sweep {
    from: u64,
    cut: u64,
    /// Number of the newest claim that was not read; 0 if every claim was read.
    claim: u64,
    /// Ranges to keep: each claim, from the first fence directly below it.
    kept: BTreeMap<u64, u64>,
}

impl Sweep {
    /// Creates a trim of the entries before `before`, in a log that ends with this object. The
    /// marker was read before the end was found. The trim also deletes the rest of an earlier trim.
    ///
    /// `header` belongs to an entry or a claim: if the log ends with fences, to the newest one
    /// below them.
    ///
    /// Returns `None` if the marker is newer than the end: the object may then be a ghost with a
    /// chain that misses claims.
    pub fn new(before: u64, end: u64, header: &Header, marker: Floor) -> Option<Sweep> {
        if marker.floor > end || header.is_fence() {
            return None;
        }
        // The newest entry stays: `latest` returns it, and it keeps the end in place.
        let cut = before.min(header.last_entry(end)).max(marker.floor);
        let claim = header.last_claim(end);
        Some(Sweep { from: marker.swept, cut, claim, kept: BTreeMap::new() })
    }

    /// Returns the required floor, which must be raised before any deletion.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Returns the number at which the deletions start.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// Returns true if no object is to be deleted.
    pub fn is_empty(&self) -> bool {
        self.from >= self.cut
    }

    /// Returns the next claim to read.
    pub fn next_claim(&self) -> Option<u64> {
        (self.claim > 0 && self.claim >= self.from && !self.is_empty()).then_some(self.claim)
    }

    /// Handles the header of the object that [`Sweep::next_claim`] named. Returns false if the
    /// object is not a claim: then the caller must not delete any object.
    pub fn handle_claim(&mut self, header: &Header) -> bool {
        let number = self.claim;
        let Kind::Claim { fences, .. } = header.kind else { return false };
        // Each claim names an earlier one, so the chain ends.
        let Some(first) = number.checked_sub(fences).filter(|first| header.claim < *first) else {
            return false;
        };
        self.kept.insert(first, number);
        self.claim = header.claim;
        true
    }

    /// Returns true if this number may be deleted after the floor was raised.
    pub fn deletes(&self, number: u64) -> bool {
        self.next_claim().is_none()
            && (self.from..self.cut).contains(&number)
            && self.kept.range(..=number).next_back().is_none_or(|(_, claim)| *claim < number)
    }
}
