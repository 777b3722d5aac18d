//! Names with their labels, and those that are counted at each poll and renewal made once.
//!
//! A key owns its labels, so that making one takes allocations, several for each request. The cache
//! holds keys, not counters: it asks the recorder for the counter each time, as a recorder may be
//! installed late, or forget idle counters.

use std::sync::{Arc, OnceLock};

use metrics::{
    Counter, Gauge, Histogram, Key, Label, Level, Metadata, SharedString, with_recorder,
};

const METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Labels beside that of the election.
pub(super) type Labels<'a> = &'a [(&'static str, &'static str)];

/// What is counted at each poll that finds nothing new.
const POLL: [(&str, Labels<'static>); 3] = [
    ("tenure_polls_total", &[]),
    ("tenure_requests_total", &[("kind", "get"), ("outcome", "not_modified")]),
    ("tenure_request_seconds", &[("kind", "get")]),
];

/// What is counted at each renewal that goes well, with the leader's looks at the next epoch.
const RENEWAL: [(&str, Labels<'static>); 8] = [
    ("tenure_renewals_total", &[("outcome", "done")]),
    ("tenure_renewal_seconds", &[]),
    ("tenure_lease_least_ratio", &[]),
    ("tenure_lease_remaining_seconds", &[]),
    ("tenure_requests_total", &[("kind", "get"), ("outcome", "missing")]),
    ("tenure_requests_total", &[("kind", "replace"), ("outcome", "done")]),
    ("tenure_request_seconds", &[("kind", "get")]),
    ("tenure_request_seconds", &[("kind", "replace")]),
];

/// The keys of one election.
#[derive(Debug)]
pub(super) struct Kept {
    election: Arc<str>,
    /// Once somebody polls.
    poll: OnceLock<Box<[Key]>>,
    /// Once somebody leads.
    renewal: OnceLock<Box<[Key]>>,
}

impl Kept {
    pub(super) fn new(election: String) -> Kept {
        Kept { election: election.into(), poll: OnceLock::new(), renewal: OnceLock::new() }
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

    /// Keeps the keys of a renewal from now on.
    pub(super) fn leads(&self) {
        self.renewal.get_or_init(|| self.keys(&RENEWAL));
    }

    pub(super) fn election(&self) -> SharedString {
        SharedString::from_shared(Arc::clone(&self.election))
    }

    fn with<T>(&self, name: &'static str, labels: Labels<'_>, to: impl Fn(&Key) -> T) -> T {
        let kept = find(&POLL, &self.poll, name, labels);
        match kept.or_else(|| find(&RENEWAL, &self.renewal, name, labels)) {
            Some(key) => to(key),
            None => to(&self.key(name, labels)),
        }
    }

    fn keys(&self, names: &[(&'static str, Labels<'static>)]) -> Box<[Key]> {
        names.iter().map(|(name, labels)| self.key(name, labels)).collect()
    }

    fn key(&self, name: &'static str, labels: Labels<'_>) -> Key {
        let election = Label::new("election", self.election());
        let words = labels.iter().map(|(label, word)| Label::from_static_parts(label, word));
        Key::from_parts(name, [election].into_iter().chain(words).collect::<Vec<_>>())
    }
}

fn find<'a>(
    names: &[(&str, Labels<'_>)],
    keys: &'a OnceLock<Box<[Key]>>,
    name: &str,
    labels: Labels<'_>,
) -> Option<&'a Key> {
    let at = names.iter().position(|it| *it == (name, labels))?;
    keys.get()?.get(at)
}
