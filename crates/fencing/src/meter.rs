//! Metrics of the durable gates of this process.

use metrics::{SharedString, Unit, counter, describe_counter};

use tenure::Store;
use tenure::internals::fencing::place;

/// Outcomes of `tenure_gate_checks_total`.
const GATE_CHECKS: [&str; 4] = ["admitted", "stale", "unavailable", "failed"];

/// Counts the checks of one gate.
#[derive(Debug, Clone)]
pub(crate) struct GateMeter {
    gate: SharedString,
}

impl GateMeter {
    pub(crate) fn new(store: &dyn Store, key: &str) -> GateMeter {
        let text = "Tokens that a durable gate has checked";
        describe_counter!("tenure_gate_checks_total", Unit::Count, text);
        let meter = GateMeter { gate: place(store, key).into() };
        // Register the counter of each outcome with the value 0. Without this value, a query for
        // the increase would miss the first event.
        for outcome in GATE_CHECKS {
            meter.count(outcome, 0);
        }
        meter
    }

    /// Counts one check with this outcome.
    pub(crate) fn checked(&self, outcome: &'static str) {
        self.count(outcome, 1);
    }

    fn count(&self, outcome: &'static str, by: u64) {
        let gate = self.gate.clone();
        counter!("tenure_gate_checks_total", "gate" => gate, "outcome" => outcome).increment(by);
    }
}
