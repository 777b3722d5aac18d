//! The metrics of a lease.

/// The names of the metrics of one kind of lease.
#[derive(Debug)]
pub struct LeaseMetrics {
    /// The label of the place in the store.
    pub place: &'static str,
    /// The prefix of metrics with that label. Other metrics have the label `election`.
    pub stem: &'static str,
    /// The noun for the lease, in descriptions.
    pub noun: &'static str,
    /// A gauge with a label: the name of the process.
    pub info: (&'static str, &'static str),
    /// A gauge: 1 while a lease runs.
    pub holds: &'static str,
    /// Counts leases that have ended.
    pub losses: &'static str,
    /// Counts renewals.
    pub renewals: &'static str,
    /// Times renewals.
    pub renewal_seconds: &'static str,
    /// A gauge: the remaining time of the lease.
    pub remaining: &'static str,
    /// A histogram: the lowest remaining part of the lease.
    pub least_ratio: &'static str,
    /// Counts risks.
    pub at_risk: &'static str,
    /// A gauge: the length of the lease.
    pub validity: &'static str,
    /// The metrics of each successful poll and renewal, with their labels. Their keys are kept
    /// while a lease runs.
    pub frequent: &'static [(&'static str, &'static [(&'static str, &'static str)])],
}

pub(super) static LEADERSHIP: LeaseMetrics = LeaseMetrics {
    place: "election",
    stem: "tenure_",
    noun: "lease",
    info: ("tenure_candidate_info", "candidate"),
    holds: "tenure_leader",
    losses: "tenure_losses_total",
    renewals: "tenure_renewals_total",
    renewal_seconds: "tenure_renewal_seconds",
    remaining: "tenure_lease_remaining_seconds",
    least_ratio: "tenure_lease_least_ratio",
    at_risk: "tenure_lease_at_risk_total",
    validity: "tenure_validity_seconds",
    // The leader's polls of the next epoch are included.
    frequent: &[
        ("tenure_renewals_total", &[("outcome", "done")]),
        ("tenure_renewal_seconds", &[]),
        ("tenure_lease_least_ratio", &[]),
        ("tenure_lease_remaining_seconds", &[]),
        ("tenure_requests_total", &[("kind", "get"), ("outcome", "missing")]),
        ("tenure_requests_total", &[("kind", "replace"), ("outcome", "done")]),
        ("tenure_request_seconds", &[("kind", "get")]),
        ("tenure_request_seconds", &[("kind", "replace")]),
    ],
};
