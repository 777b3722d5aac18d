//! The metrics of the members, the coordinator and the observers of a group. The page
//! docs/reference/metrics.md describes each metric.
//!
//! A member's session has metrics in this module. It does not count in the metrics of leaderships.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::Unit::Count;
use metrics::{describe_counter, describe_gauge};
use tenure::internals::groups::{LeaseMetrics, Meter};

use crate::protocol::{Assignment, SessionId};

const OVERDUE: &str = "tenure_group_overdue";
/// Values of the label `reason` of `tenure_group_losses_total` for losses while the session of the
/// member lives. They are results of [`PartitionLoss::outcome`](crate::PartitionLoss::outcome). The
/// other values of the label are the reasons for the end of a session.
const PARTITION_LOSSES: [&str; 2] = ["released", "taken"];
/// Outcomes of `tenure_group_polls_total`.
const POLLS: [&str; 2] = ["done", "failed"];
/// Outcomes of `tenure_group_assignments_total`.
const ASSIGNMENTS: [&str; 5] = ["created", "refused", "unknown", "failed", "unwritable"];

/// The names of the metrics of a member's session.
pub(super) static SESSION: LeaseMetrics = LeaseMetrics {
    place: "group",
    stem: "tenure_group_",
    noun: "session",
    info: ("tenure_group_member_info", "member"),
    holds: "tenure_group_member",
    losses: "tenure_group_session_losses_total",
    renewals: "tenure_group_renewals_total",
    renewal_seconds: "tenure_group_renewal_seconds",
    remaining: "tenure_group_lease_remaining_seconds",
    least_ratio: "tenure_group_lease_least_ratio",
    at_risk: "tenure_group_lease_at_risk_total",
    validity: "tenure_group_validity_seconds",
    frequent: &[
        ("tenure_group_polls_total", &[("outcome", "done")]),
        ("tenure_group_renewals_total", &[("outcome", "done")]),
        ("tenure_group_renewal_seconds", &[]),
        ("tenure_group_lease_least_ratio", &[]),
        ("tenure_group_lease_remaining_seconds", &[]),
        ("tenure_requests_total", &[("kind", "get"), ("outcome", "missing")]),
        ("tenure_requests_total", &[("kind", "get"), ("outcome", "not_modified")]),
        ("tenure_requests_total", &[("kind", "replace"), ("outcome", "done")]),
        ("tenure_requests_total", &[("kind", "list"), ("outcome", "done")]),
        ("tenure_request_seconds", &[("kind", "get")]),
        ("tenure_request_seconds", &[("kind", "replace")]),
        ("tenure_request_seconds", &[("kind", "list")]),
    ],
};

const MEMBERS: &str = "tenure_group_members";
const PARTITIONS: &str = "tenure_group_partitions";
const OWNERLESS: &str = "tenure_group_ownerless";
const EPOCH: &str = "tenure_group_epoch";
const OWNED: &str = "tenure_group_owned";
const COORDINATOR: &str = "tenure_group_coordinator";
const GRANTS: &str = "tenure_group_grants_total";
const REVOCATIONS: &str = "tenure_group_revocations_total";
const LOSSES: &str = "tenure_group_losses_total";
const ASSIGNMENTS_TOTAL: &str = "tenure_group_assignments_total";
const POLLS_TOTAL: &str = "tenure_group_polls_total";

/// Registers the descriptions of the metrics with the recorder, which must already be installed.
pub(super) fn describe() {
    for (name, text) in [
        (SESSION.holds, "1 while this process's session lasts"),
        (SESSION.info.0, "1; the label contains the member's name"),
        (COORDINATOR, "1 while this process plans the group"),
        (OWNED, "Partitions that this member owns"),
        (OVERDUE, "Partitions with work that did not stop within the deadline"),
        (EPOCH, "The greatest assignment that this process knows"),
        (PARTITIONS, "Partitions of the newest known assignment"),
        (
            OWNERLESS,
            "Partitions that should have an owner, but have none in the newest known assignment",
        ),
        (MEMBERS, "Members of the newest known assignment"),
    ] {
        describe_gauge!(name, Count, text);
    }
    for (name, text) in [
        (GRANTS, "Partitions granted to this member"),
        (REVOCATIONS, "Partitions revoked from this member"),
        (LOSSES, "Ownerships that have ended"),
        (ASSIGNMENTS_TOTAL, "Attempts to create an assignment"),
        (POLLS_TOTAL, "Polls of the group by its members and observers"),
        (SESSION.losses, "Sessions that have ended"),
    ] {
        describe_counter!(name, Count, text);
    }
}

fn count(meter: &Meter, name: &'static str, label: (&'static str, &'static str), by: u64) {
    meter.counter(name, &[label]).increment(by);
}

/// Registers the counters of a member with the value 0. If a counter appeared first with the value
/// 1, a query for its increase would miss the first event.
pub(super) fn joins(meter: &Meter) {
    for reason in PARTITION_LOSSES.iter().chain(&Meter::LOSSES) {
        count(meter, LOSSES, ("reason", reason), 0);
    }
    for outcome in ASSIGNMENTS {
        count(meter, ASSIGNMENTS_TOTAL, ("outcome", outcome), 0);
    }
    for counter in [GRANTS, REVOCATIONS] {
        meter.counter(counter, &[]).increment(0);
    }
    for gauge in [OWNED, COORDINATOR, OVERDUE] {
        meter.gauge(gauge).increment(0.0);
    }
}

