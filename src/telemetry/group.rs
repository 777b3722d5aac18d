//! Counts for a group: of what a member owns and plans, and of what those see who follow it.

use std::sync::atomic::Ordering;

use super::meter::Meter;
use super::names::{ASSIGNMENTS, LOSSES, PARTITION_LOSSES, POLLS};
use super::requests::Role;
use crate::protocol::group::Assignment;

const OVERDUE: &str = "tenure_group_overdue";

impl Meter {
    /// Somebody joins the group.
    pub(super) fn member(&self) {
        for reason in PARTITION_LOSSES.iter().chain(&LOSSES) {
            self.count("tenure_group_losses_total", "reason", reason, 0);
        }
        for outcome in ASSIGNMENTS {
            self.assignment(outcome, 0);
        }
        for counter in ["tenure_group_grants_total", "tenure_group_revocations_total"] {
            self.keys().counter(counter, &[]).increment(0);
        }
        for gauge in ["tenure_group_owned", "tenure_group_coordinator", OVERDUE] {
            self.keys().gauge(gauge, &[]).increment(0.0);
        }
    }

    /// A member that owns nothing yet.
    pub(crate) fn owner(&self) -> Owner {
        Owner { meter: self.clone(), owned: 0, coordinates: false }
    }

    /// The work of a member: none is overdue yet.
    pub(crate) fn overdue(&self) -> Overdue {
        Overdue { meter: self.clone(), works: 0 }
    }

    /// Somebody follows the assignment.
    pub(crate) fn follower(&self, is_member: bool) -> GroupSight {
        self.keys().follows_a_group().fetch_add(1, Ordering::SeqCst);
        for outcome in POLLS {
            self.count("tenure_group_polls_total", "outcome", outcome, 0);
        }
        if !is_member {
            Role::Observer.register(self);
        }
        GroupSight { meter: self.clone() }
    }

    /// How the creation of an assignment was answered.
    pub(crate) fn created(&self, outcome: &'static str) {
        self.assignment(outcome, 1);
    }

    fn assignment(&self, outcome: &'static str, by: u64) {
        self.count("tenure_group_assignments_total", "outcome", outcome, by);
    }
}

/// What one member owns, and whether it plans.
#[derive(Debug)]
pub(crate) struct Owner {
    meter: Meter,
    owned: u32,
    coordinates: bool,
}

impl Owner {
    pub(crate) fn granted(&mut self) {
        self.owned += 1;
        self.meter.keys().gauge("tenure_group_owned", &[]).increment(1.0);
        self.meter.keys().counter("tenure_group_grants_total", &[]).increment(1);
    }

    pub(crate) fn revoked(&self) {
        self.meter.keys().counter("tenure_group_revocations_total", &[]).increment(1);
    }

    pub(crate) fn lost(&mut self, reason: &'static str) {
        self.meter.count("tenure_group_losses_total", "reason", reason, 1);
        self.owns(self.owned.saturating_sub(1));
    }

    fn owns(&mut self, owned: u32) {
        let fewer = f64::from(self.owned) - f64::from(owned);
        self.meter.keys().gauge("tenure_group_owned", &[]).decrement(fewer);
        self.owned = owned;
    }

    pub(crate) fn coordinates(&mut self, coordinates: bool) {
        if self.coordinates != coordinates {
            self.coordinates = coordinates;
            let gauge = self.meter.keys().gauge("tenure_group_coordinator", &[]);
            gauge.increment(if coordinates { 1.0 } else { -1.0 });
        }
    }
}

impl Drop for Owner {
    /// Its task may be gone with its runtime, without a word.
    fn drop(&mut self) {
        self.owns(0);
        self.coordinates(false);
    }
}

/// Work that has not stopped in time.
#[derive(Debug)]
pub(crate) struct Overdue {
    meter: Meter,
    works: u32,
}

impl Overdue {
    pub(crate) fn began(&mut self) {
        self.works += 1;
        self.meter.keys().gauge(OVERDUE, &[]).increment(1.0);
    }

    pub(crate) fn ended(&mut self) {
        self.works = self.works.saturating_sub(1);
        self.meter.keys().gauge(OVERDUE, &[]).decrement(1.0);
    }
}

impl Drop for Overdue {
    /// The call of `run` was dropped, and its work with it.
    fn drop(&mut self) {
        self.meter.keys().gauge(OVERDUE, &[]).decrement(f64::from(self.works));
    }
}

/// What a member or an observer sees of the group.
#[derive(Debug)]
pub(crate) struct GroupSight {
    meter: Meter,
}

impl GroupSight {
    pub(crate) fn polled(&self, done: bool) {
        let outcome = POLLS[usize::from(!done)];
        self.meter.count("tenure_group_polls_total", "outcome", outcome, 1);
    }

    pub(crate) fn sees(&self, assignment: &Assignment) {
        // Nobody is to own those, or only a member that is expected back.
        let meant = |it: &&crate::protocol::group::assignment::Partition| {
            it.owner.is_none() && !it.marks.paused && !it.marks.retiring && it.kept.is_none()
        };
        let ownerless = assignment.partitions.iter().filter(meant).count();
        self.set(assignment.partitions.len(), ownerless, assignment.members.len());
        let epoch = assignment.epoch.get() as f64;
        self.meter.keys().gauge("tenure_group_epoch", &[]).set(epoch);
    }

    fn set(&self, partitions: usize, ownerless: usize, members: usize) {
        for (gauge, number) in [
            ("tenure_group_partitions", partitions),
            ("tenure_group_ownerless", ownerless),
            ("tenure_group_members", members),
        ] {
            self.meter.keys().gauge(gauge, &[]).set(number as f64);
        }
    }
}

impl Drop for GroupSight {
    /// Who has stopped looking sees nothing.
    fn drop(&mut self) {
        if self.meter.keys().follows_a_group().fetch_sub(1, Ordering::SeqCst) == 1 {
            self.set(0, 0, 0);
        }
    }
}
