//! What a coordinator remembers of releases: whom not to give a partition for now.
//!
//! Advice, so it lasts as long as the coordinator does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::epoch::Epoch;
use crate::moment::Moment;
use crate::protocol::group::session::SessionData;
use crate::protocol::group::{Assignment, PartitionNumber};

/// Partitions that somebody gave up for a time.
#[derive(Debug, Default)]
pub(super) struct Memory {
    avoid: BTreeMap<PartitionNumber, Avoid>,
    /// Since when this coordinator has seen that they are kept, under these tokens.
    kept: BTreeMap<PartitionNumber, (Option<Epoch>, Moment)>,
}

#[derive(Debug)]
struct Avoid {
    name: Arc<str>,
    token: Epoch,
    until: Moment,
}

impl Memory {
    /// A member of this name has released these.
    pub(super) fn released(&mut self, name: &str, data: &SessionData, now: Moment) {
        for (release, back_off) in &data.releases {
            let known = self.avoid.get(&release.partition);
            if !back_off.is_zero() && known.is_none_or(|known| known.token < release.token) {
                let (name, until) = (name.into(), now.plus(*back_off));
                self.avoid.insert(release.partition, Avoid { name, token: release.token, until });
            }
        }
    }

    /// The partitions that were kept for as long as was asked. A new coordinator counts anew.
    pub(super) fn kept_enough(
        &mut self,
        now: Moment,
        known: Option<&Assignment>,
    ) -> BTreeSet<PartitionNumber> {
        let mut enough = BTreeSet::new();
        let mut kept = BTreeMap::new();
        for partition in known.iter().flat_map(|known| &known.partitions) {
            let Some((_, time)) = &partition.kept else { continue };
            let before = self.kept.get(&partition.number).filter(|it| it.0 == partition.token);
            let (token, since) = *before.unwrap_or(&(partition.token, now));
            kept.insert(partition.number, (token, since));
            if now.since(since) >= *time {
                enough.insert(partition.number);
            }
        }
        self.kept = kept;
        enough
    }

    /// Whom not to give a partition at this moment, by name.
    pub(super) fn avoid(
        &mut self,
        now: Moment,
        known: Option<&Assignment>,
    ) -> BTreeMap<PartitionNumber, Arc<str>> {
        // A token is remembered as long as it may be read again.
        self.avoid.retain(|number, it| {
            let token = known.and_then(|known| known.partition(*number)?.token);
            !now.until(it.until).is_zero() || token == Some(it.token)
        });
        let runs = |it: &&Avoid| !now.until(it.until).is_zero();
        let avoid = self.avoid.iter().map(|(number, it)| (*number, it));
        avoid
            .filter(|(_, it)| runs(it))
            .map(|(number, it)| (number, Arc::clone(&it.name)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::group::Release;
    use crate::protocol::message::Nonce;
    use std::time::Duration;

    fn at(seconds: u64) -> Moment {
        let since = Duration::from_secs(seconds);
        Moment::new(since, since, since)
    }

    #[test]
    fn a_release_is_remembered_for_its_back_off_and_counts_once() {
        let partition = PartitionNumber(0);
        let token = Epoch::FIRST;
        let releases = [(Release { partition, token }, Duration::from_secs(10))];
        let data = SessionData { releases: releases.into_iter().collect(), ..Default::default() };
        let mut known = Assignment::first(Nonce::from_bits(1), vec!["a".into()]);
        known.partitions[0].token = Some(token);
        let mut memory = Memory::default();
        memory.released("m", &data, at(0));
        // It is written again with each renewal.
        memory.released("m", &data, at(5));
        assert_eq!(memory.avoid(at(9), Some(&known)), BTreeMap::from([(partition, "m".into())]));
        assert_eq!(memory.avoid(at(10), Some(&known)), BTreeMap::new());
        memory.released("m", &data, at(11));
        assert_eq!(memory.avoid(at(12), Some(&known)), BTreeMap::new());
        known.partitions[0].token = token.next();
        memory.avoid(at(12), Some(&known));
        assert!(memory.avoid.is_empty());
    }
}
