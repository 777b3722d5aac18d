//! The responses of a store. Your own store must build them with their constructors, because later
//! versions may add fields.

use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::ETag;

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Page {
    /// Entries in ascending order of the bytes of their keys.
    pub entries: Vec<Entry>,
    /// True if more keys may follow. A page with fewer keys than the limit is not always the last.
    pub truncated: bool,
    /// Time of the store's clock at the response, if known.
    pub served_at: Option<DateTime<Utc>>,
    /// True if the store read the keys of this page at different moments. If a store lists keys in
    /// no order, and a listing needs several requests, its client sets this field. Such a page
    /// contains each key that existed during the whole listing. But it may omit both a key that was
    /// created meanwhile and an older key that was deleted because of the new key. So elections and
    /// assignments do not use it.
    pub torn: bool,
}

impl Page {
    /// Creates a page without the time of the store's clock.
    #[must_use]
    pub fn new(entries: Vec<Entry>, truncated: bool) -> Page {
        Page { entries, truncated, ..Page::default() }
    }

    /// Returns this page with the time of the store's clock at the response.
    #[must_use]
    pub fn with_served_at(mut self, date: impl Into<Option<DateTime<Utc>>>) -> Page {
        self.served_at = date.into();
        self
    }
}

/// One key of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Complete key, prefix included.
    pub key: String,
    /// Body length in bytes.
    pub size: u64,
    /// Time of the last write, by the store's clock.
    pub last_modified: Option<DateTime<Utc>>,
    /// Tag of the listed version, if the store lists tags. Compare this tag only with
    /// [`ETag::names_the_same`]. Conditions need the tag that a read or a write returned.
    pub etag: Option<ETag>,
}

impl Entry {
    /// Creates an entry without a date or a tag.
    pub fn new(key: impl Into<String>, size: u64) -> Entry {
        Entry { key: key.into(), size, last_modified: None, etag: None }
    }

    /// Returns this entry with the time of its last write.
    #[must_use]
    pub fn with_last_modified(mut self, date: impl Into<Option<DateTime<Utc>>>) -> Entry {
        self.last_modified = date.into();
        self
    }

    /// Returns this entry with the tag of the listed version.
    #[must_use]
    pub fn with_etag(mut self, etag: impl Into<Option<ETag>>) -> Entry {
        self.etag = etag.into();
        self
    }
}

/// An object with its metadata from the store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Object {
    /// Body of the object.
    pub body: Bytes,
    /// Entity tag of the object.
    pub etag: ETag,
    /// Time of the last write, by the store's clock.
    pub last_modified: Option<DateTime<Utc>>,
    /// Time of the store's clock at the response, if known.
    pub served_at: Option<DateTime<Utc>>,
}

impl Object {
    /// Creates an object for which the store reports no dates.
    #[must_use]
    pub fn new(body: Bytes, etag: ETag) -> Object {
        Object { body, etag, last_modified: None, served_at: None }
    }

    /// Returns this object with the time of its last write.
    #[must_use]
    pub fn with_last_modified(mut self, date: impl Into<Option<DateTime<Utc>>>) -> Object {
        self.last_modified = date.into();
        self
    }

    /// Returns this object with the time of the store's clock at the response.
    #[must_use]
    pub fn with_served_at(mut self, date: impl Into<Option<DateTime<Utc>>>) -> Object {
        self.served_at = date.into();
        self
    }
}

/// The answer to [`Store::get`](super::Store::get).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GetOutcome {
    /// The object.
    Found(Object),
    /// The object still has the ETag that the caller named.
    NotModified,
    /// There is no object at this key.
    NotFound,
    /// The body is longer than the caller's limit.
    TooLarge {
        /// Entity tag of the object.
        etag: ETag,
        /// Body length in bytes.
        len: u64,
    },
}

/// The answer to a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PutOutcome {
    /// The store reported success. If `etag` is `None`, the caller cannot verify the write, and
    /// treats the outcome of the write as unknown.
    Done {
        /// Entity tag of the written object.
        etag: Option<ETag>,
    },
    /// The condition did not hold: the key exists (`create`), or has another ETag (`replace`).
    /// Nothing was written.
    PreconditionFailed,
    /// The key of a `replace` does not exist. Nothing was written.
    NotFound,
}
