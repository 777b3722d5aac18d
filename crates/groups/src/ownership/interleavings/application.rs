//! The events that the application received, and the checks of their order.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

/// The stage of a partition according to the events that the application received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Granted,
    Revoked,
    Taken,
}

/// A model of an application that receives each event immediately.
#[derive(Default)]
pub(super) struct Application {
    /// All granted partitions, in the order of the grants.
    pub(super) partitions: Vec<Partition>,
    stages: BTreeMap<PartitionNumber, (Epoch, Stage)>,
    pub(super) to_release: Vec<Partition>,
    /// Calls of `release` that have begun, and calls that have returned.
    pub(super) begun: BTreeSet<(PartitionNumber, Epoch)>,
    pub(super) released: BTreeSet<(PartitionNumber, Epoch)>,
    pub(super) lost: bool,
}

impl Application {
    pub(super) fn handle(&self, number: PartitionNumber) -> Option<&Partition> {
        self.partitions.iter().rfind(|it| it.number() == number)
    }

    pub(super) fn takes(&mut self, event: MembershipEvent) {
        assert!(!self.lost, "an event after the last event: {event:?}");
        match event {
            MembershipEvent::Granted(partition) => {
                let (number, token) = (partition.number(), partition.token());
                if let Some((before, stage)) = self.stages.insert(number, (token, Stage::Granted)) {
                    let over = stage == Stage::Taken || self.begun.contains(&(number, before));
                    assert!(token > before && over, "granted {number} twice: {before}, {token}");
                }
                assert!(partition.check_unless_lost().is_ok(), "a granted partition is not owned");
                self.partitions.push(partition);
            }
            MembershipEvent::Revoked { number, .. } => {
                self.moves_on(number, &[Stage::Granted], Stage::Revoked);
                let partition =
                    self.handle(number).expect("the partition was granted before").another();
                assert!(
                    partition.grant.stop.is_cancelled(),
                    "the work on a revoked partition has no signal to stop"
                );
                self.to_release.push(partition);
            }
            MembershipEvent::Taken { number, .. } => {
                self.moves_on(number, &[Stage::Granted, Stage::Revoked], Stage::Taken);
                let partition = self.handle(number).expect("the partition was granted before");
                assert!(partition.check_unless_lost().is_err(), "a taken partition is still owned");
                assert!(
                    partition.grant.stop.is_cancelled(),
                    "the work on a taken partition has no signal to stop"
                );
            }
            MembershipEvent::Lost(_) => {
                self.lost = true;
                for partition in &self.partitions {
                    assert!(
                        partition.check().is_err(),
                        "still owned after the loss: {partition:?}"
                    );
                    assert!(
                        partition.grant.stop.is_cancelled(),
                        "the work has no signal to stop after the loss"
                    );
                }
                self.to_release = self.partitions.iter().map(Partition::another).collect();
            }
            event => panic!("unexpected event {event:?}"),
        }
    }

    fn moves_on(&mut self, number: PartitionNumber, from: &[Stage], to: Stage) {
        let Some((token, stage)) = self.stages.get_mut(&number) else {
            panic!("partition {number} is {to:?} before it was granted");
        };
        assert!(from.contains(stage), "partition {number} was {stage:?} and is {to:?}");
        let released = self.released.contains(&(number, *token));
        assert!(!released, "partition {number} is {to:?} after it was released");
        *stage = to;
    }
}

impl Partition {
    /// Does the same as [`check`](Partition::check), but does not check the lease of the session.
    fn check_unless_lost(&self) -> Result<Epoch, PartitionLoss> {
        self.grant.loss().map_or(Ok(self.token()), Err)
    }
}
