//! Watches work that must stop, and reports work that exceeds the deadline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::PartitionNumber;
use super::grant::Grant;
use super::partition::Partition;
use crate::telemetry::Overdue;
use tenure::Moment;

/// Watches the work of one call of `run`. The state per partition is small, because a member may
/// own many partitions.
#[derive(Debug)]
pub(super) struct Watchdog {
    deadline: Duration,
    /// Grants with running work, in the order of their partition numbers.
    works: Vec<Arc<Grant>>,
    /// Work in `works` that has received the signal to stop.
    stopping: BTreeMap<PartitionNumber, Stopping>,
    overdue: Overdue,
}

#[derive(Debug)]
struct Stopping {
    /// Time at which this watchdog first saw the signal to stop.
    since: Moment,
    overdue: bool,
}

impl Watchdog {
    pub(super) fn new(deadline: Duration, overdue: Overdue) -> Watchdog {
        Watchdog { deadline, works: Vec::new(), stopping: BTreeMap::new(), overdue }
    }

    /// Returns the interval between two calls of [`look`](Watchdog::look).
    pub(super) fn interval(&self) -> Duration {
        (self.deadline / 8).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    pub(super) fn begins(&mut self, partition: &Partition) {
        let at = self.place(partition.number());
        self.works.insert(at, Arc::clone(&partition.grant));
    }

    pub(super) fn ended(&mut self, number: PartitionNumber) {
        let at = self.place(number);
        if self.works.get(at).is_some_and(|it| it.release.partition == number) {
            self.works.remove(at);
        }
        if self.stopping.remove(&number).is_some_and(|it| it.overdue) {
            self.overdue.ended();
        }
    }

    fn place(&self, number: PartitionNumber) -> usize {
        self.works.partition_point(|it| it.release.partition < number)
    }

    /// Returns the names of the partitions with work that became overdue since the last call.
    pub(super) fn look(&mut self, now: Moment) -> Vec<String> {
        self.works.shrink_to_fit();
        let mut names = Vec::new();
        for grant in self.works.iter().filter(|it| it.stop.is_cancelled()) {
            let new = Stopping { since: now, overdue: false };
            let work = self.stopping.entry(grant.release.partition).or_insert(new);
            if !work.overdue && now.since(work.since) >= self.deadline {
                work.overdue = true;
                self.overdue.began();
                names.push(grant.name.to_string());
            }
        }
        names
    }

    pub(super) fn is_any_overdue(&self) -> bool {
        self.stopping.values().any(|it| it.overdue)
    }

    pub(super) fn is_all_overdue(&self) -> bool {
        self.stopping.values().filter(|it| it.overdue).count() == self.works.len()
    }
}
