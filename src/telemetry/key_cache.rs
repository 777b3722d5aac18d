//! Names with their labels, and those that are counted at each poll and renewal made once.
//!
//! A key owns its labels, so that making one takes allocations, several for each request. The cache
//! holds keys, not counters: it asks the recorder for the counter each time, as a recorder may be
//! installed late, or forget idle counters.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use metrics::{
    Counter, Gauge, Histogram, Key, Label, Level, Metadata, SharedString, with_recorder,
};

use super::lease_names::LeaseNames;

const METADATA: Metadata<'static> =
    Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

/// Labels beside that of the election or the group.
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

/// What is counted at each poll of a group that finds nothing new, and at each renewal of a session.
const SESSION: [(&str, Labels<'static>); 12] = [
    ("tenure_group_polls_total", &[("outcome", "done")]),
    ("tenure_group_renewals_total", &[("outcome", "done")]),
    ("tenure_group_renewal_seconds", &[]),
    ("tenure_group_lease_least_ratio", &[]),
    ("tenure_group_lease_remaining_seconds", &[]),
    ("tenure_requests_total", &[("kind", "get"), ("outcome", "missing")]),
    ("tenure_requests_total", &[("kind", "get"), ("outcome", "not_modified")]),
    ("tenure_requests_total", &[("kind", "replace"), ("outcome", "done")]),
    ("tenure_requests_total", &[("kind", "list"), ("outcome", "done")]),
    ("tenure_request_seconds", &[("kind", "get")]),
    ("tenure_request_seconds", &[("kind", "replace")]),
    ("tenure_request_seconds", &[("kind", "list")]),
];

/// The keys of one election or group.
#[derive(Debug)]
pub(super) struct KeyCache {
    place: Arc<str>,
    /// What counts and times a lease.
    pub(super) lease: &'static LeaseNames,
    /// Once somebody polls.
    poll: OnceLock<Box<[Key]>>,
    /// Once somebody leads.
    renewal: OnceLock<Box<[Key]>>,
    /// Once somebody is a member, or follows a group. Elections have no room for it: one process may
    /// follow thousands.
    group: OnceLock<Box<GroupKeys>>,
}

#[derive(Debug)]
struct GroupKeys {
    keys: Box<[Key]>,
    /// How many look at the group.
    sights: AtomicUsize,
}

impl KeyCache {
    pub(super) fn new(place: String, lease: &'static LeaseNames) -> KeyCache {
        let (poll, renewal, group) = Default::default();
        KeyCache { place: place.into(), lease, poll, renewal, group }
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

    /// Keeps the keys of a session and of the polls of a group from now on. Returns how many look at
    /// the group.
    pub(super) fn follows_a_group(&self) -> &AtomicUsize {
        let new = || Box::new(GroupKeys { keys: self.keys(&SESSION), sights: AtomicUsize::new(0) });
        &self.group.get_or_init(new).sights
    }

    pub(super) fn place(&self) -> SharedString {
        SharedString::from_shared(Arc::clone(&self.place))
    }

    fn with<T>(&self, name: &'static str, labels: Labels<'_>, to: impl Fn(&Key) -> T) -> T {
        let kept = find(&POLL, self.poll.get().map(|it| &**it), name, labels)
            .or_else(|| find(&RENEWAL, self.renewal.get().map(|it| &**it), name, labels))
            .or_else(|| find(&SESSION, self.group.get().map(|it| &*it.keys), name, labels));
        match kept {
            Some(key) => to(key),
            None => to(&self.key(name, labels)),
        }
    }

    fn keys(&self, names: &[(&'static str, Labels<'static>)]) -> Box<[Key]> {
        names.iter().map(|(name, labels)| self.key(name, labels)).collect()
    }

    fn key(&self, name: &'static str, labels: Labels<'_>) -> Key {
        let of = if name.starts_with("tenure_group_") { "group" } else { "election" };
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
