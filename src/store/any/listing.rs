//! Listings, over object_store's stream of all that lies in a folder, or by pages.

use futures::StreamExt as _;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::{AnyObjectStore, ServedAt, tag};
use crate::store::request_context::RequestContext;
use crate::store::{EMPTY_PAGES, Entry, Page, StoreError, out_of_order, read_past_a_page};

/// Greatest number of keys of one page, as in one answer of the services.
const MOST: usize = 1_000;

/// Gathers the entries of one page, and judges the order they come in.
struct Gathered<'a> {
    prefix: &'a str,
    after: &'a str,
    limit: usize,
    previous: String,
    entries: Vec<Entry>,
}

/// The outcome for one key.
#[derive(PartialEq, Eq)]
enum ListStart {
    Before,
    Taken,
    /// Past the prefix, and so is all that follows.
    Past,
    /// There is more than the page may hold.
    More,
}

impl<'a> Gathered<'a> {
    fn new(prefix: &'a str, after: &'a str, limit: usize) -> Gathered<'a> {
        Gathered { prefix, after, limit, previous: String::new(), entries: Vec::new() }
    }

    /// A key out of order is an error: others that belong here could follow it.
    fn see(&mut self, meta: ObjectMeta) -> Result<ListStart, StoreError> {
        let key = String::from(meta.location);
        if key <= self.previous && !is_after_by_parts(&self.previous, &key) {
            return Err(out_of_order(&self.previous, &key));
        }
        self.previous.clone_from(&key);
        if !key.starts_with(self.prefix) {
            return Ok(if *key < *self.prefix { ListStart::Before } else { ListStart::Past });
        }
        if *key <= *self.after {
            return Ok(ListStart::Before);
        }
        if self.entries.len() == self.limit {
            return Ok(ListStart::More);
        }
        let last_modified = Some(meta.last_modified);
        let etag = tag::encode(meta.e_tag.as_deref(), meta.version.as_deref());
        self.entries.push(Entry { key, size: meta.size, last_modified, etag });
        Ok(ListStart::Taken)
    }
}

/// Whether the key comes later where a listing is in the order of parts between slashes, as in a
/// hierarchical namespace of Azure. Within one folder that is the order of bytes.
fn is_after_by_parts(previous: &str, key: &str) -> bool {
    previous.split('/').lt(key.split('/'))
}

/// Over the stream, which knows whole folders only, and sends requests as far as it is read.
pub(super) async fn stream(
    store: &AnyObjectStore,
    request: RequestContext<'_, AnyObjectStore>,
    after: &str,
    limit: usize,
) -> Result<Page, StoreError> {
    let prefix = request.key;
    let folder = match prefix.rsplit_once('/') {
        None => None,
        Some((folder, _)) => Some(store.path(request, folder)?),
    };
    let inner: &dyn ObjectStore = &*store.store;
    let mut stream = match start(prefix, after) {
        Some(start) => inner.list_with_offset(folder.as_ref(), &start),
        None => inner.list(folder.as_ref()),
    };
    let mut page = Gathered::new(prefix, after, limit);
    let mut truncated = false;
    while let Some(meta) = stream.next().await {
        match page.see(meta.map_err(|error| request.failed(&error))?)? {
            ListStart::Before => read_past_a_page(),
            // One more would be another request.
            ListStart::Taken if page.entries.len() == MOST => {
                truncated = true;
                break;
            }
            ListStart::Taken => {}
            ListStart::Past => break,
            ListStart::More => {
                truncated = true;
                break;
            }
        }
    }
    Ok(store.page(page.entries, truncated, None))
}

/// Where the stream may start: at a key that object_store can name, not after the first one wanted.
fn start(prefix: &str, after: &str) -> Option<Path> {
    let exact = |key: &str| Path::parse(key).ok().filter(|path| path.as_ref() == key);
    let whole_folder = prefix.is_empty() || prefix.ends_with('/');
    let last = prefix.chars().next_back().filter(|_| !whole_folder);
    let before = last.and_then(|last| exact(&prefix[..prefix.len() - last.len_utf8()]));
    // The name of a folder is itself before all that is in it.
    Some(after).filter(|after| !after.is_empty() && *after >= prefix).and_then(exact).or(before)
}

