//! Finds the elections, groups and jobs below a prefix.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tenure::Layout;
use tenure::store::{Determinacy, Store, StoreError, StoreErrorKind};

use crate::process::timer::pause;

/// The kinds of things that a search finds: elections in one of two layouts, groups and jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FoundKind {
    EpochFiles,
    SingleObject,
    Group,
    Job,
}

impl FoundKind {
    /// Returns the layout if this kind is an election.
    pub fn layout(self) -> Option<Layout> {
        match self {
            FoundKind::EpochFiles => Some(Layout::EpochFiles),
            FoundKind::SingleObject => Some(Layout::SingleObject),
            FoundKind::Group | FoundKind::Job => None,
        }
    }
}

/// An election, a group or a job that a search has found: its prefix and its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub prefix: String,
    pub kind: FoundKind,
}

/// Maximum number of LISTs of one search. Each LIST returns up to 1,000 keys.
const MOST_PAGES: usize = 200;
const PAGE: usize = 1_000;
/// Time limit of the LIST that [`has`] sends.
const SOON: Duration = Duration::from_secs(6);
/// Time limit of each LIST of a search, and of opening a store.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The result of a search.
#[derive(Debug, Default)]
pub struct Search {
    pub found: BTreeSet<Found>,
    /// True if the search listed all keys below the prefix.
    pub complete: bool,
}

/// Searches all keys below `prefix`. If a LIST ends within the objects of one election, group or
/// job, the next LIST skips the rest of these objects. So a search lists only a part of a long
/// history.
pub async fn search(store: &Arc<dyn Store>, prefix: &str) -> Result<Search, StoreError> {
    let below = below(prefix);
    let mut search = Search::default();
    let mut after = String::new();
    for _ in 0..MOST_PAGES {
        let listed = within(store.list(&below, &after, PAGE)).await;
        let page = listed.unwrap_or_else(|| Err(no_answer()))?;
        let mut skip = None;
        for entry in &page.entries {
            skip = None;
            if let Some((found, last)) = classify(&entry.key) {
                search.found.insert(found);
                skip = Some(last);
            }
        }
        let Some(last) = page.entries.last().filter(|_| page.truncated) else {
            search.complete = !page.truncated;
            break;
        };
        after = skip.filter(|skip| *skip > last.key).unwrap_or_else(|| last.key.clone());
    }
    Ok(search)
}

/// Returns whether an object of this kind exists at the prefix. Sends one LIST, for one key.
/// Returns `None` if the request fails, or if the store does not answer within 6 s.
pub async fn has(store: &Arc<dyn Store>, prefix: &str, kind: FoundKind) -> Option<bool> {
    // In the order of keys, the keys of this kind directly follow `start`. So the first key after
    // `start` shows whether an object of this kind exists.
    let start = match kind {
        FoundKind::EpochFiles => "lock-",
        FoundKind::SingleObject => "lock.jso",
        FoundKind::Group => "assignment-",
        FoundKind::Job => "once-per.jso",
    };
    let first = first_after(store, prefix, start).await?;
    let first = first.and_then(|key| classify(&key));
    let here = below(prefix);
    Some(first.is_some_and(|(found, _)| found.kind == kind && below(&found.prefix) == here))
}

/// Returns whether the prefix has a marker of an election across stores, as [`has`] does.
pub async fn has_marker(store: &Arc<dyn Store>, prefix: &str) -> Option<bool> {
    let first = first_after(store, prefix, "lock-set-").await?;
    let marker = format!("{}lock-set-", below(prefix));
    Some(first.is_some_and(|key| key.starts_with(&marker)))
}

/// Returns the first key after `start` under the prefix.
async fn first_after(store: &Arc<dyn Store>, prefix: &str, start: &str) -> Option<Option<String>> {
    let below = below(prefix);
    let after = format!("{below}{start}");
    let page = tokio::select! {
        biased;
        page = store.list(&below, &after, 1) => page,
        () = pause(SOON) => return None,
    };
    Some(page.ok()?.entries.into_iter().next().map(|entry| entry.key))
}

/// Returns the text with which all keys under this prefix begin.
fn below(prefix: &str) -> String {
    match prefix.trim_end_matches('/') {
        "" => String::new(),
        prefix => format!("{prefix}/"),
    }
}

/// Returns the result of the call, or `None` if the store does not answer within `ANSWER_WITHIN`.
pub async fn within<T>(call: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        result = call => Some(result),
        () = pause(ANSWER_WITHIN) => None,
    }
}

/// Returns the error to show if the store does not answer a read within the time limit.
pub fn no_answer() -> StoreError {
    let why = "the store does not answer; the page tries again";
    StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why)
}

/// Returns the election, group or job of this object, and an upper bound of the keys of all similar
/// objects. For example, the bound for one epoch object applies to all epochs of the election.
fn classify(key: &str) -> Option<(Found, String)> {
    let (folder, name) = key.rsplit_once('/').unwrap_or(("", key));
    let found = |prefix: &str, kind| Found { prefix: prefix.to_owned(), kind };
    let join =
        |name: &str| if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
    if is_numbered(name, "lock-") {
        return Some((found(folder, FoundKind::EpochFiles), join("lock-9999999999.json")));
    }
    if is_numbered(name, "assignment-") {
        return Some((found(folder, FoundKind::Group), join("assignment-9999999999.json")));
    }
    match name {
        "once-per.json" => Some((found(folder, FoundKind::Job), key.to_owned())),
        "lock.json" => Some(match session_of(folder) {
            // Ids of sessions are hexadecimal, so a key with `~` in place of the id is above all
            // keys of sessions.
            Some(group) => {
                let members = if group.is_empty() {
                    "members/~".to_owned()
                } else {
                    format!("{group}/members/~")
                };
                (found(group, FoundKind::Group), members)
            }
            None => (found(folder, FoundKind::SingleObject), key.to_owned()),
        }),
        _ => None,
    }
}

