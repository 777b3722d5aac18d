//! Checks of the content, order, start and end of listings.

use tenure::store::{ETag, Entry};

use super::check_scope::{CheckFailure, CheckScope, Checked, broken, expect_eq};

fn names(count: usize) -> Vec<String> {
    (1..=count).map(|i| format!("lock-{i:010}.json")).collect()
}

pub(super) async fn lists_what_was_written(scope: CheckScope<'_>) -> Checked {
    const WHEN: &str = "lists keys that differ from the written objects (list after write)";
    let names = names(scope.can.rounds.max(10));
    let mut written: Vec<&str> = Vec::new();
    // Writes the keys in descending order, so that the store must sort them.
    for (place, name) in names.iter().enumerate().rev() {
        scope.created(name, vec![b'x'; place]).await?;
        written.push(name);
        written.sort();
        expect_eq!(scope.list("lock-", "", 1_000).await?, written, "{WHEN}");
    }
    let mut etag = scope.found(&names[0]).await?.etag;
    for _ in 0..3 {
        let replaced = scope.replaced(&names[0], "", &etag);
        let listed = scope.list("lock-", "", 1_000);
        let (replaced, listed) = futures::future::join(replaced, listed).await;
        etag = replaced?;
        expect_eq!(listed?, written, "omits an object that is replaced during the listing");
    }
    if scope.can.exact_sizes {
        let entries = scope.list_from("lock-", "", 1_000).await?;
        let sizes = entries.iter().map(|entry| entry.size).collect::<Vec<_>>();
        let expected = (0..names.len() as u64).collect::<Vec<_>>();
        expect_eq!(sizes, expected, "lists wrong sizes");
    }
    scope.delete(&[written.remove(2)]).await?;
    let words =
        "lists keys that differ from the remaining objects after a delete (list after delete)";
    expect_eq!(scope.list("lock-", "", 1_000).await?, written, "{words}");
    Ok(())
}

pub(super) async fn lists_by_bytes_of_the_key(scope: CheckScope<'_>) -> Checked {
    // In ascending order of their bytes, the characters are `-`, `.`, `/`, digits, `A`, `_`, `a`.
    let sorted = ["A", "Z", "_", "a-b", "a.b", "a/-", "a/b-", "a/b.", "a/b/c", "a0", "aA", "ab"];
    for name in sorted.iter().rev() {
        scope.created(name, *name).await?;
    }
    for limit in [1, 2, 3, 1_000] {
        expect_eq!(
            scope.list("", "", limit).await?,
            sorted,
            "lists wrong keys in pages of {limit}"
        );
    }
    Ok(())
}

pub(super) async fn lists_only_the_prefix(scope: CheckScope<'_>) -> Checked {
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
        scope.created(name, "x").await?;
    }
    for (prefix, expected) in [
        ("lock-", &names[..5]),
        ("lock-x/", &names[3..5]),
        ("lock-0000000002", &names[1..3]),
        ("nothing", &[]),
        ("nothing/at/all-", &[]),
    ] {
        let listed = scope.list(prefix, "", 1_000).await?;
        expect_eq!(listed, expected, "lists wrong keys under the prefix {prefix:?}");
    }
    expect_eq!(scope.list("", "", 1_000).await?.len(), names.len(), "lists a wrong number of keys");
    Ok(())
}

pub(super) async fn starts_after(scope: CheckScope<'_>) -> Checked {
    let names = (0..10).map(|i| format!("lock-{:010}.json", i * 2)).collect::<Vec<_>>();
    for name in &names {
        scope.created(name, "x").await?;
    }
    let mut starts = names.iter().zip(1..).map(|(name, next)| (scope.key(name), next)).collect();
    let more: &mut Vec<(String, usize)> = &mut starts;
    for (name, next) in [
        ("lock-0000000005.json", 3),
        ("lock-0000000004.jso", 2),
        ("lock-0000000004.json.", 3),
        ("a", 0),
        ("lock-", 0),
        ("z", names.len()),
    ] {
        more.push((scope.key(name), next));
    }
    more.push((String::new(), 0));
    for limit in [3, 1_000] {
        for (after, next) in &starts {
            let listed = scope.list("lock-", after, limit).await?;
            expect_eq!(listed, names[*next..], "lists wrong keys after {after} (start-after)");
        }
    }
    Ok(())
}

pub(super) async fn pages(scope: CheckScope<'_>) -> Checked {
    let names = names(7);
    for name in &names {
        scope.created(name, "x").await?;
    }
    for limit in [1, 2, 6, 7, 8, 1_000] {
        expect_eq!(
            scope.list("lock-", "", limit).await?,
            names,
            "lists wrong keys in pages of {limit}"
        );
    }
    // A page that omits keys must be marked as truncated. A full page may be marked as truncated
    // even if it omits no key.
    let prefix = scope.key("lock-");
    for limit in [1, 2, 6] {
        if !scope.page(&prefix, "", limit).await?.truncated {
            return broken(format!(
                "lists {limit} of 7 keys, and does not report that more follow"
            ));
        }
    }
    let page = scope.page(&prefix, &scope.key(&names[6]), 1_000).await?;
    if !page.entries.is_empty() || page.truncated {
        return broken(format!(
            "lists keys or reports a truncated page after the last key: {page:?}"
        ));
    }
    Ok(())
}