/// Lists by pages; their answers have a date, and accept any prefix.
pub(super) async fn pages(
    store: &AnyObjectStore,
    pages: &dyn PaginatedListStore,
    request: RequestContext<'_, AnyObjectStore>,
    after: &str,
    limit: usize,
) -> Result<Page, StoreError> {
    let prefix = Some(request.key).filter(|prefix| !prefix.is_empty());
    let mut page = Gathered::new(request.key, after, limit);
    let (mut page_token, mut empty) = (None, 0);
    while empty < EMPTY_PAGES {
        let options = PaginatedListOptions {
            offset: (!after.is_empty()).then(|| after.to_owned()),
            max_keys: Some(MOST),
            page_token,
            ..PaginatedListOptions::default()
        };
        let answer = pages.list_paginated(prefix, options).await;
        let answer = answer.map_err(|error| request.failed(&error))?;
        let mut truncated = answer.page_token.is_some();
        empty += usize::from(answer.result.objects.is_empty());
        for meta in answer.result.objects {
            if page.see(meta)? == ListStart::More {
                truncated = true;
                break;
            }
        }
        // Azure may answer pages without a key, and its emulator those before the place asked for.
        if !page.entries.is_empty() || !truncated {
            let served_at = answer.result.extensions.get::<ServedAt>();
            return Ok(store.page(page.entries, truncated, served_at.map(|date| date.0)));
        }
        page_token = answer.page_token;
        read_past_a_page();
    }
    Err(request.unsupported("it answered pages without a key and said that more follow"))
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use async_trait::async_trait;
    use chrono::DateTime;
    use object_store::list::PaginatedListResult;
    use object_store::memory::InMemory;
    use object_store::{Extensions, ListResult};

    use super::*;
    use crate::env::timer::pause;
    use crate::store::request_context::Verb;
    use crate::store::{StoreErrorKind, listed_within};

    /// Parameters of one page: the prefix, the offset, the greatest number of keys, the token.
    type Request = (Option<String>, Option<String>, Option<usize>, Option<String>);

    /// Answers these pages, one a call; each but the last has its number for a token.
    #[derive(Default)]
    struct Pages {
        left: Mutex<VecDeque<&'static [&'static str]>>,
        asked: Mutex<Vec<Request>>,
    }

    #[async_trait]
    impl PaginatedListStore for Pages {
        async fn list_paginated(
            &self,
            prefix: Option<&str>,
            options: PaginatedListOptions,
        ) -> object_store::Result<PaginatedListResult> {
            let asked = (prefix.map(str::to_owned), options.offset, options.max_keys);
            let mut requests = self.asked.lock().unwrap();
            requests.push((asked.0, asked.1, asked.2, options.page_token));
            let mut left = self.left.lock().unwrap();
            let keys = left.pop_front().expect("no more pages are asked for than there are");
            let meta = |key: &&str| ObjectMeta {
                location: (*key).into(),
                last_modified: DateTime::UNIX_EPOCH,
                size: 1,
                e_tag: None,
                version: None,
            };
            let result = ListResult {
                common_prefixes: Vec::new(),
                objects: keys.iter().map(meta).collect(),
                extensions: Extensions::new(),
            };
            let page_token = (!left.is_empty()).then(|| requests.len().to_string());
            Ok(PaginatedListResult { result, page_token })
        }
    }

    /// The keys of the page, whether it is truncated, and its parameters.
    async fn page(
        (prefix, after, limit): (&str, &str, usize),
        answers: &[&'static [&'static str]],
    ) -> (Vec<String>, bool, Vec<Request>) {
        let store = AnyObjectStore::of(Arc::new(InMemory::new()), None, "a test".to_owned());
        let answers =
            Pages { left: Mutex::new(answers.iter().copied().collect()), ..Pages::default() };
        let page = pages(&store, &answers, store.request(Verb::List, prefix), after, limit);
        let page = page.await.unwrap();
        let keys = page.entries.into_iter().map(|entry| entry.key).collect();
        (keys, page.truncated, answers.asked.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_page_is_asked_for_by_its_prefix_and_from_its_place() {
        let some = |text: &str| Some(text.to_owned());
        let (keys, truncated, asked) = page(("a/l", "", 9), &[&["a/l1", "a/l2", "a/l3"]]).await;
        assert_eq!((keys, truncated), (vec!["a/l1".into(), "a/l2".into(), "a/l3".into()], false));
        assert_eq!(asked, [(some("a/l"), None, Some(MOST), None)]);
        let (keys, _, asked) = page(("", "a/l1", 9), &[&["a/l2"]]).await;
        assert_eq!(keys, ["a/l2"]);
        assert_eq!(asked, [(None, some("a/l1"), Some(MOST), None)]);
    }

    #[tokio::test]
    async fn a_page_without_a_key_is_read_past_and_one_with_more_is_cut_off() {
        let (keys, truncated, asked) = page(("a/", "a/1", 9), &[&[], &["a/1"], &["a/2"]]).await;
        assert_eq!((keys, truncated), (vec!["a/2".to_owned()], false));
        let tokens: Vec<_> = asked.iter().map(|asked| asked.3.as_deref()).collect();
        assert_eq!(tokens, [None, Some("1"), Some("2")]);
        let (keys, truncated, _) = page(("a/", "", 2), &[&["a/1", "a/2", "a/3"]]).await;
        assert_eq!((keys.len(), truncated), (2, true));
        let (keys, truncated, asked) = page(("a/", "", 2), &[&["a/1"], &["a/2"]]).await;
        assert_eq!((keys.len(), truncated, asked.len()), (1, true, 1));
    }

    /// Answers pages without a key, each after this time.
    struct NoKeys {
        pages: Mutex<usize>,
        time: Duration,
    }

    #[async_trait]
    impl PaginatedListStore for NoKeys {
        async fn list_paginated(
            &self,
            _: Option<&str>,
            _: PaginatedListOptions,
        ) -> object_store::Result<PaginatedListResult> {
            pause(self.time).await;
            let mut pages = self.pages.lock().unwrap();
            *pages = pages.saturating_sub(1);
            let page_token = (*pages > 0).then(|| "more".to_owned());
            let result = ListResult {
                common_prefixes: Vec::new(),
                objects: Vec::new(),
                extensions: Extensions::new(),
            };
            Ok(PaginatedListResult { result, page_token })
        }
    }

    #[test]
    fn keys_in_the_order_of_their_parts_are_in_order() {
        assert!(is_after_by_parts("app/z", "app-1/a"), "a hierarchical namespace");
        for (previous, key) in [("app/b", "app/a"), ("app-1/a", "app/z"), ("app/a", "app/a")] {
            assert!(!is_after_by_parts(previous, key), "{key} after {previous}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn regression_pages_without_a_key_are_timed_one_by_one_and_counted() {
        let store = AnyObjectStore::of(Arc::new(InMemory::new()), None, "a test".to_owned());
        let limit = Duration::from_secs(1);
        for (number, answered) in [(EMPTY_PAGES - 1, true), (usize::MAX, false)] {
            let answers = NoKeys { pages: Mutex::new(number), time: limit / 2 };
            let page = pages(&store, &answers, store.request(Verb::List, "app/"), "", 9);
            match listed_within(limit, page).await {
                Ok(page) => assert!(answered && page.entries.is_empty()),
                Err(error) => {
                    assert!(!answered && error.kind() == StoreErrorKind::Unsupported, "{error}");
                }
            }
        }
    }

    #[test]
    fn the_stream_starts_at_a_key_that_hides_nothing() {
        let start = |prefix: &str, after: &str| start(prefix, after).map(String::from);
        assert_eq!(
            start("app/lock-", "app/lock-0000000001.json").unwrap(),
            "app/lock-0000000001.json"
        );
        assert_eq!(start("app/lock-", "").unwrap(), "app/lock");
        assert_eq!(start("app/lock-", "app/a").unwrap(), "app/lock");
        assert_eq!(start("app/lock-", "app/lock-x/").unwrap(), "app/lock", "no key of its own");
        assert_eq!(start("app/l", ""), None, "only the folder would be left");
        assert_eq!(start("lock-", "").unwrap(), "lock");
        assert_eq!(start("app/", ""), None);
        assert_eq!(start("", ""), None);
        assert_eq!(start("", "a").unwrap(), "a");
    }
}
