//! The names, their units and their words. `tests/election/metrics/mod.rs` holds docs/observability.md
//! to them.

use metrics::Unit::{Count, Seconds};
use metrics::{describe_counter, describe_gauge, describe_histogram};

use super::lease_names::{LEADERSHIP, LeaseNames, SESSION};

/// Outcomes of `tenure_elections_total`.
pub(super) const ELECTIONS: [&str; 4] = ["elected", "held", "abandoned", "failed"];
/// Outcomes of `tenure_renewals_total`.
pub(super) const RENEWALS: [&str; 4] = ["done", "refused", "missing", "failed"];
/// Reasons of `tenure_losses_total`: those of [`Loss::outcome`](crate::Loss::outcome).
pub(super) const LOSSES: [&str; 8] = [
    "superseded",
    "sealed",
    "lease_ended",
    "suspended",
    "wall_clock_ahead",
    "vanished",
    "tampered",
    "resigned",
];
/// States of `tenure_observed`.
pub(super) const OBSERVED: [&str; 3] = ["leader", "nobody", "unknown"];
/// Outcomes of `tenure_compactions_total`.
pub(super) const COMPACTIONS: [&str; 7] =
    ["compacted", "nothing", "incomplete", "interrupted", "held", "last_epoch", "error"];

/// Reasons of `tenure_group_losses_total`, beside those for which a session ends: those of
/// [`PartitionLoss::outcome`](crate::group::PartitionLoss::outcome).
pub(super) const PARTITION_LOSSES: [&str; 2] = ["released", "taken"];
/// Outcomes of `tenure_group_polls_total`.
pub(super) const POLLS: [&str; 2] = ["done", "failed"];
/// Outcomes of `tenure_group_assignments_total`.
pub(super) const ASSIGNMENTS: [&str; 5] = ["created", "refused", "unknown", "failed", "unwritable"];

/// Describes the metrics to the recorder. It may be called any number of times.
pub(super) fn describe() {
    elections();
    lease(&LEADERSHIP, "lease");
    requests();
    compactions();
    members();
    lease(&SESSION, "session");
}

fn elections() {
    describe_gauge!("tenure_leader", Count, "1 while this process leads, by its own clock");
    describe_gauge!("tenure_epoch", Count, "The greatest epoch that this process knows of");
    describe_gauge!("tenure_observed", Count, "1 in the state that an observer sees");
    describe_gauge!("tenure_candidate_info", Count, "1; the label tells the name of the candidate");
    describe_counter!("tenure_elections_total", Count, "Campaigns that have ended");
    describe_counter!("tenure_losses_total", Count, "Leaderships that have ended");
    describe_counter!("tenure_polls_total", Count, "Looks at the election by those who follow it");
}

/// `lease`: what it is called there.
fn lease(names: &LeaseNames, lease: &str) {
    describe_counter!(names.renewals, Count, format!("Writes that were to renew the {lease}"));
    describe_histogram!(
        names.renewal_seconds,
        Seconds,
        format!(
            "From the first write of a renewal until the {lease} was extended, retries included"
        )
    );
    describe_gauge!(
        names.remaining,
        Seconds,
        format!("What is left of the {lease}; 0 once it is over")
    );
    describe_histogram!(
        names.least_ratio,
        Count,
        format!(
            "What was left of the {lease} just before it was extended, as a part of the validity"
        )
    );
    describe_counter!(
        names.at_risk,
        Count,
        format!("Times that less than a quarter of the {lease}'s validity was left")
    );
    describe_gauge!(names.validity, Seconds, format!("The length of the {lease}"));
}

fn requests() {
    describe_counter!("tenure_requests_total", Count, "Requests to the store");
    describe_histogram!(
        "tenure_request_seconds",
        Seconds,
        "From sending a request until its answer, or until nobody waited for it any more"
    );
    describe_gauge!(
        "tenure_store_clock_skew_seconds",
        Seconds,
        "By how much, at least, the clock of the store is ahead of this machine's"
    );
}

fn members() {
    describe_gauge!("tenure_group_member", Count, "1 while this process's session lasts");
    describe_gauge!("tenure_group_member_info", Count, "1; the label tells the member's name");
    describe_gauge!("tenure_group_coordinator", Count, "1 while this process plans the group");
    describe_gauge!("tenure_group_owned", Count, "Partitions that this member owns");
    describe_gauge!(
        "tenure_group_overdue",
        Count,
        "Partitions with work that does not stop in time"
    );
    describe_gauge!("tenure_group_epoch", Count, "The greatest assignment that this process knows");
    describe_gauge!("tenure_group_partitions", Count, "Partitions of the newest known assignment");
    describe_gauge!(
        "tenure_group_ownerless",
        Count,
        "Partitions that should have an owner, and have none in the newest known assignment"
    );
    describe_gauge!("tenure_group_members", Count, "Members of the newest known assignment");
    describe_counter!("tenure_group_grants_total", Count, "Partitions that this member was given");
    describe_counter!("tenure_group_revocations_total", Count, "Partitions that are to move");
    describe_counter!("tenure_group_losses_total", Count, "Ownerships that have ended");
    describe_counter!("tenure_group_assignments_total", Count, "Assignments to be created");
    describe_counter!(
        "tenure_group_polls_total",
        Count,
        "Looks at the group by those who follow it"
    );
    describe_counter!("tenure_group_session_losses_total", Count, "Sessions that have ended");
}

fn compactions() {
    describe_counter!("tenure_compactions_total", Count, "Runs of the compactor");
    describe_counter!("tenure_epochs_compacted_total", Count, "Epoch objects deleted");
    describe_gauge!(
        "tenure_epochs_backlog",
        Count,
        "Superseded epoch objects that the last run has left beyond those to be kept"
    );
    describe_gauge!(
        "tenure_restore_unfinished",
        Count,
        "1 if an unfinished restore stopped the last run of the compactor"
    );
}
