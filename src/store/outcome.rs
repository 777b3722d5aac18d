//! The answers of a store. Your own stores must build these with their constructors, as fields may
//! be added.

use bytes::Bytes;
use chrono::{DateTime, Utc};

use super::ETag;

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Page {
    /// In ascending order of their keys' bytes.
    pub entries: Vec<Entry>,
    /// Whether more keys may follow. A short page alone does not mean that it is the last.
    pub truncated: bool,
    /// The store's clock when it answered, if known.
    pub served_at: Option<DateTime<Utc>>,
}

impl Page {
    /// Creates a page of a store that gives no dates.
    #[must_use]
    pub fn new(entries: Vec<Entry>, truncated: bool) -> Page {
        Page { entries, truncated, served_at: None }
    }

    /// Creates a page with the reading of the store's clock at the answer.
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
    /// The whole key.
    pub key: String,
    /// The length of its body in bytes.
    pub size: u64,
    /// When it was last written, by the store's clock.
    pub last_modified: Option<DateTime<Utc>>,
    /// Which version the listing shows, if the store lists that. To be compared by
    /// [`ETag::names_the_same`] alone: a condition needs the tag of a read or a write.
    pub etag: Option<ETag>,
}

impl Entry {
    /// Creates an entry of a store that lists no dates and no tags.
    pub fn new(key: impl Into<String>, size: u64) -> Entry {
        Entry { key: key.into(), size, last_modified: None, etag: None }
    }

    /// The same, last written then.
    #[must_use]
    pub fn with_last_modified(mut self, date: impl Into<Option<DateTime<Utc>>>) -> Entry {
        self.last_modified = date.into();
        self
    }

    /// The same, in the version that has this tag.
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
    /// The body.
    pub body: Bytes,
    /// Its entity tag.
    pub etag: ETag,
    /// When it was last written, by the store's clock.
    pub last_modified: Option<DateTime<Utc>>,
    /// The store's clock when it answered, if known.
    pub served_at: Option<DateTime<Utc>>,
}

impl Object {
    /// Creates an object of a store that gives no dates.
    #[must_use]
    pub fn new(body: Bytes, etag: ETag) -> Object {
        Object { body, etag, last_modified: None, served_at: None }
    }

    /// The same, last written then.
    #[must_use]
    pub fn with_last_modified(mut self, date: impl Into<Option<DateTime<Utc>>>) -> Object {
        self.last_modified = date.into();
        self
    }

    /// The same, from a store whose clock showed this when it answered.
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
    /// The object is longer than the caller reads.
    TooLarge {
        /// Its entity tag.
        etag: ETag,
        /// The length of its body in bytes.
        len: u64,
    },
}

/// The answer to a conditional write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PutOutcome {
    /// Written. Without an ETag the caller cannot know which write it was, and treats the outcome
    /// as unknown.
    Done {
        /// The entity tag of the written object.
        etag: Option<ETag>,
    },
    /// The condition did not hold: the key exists (`create`), or has another ETag (`replace`).
    /// Nothing was written.
    PreconditionFailed,
    /// `replace` on a key that does not exist. Nothing was written.
    NotFound,
}
