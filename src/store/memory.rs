//! Objects in memory: the reference semantics of a [`Store`], for tests and for elections inside
//! one process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::{ETag, Entry, GetOutcome, Object, Page, PutOutcome, Store, StoreError, content_etag};
use crate::env::clock::{Clock, SystemClock};
use crate::env::mutex::unpoisoned;

/// A store in memory. Clones share their objects.
///
/// Every call is one atomic step under one lock. ETags are hashes of the content, as on S3, so two
/// equal bodies have the same ETag. The objects are dropped with the last clone.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{CampaignOutcome, Election, store::MemoryStore};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), tenure::Error> {
/// let store = MemoryStore::new();
/// let candidate = |name| {
///     Election::builder(Arc::new(store.clone()), "orders/leader").name(name).build()
/// };
/// let leadership = candidate("a")?.campaign().await?;
/// // As on S3, the second candidate sees the leader and cannot create the same epoch:
/// let CampaignOutcome::Held(leader) = candidate("b")?.try_campaign().await? else { panic!() };
/// assert_eq!((leader.name(), leader.epoch), ("a", leadership.epoch()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct MemoryStore {
    objects: Arc<Mutex<BTreeMap<String, Stored>>>,
    clock: Arc<dyn Clock>,
}

#[derive(Clone, Debug)]
struct Stored {
    body: Bytes,
    etag: ETag,
    last_modified: DateTime<Utc>,
}

impl MemoryStore {
    /// Creates an empty store, which takes its dates from this machine's wall clock.
    #[must_use]
    pub fn new() -> MemoryStore {
        MemoryStore::with_clock(Arc::new(SystemClock))
    }

    /// Creates an empty store that takes its dates from this clock.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> MemoryStore {
        MemoryStore { objects: Arc::default(), clock }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<String, Stored>> {
        unpoisoned(self.objects.lock())
    }

    fn stored(&self, body: Bytes) -> Stored {
        Stored { etag: content_etag(&body), body, last_modified: self.clock.now().time_of_day() }
    }
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::new()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let objects = self.objects();
        let start = if after >= prefix { Bound::Excluded(after) } else { Bound::Included(prefix) };
        let mut found = objects
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, stored)| Entry {
                key: key.clone(),
                size: stored.body.len() as u64,
                last_modified: Some(stored.last_modified),
                etag: Some(stored.etag.clone()),
            });
        let entries = found.by_ref().take(limit).collect();
        let truncated = found.next().is_some();
        Ok(Page::new(entries, truncated).with_served_at(self.clock.now().time_of_day()))
    }

    async fn list_last(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Result<Option<Page>, StoreError> {
        let mut page = self.list(prefix, after, usize::MAX).await?;
        let left_out = page.entries.len().saturating_sub(limit);
        page.entries.drain(..left_out);
        page.truncated = left_out > 0;
        Ok(Some(page))
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let objects = self.objects();
        Ok(match objects.get(key) {
            None => GetOutcome::NotFound,
            Some(stored) if Some(&stored.etag) == unless.as_ref() => GetOutcome::NotModified,
            Some(stored) if stored.body.len() > max_len => {
                GetOutcome::TooLarge { etag: stored.etag.clone(), len: stored.body.len() as u64 }
            }
            Some(stored) => GetOutcome::Found(Object {
                body: stored.body.clone(),
                etag: stored.etag.clone(),
                last_modified: Some(stored.last_modified),
                served_at: Some(self.clock.now().time_of_day()),
            }),
        })
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        let stored = self.stored(body);
        let mut objects = self.objects();
        if objects.contains_key(key) {
            return Ok(PutOutcome::PreconditionFailed);
        }
        let etag = Some(stored.etag.clone());
        objects.insert(key.to_owned(), stored);
        Ok(PutOutcome::Done { etag })
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let stored = self.stored(body);
        let mut objects = self.objects();
        match objects.get_mut(key) {
            None => Ok(PutOutcome::NotFound),
            Some(current) if current.etag != etag => Ok(PutOutcome::PreconditionFailed),
            Some(current) => {
                *current = stored;
                Ok(PutOutcome::Done { etag: Some(current.etag.clone()) })
            }
        }
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        let mut objects = self.objects();
        for key in &keys {
            objects.remove(key);
        }
        Ok(Vec::new())
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
