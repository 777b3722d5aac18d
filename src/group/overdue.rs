//! A watch over work that is to stop: it is reported once it takes too long.

use std::collections::BTreeMap;
use std::time::Duration;

use super::PartitionNumber;
use super::partition::Partition;
use crate::moment::Moment;
use crate::telemetry::Overdue;

/// The work of one call of `run`.
#[derive(Debug)]
pub(super) struct Watchdog {
    deadline: Duration,
    works: BTreeMap<PartitionNumber, Watched>,
    overdue: Overdue,
}

#[derive(Debug)]
struct Watched {
    partition: Partition,
    /// When it was first seen that the work is to stop.
    stopping: Option<Moment>,
    overdue: bool,
}

impl Watchdog {
    pub(super) fn new(deadline: Duration, overdue: Overdue) -> Watchdog {
        Watchdog { deadline, works: BTreeMap::new(), overdue }
    }

    /// How often to call [`look`](Watchdog::look).
    pub(super) fn interval(&self) -> Duration {
        (self.deadline / 8).clamp(Duration::from_millis(10), Duration::from_secs(1))
    }

    pub(super) fn begins(&mut self, partition: Partition) {
        let work = Watched { partition, stopping: None, overdue: false };
        self.works.insert(work.partition.number(), work);
    }

    pub(super) fn ended(&mut self, number: PartitionNumber) {
        if self.works.remove(&number).is_some_and(|it| it.overdue) {
            self.overdue.ended();
        }
    }

    /// The names of the partitions with work that has become overdue.
    pub(super) fn look(&mut self, now: Moment) -> Vec<String> {
        let mut names = Vec::new();
        for work in self.works.values_mut().filter(|it| !it.overdue) {
            if !work.partition.grant.stop.is_cancelled() {
                continue;
            }
            let since = *work.stopping.get_or_insert(now);
            if now.since(since) >= self.deadline {
                work.overdue = true;
                self.overdue.began();
                names.push(work.partition.name().to_owned());
            }
        }
        names
    }

    pub(super) fn is_any_overdue(&self) -> bool {
        self.works.values().any(|it| it.overdue)
    }

    pub(super) fn is_all_overdue(&self) -> bool {
        self.works.values().all(|it| it.overdue)
    }
}
