//! Decodes the newest object for a compactor, and has the methods that `tenure-groups` needs to
//! compact assignments.

use std::time::Duration;

use super::{Compactor, CompactorBuilder};
use crate::env::timer::pause;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::compaction::NewestBody;
use crate::protocol::find::{After, Listing};
use crate::record::listing::{EpochsOfPage, key_of};
use crate::record::{BadRecord, Formats, MAX_READ_BYTES, Record};
use crate::store::{
    Determinacy, GetOutcome, Page, StoreError, check_any_page, listed_within, within,
};

/// Number of keys in one LIST and in one DELETE: the maximum of S3.
pub(super) const PAGE_KEYS: usize = 1_000;

/// A function that returns the longest validity of the leases that depend on a numbered object. The
/// function gets the object's body, or only the length of a body that is too long.
type ValidityOf = fn(Epoch, Result<&[u8], u64>) -> Result<Option<Duration>, (ErrorKind, String)>;

/// The kind of the objects in the listing. The compactor reads the newest of these objects.
#[derive(Debug, Clone, Copy)]
pub(super) enum NewestObject {
    /// An epoch object.
    Epoch,
    /// A numbered object that is not an epoch object. Its body has at most `most` bytes.
    Numbered { stem: &'static str, most: usize, validity: ValidityOf },
}

impl NewestObject {
    pub(super) fn most(self) -> usize {
        match self {
            NewestObject::Epoch => MAX_READ_BYTES,
            NewestObject::Numbered { most, .. } => most,
        }
    }

    /// Returns the facts in the newest object that protect older objects from deletion: its
    /// validity, and whether an unfinished restore holds its epoch. `body` is the object's body, or
    /// the length of a body that is too long.
    pub(super) fn read(
        self,
        epoch: Epoch,
        body: Result<&[u8], u64>,
    ) -> Result<NewestBody, (ErrorKind, String)> {
        if let NewestObject::Numbered { validity, .. } = self {
            return validity(epoch, body).map(NewestBody::Validity);
        }
        let record =
            body.map_err(BadRecord::TooLarge).and_then(|body| Record::parse_as(Formats::Any, body));
        let record = record.map_err(|bad| (bad.kind(), bad.to_string()))?;
        Ok(match record.is_held() {
            true => NewestBody::Held,
            false => NewestBody::Validity(record.validity()),
        })
    }
}

#[doc(hidden)]
impl CompactorBuilder {
    /// Compacts other numbered objects instead of epoch objects. The names of these objects start
    /// with `stem`.
    pub fn numbered(
        mut self,
        stem: &'static str,
        most: usize,
        validity: ValidityOf,
    ) -> CompactorBuilder {
        self.newest = NewestObject::Numbered { stem, most, validity };
        self
    }
}

/// Getters, and requests. Each request is sent once, and ends within the compactor's request
/// timeout.
#[doc(hidden)]
impl Compactor {
    /// Returns the prefix, which is empty or ends with a slash.
    pub fn prefix(&self) -> &str {
        self.keys.prefix()
    }

    /// Returns the description of the store for errors and logs.
    pub fn place(&self) -> String {
        self.store.describe()
    }

    /// Returns the key of a numbered object.
    pub fn key(&self, number: Epoch) -> String {
        self.keys.epoch(number)
    }

    /// Returns true if the compactor only reports the objects to delete, and deletes nothing.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Waits before the next run.
    pub async fn pause(&self, interval: Duration) {
        pause(interval).await;
    }

    /// Lists numbered objects.
    pub async fn list_numbered(&self, after: &After) -> Result<Listing, Error> {
        let start = key_of(&self.keys, after);
        let page = self.store.list(self.keys.epoch_prefix(), &start, PAGE_KEYS);
        let page = listed_within(self.request_timeout, page).await;
        let page = page.and_then(|page| EpochsOfPage::of(&self.keys, after, &page));
        page.map(|page| page.listing()).map_err(|error| self.failure("listing", error))
    }

    /// Lists the keys under this prefix after `start`, in order. Returns the page and its last key.
    pub async fn list(&self, prefix: &str, start: &str) -> Result<(Page, String), Error> {
        let page = self.store.list(prefix, start, PAGE_KEYS);
        let page = listed_within(self.request_timeout, page).await;
        let page = page.and_then(|page| {
            let last = check_any_page(prefix, start, &page)?.to_owned();
            Ok((page, last))
        });
        page.map_err(|error| self.failure(&format!("listing {prefix}"), error))
    }

    /// Reads an object of at most `most` bytes.
    pub async fn get(&self, key: &str, most: usize) -> Result<GetOutcome, Error> {
        let read = self.store.get(key, None, most);
        let read = within(self.request_timeout, Determinacy::Determinate, read).await;
        read.map_err(|error| self.failure(&format!("reading {key}"), error))
    }

    /// Deletes at most 1,000 objects. Returns the objects that the store did not delete.
    pub async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, Error> {
        let doing = format!("deleting {} objects", keys.len());
        let delete = self.store.delete(keys);
        let deleted = within(self.request_timeout, Determinacy::Indeterminate, delete).await;
        deleted.map_err(|error| self.failure(&doing, error))
    }

    /// Adds the request and the store to the message of an error. The message keeps the store's own
    /// text, because this text names a missing permission in the store's terms.
    pub(super) fn failure(&self, doing: &str, error: StoreError) -> Error {
        Error::from_store(doing, &self.store.describe(), error)
    }
}
