//! Plans the next assignment by rules R1 to R4. Only this module grants partitions. If the writer
//! has read the evidence as [`Evidence`] requires, its plan keeps the rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::assignment::{AssignedPartition, Assignment, Member, PartitionNumber};
use super::assignor::{Assignor, Seat, Share};
use super::session::{Release, Session};
use tenure::Epoch;
use tenure::internals::groups::Nonce;

/// The facts that the writer has read about the sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// Ended sessions (R1). A session has ended if the writer has read it as resigned or lapsed. A
    /// deposed or missing session counts as ended only after a wait (GA1, GA2).
    pub ended: BTreeSet<Session>,
    /// The releases that the writer has read, each with the owner that wrote it into its session.
    pub released: BTreeSet<(Session, Release)>,
    /// New members. At the start of the plan, the writer read the assignment. After that, it read
    /// the session of each new member and found it live (R3).
    pub joining: Vec<Member>,
    /// Members that get no more partitions, because they leave, or because their sessions have
    /// lapsed and are not sealed yet.
    pub leaving: BTreeSet<Session>,
    /// For each partition whose work has failed recently: the names of the members where it failed,
    /// each with `true` while the back-off of that member runs (GC8).
    pub failures: BTreeMap<PartitionNumber, BTreeMap<Arc<str>, bool>>,
    /// The durations for which the partitions of an ended session are reserved for the session's
    /// name (GW6, GW7).
    pub parked: BTreeMap<Session, Duration>,
    /// Partitions with an expired reservation.
    pub kept_enough: BTreeSet<PartitionNumber>,
}

/// The settings and the role of the writer.
#[derive(Debug, Clone, Copy)]
pub struct Planner<'a> {
    pub assignor: &'a dyn Assignor,
    /// Session that the plan names as the coordinator.
    pub coordinator: Session,
    /// If true, the plan moves only partitions without an owner, because the writer's assignor is
    /// not the one in the assignment (GC9).
    pub only_ownerless: bool,
    /// Whether the coordinator in the assignment has stopped planning. The plan then names this
    /// writer, so that no other member takes over (GC10).
    pub goes_ahead: bool,
}

