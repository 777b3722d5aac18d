//! Lists objects in one of two ways: from object_store's stream of a whole folder, or page by page.

use futures::StreamExt as _;
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};

use super::{AnyObjectStore, ServedAt, tag};
use crate::store::request_context::RequestContext;
use crate::store::{EMPTY_PAGES, Entry, Page, StoreError, out_of_order, read_past_a_page};

/// Maximum number of keys in a page. S3 and Cloud Storage have the same maximum for one response.
const MOST: usize = 1_000;

/// Collects the entries of one page, and checks their order.
struct Gathered<'a> {
    prefix: &'a str,
    after: &'a str,
    limit: usize,
    previous: String,
    entries: Vec<Entry>,
}

/// The position of one listed key, relative to the page.
#[derive(PartialEq, Eq)]
enum ListStart {
    Before,
    Taken,
    /// This key and all later keys sort after all keys with the prefix.
    Past,
    /// The page is full, and more keys exist.
    More,
}

impl<'a> Gathered<'a> {
    fn new(prefix: &'a str, after: &'a str, limit: usize) -> Gathered<'a> {
        Gathered { prefix, after, limit, previous: String::new(), entries: Vec::new() }
    }

    /// Adds a listed key. Returns an error if the keys are out of order, because any later key may
    /// then have the prefix.
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

/// Returns true if `key` sorts after `previous` by a comparison of the parts between slashes. Azure
/// lists a hierarchical namespace in this order. Within one folder, this order is the same as the
/// order of bytes.
fn is_after_by_parts(previous: &str, key: &str) -> bool {
    previous.split('/').lt(key.split('/'))
}

/// Lists from the client's stream of objects. This stream supports only whole folders, and sends
/// its requests while the caller reads.
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
            // The page has the maximum number of keys, and the next key would cost another request.
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

/// Returns the key after which the stream starts, or `None` to start at the folder. object_store
/// allows the returned key, and all requested keys sort after it.
fn start(prefix: &str, after: &str) -> Option<Path> {
    let exact = |key: &str| Path::parse(key).ok().filter(|path| path.as_ref() == key);
    let whole_folder = prefix.is_empty() || prefix.ends_with('/');
    let last = prefix.chars().next_back().filter(|_| !whole_folder);
    let before = last.and_then(|last| exact(&prefix[..prefix.len() - last.len_utf8()]));
    // The stream starts at `after`, with two exceptions: `after` sorts before the prefix, or
    // object_store does not allow it as a key. In these cases, it starts at the prefix without the
    // prefix's last character. If object_store does not allow that key either, it starts at the
    // folder.
    Some(after).filter(|after| !after.is_empty() && *after >= prefix).and_then(exact).or(before)
}

/// Lists page by page, with the client's `PaginatedListStore`. This interface accepts any prefix,
/// and its responses have a date.
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
        // Azure may send pages without a key. Azure's emulator may also send pages that contain
        // only keys before the requested start. The loop skips these pages.
        if !page.entries.is_empty() || !truncated {
            let served_at = answer.result.extensions.get::<ServedAt>();
            return Ok(store.page(page.entries, truncated, served_at.map(|date| date.0)));
        }
        page_token = answer.page_token;
        read_past_a_page();
    }
    Err(request.unsupported("the listing has too many pages without a key"))
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

    /// Parameters of the request for one page: the prefix, the offset, the maximum number of keys,
    /// and the token of the page.
    type Request = (Option<String>, Option<String>, Option<usize>, Option<String>);

    /// A client that answers each call with the next of these pages. Each page except the last has
    /// a token, which is the number of the page.
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
            let keys = left.pop_front().expect("no call follows the last page");
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

    /// Lists one page. Returns its keys, whether it is truncated, and the parameters of the last
    /// request.
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
    async fn a_request_names_its_prefix_and_its_start() {
        let some = |text: &str| Some(text.to_owned());
        let (keys, truncated, asked) = page(("a/l", "", 9), &[&["a/l1", "a/l2", "a/l3"]]).await;
        assert_eq!((keys, truncated), (vec!["a/l1".into(), "a/l2".into(), "a/l3".into()], false));
        assert_eq!(asked, [(some("a/l"), None, Some(MOST), None)]);
        let (keys, _, asked) = page(("", "a/l1", 9), &[&["a/l2"]]).await;
        assert_eq!(keys, ["a/l2"]);
        assert_eq!(asked, [(None, some("a/l1"), Some(MOST), None)]);
    }

    #[tokio::test]
    async fn pages_without_a_key_are_skipped_and_long_pages_are_truncated() {
        let (keys, truncated, asked) = page(("a/", "a/1", 9), &[&[], &["a/1"], &["a/2"]]).await;
        assert_eq!((keys, truncated), (vec!["a/2".to_owned()], false));
        let tokens: Vec<_> = asked.iter().map(|asked| asked.3.as_deref()).collect();
        assert_eq!(tokens, [None, Some("1"), Some("2")]);
        let (keys, truncated, _) = page(("a/", "", 2), &[&["a/1", "a/2", "a/3"]]).await;
        assert_eq!((keys.len(), truncated), (2, true));
        let (keys, truncated, asked) = page(("a/", "", 2), &[&["a/1"], &["a/2"]]).await;
        assert_eq!((keys.len(), truncated, asked.len()), (1, true, 1));
    }

    /// A client that answers only with pages without keys. Each page arrives after `time`.
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
    fn keys_may_be_in_the_order_of_their_parts() {
        assert!(is_after_by_parts("app/z", "app-1/a"), "a hierarchical namespace");
        for (previous, key) in [("app/b", "app/a"), ("app-1/a", "app/z"), ("app/a", "app/a")] {
            assert!(!is_after_by_parts(previous, key), "{key} after {previous}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn regression_pages_without_keys_have_a_timeout_each_and_a_maximum_number() {
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
    fn the_stream_starts_at_or_before_the_first_requested_key() {
        let start = |prefix: &str, after: &str| start(prefix, after).map(String::from);
        assert_eq!(
            start("app/lock-", "app/lock-0000000001.json").unwrap(),
            "app/lock-0000000001.json"
        );
        assert_eq!(start("app/lock-", "").unwrap(), "app/lock");
        assert_eq!(start("app/lock-", "app/a").unwrap(), "app/lock");
        assert_eq!(
            start("app/lock-", "app/lock-x/").unwrap(),
            "app/lock",
            "object_store does not allow the key"
        );
        assert_eq!(start("app/l", ""), None, "the stream starts at the folder");
        assert_eq!(start("lock-", "").unwrap(), "lock");
        assert_eq!(start("app/", ""), None);
        assert_eq!(start("", ""), None);
        assert_eq!(start("", "a").unwrap(), "a");
    }
}
