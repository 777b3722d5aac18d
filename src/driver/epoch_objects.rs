//! Lists and reads the epoch objects of an election, and does not campaign in it.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::driver::runtime::require_timers;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::find::After;
use crate::protocol::layout::Layout;
use crate::record::keys::Keys;
use crate::record::listing::{EpochsOfPage, key_of};
use crate::record::{BadRecord, Formats, MAX_READ_BYTES, Record};
use crate::store::{Determinacy, GetOutcome, Store, StoreError, listed_within, within};

const PAGE_KEYS: usize = 1_000;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The epoch objects of the election at one prefix, or other objects with the same numbering.
#[derive(Debug, Clone)]
pub struct EpochObjects {
    store: Arc<dyn Store>,
    keys: Keys,
}

/// The content and the dates of an epoch object at the time of one read.
#[derive(Debug)]
pub struct EpochObject {
    /// Epoch in the key, or the token in the one object of
    /// [`Layout::SingleObject`](crate::Layout::SingleObject).
    pub epoch: Epoch,
    /// Time of the last write, by the store's clock.
    pub last_modified: Option<DateTime<Utc>>,
    /// Time at which the store answered the read, by the store's clock.
    pub served_at: Option<DateTime<Utc>>,
    /// Record in the body, or the reason why the body is not a readable record.
    pub record: Result<Record, String>,
}

impl EpochObjects {
    /// Selects other numbered objects instead of epoch objects. Their keys have `stem` before the
    /// number.
    pub fn numbered(
        store: Arc<dyn Store>,
        prefix: &str,
        stem: &str,
    ) -> Result<EpochObjects, Error> {
        Ok(EpochObjects { store, keys: Keys::numbered_with(prefix, stem)? })
    }

    /// Reads the object with this number, if its body has at most `most` bytes.
    pub async fn object(&self, number: Epoch, most: usize) -> Result<GetOutcome, Error> {
        require_timers()?;
        let key = self.keys.epoch(number);
        let get = self.store.get(&key, None, most);
        let got = within(REQUEST_TIMEOUT, Determinacy::Determinate, get).await;
        got.map_err(|error| self.failure(&format!("reading {key}"), error))
    }

    /// Selects the epoch objects at a prefix. `app` and `app/` are the same prefix.
    pub fn new(store: Arc<dyn Store>, prefix: &str) -> Result<EpochObjects, Error> {
        Ok(EpochObjects { store, keys: Keys::new(prefix)? })
    }

    /// Lists all objects in ascending order, and calls `each` with the number and the age of each
    /// object. Returns the time of the store's clock and the number of requests.
    pub async fn list(
        &self,
        mut each: impl FnMut(Epoch, Option<Duration>),
    ) -> Result<(Option<DateTime<Utc>>, u64), Error> {
        require_timers()?;
        let (mut now, mut requests) = (None, 0);
        let mut next = Some(After::Number(0));
        while let Some(after) = next {
            let start = key_of(&self.keys, &after);
            requests += 1;
            let page = self.store.list(self.keys.epoch_prefix(), &start, PAGE_KEYS);
            let page = listed_within(REQUEST_TIMEOUT, page).await.and_then(|page| {
                now = now.max(page.served_at);
                EpochsOfPage::of_any(&self.keys, &after, &page)
            });
            let page = page.map_err(|error| {
                self.failure(&format!("listing the epochs after {start:?}"), error)
            })?;
            page.epochs.iter().for_each(|listed| each(listed.epoch, listed.age));
            next = page.rest;
        }
        Ok((now, requests))
    }

    /// Reads the object of this epoch. With `None`, reads `lock.json`, the one object of
    /// `Layout::SingleObject`. If that object is unreadable, returns an error, because its token is
    /// unknown.
    pub async fn read(&self, epoch: Option<Epoch>) -> Result<Option<EpochObject>, Error> {
        require_timers()?;
        let key = epoch.map_or_else(|| self.keys.lock(), |epoch| self.keys.epoch(epoch));
        let get = self.store.get(&key, None, MAX_READ_BYTES);
        let got = within(REQUEST_TIMEOUT, Determinacy::Determinate, get).await;
        let got = got.map_err(|error| self.failure(&format!("reading {key}"), error))?;
        let (decoded, last_modified, served_at) = match got {
            GetOutcome::Found(object) => {
                let decoded = Record::decode(Formats::Any, epoch, &object.body);
                (decoded, object.last_modified, object.served_at)
            }
            GetOutcome::TooLarge { len, .. } => (Err(BadRecord::TooLarge(len)), None, None),
            GetOutcome::NotFound | GetOutcome::NotModified => return Ok(None),
        };
        let (epoch, record) = match (decoded, epoch) {
            (Ok((epoch, record)), _) => (epoch, Ok(record)),
            (Err(why), Some(epoch)) => (epoch, Err(why.to_string())),
            (Err(why), None) => return Err(self.unreadable(&key, &why)),
        };
        Ok(Some(EpochObject { epoch, last_modified, served_at, record }))
    }

    fn unreadable(&self, key: &str, why: &BadRecord) -> Error {
        let kind = why.kind();
        let remedy = match kind {
            ErrorKind::CorruptRecord => format!("; {}", Layout::SingleObject.repair()),
            _ => String::new(),
        };
        Error::new(kind, format!("{key} in {}: {why}{remedy}", self.store.describe()))
    }

    fn failure(&self, doing: &str, error: StoreError) -> Error {
        Error::from_store(doing, &self.store.describe(), error)
    }
}
