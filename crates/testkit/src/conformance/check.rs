//! One check at work: calls to the store that fail with the name of the check.

use std::sync::Arc;

use bytes::Bytes;
use tenure::store::{ETag, Entry, GetOutcome, Object, PutOutcome, Store};

/// One check: its name, and a corner of the store for itself.
#[derive(Clone)]
pub(super) struct Check<'a> {
    pub(super) store: Arc<dyn Store>,
    pub(super) prefix: &'a str,
    pub(super) name: &'static str,
}

/// Like `assert_eq!`, naming the check.
macro_rules! expect_eq {
    ($check:expr, $left:expr, $right:expr, $($words:tt)+) => {
        assert_eq!($left, $right, "[{}] {}", $check.name, format_args!($($words)+))
    };
}
pub(super) use expect_eq;

impl Check<'_> {
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}{}/{name}", self.prefix, self.name)
    }

    pub(super) fn fail(&self, words: impl std::fmt::Display) -> ! {
        panic!("[{}] {words}", self.name)
    }

    pub(super) async fn create(&self, name: &str, body: impl Into<Bytes>) -> PutOutcome {
        match self.store.create(&self.key(name), body.into()).await {
            Ok(outcome) => outcome,
            Err(error) => self.fail(format_args!("create {name}: {error:?}")),
        }
    }

    pub(super) async fn replace(
        &self,
        name: &str,
        body: impl Into<Bytes>,
        etag: &ETag,
    ) -> PutOutcome {
        match self.store.replace(&self.key(name), body.into(), etag.clone()).await {
            Ok(outcome) => outcome,
            Err(error) => self.fail(format_args!("replace {name}: {error:?}")),
        }
    }

    pub(super) fn done(&self, outcome: PutOutcome, words: &str) -> ETag {
        match outcome {
            PutOutcome::Done { etag: Some(etag) } => etag,
            other => self.fail(format_args!("{words} should be done and have an ETag: {other:?}")),
        }
    }

    pub(super) async fn created(&self, name: &str, body: impl Into<Bytes>) -> ETag {
        let outcome = self.create(name, body).await;
        self.done(outcome, &format!("the create of {name}"))
    }

    pub(super) async fn get(
        &self,
        name: &str,
        unless: Option<&ETag>,
        max_len: usize,
    ) -> GetOutcome {
        match self.store.get(&self.key(name), unless.cloned(), max_len).await {
            Ok(outcome) => outcome,
            Err(error) => self.fail(format_args!("get {name}: {error:?}")),
        }
    }

    pub(super) async fn found(&self, name: &str) -> Object {
        match self.get(name, None, 1 << 20).await {
            GetOutcome::Found(object) => object,
            other => self.fail(format_args!("{name} should be there: {other:?}")),
        }
    }

    pub(super) async fn delete(&self, names: &[&str]) {
        let keys = names.iter().map(|name| self.key(name)).collect::<Vec<_>>();
        match self.store.delete(keys).await {
            Ok(failed) if failed.is_empty() => {}
            other => self.fail(format_args!("delete {names:?}: {other:?}")),
        }
    }

    /// All entries whose keys start with this part, in pages of this size; `after` is a whole key.
    pub(super) async fn list_from(&self, prefix: &str, after: &str, limit: usize) -> Vec<Entry> {
        let prefix = self.key(prefix);
        let mut after = after.to_owned();
        let mut entries = Vec::new();
        loop {
            let page = match self.store.list(&prefix, &after, limit).await {
                Ok(page) => page,
                Err(error) => self.fail(format_args!("list {prefix} after {after}: {error:?}")),
            };
            if page.entries.len() > limit {
                self.fail(format_args!("a page of {} entries, not {limit}", page.entries.len()));
            }
            let Some(last) = page.entries.last() else {
                if page.truncated {
                    self.fail("an empty page that says there is more");
                }
                return entries;
            };
            if page.entries[0].key <= after {
                self.fail(format_args!("{} is listed after {after}", page.entries[0].key));
            }
            after.clone_from(&last.key);
            entries.extend(page.entries);
            if !page.truncated {
                return entries;
            }
        }
    }

    /// The same, without the check's own part of the keys.
    pub(super) async fn list(&self, prefix: &str, after: &str, limit: usize) -> Vec<String> {
        let corner = self.key("");
        let entries = self.list_from(prefix, after, limit).await;
        let name = |entry: &Entry| match entry.key.strip_prefix(&corner) {
            Some(name) => name.to_owned(),
            None => self.fail(format_args!("{} is not under {corner}", entry.key)),
        };
        entries.iter().map(name).collect()
    }
}
