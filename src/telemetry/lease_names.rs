//! The metrics of a lease: those of a leadership, and those of a member's session.

/// What counts and times one kind of lease.
#[derive(Debug)]
pub(super) struct LeaseNames {
    /// Of a gauge: 1 while a lease runs.
    pub(super) holds: &'static str,
    pub(super) losses: &'static str,
    pub(super) renewals: &'static str,
    pub(super) renewal_seconds: &'static str,
    pub(super) remaining: &'static str,
    pub(super) least_ratio: &'static str,
    pub(super) at_risk: &'static str,
    pub(super) validity: &'static str,
}

pub(super) static LEADERSHIP: LeaseNames = LeaseNames {
    holds: "tenure_leader",
    losses: "tenure_losses_total",
    renewals: "tenure_renewals_total",
    renewal_seconds: "tenure_renewal_seconds",
    remaining: "tenure_lease_remaining_seconds",
    least_ratio: "tenure_lease_least_ratio",
    at_risk: "tenure_lease_at_risk_total",
    validity: "tenure_validity_seconds",
};

pub(super) static SESSION: LeaseNames = LeaseNames {
    holds: "tenure_group_member",
    losses: "tenure_group_session_losses_total",
    renewals: "tenure_group_renewals_total",
    renewal_seconds: "tenure_group_renewal_seconds",
    remaining: "tenure_group_lease_remaining_seconds",
    least_ratio: "tenure_group_lease_least_ratio",
    at_risk: "tenure_group_lease_at_risk_total",
    validity: "tenure_group_validity_seconds",
};
