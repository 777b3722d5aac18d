//! Listings of stores that list keys in no order (docs/design/protocol.md, N8).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::{Entry, Page};

/// The smallest keys of a listing, gathered from all pages that a store sends in no order.
pub(super) struct UnorderedListing<'a> {
    prefix: &'a str,
    after: &'a str,
    limit: usize,
    smallest: BTreeMap<String, Entry>,
    truncated: bool,
    pages: usize,
    served_at: Option<DateTime<Utc>>,
}

impl<'a> UnorderedListing<'a> {
    pub(super) fn new(prefix: &'a str, after: &'a str, limit: usize) -> UnorderedListing<'a> {
        UnorderedListing {
            prefix,
            after,
            limit,
            smallest: BTreeMap::new(),
            truncated: false,
            pages: 0,
            served_at: None,
        }
    }

    /// Adds a page that the store sent. Keeps the smallest `limit` keys.
    pub(super) fn see(&mut self, entries: Vec<Entry>, served_at: Option<DateTime<Utc>>) {
        // With the date of the first page, no object seems to be older than it is.
        if self.pages == 0 {
            self.served_at = served_at;
        }
        self.pages += 1;
        for entry in entries {
            if entry.key.starts_with(self.prefix) && entry.key.as_str() > self.after {
                self.smallest.insert(entry.key.clone(), entry);
            }
            if self.smallest.len() > self.limit {
                self.smallest.pop_last();
                self.truncated = true;
            }
        }
    }

    /// Returns the smallest keys in order. Call this method after the last page of the store.
    pub(super) fn into_page(self) -> Page {
        let entries = self.smallest.into_values().collect();
        let mut page = Page::new(entries, self.truncated).with_served_at(self.served_at);
        page.torn = self.pages > 1;
        page
    }
}

/// Returns the folder of a prefix: the prefix up to its last slash.
pub(super) fn folder(prefix: &str) -> &str {
    &prefix[..prefix.rfind('/').map_or(0, |slash| slash + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_keys_of_all_pages_are_sorted() {
        let pages: [&[&str]; 2] = [&["a/3", "a/1", "b/0"], &["a/2", "a/4", "a/0"]];
        for (after, limit, keys, truncated) in [
            ("", 9, "a/0 a/1 a/2 a/3 a/4", false),
            ("a/0", 4, "a/1 a/2 a/3 a/4", false),
            ("a/0", 2, "a/1 a/2", true),
            ("a/4", 2, "", false),
        ] {
            let mut listing = UnorderedListing::new("a/", after, limit);
            for (number, page) in pages.iter().enumerate() {
                let date = DateTime::from_timestamp(number as i64, 0);
                listing.see(page.iter().map(|key| Entry::new(*key, 1)).collect(), date);
            }
            let page = listing.into_page();
            let listed: Vec<_> = page.entries.iter().map(|entry| entry.key.as_str()).collect();
            assert_eq!(
                (listed.join(" ").as_str(), page.truncated, page.torn),
                (keys, truncated, true)
            );
            assert_eq!(page.served_at, Some(DateTime::UNIX_EPOCH));
        }
        let mut whole = UnorderedListing::new("a/", "", 9);
        whole.see(vec![Entry::new("a/2", 1), Entry::new("a/1", 1)], None);
        assert!(!whole.into_page().torn);
    }

    #[test]
    fn a_folder_ends_with_the_last_slash() {
        for (prefix, of_it) in [("a/b/lock-", "a/b/"), ("a/", "a/"), ("lock-", ""), ("", "")] {
            assert_eq!(folder(prefix), of_it);
        }
    }
}