impl Planner<'_> {
    /// Returns the assignment that follows `now`, with this nonce. Returns `None` if the plan
    /// changes nothing.
    ///
    /// A plan that changes only the coordinator is returned only if the coordinator in `now` is no
    /// member or has stopped planning ([`goes_ahead`](Planner::goes_ahead)).
    pub fn next(&self, now: &Assignment, evidence: &Evidence, nonce: Nonce) -> Option<Assignment> {
        if now.restoring.is_some() {
            return None;
        }
        let epoch = now.epoch.next()?;
        let mut next = Assignment { epoch, nonce, ..now.clone() };
        if next.assignor.is_empty() {
            // A restore may write an assignment without the name of an assignor.
            next.assignor = self.assignor.name().into();
        }
        for partition in &mut next.partitions {
            if evidence.frees(partition) {
                let owner = partition.owner.take();
                let parked = owner.and_then(|owner| evidence.parked.get(&owner));
                let name = owner.and_then(|owner| now.member(owner)).map(|it| &it.name);
                partition.kept = name.cloned().zip(parked.copied());
            } else if evidence.kept_enough.contains(&partition.number) {
                partition.kept = None;
            }
            // End a reservation that contradicts the marks, because no member could own the
            // partition.
            partition.kept.take_if(|(name, _)| !partition.marks.names(name));
        }
        // Remove retiring partitions without an owner.
        next.partitions.retain(|it| !(it.marks.retiring && it.owner.is_none()));
        let owns = |session| next.partitions.iter().any(|it| it.owner == Some(session));
        let stays = |it: &Member| !evidence.ended.contains(&it.session) || owns(it.session);
        next.members.retain(stays);
        for joining in &evidence.joining {
            // If the assignment has a member with the same id and another nonce, a plan must remove
            // that member first.
            if next.session(joining.session.id).is_none() {
                next.members.push(joining.clone());
            }
        }
        self.place(now, &mut next, evidence);
        let same = next.members == now.members && next.partitions == now.partitions;
        let vacant = self.goes_ahead || now.coordinator.is_none_or(|it| next.member(it).is_none());
        // A process that is not a member must not name itself as the coordinator. If it did, each
        // of its plans would change the assignment.
        let named = next.member(self.coordinator).is_some();
        if same && !(vacant && named) {
            return None;
        }
        if named {
            next.coordinator = Some(self.coordinator);
        }
        Some(next)
    }

    /// Returns the first assignment of a group, which names its members and grants nothing.
    pub fn first(&self, mut first: Assignment, evidence: &Evidence) -> Assignment {
        first.members.clone_from(&evidence.joining);
        first.coordinator = Some(self.coordinator);
        first.assignor = self.assignor.name().into();
        first
    }

    fn place(&self, now: &Assignment, next: &mut Assignment, evidence: &Evidence) {
        let takes = |it: &&Member| {
            !evidence.ended.contains(&it.session) && !evidence.leaving.contains(&it.session)
        };
        let members: Vec<Member> = next.members.iter().filter(takes).cloned().collect();
        let seats: Vec<_> = members.iter().map(Member::seat).collect();
        let place = |session| members.iter().position(|it| Some(it.session) == session);
        let holders: Vec<_> =
            next.partitions.iter().map(|it| place(it.target).or_else(|| place(it.owner))).collect();
        let tries: Vec<_> = next
            .partitions
            .iter()
            .zip(&holders)
            .map(|(it, holder)| evidence.try_at(it, holder.map(|seat| &seats[seat]), &seats))
            .collect();
        let shares: Vec<Share<'_>> = next
            .partitions
            .iter()
            .zip(holders)
            .zip(&tries)
            .map(|((it, holder), (avoid, is_failing))| Share {
                holder,
                avoid,
                kept: it.kept.as_ref().map(|(name, _)| &**name),
                is_failing: *is_failing,
                ..Share::new(it.number, &it.name, &it.marks)
            })
            .collect();
        let placed = self.assign(&seats, &shares);
        let epoch = next.epoch;
        for (partition, seat) in next.partitions.iter_mut().zip(placed) {
            let wanted = seat.and_then(|seat| members.get(seat)).map(|it| it.session);
            let before = now.partition(partition.number).and_then(|it| it.owner);
            self.settle(partition, before, wanted, epoch);
        }
    }

    /// Calls the assignor once, or twice if shares are failing. The first call places the healthy
    /// shares. The second call determines only the seats of the failing shares, so no healthy share
    /// moves because of a failing one.
    fn assign<'a>(&self, seats: &[Seat<'a>], shares: &[Share<'a>]) -> Vec<Option<usize>> {
        let free = |share: &Share<'a>| match share.is_failing {
            true => Share { avoid: &[], ..*share },
            false => *share,
        };
        let first: Vec<_> = shares.iter().map(free).collect();
        let placed = self.assignor.assign(seats, &first);
        if !shares.iter().any(|it| it.is_failing) {
            return placed;
        }
        let fix = |(share, seat): (&Share<'a>, &Option<usize>)| {
            let stays = |seat: &usize| seats.get(*seat).is_some_and(|it| share.allows(it));
            let holder = if share.is_failing { share.holder.filter(stays) } else { *seat };
            let kept = holder.and_then(|seat| seats.get(seat)).map(|it| it.name).or(share.kept);
            Share { holder, kept, ..*share }
        };
        let fixed: Vec<_> = shares.iter().zip(&placed).map(fix).collect();
        let second = self.assignor.assign(seats, &fixed);
        let seat =
            |((fixed, first), second): ((&Share<'_>, _), Option<usize>)| match fixed.is_failing {
                true => fixed.holder.or(second),
                false => first,
            };
        fixed.iter().zip(placed).zip(second).map(seat).collect()
    }

    fn settle(
        &self,
        partition: &mut AssignedPartition,
        before: Option<Session>,
        wanted: Option<Session>,
        epoch: Epoch,
    ) {
        match partition.owner {
            Some(owner) if wanted == Some(owner) => partition.target = None,
            // `wanted` is `None` if no seat may have the partition, for example because it is
            // paused. The owner then keeps the partition until the owner releases it.
            Some(_) if !self.only_ownerless => partition.target = wanted,
            Some(_) => {}
            None => {
                partition.target = None;
                // A single assignment never takes a partition from a member and grants it to the
                // same member (R2).
                if wanted.is_some() && wanted != before {
                    partition.owner = wanted;
                    partition.token = Some(epoch);
                    partition.kept = None;
                }
            }
        }
    }
}

