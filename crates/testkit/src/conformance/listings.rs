//! What a listing shows, in which order, and where it starts and ends.

use tenure::store::{ETag, Entry};

use super::Capabilities;
use super::check::{Check, expect_eq};

pub(super) async fn lists_what_was_written(check: Check<'_>, can: &Capabilities) {
    let mut written = Vec::new();
    for round in 0..30 {
        let name = format!("lock-{round:010}.json");
        check.created(&name, vec![b'x'; round]).await;
        written.push(name);
        expect_eq!(check, check.list("lock-", "", 1_000).await, written, "after a create");
    }
    if can.exact_sizes {
        let entries = check.list_from("lock-", "", 1_000).await;
        let sizes = entries.iter().map(|entry| entry.size).collect::<Vec<_>>();
        expect_eq!(check, sizes, (0..30).collect::<Vec<u64>>(), "sizes");
    }
    check.delete(&["lock-0000000003.json"]).await;
    written.remove(3);
    expect_eq!(check, check.list("lock-", "", 1_000).await, written, "after a delete");
}

pub(super) async fn lists_by_bytes_of_the_key(check: Check<'_>) {
    // `-` and `.` sort before `/`, that before digits, these before `A`, `_` and `a`.
    let sorted = ["A", "Z", "_", "a-b", "a.b", "a/-", "a/b-", "a/b.", "a/b/c", "a0", "aA", "ab"];
    for name in sorted.iter().rev() {
        check.created(name, *name).await;
    }
    for limit in [1, 2, 3, 1_000] {
        expect_eq!(check, check.list("", "", limit).await, sorted, "pages of {limit}");
    }
}

pub(super) async fn lists_only_the_prefix(check: Check<'_>) {
    let names = [
        "lock-0000000001.json",
        "lock-0000000002.json",
        "lock-0000000002.json.bak",
        "lock-x/0000000003.json",
        "lock-x/deep/er",
        "locl",
        "lock",
        "other/lock-0000000009.json",
    ];
    for name in names {
        check.created(name, "x").await;
    }
    expect_eq!(check, check.list("lock-", "", 1_000).await, &names[..5], "a part of a name");
    expect_eq!(check, check.list("lock-x/", "", 1_000).await, &names[3..5], "a folder");
    expect_eq!(check, check.list("lock-0000000002", "", 9).await, &names[1..3], "a longer part");
    expect_eq!(check, check.list("nothing", "", 1_000).await, [""; 0], "nothing there");
    expect_eq!(check, check.list("nothing/at/all-", "", 9).await, [""; 0], "no such folder");
    expect_eq!(check, check.list("", "", 1_000).await.len(), names.len(), "everything");
}

pub(super) async fn starts_after(check: Check<'_>) {
    let names = (0..10).map(|i| format!("lock-{:010}.json", i * 2)).collect::<Vec<_>>();
    for name in &names {
        check.created(name, "x").await;
    }
    for limit in [1, 3, 1_000] {
        let check = &check;
        let list = |after: String| async move { check.list("lock-", &after, limit).await };
        for (i, name) in names.iter().enumerate() {
            let found = list(check.key(name)).await;
            expect_eq!(check, found, names[i + 1..], "after {name}, which exists");
        }
        let found = list(check.key("lock-0000000005.json")).await;
        expect_eq!(check, found, names[3..], "after a key that does not exist");
        expect_eq!(check, list(check.key("lock-0000000004.jso")).await, names[2..], "a part");
        expect_eq!(check, list(check.key("lock-0000000004.json.")).await, names[3..], "longer");
        expect_eq!(check, list(check.key("a")).await, names, "after a key before the prefix");
        expect_eq!(check, list(check.key("lock-")).await, names, "after the prefix itself");
        expect_eq!(check, list(check.key("z")).await, [""; 0], "after a key past the prefix");
        expect_eq!(check, list(String::new()).await, names, "from the start");
    }
}

pub(super) async fn pages(check: Check<'_>) {
    let names = (1..=7).map(|i| format!("lock-{i:010}.json")).collect::<Vec<_>>();
    for name in &names {
        check.created(name, "x").await;
    }
    for limit in [1, 2, 6, 7, 8, 1_000] {
        expect_eq!(check, check.list("lock-", "", limit).await, names, "pages of {limit}");
    }
    // A short page may say that there is more, but one that left something out must.
    let prefix = check.key("lock-");
    for limit in [1, 2, 6] {
        match check.store.list(&prefix, "", limit).await {
            Ok(page) if page.truncated => {}
            other => check.fail(format_args!("{limit} of 7 keys, and no more: {other:?}")),
        }
    }
    match check.store.list(&prefix, &check.key(&names[6]), 1_000).await {
        Ok(page) if page.entries.is_empty() && !page.truncated => {}
        other => check.fail(format_args!("after the last key: {other:?}")),
    }
}

