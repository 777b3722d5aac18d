//! The meter reports to the recorder of the crate `metrics`.
//!
//! The number of label values is bounded, because labels contain only elections or groups, and
//! words from short lists. No label contains an epoch, a nonce or a partition.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Key, Label, with_recorder};

use super::key_cache::{KeyCache, METADATA};
use super::lease_names::{LEADERSHIP, LeaseMetrics};
use super::names::{ELECTIONS, LOSSES, OBSERVED, RENEWALS, STORE_STATES, describe};
use super::role::Role;
use crate::epoch::Epoch;
use crate::protocol::message::Answer;
use crate::record::keys::Keys;
use crate::store::Store;

/// Metrics of one election, group or other user of leases, under one prefix of a store.
#[derive(Debug, Clone)]
pub struct Meter {
    keys: Arc<KeyCache>,
}

impl Meter {
    /// Reasons for the end of a lease, as in [`Loss::outcome`](crate::Loss::outcome).
    pub const LOSSES: [&str; 8] = LOSSES;

    /// Creates a meter, and describes the metrics. A recorder that is installed later gets no
    /// descriptions.
    pub(crate) fn new(store: &dyn Store, keys: &Keys) -> Meter {
        Meter::with(store, keys, &LEADERSHIP)
    }

    /// Creates a meter with other metric names, for leases that are not leaderships.
    pub(crate) fn with(store: &dyn Store, keys: &Keys, lease: &'static LeaseMetrics) -> Meter {
        describe(lease);
        let place = place(store, keys.prefix().trim_end_matches('/'));
        Meter { keys: Arc::new(KeyCache::new(place, lease)) }
    }

    fn is_of_an_election(&self) -> bool {
        std::ptr::eq(self.keys.lease, &LEADERSHIP)
    }

    /// Returns the counter of this name, with these labels and the label that identifies the
    /// election or group.
    pub fn counter(&self, name: &'static str, labels: &[(&'static str, &'static str)]) -> Counter {
        self.keys.counter(name, labels)
    }

    /// Returns the gauge of this name, with the label that identifies the election or group.
    pub fn gauge(&self, name: &'static str) -> Gauge {
        self.keys.gauge(name, &[])
    }

    /// Creates the counters of an observer's requests, each with the value 0.
    pub fn observes(&self) {
        Role::Observer.register(&self.keys);
    }

    /// Starts to cache the keys of the metrics in `LeaseMetrics::frequent`.
    pub fn keep_keys(&self) {
        self.keys.leads();
    }

    pub(super) fn keys(&self) -> &KeyCache {
        &self.keys
    }

    /// Records that this process campaigns under this name, and registers the metrics of a
    /// candidate.
    pub(crate) fn candidate(&self, name: &str, validity: Duration) {
        // Each counter is created with the value 0. If a counter were created with its first event,
        // this event would not appear as an increase.
        for outcome in RENEWALS {
            self.count(self.keys.lease.renewals, "outcome", outcome, 0);
        }
        for reason in LOSSES {
            self.count(self.keys.lease.losses, "reason", reason, 0);
        }
        self.keys.counter(self.keys.lease.at_risk, &[]).increment(0);
        self.holders().increment(0.0);
        self.keys.gauge(self.keys.lease.validity, &[]).set(validity);
        Role::Candidate.register(&self.keys);
        self.info(name).set(1.0);
        if !self.is_of_an_election() {
            return;
        }
        for outcome in ELECTIONS {
            self.count("tenure_elections_total", "outcome", outcome, 0);
        }
        self.keys.counter("tenure_polls_total", &[]).increment(0);
    }

    /// Returns the gauge that shows the name of this process in a label.
    fn info(&self, name: &str) -> Gauge {
        let LeaseMetrics { place, info: (metric, label), .. } = self.keys.lease;
        let labels = [Label::new(*place, self.keys.place()), Label::new(*label, name.to_owned())];
        let key = Key::from_parts(*metric, labels.to_vec());
        with_recorder(|it| it.register_gauge(&key, &METADATA))
    }

    /// Records that a new observer exists, and registers its metrics.
    pub(crate) fn observer(&self) -> Sight {
        self.keys.counter("tenure_polls_total", &[]).increment(0);
        Role::Observer.register(&self.keys);
        for state in OBSERVED {
            self.observers(state).increment(0.0);
        }
        let sight = Sight { meter: self.clone(), state: "unknown" };
        self.observers(sight.state).increment(1.0);
        sight
    }

    /// Registers the metrics of a new compactor.
    pub(crate) fn compactor(&self) {
        for outcome in super::names::COMPACTIONS {
            self.count("tenure_compactions_total", "outcome", outcome, 0);
        }
        self.deleted(0);
        Role::Compactor.register(&self.keys);
    }

    /// Records the end of a campaign.
    pub(crate) fn campaigned(&self, outcome: &'static str) {
        if self.is_of_an_election() {
            self.count("tenure_elections_total", "outcome", outcome, 1);
        }
    }

    /// Records that this process leads.
    pub(crate) fn elected(&self) -> Leading {
        self.keep_keys();
        self.holders().increment(1.0);
        Leading { meter: self.clone(), over: AtomicBool::new(false) }
    }

    /// Records the states of the stores of a leadership across stores.
    pub(crate) fn stores(&self) -> StoreGauge {
        StoreGauge { meter: self.clone() }
    }

    /// Records the greatest epoch that this process knows.
    pub(crate) fn knows(&self, greatest: Option<Epoch>) {
        if let Some(epoch) = greatest.filter(|_| self.is_of_an_election()) {
            // An epoch has at most ten digits, and a float is exact up to fifteen digits.
            self.keys.gauge("tenure_epoch", &[]).set(epoch.get() as f64);
        }
    }

