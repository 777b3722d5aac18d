//! A cache of metric keys (names with their labels) for polls and renewals.
//!
//! A key owns its labels, so each new key needs several allocations. The cache does not contain
//! counters. The meter gets a counter from the recorder each time, because the recorder may be
//! installed late, or may remove idle counters.

use std::sync::{Arc, OnceLock};

use metrics::{
    Counter, Gauge, Histogram, Key, Label, Level, Metadata, SharedString, with_recorder,
};

use super::lease_names::LeaseMetrics;

pub(super) const METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Labels in addition to the label that identifies the election or group.
pub(super) type Labels<'a> = &'a [(&'static str, &'static str)];

/// Metrics of a poll that finds no change.
const POLL: [(&str, Labels<'static>); 3] = [
    ("tenure_polls_total", &[]),
    ("tenure_requests_total", &[("kind", "get"), ("outcome", "not_modified")]),
    ("tenure_request_seconds", &[("kind", "get")]),
];

/// The metric keys of one election or group, which `place` identifies by its store and prefix.
#[derive(Debug)]
pub(super) struct KeyCache {
    place: Arc<str>,
    /// Metric names of the lease.
    pub(super) lease: &'static LeaseMetrics,
    /// Keys of the metrics that a poll without a change records. The first poll creates them.
    poll: OnceLock<Box<[Key]>>,
    /// Keys of the metrics in `LeaseMetrics::frequent`. The first lease creates them, because a
    /// process may follow thousands of elections and never hold a lease.
    frequent: OnceLock<Box<[Key]>>,
}

impl KeyCache {
    pub(super) fn new(place: String, lease: &'static LeaseMetrics) -> KeyCache {
        let (poll, frequent) = Default::default();
        KeyCache { place: place.into(), lease, poll, frequent }
    }

    pub(super) fn counter(&self, name: &'static str, labels: Labels<'_>) -> Counter {
        self.with(name, labels, |key| with_recorder(|it| it.register_counter(key, &METADATA)))
    }

    pub(super) fn gauge(&self, name: &'static str, labels: Labels<'_>) -> Gauge {
        self.with(name, labels, |key| with_recorder(|it| it.register_gauge(key, &METADATA)))
    }

    pub(super) fn histogram(&self, name: &'static str, labels: Labels<'_>) -> Histogram {
        self.with(name, labels, |key| with_recorder(|it| it.register_histogram(key, &METADATA)))
    }

    /// Starts to cache the metric keys that a poll without a change records.
    pub(super) fn polls(&self) {
        self.poll.get_or_init(|| self.keys(&POLL));
    }

    /// Starts to cache the metric keys that each renewal of a lease records.
    pub(super) fn leads(&self) {
        self.frequent.get_or_init(|| self.keys(self.lease.frequent));
    }

    pub(super) fn place(&self) -> SharedString {
        SharedString::from_shared(Arc::clone(&self.place))
    }

    fn with<T>(&self, name: &'static str, labels: Labels<'_>, to: impl Fn(&Key) -> T) -> T {
        let kept = find(&POLL, self.poll.get().map(|it| &**it), name, labels).or_else(|| {
            find(self.lease.frequent, self.frequent.get().map(|it| &**it), name, labels)
        });
        match kept {
            Some(key) => to(key),
            None => to(&self.key(name, labels)),
        }
    }

    fn keys(&self, names: &[(&'static str, Labels<'static>)]) -> Box<[Key]> {
        names.iter().map(|(name, labels)| self.key(name, labels)).collect()
    }

    fn key(&self, name: &'static str, labels: Labels<'_>) -> Key {
        let LeaseMetrics { place, stem, .. } = self.lease;
        let of = if name.starts_with(stem) { place } else { "election" };
        let place = Label::new(of, self.place());
        let words = labels.iter().map(|(label, word)| Label::from_static_parts(label, word));
        Key::from_parts(name, [place].into_iter().chain(words).collect::<Vec<_>>())
    }
}

fn find<'a>(
    names: &[(&str, Labels<'_>)],
    keys: Option<&'a [Key]>,
    name: &str,
    labels: Labels<'_>,
) -> Option<&'a Key> {
    let at = names.iter().position(|it| *it == (name, labels))?;
    keys?.get(at)
}
