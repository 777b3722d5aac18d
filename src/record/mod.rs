//! The record: the JSON body of an epoch object (B1 to B11 in docs/design/protocol.md).

mod field_formats;
pub mod keys;
pub mod listing;
mod single;
#[cfg(test)]
mod tests;

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use field_formats::Validity;
use field_formats::{for_people, if_text};

use crate::epoch::Epoch;
use crate::error::ErrorKind;
use crate::protocol::layout::Layout;
use crate::protocol::message::{EpochEnd, Nonce, Seen};

/// Maximum length of a readable body, in bytes. A longer body counts as corrupt.
pub const MAX_READ_BYTES: usize = 64 * 1024;
/// Maximum length of a body that this version writes, in bytes. This limit is below the limit for
/// readable bodies, so that peers with a lower limit can read the body.
pub const MAX_WRITTEN_BYTES: usize = 48 * 1024;
/// The format that this version writes, and the greatest format that it reads.
pub const FORMAT: u64 = 1;
/// Value of `format` in the records of an election across stores. A candidate of an election in one
/// store refuses these records.
pub const ACROSS_FORMAT: u64 = 2;
/// Maximum length of a name in a seal, in bytes. If another writer used a longer name, the seal has
/// only the start of the name. So the sealed body does not exceed the limit for readable bodies.
const MAX_SEALED_NAME: usize = 1_024;
/// Maximum validity, in milliseconds, of a lease that can lapse. A lease with a longer validity
/// never lapses.
pub const MAX_VALIDITY_MS: u64 = 366 * 24 * 60 * 60 * 1000;

/// The body of an object, for reading and writing. The first fields in the JSON depend on the
/// layout: `Head` in an epoch object, `single::SingleHead` in the object of
/// [`Layout::SingleObject`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "docs/design/protocol.md describes the fields")]
pub struct Record {
    #[serde(skip)]
    pub expired: bool,
    /// End of the lease in the object of [`Layout::SingleObject`], which has this field in place of
    /// `expired`.
    #[serde(skip)]
    pub expires_at: Option<f64>,
    #[serde(default, skip_serializing_if = "Validity::is_absent")]
    pub validity_ms: Validity,
    #[serde(default = "first_format")]
    pub format: u64,
    #[serde(default)]
    pub candidate: Option<String>,
    #[serde(default)]
    pub nonce: Option<Nonce>,
    #[serde(default)]
    pub heartbeat: u64,
    #[serde(default, deserialize_with = "for_people")]
    pub elected_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "for_people")]
    pub renewed_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "for_people")]
    pub sealed_at: Option<DateTime<Utc>>,
    #[serde(default)]
    pub sealed_by: Option<String>,
    #[serde(default)]
    pub ended: Option<EpochEnd>,
    /// Name of the operator that asserted the death of the holder. In such a record `ended` is
    /// `lapsed`, so a candidate of any version of tenure does not wait for the lease.
    #[serde(default, deserialize_with = "if_text", skip_serializing_if = "Option::is_none")]
    pub forced_by: Option<String>,
    /// The reason that an operator gave for the seal.
    #[serde(default, deserialize_with = "if_text", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Name of the candidate that the resigned leader prefers as its successor.
    #[serde(default, deserialize_with = "if_text", skip_serializing_if = "Option::is_none")]
    pub successor: Option<String>,
    /// The time, in milliseconds, for which the partitions of a resigned member are reserved for a
    /// member with the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub park_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// The first fields of the body of an epoch object.
#[derive(Serialize, Deserialize)]
struct Head {
    expired: bool,
}

/// The reason why a body is not a record. An epoch without a readable record never counts as
/// vacant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum BadRecord {
    #[error("its body is empty")]
    Empty,
    #[error("its body has {0} bytes; a record has at most {MAX_READ_BYTES}")]
    TooLarge(u64),
    #[error("its body is not a record: {0}")]
    Malformed(String),
    #[error("it has format {0}; this version of tenure reads up to {ACROSS_FORMAT}")]
    TooNew(u64),
    #[error("it belongs to an election in one store; this election has several stores")]
    OfOneStore,
    #[error("it belongs to an election across stores: name all its stores")]
    OfSeveralStores,
}

