//! Metric names with their labels. The names of polls and renewals are built once.
//!
//! A key owns its labels, so building one allocates several times, for each request. The cache
//! holds keys, not counters: it asks the recorder for the counter each time, as a recorder may be
//! installed late, or forget idle counters.

use std::sync::{Arc, OnceLock};

use metrics::{
    Counter, Gauge, Histogram, Key, Label, Level, Metadata, SharedString, with_recorder,
};

use super::lease_names::LeaseMetrics;

pub(super) const METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Labels in addition to the label of the place.
pub(super) type Labels<'a> = &'a [(&'static str, &'static str)];

/// The counters of a poll that finds nothing new.
const POLL: [(&str, Labels<'static>); 3] = [
    ("tenure_polls_total", &[]),
    ("tenure_requests_total", &[("kind", "get"), ("outcome", "not_modified")]),
    ("tenure_request_seconds", &[("kind", "get")]),
];

/// The keys of one place.
#[derive(Debug)]
pub(super) struct KeyCache {
    place: Arc<str>,
    /// The counters and times of a lease.
    pub(super) lease: &'static LeaseMetrics,
    /// Keys of polls; set by the first observer or candidate.
    poll: OnceLock<Box<[Key]>>,
    /// Keys of a lease; set by the first lease, as one process may follow thousands of elections.
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

    /// Keeps the keys of a poll from now on.
    pub(super) fn polls(&self) {
        self.poll.get_or_init(|| self.keys(&POLL));
    }

    /// Keeps the keys of a lease from now on.
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
