//! The numbers that a trim may delete: entries before a number, and fences that a writer has
//! passed. A trim never deletes a claim, the fences directly below a claim, or the newest entry.

use std::collections::BTreeMap;

use super::message::{Header, Kind};

/// The body of the trim marker. The two numbers never decrease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Floor {
    /// Number below which all entries are trimmed. Readers ignore all objects below it.
    pub floor: u64,
    /// Number below which all trimmed entries are deleted.
    pub swept: u64,
}

impl Floor {
    /// Returns the marker that the trim must write before it deletes an object below `floor`.
    #[must_use]
    pub fn raised(self, floor: u64) -> Floor {
        Floor { floor: self.floor.max(floor), ..self }
    }

    /// Returns the marker that the trim writes after it has deleted all trimmed entries below
    /// `swept`.
    #[must_use]
    pub fn swept(self, swept: u64) -> Floor {
        Floor { swept: self.swept.max(swept), ..self.raised(swept) }
    }
}

/// A trim of the log. The trim first reads the claims from the newest one down to the start of the
/// deletions. It finds them because each claim has the number of the previous claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sweep {
    from: u64,
    cut: u64,
    /// Number of the next claim to read; 0 if every claim was read.
    claim: u64,
    /// Ranges to keep. Each range ends at a claim, and begins at the lowest of the fences directly
    /// below that claim.
    kept: BTreeMap<u64, u64>,
}

impl Sweep {
    /// Creates a trim of the entries before `before`, in a log that ends at `end`. The caller must
    /// read the marker before it searches for the end. The trim also completes an interrupted
    /// earlier trim.
    ///
    /// `header` is the header of the object at `end`. If the log ends with fences, `end` and
    /// `header` describe the newest entry or claim below these fences.
    ///
    /// Returns `None` if the floor is above the end. In this case the object at `end` may be a
    /// ghost, which a late request created at a trimmed number. The chain of claims that starts at
    /// a ghost may be incomplete.
    pub fn new(before: u64, end: u64, header: &Header, marker: Floor) -> Option<Sweep> {
        if marker.floor > end || header.is_fence() {
            return None;
        }
        // The newest entry is kept, because `latest` returns it and the search for the end must
        // find it.
        let cut = before.min(header.last_entry(end)).max(marker.floor);
        let claim = header.last_claim(end);
        Some(Sweep { from: marker.swept, cut, claim, kept: BTreeMap::new() })
    }

    /// Returns the new floor. The trim must write this floor to the marker before the first
    /// deletion.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Returns the number at which the deletions start.
    pub fn from(&self) -> u64 {
        self.from
    }

    /// Returns true if the trim deletes no object.
    pub fn is_empty(&self) -> bool {
        self.from >= self.cut
    }

    /// Returns the next claim to read.
    pub fn next_claim(&self) -> Option<u64> {
        (self.claim > 0 && self.claim >= self.from && !self.is_empty()).then_some(self.claim)
    }

    /// Handles the header of the object at the number that [`Sweep::next_claim`] returned. Returns
    /// false if the object cannot be the claim with this number. In this case the caller must not
    /// delete any object.
    pub fn handle_claim(&mut self, header: &Header) -> bool {
        let number = self.claim;
        let Kind::Claim { fences, .. } = header.kind else { return false };
        // Each claim refers to a lower number, so the chain ends.
        let Some(first) = number.checked_sub(fences).filter(|first| header.claim < *first) else {
            return false;
        };
        self.kept.insert(first, number);
        self.claim = header.claim;
        true
    }

    /// Returns true if the trim may delete the object of this number after the trim has raised the
    /// floor.
    pub fn deletes(&self, number: u64) -> bool {
        self.next_claim().is_none()
            && (self.from..self.cut).contains(&number)
            && self.kept.range(..=number).next_back().is_none_or(|(_, claim)| *claim < number)
    }
}
