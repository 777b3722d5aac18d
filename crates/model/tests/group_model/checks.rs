//! The invariants of docs/design/groups.md, and the events that must occur on at least one path.

use stateright::Property;
use tenure_groups::protocol::{PartitionNumber, Release};
use tenure_model::hashed_arc::HashedArc;

use super::process::Process;
use super::setting::Group;
use super::world::World;

impl Group {
    pub fn checks(&self) -> Vec<Property<Group>> {
        let always = [
            Property::<Group>::always("G1", |_, it| !it.ghost.broken.contains("G1")),
            Property::<Group>::always("G2", |_, it| !it.ghost.broken.contains("G2")),
            Property::<Group>::always("G3", |_, it| {
                it.store.newest().map(|newest| newest.epoch) == it.ghost.greatest
            }),
            Property::<Group>::always("G4", |_, it| !it.ghost.broken.contains("G4")),
            Property::<Group>::always("G5", |group, it| {
                (0..u32::from(group.partitions)).all(|p| it.believers(PartitionNumber(p)) <= 1)
            }),
            Property::<Group>::always("R3", |_, it| !it.ghost.broken.contains("R3")),
            Property::<Group>::always("no failure", |_, it| !it.ghost.broken.contains("failed")),
        ];
        let sometimes = [
            Property::<Group>::sometimes("GS1", |group, it| {
                it.settled(group) && it.processes.iter().all(|it| it.runs.is_some())
            }),
            Property::<Group>::sometimes("GS1 after a loss", |group, it| {
                it.settled(group) && it.processes.iter().any(|it| it.runs.is_none())
            }),
            Property::<Group>::sometimes("GS1 after a deletion", |group, it| {
                let newest = it.store.newest().map(|newest| newest.epoch.get());
                !it.left.deletes() && newest == Some(group.last) && it.settled(group)
            }),
            Property::<Group>::sometimes("GS2", |_, it| it.ghost.seen.contains("GS2")),
            Property::<Group>::sometimes("moved", |_, it| it.ghost.seen.contains("moved")),
        ];
        let mut all = Vec::from(always);
        all.retain(|property| self.always.contains(&property.name));
        all.extend(sometimes.into_iter().filter(|it| self.sometimes.contains(&it.name)));
        all
    }
}

impl World {
    /// Returns the number of processes that believe that they own this partition.
    fn believers(&self, partition: PartitionNumber) -> usize {
        let believes = |it: &&HashedArc<Process>| {
            let token = it.participant.as_ref().and_then(|it| it.holdings().token(partition));
            token.is_some_and(|token| it.believes(Release { partition, token }))
        };
        self.processes.iter().filter(believes).count()
    }

    /// Returns whether every partition has an owner that believes that it owns the partition, and
    /// the numbers of partitions per member differ by at most one.
    fn settled(&self, group: &Group) -> bool {
        let owns = |it: &Process| {
            let partitions = (0..u32::from(group.partitions)).map(PartitionNumber);
            let token = |partition| {
                Some((partition, it.participant.as_ref()?.holdings().token(partition)?))
            };
            let owned = partitions.filter_map(token);
            owned
                .filter(|(partition, token)| {
                    it.believes(Release { partition: *partition, token: *token })
                })
                .count()
        };
        let counts: Vec<_> =
            self.processes.iter().filter(|it| it.runs.is_some()).map(|it| owns(it)).collect();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        counts.iter().sum::<usize>() == usize::from(group.partitions)
            && least.zip(most).is_some_and(|(least, most)| most - least <= 1)
    }
}
