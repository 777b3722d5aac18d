//! Remembers the partitions that members released with a back-off because their work failed, and
//! the names of these members (GC8).
//!
//! Each member keeps these facts only in memory, so a new coordinator does not know the releases
//! that only an earlier coordinator read. No invariant depends on these facts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::protocol::session::SessionData;
use crate::protocol::{Assignment, PartitionNumber};
use tenure::{Epoch, Moment};

/// A partition counts as healthy if its work has not failed for this time. If its last back-off is
/// longer, the back-off counts instead.
const HEALTHY_AFTER: Duration = Duration::from_secs(600);

/// The partitions that members released with a back-off, and the reserved partitions.
#[derive(Debug, Default)]
pub(super) struct FailingPartitions {
    failures: BTreeMap<PartitionNumber, Failures>,
    /// For each reserved partition, its token and the time at which this coordinator first saw the
    /// reservation.
    kept: BTreeMap<PartitionNumber, (Option<Epoch>, Moment)>,
}

/// The failures of one partition since it was last healthy. Each failure is a release with a
/// back-off.
#[derive(Debug)]
struct Failures {
    /// Time at which the back-off of each member ends, by the name of the member.
    back_offs: BTreeMap<Arc<str>, Moment>,
    token: Epoch,
    healthy_at: Moment,
}

impl FailingPartitions {
    /// Records the releases with a back-off that a member of this name made.
    pub(super) fn released(&mut self, name: &str, data: &SessionData, now: Moment) {
        for (release, back_off) in &data.releases {
            let known = self.failures.get(&release.partition);
            if back_off.is_zero() || known.is_some_and(|known| known.token >= release.token) {
                continue;
            }
            let known = self.failures.remove(&release.partition);
            let recent = known.filter(|it| !now.until(it.healthy_at).is_zero());
            let mut back_offs = recent.map_or_else(BTreeMap::new, |it| it.back_offs);
            back_offs.insert(name.into(), now.plus(*back_off));
            let healthy_at = now.plus(HEALTHY_AFTER.max(*back_off));
            let failures = Failures { back_offs, token: release.token, healthy_at };
            self.failures.insert(release.partition, failures);
        }
    }

    /// Returns the partitions with a reservation that has expired. A new coordinator does not know
    /// the time at which a reservation began, so it waits for the full duration again.
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

    /// Forgets old failures, and the failures at members that have left.
    pub(super) fn forget(&mut self, now: Moment, known: Option<&Assignment>) {
        let members = known.iter().flat_map(|known| &known.members);
        let members: BTreeSet<&str> = members.map(|it| &*it.name).collect();
        self.failures.retain(|number, it| {
            it.back_offs.retain(|name, _| members.contains(&**name));
            // Keep the entry while the partition still has the token of the entry. A later read of
            // a member's session may show the same release again, which is no new failure.
            let token = known.and_then(|known| known.partition(*number)?.token);
            !now.until(it.healthy_at).is_zero() || token == Some(it.token)
        });
    }

    /// Returns the partitions whose work has failed recently. For each of them, returns the names
    /// of the members where its work failed, and whether the back-off of each member still runs.
    pub(super) fn failures(
        &self,
        now: Moment,
    ) -> BTreeMap<PartitionNumber, BTreeMap<Arc<str>, bool>> {
        let recent = self.failures.iter().filter(|(_, it)| !now.until(it.healthy_at).is_zero());
        let runs =
            |(name, until): (&Arc<str>, &Moment)| (Arc::clone(name), !now.until(*until).is_zero());
        recent.map(|(number, it)| (*number, it.back_offs.iter().map(runs).collect())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::SessionId;
    use crate::protocol::{Member, Release, Session};
    use crate::test_values::at;
    use tenure::internals::groups::Nonce;

    fn released(token: Epoch) -> SessionData {
        let release = Release { partition: PartitionNumber(0), token };
        let releases = [(release, Duration::from_secs(10))].into_iter().collect();
        SessionData { releases, ..Default::default() }
    }

    fn failures(names: &[(&str, bool)]) -> BTreeMap<PartitionNumber, BTreeMap<Arc<str>, bool>> {
        let names = names.iter().map(|(name, runs)| ((*name).into(), *runs)).collect();
        BTreeMap::from([(PartitionNumber(0), names)])
    }

    #[test]
    fn a_repeated_release_counts_once_for_its_back_off() {
        let token = Epoch::FIRST;
        let mut known = Assignment::first(Nonce::from_bits(1), vec!["a".into()]);
        known.partitions[0].token = Some(token);
        let mut failing = FailingPartitions::default();
        failing.released("m", &released(token), at(0));
        // The member repeats the release in each renewal, so the coordinator reads the same release
        // again.
        failing.released("m", &released(token), at(5));
        assert_eq!(failing.failures(at(9)), failures(&[("m", true)]));
        assert_eq!(failing.failures(at(10)), failures(&[("m", false)]));
        failing.forget(at(601), Some(&known));
        failing.released("m", &released(token), at(601));
        assert_eq!(failing.failures(at(602)), BTreeMap::new());
        known.partitions[0].token = token.next();
        failing.forget(at(602), Some(&known));
        assert!(failing.failures.is_empty());
    }

    #[test]
    fn failures_are_forgotten_after_ten_minutes() {
        let tokens: Vec<_> = (1..=3).map(|it| Epoch::new(it).unwrap()).collect();
        let mut known = Assignment::first(Nonce::from_bits(1), vec!["a".into()]);
        for (id, name) in [(1, "m"), (2, "n")] {
            let session = Session { id: SessionId::from_bits(id), nonce: Nonce::from_bits(id) };
            known.members.push(Member::new(session, name));
        }
        let mut failing = FailingPartitions::default();
        failing.released("m", &released(tokens[0]), at(0));
        failing.released("n", &released(tokens[1]), at(500));
        assert_eq!(failing.failures(at(1_099)), failures(&[("m", false), ("n", false)]));
        assert_eq!(failing.failures(at(1_100)), BTreeMap::new());
        failing.released("n", &released(tokens[2]), at(1_200));
        assert_eq!(failing.failures(at(1_200)), failures(&[("n", true)]));
        known.members.pop();
        failing.forget(at(1_200), Some(&known));
        assert_eq!(failing.failures(at(1_200)), failures(&[]));
    }
}
