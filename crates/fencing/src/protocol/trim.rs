//! What a trim may delete: entries before a number, and fences that were passed; never a claim, the
//! fences directly below one, or the newest entry.

use std::collections::BTreeMap;

use super::message::{Header, Kind};

/// The body of the trim marker. Both numbers only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Floor {
    /// Entries below are trimmed: whatever lies there is not read.
    pub floor: u64,
    /// Entries below are deleted.
    pub swept: u64,
}

impl Floor {
    /// The marker as it has to be before anything below `floor` is deleted.
    #[must_use]
    pub fn raised(self, floor: u64) -> Floor {
        Floor { floor: self.floor.max(floor), ..self }
    }

    /// The marker once all below `swept` is deleted.
    #[must_use]
    pub fn swept(self, swept: u64) -> Floor {
        Floor { swept: self.swept.max(swept), ..self.raised(swept) }
    }
}

/// One trim. It first learns which numbers are claims, along the chain that the headers make.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sweep {
    from: u64,
    cut: u64,
    /// The newest claim that is not read yet; 0 if there is none.
    claim: u64,
    /// What is kept: each claim, from the first fence directly below it.
    kept: BTreeMap<u64, u64>,
}

impl Sweep {
    /// A trim of what lies before `before`, in a log that ends with this object; the marker was
    /// read before the end was looked for. What another trim has left is deleted, too.
    ///
    /// `header` is that of an entry or a claim: where the log ends with fences, the newest below
    /// them.
    ///
    /// `None` if the marker is newer than the end: then the object may be a ghost, whose chain does
    /// not lead to all claims.
    pub fn new(before: u64, end: u64, header: &Header, marker: Floor) -> Option<Sweep> {
        if marker.floor > end || header.is_fence() {
            return None;
        }
        // The newest entry stays: it is what `latest` shows, and it keeps the end in place.
        let cut = before.min(header.last_entry(end)).max(marker.floor);
        let claim = header.last_claim(end);
        Some(Sweep { from: marker.swept, cut, claim, kept: BTreeMap::new() })
    }

    /// The number that the floor must be raised to before anything is deleted.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Where the deletions start.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// Whether there is nothing to delete.
    pub fn is_empty(&self) -> bool {
        self.from >= self.cut
    }

    /// The claim whose header is needed next.
    pub fn next_claim(&self) -> Option<u64> {
        (self.claim > 0 && self.claim >= self.from && !self.is_empty()).then_some(self.claim)
    }

    /// The header of [`Sweep::next_claim`]. False, and nothing may be deleted, if it is none.
    pub fn handle_claim(&mut self, header: &Header) -> bool {
        let number = self.claim;
        let Kind::Claim { fences, .. } = header.kind else { return false };
        // Each claim names one before it, so the chain ends.
        let Some(first) = number.checked_sub(fences).filter(|first| header.claim < *first) else {
            return false;
        };
        self.kept.insert(first, number);
        self.claim = header.claim;
        true
    }

    /// Whether this number may be deleted, once the floor is raised.
    pub fn deletes(&self, number: u64) -> bool {
        self.next_claim().is_none()
            && (self.from..self.cut).contains(&number)
            && self.kept.range(..=number).next_back().is_none_or(|(_, claim)| *claim < number)
    }
}
