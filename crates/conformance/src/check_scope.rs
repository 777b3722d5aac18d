//! The keys of one check, and the requests that the check sends to the store. A failed request ends
//! the check.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tenure::store::{
    Determinacy, ETag, Entry, GetOutcome, Object, Page, PutOutcome, Store, StoreError,
    StoreErrorKind,
};

use super::Capabilities;

/// The reason for a failed check.
#[derive(Debug)]
pub enum CheckFailure {
    /// A violated guarantee. The text continues a sentence that begins with "the store".
    Broken(String),
    /// A failed request. The check is inconclusive.
    Request(StoreError),
}

impl CheckFailure {
    /// Returns true if a timeout, a 409 or a 5xx ended the check. The caller should then repeat the
    /// check on other keys.
    pub fn is_unclear(&self) -> bool {
        matches!(self, CheckFailure::Request(error) if is_unclear(error))
    }
}

impl fmt::Display for CheckFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CheckFailure::Broken(words) => f.write_str(words),
            CheckFailure::Request(error) => write!(f, "fails a request: {error}"),
        }
    }
}

pub(super) fn is_unclear(error: &StoreError) -> bool {
    error.kind() == StoreErrorKind::Transient || error.determinacy() == Determinacy::Indeterminate
}

pub(super) type Checked<T = ()> = Result<T, CheckFailure>;

pub(super) fn broken<T>(words: impl Into<String>) -> Checked<T> {
    Err(CheckFailure::Broken(words.into()))
}

/// Returns [`CheckFailure::Broken`] unless both values are equal.
macro_rules! expect_eq {
    ($left:expr, $right:expr, $($words:tt)+) => {
        match (&$left, &$right) {
            (left, right) if *left == *right => {}
            (left, right) => {
                let words = format_args!($($words)+);
                return $crate::check_scope::broken(format!(
                    "{words}: {left:?}, expected {right:?}"
                ));
            }
        }
    };
}
pub(super) use expect_eq;

/// The keys of one check.
#[derive(Debug, Clone)]
pub(super) struct CheckScope<'a> {
    pub(super) store: Arc<dyn Store>,
    /// Prefix of each key.
    pub(super) start: String,
    pub(super) can: &'a Capabilities,
}

impl CheckScope<'_> {
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.start)
    }

    pub(super) async fn create(&self, name: &str, body: impl Into<Bytes>) -> Checked<PutOutcome> {
        let key = self.key(name);
        self.store.create(&key, body.into()).await.map_err(CheckFailure::Request)
    }

    pub(super) async fn replace(
        &self,
        name: &str,
        body: impl Into<Bytes>,
        etag: &ETag,
    ) -> Checked<PutOutcome> {
        let key = self.key(name);
        let call = self.store.replace(&key, body.into(), etag.clone());
        call.await.map_err(CheckFailure::Request)
    }

    pub(super) async fn created(&self, name: &str, body: impl Into<Bytes>) -> Checked<ETag> {
        let outcome = self.create(name, body).await?;
        self.etag(name, outcome, "refuses to create a missing object").await
    }

    pub(super) async fn replaced(
        &self,
        name: &str,
        body: impl Into<Bytes>,
        etag: &ETag,
    ) -> Checked<ETag> {
        let outcome = self.replace(name, body, etag).await?;
        let words = "refuses to replace an object whose ETag matches (If-Match)";
        self.etag(name, outcome, words).await
    }

    async fn etag(&self, name: &str, outcome: PutOutcome, words: &str) -> Checked<ETag> {
        match outcome {
            PutOutcome::Done { etag: Some(etag) } => Ok(etag),
            PutOutcome::Done { etag: None } if self.can.lenient => Ok(self.found(name).await?.etag),
            PutOutcome::Done { etag: None } => broken("returns no ETag for a write"),
            other => broken(format!("{words}: {other:?}")),
        }
    }

    pub(super) async fn get(
        &self,
        name: &str,
        unless: Option<&ETag>,
        max_len: usize,
    ) -> Checked<GetOutcome> {
        let key = self.key(name);
        let call = self.store.get(&key, unless.cloned(), max_len);
        call.await.map_err(CheckFailure::Request)
    }

    pub(super) async fn found(&self, name: &str) -> Checked<Object> {
        match self.get(name, None, 1 << 20).await? {
            GetOutcome::Found(object) => Ok(object),
            other => broken(format!(
                "does not return {name}, which was written before (read after write): {other:?}"
            )),
        }
    }

    /// Checks that a read shows this body and this ETag.
    pub(super) async fn shows(&self, name: &str, body: &[u8], etag: &ETag, when: &str) -> Checked {
        let object = self.found(name).await?;
        if object.body != body {
            return broken(format!("returns a wrong body {when}"));
        }
        if object.etag != *etag {
            let read = object.etag;
            return broken(format!(
                "returns the ETag {read} {when}, but returned {etag} for the write"
            ));
        }
        Ok(())
    }

    pub(super) async fn delete(&self, names: &[&str]) -> Checked {
        delete(&self.store, names.iter().map(|name| self.key(name)).collect()).await
    }

    pub(super) async fn page(&self, prefix: &str, after: &str, limit: usize) -> Checked<Page> {
        page(&self.store, prefix, after, limit).await
    }

    /// Lists all entries whose name starts with `prefix`, in pages of `limit` keys. The listing
    /// starts after the key `after`, which is a whole key with the prefix of the check.
    pub(super) async fn list_from(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Checked<Vec<Entry>> {
        let prefix = self.key(prefix);
        let mut after = after.to_owned();
        let mut entries = Vec::new();
        loop {
            let page = self.page(&prefix, &after, limit).await?;
            let Some(last) = page.entries.last() else {
                if page.truncated {
                    return broken("returns a page without keys, and reports that more follow");
                }
                return Ok(entries);
            };
            after.clone_from(&last.key);
            entries.extend(page.entries);
            if !page.truncated {
                return Ok(entries);
            }
        }
    }

    /// Returns the names of the listed objects: their keys without the prefix of the check.
    pub(super) async fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Checked<Vec<String>> {
        let mut names = Vec::new();
        for entry in self.list_from(prefix, after, limit).await? {
            match entry.key.strip_prefix(&self.start) {
                Some(name) => names.push(name.to_owned()),
                None => return broken(format!("lists {} under {}", entry.key, self.start)),
            }
        }
        Ok(names)
    }
}

/// Lists one page, and checks its size, start and order.
pub(super) async fn page(
    store: &Arc<dyn Store>,
    prefix: &str,
    after: &str,
    limit: usize,
) -> Checked<Page> {
    let page = store.list(prefix, after, limit).await.map_err(CheckFailure::Request)?;
    if page.entries.len() > limit {
        return broken(format!("lists {} keys in a page of {limit}", page.entries.len()));
    }
    if page.entries.iter().any(|entry| entry.key.as_str() <= after) {
        return broken("lists keys at or before the requested start (start-after)");
    }
    if !page.entries.is_sorted_by(|one, next| one.key < next.key) {
        return broken("lists keys out of order");
    }
    Ok(page)
}

pub(super) async fn delete(store: &Arc<dyn Store>, keys: Vec<String>) -> Checked {
    match store.delete(keys).await.map_err(CheckFailure::Request)?.pop() {
        None => Ok(()),
        Some((key, error)) => {
            let words = format!("the deletion of {key}: {error}");
            let error = StoreError::new(error.kind(), error.determinacy(), words);
            Err(CheckFailure::Request(error))
        }
    }
}