impl Evidence {
    /// Returns the names of the members that must not get the partition, and whether the partition
    /// is failing. A partition is failing if its work has failed at each permitted seat. A
    /// partition that is not failing avoids all seats where its work has failed. A failing
    /// partition avoids only the seats whose back-off still runs. No partition avoids the seat that
    /// holds it.
    fn try_at(
        &self,
        partition: &AssignedPartition,
        holder: Option<&Seat<'_>>,
        seats: &[Seat<'_>],
    ) -> (Vec<Arc<str>>, bool) {
        let Some(failures) = self.failures.get(&partition.number) else {
            return (Vec::new(), false);
        };
        let mut able = seats.iter().filter(|it| partition.marks.allow(it.name));
        let is_failing = able.all(|it| failures.contains_key(it.name));
        let avoids = |(name, runs): &(&Arc<str>, &bool)| {
            let holds = holder.is_some_and(|it| *it.name == ***name);
            !holds && (**runs || !is_failing)
        };
        let avoid = failures.iter().filter(avoids).map(|(name, _)| Arc::clone(name));
        (avoid.collect(), is_failing)
    }

    /// Returns whether the owner has released the partition under its token, or the owner's session
    /// has ended (R1).
    fn frees(&self, partition: &AssignedPartition) -> bool {
        let (Some(owner), Some(token)) = (partition.owner, partition.token) else { return false };
        let release = Release { partition: partition.number, token };
        self.ended.contains(&owner) || self.released.contains(&(owner, release))
    }
}

/// Checks that a change of the assignment keeps R1 and R2, grants partitions only to members, and
/// removes only retiring partitions. `may_leave` uses the true state of the sessions, which only
/// tests know.
#[cfg(any(test, feature = "internals"))]
pub fn check(
    before: &Assignment,
    after: &Assignment,
    may_leave: impl Fn(Session, Release) -> bool,
) -> Result<(), String> {
    for then in &after.partitions {
        let now = before.partition(then.number);
        let (owner, token) = now.map_or((None, None), |it| (it.owner, it.token));
        if then.owner == owner && then.token == token {
            continue;
        }
        if let (Some(owner), Some(token)) = (owner, token) {
            let release = Release { partition: then.number, token };
            if !may_leave(owner, release) {
                return Err(format!("{release:?} left {owner:?} against R1"));
            }
        }
        let granted = then.owner.is_some() && then.token == Some(after.epoch);
        let dropped = then.owner.is_none() && then.token == token;
        if !granted && !dropped || then.owner == owner {
            return Err(format!("{:?} was changed against R2", then.number));
        }
        if then.owner.is_some_and(|owner| after.member(owner).is_none()) {
            return Err(format!("{:?} was granted to a session that is not a member", then.number));
        }
    }
    for gone in before.partitions.iter().filter(|it| after.partition(it.number).is_none()) {
        let release = gone.token.map(|token| Release { partition: gone.number, token });
        let left = gone.owner.zip(release).is_none_or(|(owner, it)| may_leave(owner, it));
        if !(left && gone.marks.retiring) {
            return Err(format!("{:?} was removed against R4", gone.number));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