/// This check passes if the store does not offer listings of the last keys.
pub(super) async fn lists_the_last(scope: CheckScope<'_>) -> Checked {
    let prefix = scope.key("lock-");
    if scope.list_last(&prefix, "", 1).await?.is_none() {
        return Ok(());
    }
    let names = names(7);
    // These keys are outside the prefix. A wrong listing of the last keys would contain one of
    // them.
    for name in ["lock", "loc/9", "locl", "m"] {
        scope.created(name, "x").await?;
    }
    for (count, name) in (1..).zip(&names) {
        scope.created(name, "x").await?;
        for limit in [1, 2, 6, 7, 8, 1_000] {
            let shown = &names[count - limit.min(count)..count];
            let after = scope.key("");
            scope.shows_last(&after, limit, shown, count > limit).await?;
        }
    }
    for limit in [1, 3, 1_000] {
        let left = names.len() - 4;
        let shown = &names[names.len().saturating_sub(limit).max(4)..];
        scope.shows_last(&scope.key(&names[3]), limit, shown, left > limit).await?;
        let between = scope.key("lock-0000000004.json.bak");
        scope.shows_last(&between, limit, shown, left > limit).await?;
        scope.shows_last(&scope.key(&names[6]), limit, &[], false).await?;
        scope.shows_last(&scope.key("z"), limit, &[], false).await?;
    }
    scope.delete(&[&names[6]]).await?;
    scope.shows_last("", 1, &names[5..6], true).await
}

/// This check passes if the listings of the store have no ETags.
pub(super) async fn lists_the_etags(scope: CheckScope<'_>) -> Checked {
    let names = names(5);
    let mut etags = Vec::new();
    for name in &names {
        etags.push(scope.created(name, name.clone()).await?);
    }
    let entries = scope.list_from("lock-", "", 1_000).await?;
    if entries.iter().all(|entry| entry.etag.is_none()) {
        return Ok(());
    }
    let mut seen = scope.shows_etags(&etags).await?.into_iter().enumerate().collect::<Vec<_>>();
    for (round, at) in [0, 2, 0, 4, 1].into_iter().enumerate() {
        let (name, body) = (&names[at], format!("{round}"));
        if round == 3 {
            scope.delete(&[name]).await?;
            etags[at] = scope.created(name, body).await?;
        } else {
            etags[at] = scope.replaced(name, body, &etags[at]).await?;
        }
        let listed = scope.shows_etags(&etags).await?.swap_remove(at);
        if seen.iter().any(|(of, old)| *of == at && old.names_the_same(&listed)) {
            return broken(format!("lists the ETag {listed} for two different bodies"));
        }
        seen.push((at, listed));
    }
    Ok(())
}

impl CheckScope<'_> {
    /// Checks that every listing shows the ETags that reads return. Returns these ETags.
    async fn shows_etags(&self, etags: &[ETag]) -> Checked<Vec<ETag>> {
        let mut listed = Vec::new();
        for limit in [1, 2, 1_000] {
            let entries = self.list_from("lock-", "", limit).await?;
            listed = name_the_same(&entries, etags, &format!("pages of {limit}"))?;
            let last = self.store.list_last(&self.key("lock-"), "", limit).await;
            if let Some(page) = last.map_err(CheckFailure::Request)? {
                let last = etags.len().saturating_sub(page.entries.len());
                name_the_same(&page.entries, &etags[last..], &format!("the last {limit}"))?;
            }
        }
        Ok(listed)
    }

    /// Lists the last `limit` keys. Returns these keys, and true if the page omits smaller keys.
    /// Returns `None` if the store does not offer this listing.
    async fn list_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Checked<Option<(Vec<String>, bool)>> {
        let page = self.store.list_last(prefix, after, limit).await;
        Ok(page.map_err(CheckFailure::Request)?.map(|page| {
            (page.entries.into_iter().map(|entry| entry.key).collect(), page.truncated)
        }))
    }

    /// Checks that the page of the last `limit` keys has these names. The page must be truncated if
    /// it omits keys. A full page that omits no key may be marked as truncated, because some stores
    /// do so.
    async fn shows_last(
        &self,
        after: &str,
        limit: usize,
        names: &[String],
        left_out: bool,
    ) -> Checked {
        let Some((keys, truncated)) = self.list_last(&self.key("lock-"), after, limit).await?
        else {
            return broken("offers listings of the last keys in one call, but not in the next");
        };
        let expected = names.iter().map(|name| self.key(name)).collect::<Vec<_>>();
        expect_eq!(keys, expected, "lists wrong keys as the last {limit} keys after {after}");
        let full = keys.len() == limit;
        if left_out && !truncated || truncated && !left_out && !full {
            return broken(format!(
                "reports truncated: {truncated} for the last {limit} keys after {after}"
            ));
        }
        Ok(())
    }
}

fn name_the_same(entries: &[Entry], etags: &[ETag], page: &str) -> Checked<Vec<ETag>> {
    expect_eq!(entries.len(), etags.len(), "lists a wrong number of keys in {page}");
    let same = |(entry, etag): (&Entry, &ETag)| match &entry.etag {
        Some(listed) if listed.names_the_same(etag) => Ok(listed.clone()),
        other => broken(format!(
            "lists {} in {page} with the ETag {other:?}, but returned {etag:?} for its write",
            entry.key
        )),
    };
    entries.iter().zip(etags).map(same).collect()
}