/// Counts an attempt to create an assignment. The label `outcome` has the outcome of the attempt.
pub(super) fn created(meter: &Meter, outcome: &'static str) {
    count(meter, ASSIGNMENTS_TOTAL, ("outcome", outcome), 1);
}

/// The metrics of one member: the number of its partitions, and whether it coordinates.
#[derive(Debug)]
pub(super) struct Owner {
    meter: Meter,
    owned: u32,
    coordinates: bool,
}

impl Owner {
    /// Returns the metrics of a member that owns no partition and does not coordinate.
    pub(super) fn new(meter: &Meter) -> Owner {
        Owner { meter: meter.clone(), owned: 0, coordinates: false }
    }

    pub(super) fn granted(&mut self) {
        self.owned += 1;
        self.meter.gauge(OWNED).increment(1.0);
        self.meter.counter(GRANTS, &[]).increment(1);
    }

    pub(super) fn revoked(&self) {
        self.meter.counter(REVOCATIONS, &[]).increment(1);
    }

    pub(super) fn lost(&mut self, reason: &'static str) {
        count(&self.meter, LOSSES, ("reason", reason), 1);
        self.owns(self.owned.saturating_sub(1));
    }

    fn owns(&mut self, owned: u32) {
        let fewer = f64::from(self.owned) - f64::from(owned);
        self.meter.gauge(OWNED).decrement(fewer);
        self.owned = owned;
    }

    pub(super) fn coordinates(&mut self, coordinates: bool) {
        if self.coordinates != coordinates {
            self.coordinates = coordinates;
            let gauge = self.meter.gauge(COORDINATOR);
            gauge.increment(if coordinates { 1.0 } else { -1.0 });
        }
    }
}

impl Drop for Owner {
    /// Resets the gauges. If the runtime of the member's task has ended, [`lost`](Owner::lost) may
    /// never have been called.
    fn drop(&mut self) {
        self.owns(0);
        self.coordinates(false);
    }
}

/// The gauge that counts a member's partitions with overdue work.
#[derive(Debug)]
pub(super) struct Overdue {
    meter: Meter,
    works: u32,
}

impl Overdue {
    /// Returns the gauge of a member without overdue work.
    pub(super) fn new(meter: &Meter) -> Overdue {
        Overdue { meter: meter.clone(), works: 0 }
    }

    pub(super) fn began(&mut self) {
        self.works += 1;
        self.meter.gauge(OVERDUE).increment(1.0);
    }

    pub(super) fn ended(&mut self) {
        self.works = self.works.saturating_sub(1);
        self.meter.gauge(OVERDUE).decrement(1.0);
    }
}

impl Drop for Overdue {
    /// Resets the gauge, because a dropped call of `run` also drops its overdue work.
    fn drop(&mut self) {
        self.meter.gauge(OVERDUE).decrement(f64::from(self.works));
    }
}

/// The members and observers of one `Group`.
#[derive(Debug, Clone, Default)]
pub(super) struct Followers {
    number: Arc<AtomicUsize>,
    /// The sessions that have ended, as the last read of all sessions showed them.
    ended: Arc<Mutex<BTreeSet<SessionId>>>,
}

impl Followers {
    /// Registers a member that follows the assignment.
    pub(super) fn member(&self, meter: &Meter) -> GroupSight {
        meter.keep_keys();
        self.number.fetch_add(1, Ordering::SeqCst);
        for outcome in POLLS {
            count(meter, POLLS_TOTAL, ("outcome", outcome), 0);
        }
        GroupSight { meter: meter.clone(), followers: self.clone() }
    }

    /// Notes the sessions that have ended. The next poll counts the partitions of their members as
    /// partitions without an owner.
    pub(super) fn learn(&self, ended: BTreeSet<SessionId>) {
        *self.ended() = ended;
    }

    fn ended(&self) -> MutexGuard<'_, BTreeSet<SessionId>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an observer that follows the assignment.
    pub(super) fn observer(&self, meter: &Meter) -> GroupSight {
        meter.observes();
        self.member(meter)
    }
}

/// The gauges that show the state of the group, as a member or an observer sees it.
#[derive(Debug)]
pub(super) struct GroupSight {
    meter: Meter,
    followers: Followers,
}

impl GroupSight {
    pub(super) fn polled(&self, done: bool) {
        let outcome = POLLS[usize::from(!done)];
        count(&self.meter, POLLS_TOTAL, ("outcome", outcome), 1);
    }

    pub(super) fn sees(&self, assignment: &Assignment) {
        // Count only the partitions that should have an owner. Paused, retiring and reserved
        // partitions should have no owner.
        let ended = self.followers.ended();
        let meant = |it: &&crate::protocol::assignment::AssignedPartition| {
            let has_owner = it.owner.is_some_and(|owner| !ended.contains(&owner.id));
            !has_owner && !it.marks.paused && !it.marks.retiring && it.kept.is_none()
        };
        let ownerless = assignment.partitions.iter().filter(meant).count();
        drop(ended);
        self.set(assignment.partitions.len(), ownerless, assignment.members.len());
        self.meter.gauge(EPOCH).set(assignment.epoch.get() as f64);
    }

    fn set(&self, partitions: usize, ownerless: usize, members: usize) {
        for (gauge, number) in
            [(PARTITIONS, partitions), (OWNERLESS, ownerless), (MEMBERS, members)]
        {
            self.meter.gauge(gauge).set(number as f64);
        }
    }
}

impl Drop for GroupSight {
    /// Resets the counts of partitions and members when the last follower is dropped, because the
    /// counts are then unknown.
    fn drop(&mut self) {
        if self.followers.number.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.set(0, 0, 0);
        }
    }
}