impl BadRecord {
    /// Returns the kind of the error for a reader that needs the record.
    pub fn kind(&self) -> ErrorKind {
        match self {
            BadRecord::TooNew(_) => ErrorKind::RecordTooNew,
            BadRecord::OfOneStore | BadRecord::OfSeveralStores => ErrorKind::InvalidInput,
            BadRecord::Empty | BadRecord::TooLarge(_) | BadRecord::Malformed(_) => {
                ErrorKind::CorruptRecord
            }
        }
    }
}

/// The elections whose records a reader accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formats {
    /// Only elections in one store.
    OneStore,
    /// Only elections across stores.
    Across,
    Any,
}

impl Record {
    /// Returns an unsealed record that has no writer, no nonce and no data.
    pub fn blank() -> Record {
        Record {
            expired: false,
            expires_at: None,
            validity_ms: Validity::Absent,
            format: FORMAT,
            candidate: None,
            nonce: None,
            heartbeat: 0,
            elected_at: None,
            renewed_at: None,
            sealed_at: None,
            sealed_by: None,
            ended: None,
            forced_by: None,
            reason: None,
            successor: None,
            park_ms: None,
            data: Value::Null,
        }
    }

    /// Reads the body of an epoch object. The message of an error does not contain parts of the
    /// body.
    pub fn parse(body: &[u8]) -> Result<Record, BadRecord> {
        Record::parse_as(Formats::OneStore, body)
    }

    /// Reads the body of an epoch object of one of these elections.
    pub fn parse_as(formats: Formats, body: &[u8]) -> Result<Record, BadRecord> {
        let text = checked_text(formats, body)?;
        let Head { expired } = fields(text)?;
        Ok(Record { expired, ..fields(text)? })
    }

    /// Reads the body of the object of this epoch. With `None`, reads the body of the object of
    /// [`Layout::SingleObject`], which contains its epoch.
    pub fn decode(
        formats: Formats,
        epoch: Option<Epoch>,
        body: &[u8],
    ) -> Result<(Epoch, Record), BadRecord> {
        match epoch {
            Some(epoch) => Record::parse_as(formats, body).map(|record| (epoch, record)),
            None => single::parse(body),
        }
    }

