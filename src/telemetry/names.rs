//! The names, units and descriptions of the metrics. `tests/election/metrics/mod.rs` compares the
//! recorded metrics with docs/reference/metrics.md.

use metrics::Unit::{Count, Seconds};
use metrics::{describe_counter, describe_gauge, describe_histogram};

use super::lease_names::LeaseMetrics;

/// Outcomes of `tenure_elections_total`.
pub(super) const ELECTIONS: [&str; 4] = ["elected", "held", "abandoned", "failed"];
/// Outcomes of `tenure_renewals_total`.
pub(super) const RENEWALS: [&str; 4] = ["done", "refused", "missing", "failed"];
/// Values of the label `reason` of `tenure_losses_total`. [`Loss::outcome`](crate::Loss::outcome)
/// returns the same words.
pub(crate) const LOSSES: [&str; 8] = [
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
pub(super) const OBSERVED: [&str; 3] = ["held", "vacant", "unknown"];
/// States of `tenure_stores`. `HoldState::as_str` returns the same words.
pub(super) const STORE_STATES: [&str; 3] = ["held", "down", "lost"];
/// Outcomes of `tenure_compactions_total`.
pub(super) const COMPACTIONS: [&str; 7] =
    ["compacted", "nothing", "incomplete", "interrupted", "held", "last_epoch", "error"];

/// Describes the metrics to the recorder. Repeated calls are allowed.
pub(super) fn describe(of: &LeaseMetrics) {
    elections();
    lease(of);
    requests();
    compactions();
}

fn elections() {
    describe_gauge!("tenure_leader", Count, "1 while this process leads, by its own clock");
    describe_gauge!("tenure_epoch", Count, "The greatest epoch that this process knows");
    describe_gauge!("tenure_observed", Count, "1 if `state` is the state that an observer sees");
    describe_gauge!("tenure_stores", Count, "Stores of a leader across stores, by state");
    describe_gauge!("tenure_candidate_info", Count, "1; the label is the name of the candidate");
    describe_counter!("tenure_elections_total", Count, "Campaigns that have ended");
    describe_counter!("tenure_losses_total", Count, "Leaderships that have ended");
    describe_counter!("tenure_polls_total", Count, "Polls of candidates and observers");
}

fn lease(names: &LeaseMetrics) {
    let lease = names.noun;
    describe_counter!(names.renewals, Count, format!("Writes to renew the {lease}"));
    describe_histogram!(
        names.renewal_seconds,
        Seconds,
        format!(
            "Time from the first write of a renewal to the extension of the {lease}, with retries"
        )
    );
    describe_gauge!(
        names.remaining,
        Seconds,
        format!("Remaining time of the {lease}; 0 after its end")
    );
    describe_histogram!(
        names.least_ratio,
        Count,
        format!(
            "Remaining part of the {lease} just before its extension, as a ratio of the validity"
        )
    );
    describe_counter!(
        names.at_risk,
        Count,
        format!("Number of times at which less than a quarter of the {lease}'s validity remained")
    );
    describe_gauge!(names.validity, Seconds, format!("The length of the {lease}"));
}

fn requests() {
    describe_counter!("tenure_requests_total", Count, "Requests to the store");
    describe_histogram!(
        "tenure_request_seconds",
        Seconds,
        "Time from the sending of a request until its answer, or until the caller dropped it"
    );
    describe_gauge!(
        "tenure_store_clock_skew_seconds",
        Seconds,
        "Lower bound of the store's clock minus this machine's clock"
    );
}

fn compactions() {
    describe_counter!("tenure_compactions_total", Count, "Runs of the compactor");
    describe_counter!("tenure_epochs_compacted_total", Count, "Epoch objects deleted");
    describe_gauge!(
        "tenure_epochs_backlog",
        Count,
        "Superseded epoch objects that the last run left, except the epochs to keep"
    );
    describe_gauge!(
        "tenure_restore_unfinished",
        Count,
        "1 if an unfinished restore stopped the last run of the compactor"
    );
}
