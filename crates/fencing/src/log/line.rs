//! The first line of each object of the log.

use serde::{Deserialize, Serialize};

use tenure::Epoch;
use tenure::internals::fencing::Nonce;

use crate::envelope::{self, Line};
use crate::protocol::{Header, Kind};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogLine {
    tenure_log: u64,
    epoch: Epoch,
    nonce: Nonce,
    /// Number of the writer's claim. In a claim: number of the previous claim.
    claim: u64,
    /// In a claim: number of the newest entry before the claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claims_after: Option<u64>,
    /// In a claim: count of the fences directly below the claim, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fences: Option<u64>,
    /// In a fence: `n - 1`, where `n` was the first free number when the fence was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fence_after: Option<u64>,
}

impl Line for LogLine {
    const TAG: &'static str = "tenure_log";
    const WHAT: &'static str = "an object of a fenced log";
}

impl LogLine {
    pub(super) fn of(header: &Header) -> LogLine {
        let (claims_after, fences, fence_after) = match header.kind {
            Kind::Entry => (None, None, None),
            Kind::Claim { last, fences } => (Some(last), Some(fences).filter(|it| *it > 0), None),
            Kind::Fence { base } => (None, None, Some(base)),
        };
        let Header { epoch, nonce, claim, .. } = *header;
        let tenure_log = envelope::FORMAT;
        LogLine { tenure_log, epoch, nonce, claim, claims_after, fences, fence_after }
    }

    /// Returns the header, or `None` if an object of this number cannot have this line.
    pub(super) fn header(&self, number: u64) -> Option<Header> {
        let LogLine { epoch, nonce, claim, .. } = *self;
        let (kind, possible) = match (self.claims_after, self.fences, self.fence_after) {
            (None, None, None) => (Kind::Entry, 0 < claim && claim < number),
            (Some(last), fences, None) => {
                let fences = fences.unwrap_or(0);
                let first = number.checked_sub(fences)?;
                (Kind::Claim { last, fences }, claim < first && last < first)
            }
            (None, None, Some(base)) => {
                (Kind::Fence { base }, claim == 0 && 0 < base && base < number)
            }
            _ => return None,
        };
        possible.then_some(Header { epoch, nonce, claim, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_inconsistent_numbers_is_refused() {
        let line = |claim, claims_after| LogLine {
            tenure_log: 1,
            epoch: Epoch::FIRST,
            nonce: Nonce::from_bits(1),
            claim,
            claims_after,
            fences: None,
            fence_after: None,
        };
        assert!(line(4, None).header(5).is_some());
        assert!(line(0, Some(0)).header(1).is_some());
        for (claim, claims_after) in [(5, None), (0, None), (5, Some(1)), (1, Some(5))] {
            assert_eq!(line(claim, claims_after).header(5), None);
        }
        let fenced = |claim, last, fences| LogLine { fences: Some(fences), ..line(claim, last) };
        assert!(fenced(1, Some(2), 2).header(5).is_some());
        for (claim, last, fences) in
            [(1, Some(3), 2), (3, Some(2), 2), (1, Some(2), 6), (1, None, 2)]
        {
            assert_eq!(fenced(claim, last, fences).header(5), None);
        }
        let fence = |claim, base| LogLine { fence_after: Some(base), ..line(claim, None) };
        assert!(fence(0, 4).header(5).is_some());
        assert_eq!(fence(0, 5).header(5), None);
        assert_eq!(fence(0, 0).header(5), None);
        assert_eq!(fence(1, 4).header(5), None);
    }
}