    pub(crate) fn polled(&self) {
        if self.is_of_an_election() {
            self.keys.polls();
            self.keys.counter("tenure_polls_total", &[]).increment(1);
        }
    }

    /// Records the outcome of the write that renews a lease.
    pub(crate) fn renewal(&self, answer: &Answer) {
        let outcome = match answer {
            Answer::Done { .. } => "done",
            Answer::Refused => "refused",
            Answer::Missing => "missing",
            // The write had no answer or an error. The metric of the request contains the exact
            // outcome.
            _ => "failed",
        };
        self.count(self.keys.lease.renewals, "outcome", outcome, 1);
    }

    /// Records a renewal, and the part of the lease that remained just before the renewal.
    pub(crate) fn renewed(&self, took: Duration, left: Duration, validity: Duration) {
        self.keys.histogram(self.keys.lease.renewal_seconds, &[]).record(took);
        self.keys
            .histogram(self.keys.lease.least_ratio, &[])
            .record(left.as_secs_f64() / validity.as_secs_f64());
    }

    pub(crate) fn deleted(&self, epochs: usize) {
        self.keys.counter("tenure_epochs_compacted_total", &[]).increment(epochs as u64);
    }

    /// Records the end of a compactor run. `backlog` is the number of superseded epochs that
    /// remain, not counting the epochs that the compactor keeps.
    pub(crate) fn compacted(&self, outcome: &'static str, backlog: Option<u64>) {
        self.count("tenure_compactions_total", "outcome", outcome, 1);
        if let Some(backlog) = backlog {
            self.keys.gauge("tenure_epochs_backlog", &[]).set(backlog as f64);
        }
        // A run that ended early may not have read the newest epoch, so it does not change this
        // gauge.
        if !matches!(outcome, "error" | "interrupted") {
            let held = f64::from(u8::from(outcome == "held"));
            self.keys.gauge("tenure_restore_unfinished", &[]).set(held);
        }
    }

    pub(super) fn count(
        &self,
        name: &'static str,
        label: &'static str,
        word: &'static str,
        by: u64,
    ) {
        self.keys.counter(name, &[(label, word)]).increment(by);
    }

    /// Returns the gauge that counts the leaders or members in this process.
    fn holders(&self) -> Gauge {
        self.keys.gauge(self.keys.lease.holds, &[])
    }

    fn observers(&self, state: &'static str) -> Gauge {
        self.keys.gauge("tenure_observed", &[("state", state)])
    }
}

/// Returns the URL of this path in the store, as a label value. The URL omits the endpoint, because
/// processes may use different endpoints of one bucket.
pub fn place(store: &dyn Store, path: &str) -> String {
    let store = store.describe();
    let store = store.split_once(" at ").map_or(store.as_str(), |(store, _)| store);
    let separator = if path.is_empty() { "" } else { "/" };
    format!("{store}{separator}{path}")
}

/// The metrics of a leadership or of a member's session. Only the first task that detects the end
/// of the lease reports this end.
#[derive(Debug)]
pub(crate) struct Leading {
    meter: Meter,
    over: AtomicBool,
}

impl Leading {
    /// Records the remaining time of the lease.
    pub(crate) fn remains(&self, left: Duration) {
        if self.is_over() {
            return;
        }
        self.set_left(left);
        // After the check above, another thread may have reported the end of the lease and set the
        // gauge to 0. In this case the gauge must become 0 again.
        if self.is_over() {
            self.set_left(Duration::ZERO);
        }
    }

    pub(crate) fn at_risk(&self) {
        self.meter.keys.counter(self.meter.keys.lease.at_risk, &[]).increment(1);
    }

    pub(crate) fn lost(&self, reason: &'static str) {
        self.meter.count(self.meter.keys.lease.losses, "reason", reason, 1);
        self.ends();
    }

    fn ends(&self) {
        if !self.over.swap(true, Ordering::SeqCst) {
            self.set_left(Duration::ZERO);
            self.meter.holders().decrement(1.0);
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn set_left(&self, left: Duration) {
        self.meter.keys.gauge(self.meter.keys.lease.remaining, &[]).set(left);
    }
}

impl Drop for Leading {
    /// Reports the end of the lease if the driver's runtime shut down before the driver could
    /// report this end.
    fn drop(&mut self) {
        self.ends();
    }
}

/// The number of stores in each state, for one leadership across stores.
#[derive(Debug)]
pub(crate) struct StoreGauge {
    meter: Meter,
}

impl StoreGauge {
    pub(crate) fn set(&self, count: impl Fn(&str) -> usize) {
        for state in STORE_STATES {
            let gauge = self.meter.keys.gauge("tenure_stores", &[("state", state)]);
            // A set has at most five stores.
            gauge.set(count(state) as f64);
        }
    }
}

impl Drop for StoreGauge {
    fn drop(&mut self) {
        self.set(|_| 0);
    }
}

/// The state that one observer reports.
#[derive(Debug)]
pub(crate) struct Sight {
    meter: Meter,
    state: &'static str,
}

impl Sight {
    pub(crate) fn sees(&mut self, state: &'static str) {
        self.meter.observers(self.state).decrement(1.0);
        self.meter.observers(state).increment(1.0);
        self.state = state;
    }
}

impl Drop for Sight {
    /// Removes the state of a dropped observer.
    fn drop(&mut self) {
        self.meter.observers(self.state).decrement(1.0);
    }
}