/// Only of a store that offers it.
pub(super) async fn lists_the_last(check: Check<'_>) {
    let prefix = check.key("lock-");
    if check.list_last(&prefix, "", 1).await.is_none() {
        return;
    }
    let names = (1..=7).map(|i| format!("lock-{i:010}.json")).collect::<Vec<_>>();
    // Beside the prefix, where a listing from the wrong end would begin.
    for name in ["lock", "loc/9", "locl", "m"] {
        check.created(name, "x").await;
    }
    for (count, name) in (1..).zip(&names) {
        check.created(name, "x").await;
        for limit in [1, 2, 6, 7, 8, 1_000] {
            let shown = &names[count - limit.min(count)..count];
            let after = check.key("");
            check.shows_last(&after, limit, shown, count > limit).await;
        }
    }
    for limit in [1, 3, 1_000] {
        let left = names.len() - 4;
        let shown = &names[names.len().saturating_sub(limit).max(4)..];
        check.shows_last(&check.key(&names[3]), limit, shown, left > limit).await;
        let between = check.key("lock-0000000004.json.bak");
        check.shows_last(&between, limit, shown, left > limit).await;
        check.shows_last(&check.key(&names[6]), limit, &[], false).await;
        check.shows_last(&check.key("z"), limit, &[], false).await;
    }
    check.delete(&[&names[6]]).await;
    check.shows_last("", 1, &names[5..6], true).await;
}

/// Only of a store that lists any.
pub(super) async fn lists_the_etags(check: Check<'_>) {
    let names = (1..=5).map(|i| format!("lock-{i:010}.json")).collect::<Vec<_>>();
    let mut etags = Vec::new();
    for name in &names {
        etags.push(check.created(name, name.clone()).await);
    }
    let entries = check.list_from("lock-", "", 1_000).await;
    if entries.iter().all(|entry| entry.etag.is_none()) {
        return;
    }
    let mut seen = check.shows_etags(&etags).await.into_iter().enumerate().collect::<Vec<_>>();
    for (round, at) in [0, 2, 0, 4, 1].into_iter().enumerate() {
        let (name, body) = (&names[at], format!("{round}"));
        if round == 3 {
            check.delete(&[name]).await;
            etags[at] = check.created(name, body).await;
        } else {
            let outcome = check.replace(name, body, &etags[at]).await;
            etags[at] = check.done(outcome, "a replace with the ETag that the last write answered");
        }
        let listed = check.shows_etags(&etags).await.swap_remove(at);
        if seen.iter().any(|(of, old)| *of == at && old.names_the_same(&listed)) {
            check.fail(format_args!("{listed} is listed again, with another body"));
        }
        seen.push((at, listed));
    }
}

impl Check<'_> {
    /// Every listing shows the versions that have these tags, which are those of reads. Returns the
    /// tags as they are listed.
    async fn shows_etags(&self, etags: &[ETag]) -> Vec<ETag> {
        let mut listed = Vec::new();
        for limit in [1, 2, 1_000] {
            let entries = self.list_from("lock-", "", limit).await;
            listed = self.name_the_same(&entries, etags, &format!("pages of {limit}"));
            match self.store.list_last(&self.key("lock-"), "", limit).await {
                Ok(Some(page)) => {
                    let last = etags.len().saturating_sub(page.entries.len());
                    self.name_the_same(&page.entries, &etags[last..], &format!("the last {limit}"));
                }
                Ok(None) => {}
                Err(error) => self.fail(format_args!("the last {limit}: {error:?}")),
            }
        }
        listed
    }

    fn name_the_same(&self, entries: &[Entry], etags: &[ETag], what: &str) -> Vec<ETag> {
        expect_eq!(self, entries.len(), etags.len(), "{what}");
        let same = |(entry, etag): (&Entry, &ETag)| match &entry.etag {
            Some(listed) if listed.names_the_same(etag) => listed.clone(),
            other => self.fail(format_args!(
                "{what} show {} with the ETag {other:?}, and reads and writes with {etag:?}",
                entry.key
            )),
        };
        entries.iter().zip(etags).map(same).collect()
    }

    /// The keys of the page, and whether smaller ones were left out; `None` if it is not offered.
    async fn list_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Option<(Vec<String>, bool)> {
        match self.store.list_last(prefix, after, limit).await {
            Ok(page) => page.map(|page| {
                (page.entries.into_iter().map(|entry| entry.key).collect(), page.truncated)
            }),
            Err(error) => self.fail(format_args!("the last after {after}: {error:?}")),
        }
    }

    /// The page of the last `limit` keys has these names, and says that more were left out if any
    /// were: it may say so of none, as a page that is full does on some stores.
    async fn shows_last(&self, after: &str, limit: usize, names: &[String], left_out: bool) {
        let shown = self.list_last(&self.key("lock-"), after, limit).await;
        let Some((keys, truncated)) = shown else { self.fail("offered once, and then not") };
        let expected = names.iter().map(|name| self.key(name)).collect::<Vec<_>>();
        expect_eq!(self, keys, expected, "the last {limit} after {after}");
        let full = keys.len() == limit;
        if left_out && !truncated || truncated && !left_out && !full {
            self.fail(format_args!("the last {limit} after {after}: truncated is {truncated}"));
        }
    }
}
