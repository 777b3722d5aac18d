//! The metrics of a lease.

/// The metric names of one kind of lease.
#[derive(Debug)]
pub struct LeaseMetrics {
    /// Name of the label that identifies the election or group by its store and prefix, such as
    /// "election".
    pub place: &'static str,
    /// Metrics whose names start with this prefix use the label name in `place`. All other metrics
    /// use the label name `election`.
    pub stem: &'static str,
    /// Noun for the lease in descriptions.
    pub noun: &'static str,
    /// Names of a gauge and of its label. The label contains the name of the process.
    pub info: (&'static str, &'static str),
    /// Gauge that is 1 while the process holds a lease.
    pub holds: &'static str,
    /// Counter of the leases that have ended.
    pub losses: &'static str,
    /// Counter of renewals.
    pub renewals: &'static str,
    /// Histogram of the duration of renewals.
    pub renewal_seconds: &'static str,
    /// Gauge of the remaining time of the lease.
    pub remaining: &'static str,
    /// Histogram of the remaining part of the lease just before each extension.
    pub least_ratio: &'static str,
    /// Counter that increases each time a lease becomes at risk.
    pub at_risk: &'static str,
    /// Gauge of the validity of the lease.
    pub validity: &'static str,
    /// The metrics that each successful poll and renewal updates, and the labels of these metrics.
    /// The first lease caches their keys.
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
    // The GET requests in this list are the leader's polls of the next epoch.
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