    /// Returns the body for an epoch object. The body is small, because the configuration bounds
    /// `data`.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.headed(Head { expired: self.expired })
    }

    /// Returns the body for the object of this epoch. With [`Layout::SingleObject`] the body has
    /// the field `expires_at`, by the wall clock, for peers that follow the blog post about
    /// If-Match. In a seal, `expires_at` is 0.
    pub fn encode(&self, layout: Layout, epoch: Epoch, expires_at: Duration) -> Vec<u8> {
        match layout {
            Layout::EpochFiles => self.to_bytes(),
            Layout::SingleObject => self.headed(single::SingleHead::of(epoch, self, expires_at)),
        }
    }

    fn headed(&self, head: impl Serialize) -> Vec<u8> {
        #[derive(Serialize)]
        struct Body<'a, H> {
            #[serde(flatten)]
            head: H,
            #[serde(flatten)]
            record: &'a Record,
        }
        let mut body = serde_json::to_vec_pretty(&Body { head, record: self })
            .expect("a record has string keys and finite numbers, which JSON can hold");
        body.push(b'\n');
        body
    }

    /// Returns the sealed form of this record. The seal omits `data` and all fields that are
    /// unknown to this version.
    pub fn sealed(&self, ended: EpochEnd, heartbeat: u64, by: &str, at: DateTime<Utc>) -> Record {
        let cut = |name: &String| name[..name.floor_char_boundary(MAX_SEALED_NAME)].to_owned();
        Record {
            expired: true,
            candidate: self.candidate.as_ref().map(cut),
            heartbeat,
            sealed_at: Some(at),
            sealed_by: Some(by.to_owned()),
            ended: Some(ended),
            forced_by: None,
            reason: None,
            successor: None,
            park_ms: None,
            data: Value::Null,
            ..self.clone()
        }
    }

    /// Returns this seal as an operator's seal. With `force` the operator asserts that the holder
    /// is dead. If the record `before` is already sealed, this seal gets the time and the author of
    /// `before`. It also gets the reason of `before`, unless `reason` replaces it.
    pub fn ordered(self, before: &Record, force: bool, reason: Option<&str>) -> Record {
        let mut seal = self;
        seal.forced_by = seal.sealed_by.clone().filter(|_| force);
        seal.reason = reason.map(str::to_owned);
        if before.expired && before.sealed_by.is_some() {
            let cut = |text: &String| text[..text.floor_char_boundary(MAX_SEALED_NAME)].to_owned();
            seal.sealed_by = before.sealed_by.as_ref().map(cut);
            seal.sealed_at = before.sealed_at;
            seal.reason = seal.reason.or(before.reason.as_ref().map(cut));
        }
        seal
    }

    /// Returns the end of the epoch, for display, or `None` if the epoch is unsealed.
    pub fn end(&self) -> Option<EpochEnd> {
        match self.seen().ended {
            Some(EpochEnd::Lapsed) if self.forced_by.is_some() => Some(EpochEnd::DeposedDead),
            ended => ended,
        }
    }

    /// Returns true if an unfinished restore holds this epoch. A held epoch has no leader, and
    /// candidates wait for the end of the restore.
    pub fn is_held(&self) -> bool {
        !self.expired && self.ended == Some(EpochEnd::Restored)
    }

    /// Returns the validity of the lease, or `None` if the lease never lapses.
    pub fn validity(&self) -> Option<Duration> {
        match self.validity_ms {
            Validity::Millis(ms) if ms <= MAX_VALIDITY_MS => Some(Duration::from_millis(ms)),
            _ => None,
        }
    }

    /// Returns the end of the lease by the writer's wall clock. Returns `None` if the record is
    /// sealed, or is not in the object of [`Layout::SingleObject`].
    pub fn lasts_until(&self) -> Option<DateTime<Utc>> {
        let seconds = self.expires_at.filter(|_| !self.expired)?;
        // The cast of a float saturates. If the date is out of range, this method returns `None`.
        DateTime::from_timestamp_millis((seconds * 1e3) as i64)
    }

    /// Returns the part of the record that the protocol uses.
    pub fn seen(&self) -> Seen {
        let ended = self.expired.then(|| self.ended.unwrap_or(EpochEnd::Unknown));
        Seen { nonce: self.nonce, heartbeat: self.heartbeat, ended, reclaimable: false }
    }
}

/// Checks the length and the format of a body, and returns the body as text.
fn checked_text(formats: Formats, body: &[u8]) -> Result<&str, BadRecord> {
    if body.is_empty() {
        return Err(BadRecord::Empty);
    }
    if body.len() > MAX_READ_BYTES {
        return Err(BadRecord::TooLarge(body.len() as u64));
    }
    // serde_json does not check that ignored fields are UTF-8, so check the whole body first.
    let text = std::str::from_utf8(body).map_err(|error| {
        BadRecord::Malformed(format!("it is not UTF-8, at byte {}", error.valid_up_to()))
    })?;
    // A later format may differ in every other field, so `format` is read first.
    #[derive(Deserialize)]
    struct Format {
        #[serde(default = "first_format")]
        format: u64,
    }
    let Format { format } = fields(text)?;
    match (format, formats) {
        (0, _) => Err(BadRecord::Malformed("format 0".to_owned())),
        (FORMAT, Formats::Across) => Err(BadRecord::OfOneStore),
        (FORMAT, _) | (ACROSS_FORMAT, Formats::Across | Formats::Any) => Ok(text),
        (ACROSS_FORMAT, Formats::OneStore) => Err(BadRecord::OfSeveralStores),
        _ => Err(BadRecord::TooNew(format)),
    }
}

/// Reads the fields of `T` from a body, and ignores other fields.
fn fields<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, BadRecord> {
    serde_json::from_str(text).map_err(|error| BadRecord::Malformed(where_not_what(&error)))
}

fn first_format() -> u64 {
    1
}

/// Returns the position and the kind of an error, for a log. serde_json's own message can contain a
/// part of the body, and no log may contain the body.
fn where_not_what(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Syntax => "it is not JSON",
        serde_json::error::Category::Eof => "the JSON ends too early",
        serde_json::error::Category::Data => "a field is missing or has the wrong type or value",
        serde_json::error::Category::Io => "it cannot be read",
    };
    format!("{kind}, at line {} column {}", error.line(), error.column())
}