/// Returns whether `name` consists of `start`, ten digits, and `.json`.
fn is_numbered(name: &str, start: &str) -> bool {
    let number = name.strip_prefix(start).and_then(|rest| rest.strip_suffix(".json"));
    number.is_some_and(|number| number.len() == 10 && number.bytes().all(|it| it.is_ascii_digit()))
}

/// Returns the prefix of the group that the session belongs to, if `folder` is the folder of a
/// session.
fn session_of(folder: &str) -> Option<&str> {
    let (members, id) = folder.rsplit_once('/')?;
    let is_id = id.len() == 32 && id.bytes().all(|it| it.is_ascii_hexdigit());
    let group = members.strip_suffix("/members").or((members == "members").then_some(""))?;
    is_id.then_some(group)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tenure::store::MemoryStore;

    use super::*;

    const ID: &str = "5f0c4a1e9b7d42c08a3e6d1f2b9c7045";

    #[test]
    fn each_key_shows_the_prefix_and_kind_of_its_election_group_or_job() {
        let at = |key: &str| classify(key).map(|(found, _)| (found.prefix, found.kind));
        let place = |prefix: &str, kind| Some((prefix.to_owned(), kind));
        assert_eq!(at("lock-0000000001.json"), place("", FoundKind::EpochFiles));
        assert_eq!(at("a/b/lock-0000000001.json"), place("a/b", FoundKind::EpochFiles));
        assert_eq!(at("a/lock.json"), place("a", FoundKind::SingleObject));
        assert_eq!(at("a/assignment-0000000007.json"), place("a", FoundKind::Group));
        assert_eq!(at(&format!("a/members/{ID}/lock.json")), place("a", FoundKind::Group));
        assert_eq!(at(&format!("members/{ID}/lock.json")), place("", FoundKind::Group));
        assert_eq!(at("a/members/x/lock.json"), place("a/members/x", FoundKind::SingleObject));
        assert_eq!(at("jobs/once-per.json"), place("jobs", FoundKind::Job));
        for other in ["a/lock-1.json", "a/lock-000000000x.json", "a/.tenure-check-00", "a/data"] {
            assert_eq!(at(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn a_long_history_costs_one_list() {
        let store = MemoryStore::new();
        for epoch in 1..=2_500 {
            let key = format!("a/lock-{epoch:010}.json");
            store.create(&key, Bytes::new()).await.expect("a new key");
        }
        let store = Arc::new(store);
        let all: Arc<dyn Store> = store.clone();
        let alone = search(&all, "").await.expect("a listing");
        assert!(alone.complete, "no key follows the skipped ones");
        store.create("b/once-per.json", Bytes::new()).await.expect("a new key");
        let requests = Arc::default();
        let counted: Arc<dyn Store> = Arc::new(crate::ui::counted_store::CountedStore {
            store,
            requests: Arc::clone(&requests),
        });
        let search = search(&counted, "").await.expect("a listing");
        let found: Vec<_> = search.found.iter().map(|it| (&*it.prefix, it.kind)).collect();
        assert_eq!(found, [("a", FoundKind::EpochFiles), ("b", FoundKind::Job)]);
        assert!(search.complete);
        assert_eq!(requests.counts(), (2, 0));
    }

    #[tokio::test]
    async fn each_kind_is_found_with_one_list() {
        let store = MemoryStore::new();
        for key in ["a/assignment-0000000001.json", "a/data/lock.json", "ab/lock.json", "b"] {
            store.create(key, Bytes::new()).await.expect("a new key");
        }
        let store: Arc<dyn Store> = Arc::new(store);
        for prefix in ["a", "a/"] {
            assert_eq!(has(&store, prefix, FoundKind::Group).await, Some(true));
            for kind in [FoundKind::EpochFiles, FoundKind::SingleObject, FoundKind::Job] {
                assert_eq!(has(&store, prefix, kind).await, Some(false), "{kind:?}");
            }
        }
        for (key, kind) in [
            ("a/lock-0000000007.json", FoundKind::EpochFiles),
            ("a/lock.json", FoundKind::SingleObject),
            ("a/once-per.json", FoundKind::Job),
        ] {
            store.create(key, Bytes::new()).await.expect("a new key");
            assert_eq!(has(&store, "a", kind).await, Some(true), "{kind:?}");
        }
    }

    #[tokio::test]
    async fn a_prefix_is_a_folder() {
        let store = MemoryStore::new();
        for key in ["a/lock-0000000001.json", "ab/lock-0000000001.json"] {
            store.create(key, Bytes::new()).await.expect("a new key");
        }
        let store: Arc<dyn Store> = Arc::new(store);
        for prefix in ["a", "a/"] {
            let search = search(&store, prefix).await.expect("a listing");
            assert_eq!(search.found.iter().map(|it| &*it.prefix).collect::<Vec<_>>(), ["a"]);
        }
    }
}
