//! The checks of the fuzz targets. The replay of the fuzz corpus and the property tests run the
//! same checks. Each check accepts arbitrary bytes, and panics if a rule of docs/design/protocol.md
//! is broken.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use tenure::Epoch;
use tenure::protocol::candidate::Candidate;
use tenure::protocol::find::Listing;
use tenure::protocol::layout::Layout;
use tenure::protocol::message::{Answer, EpochEnd, Request, Sighting, Step};
use tenure::protocol::message::{Input, Rules};
use tenure::record::{BadRecord, Formats, MAX_READ_BYTES, MAX_WRITTEN_BYTES, Record};
use tenure::store::ETag;

pub mod listings;

pub use listings::listing;

/// Maximum length of a candidate's name that the library accepts, in bytes.
const LONGEST_NAME: usize = 256;

/// Asserts that reading the body gives a record or a typed error. The epoch must be free if and
/// only if the record contains `expired: true`. The record must be readable after it is written
/// again, and every peer must be able to read its seal. Also runs the checks of [`lock()`] on the
/// body.
pub fn record(body: &[u8]) {
    lock(body);
    let record = match Record::parse(body) {
        Ok(record) => record,
        Err(why) => return check_message(&why),
    };
    let text = std::str::from_utf8(body).expect("JSON is UTF-8");
    assert!(text.trim_start().starts_with('{'), "a record is a JSON object");
    // `Value` cannot represent some numbers and some escapes. If an ignored field of the record
    // contains such a number or escape, parsing the body as a `Value` fails, and this check of
    // `expired` has no effect.
    let expired = match serde_json::from_str::<Value>(text) {
        Ok(value) => value["expired"].as_bool().expect("a record has the field `expired`"),
        Err(_) => record.expired,
    };
    assert_eq!(record.seen().ended.is_some(), expired, "only `expired: true` frees an epoch");
    let written = record.to_bytes();
    // The written body has other whitespace than the body that was read. So the written body may be
    // longer than the limit for reads.
    if written.len() <= MAX_READ_BYTES {
        assert_eq!(
            Record::parse(&written).as_ref(),
            Ok(&record),
            "the written record is read back"
        );
    }
    if let Some((ended, heartbeat)) = seal_of(&record) {
        check_seal(&record, ended, heartbeat);
    }
    check_seal(&record, EpochEnd::Deposed, record.heartbeat.saturating_add(1));
}

/// Asserts that the error message, apart from its numbers, is one of `MESSAGES`. Error messages
/// reach logs, so they must not quote the body.
fn check_message(why: &BadRecord) {
    const MESSAGES: [&str; 12] = [
        "its body is empty",
        "its body has # bytes; a record has at most #",
        "it has format #; this version of tenure reads up to #",
        "its body is not a record: format #",
        "its body is not a record: its token is greater than #",
        "its body is not a record: the field `token` is missing",
        "its body is not a record: the field `expires_at` is missing",
        "its body is not a record: it is not JSON, at line # column #",
        "its body is not a record: the JSON ends too early, at line # column #",
        "its body is not a record: a field is missing or has the wrong type or value, at line # \
         column #",
        "its body is not a record: it is not UTF-#, at byte #",
        "its body is not a record: it cannot be read, at line # column #",
    ];
    let message = why.to_string();
    let mut shape = String::new();
    for character in message.chars() {
        if !character.is_ascii_digit() {
            shape.push(character);
        } else if !shape.ends_with('#') {
            shape.push('#');
        }
    }
    assert!(MESSAGES.contains(&shape.as_str()), "an unknown message: {message}");
}

/// Returns the end and the heartbeat of the seal that a candidate writes over this record after the
/// lease has lapsed. Returns `None` if the candidate writes no seal.
fn seal_of(record: &Record) -> Option<(EpochEnd, u64)> {
    let rules = Rules { observer: false, verify_renewals: false, takeover_delay: false };
    let mut candidate = Candidate::new(rules, None);
    let newest = Listing { epochs: Some((Epoch::FIRST, Epoch::FIRST)), rest: None };
    let etag = ETag::new("\"any\"");
    let sighting = Sighting { epoch: Epoch::FIRST, etag, seen: record.seen() };
    let found = Answer::Found { sighting, touched: false };
    candidate.handle(Input::Answer(Answer::Listed(newest)));
    candidate.handle(Input::Answer(found.clone()));
    candidate.handle(Input::Lapsed);
    if let Step::Request(Request::Get { .. }) = candidate.step() {
        // A candidate reads a foreign record again before it seals the record.
        candidate.handle(Input::Answer(found));
    }
    match candidate.step() {
        Step::Request(Request::Seal { heartbeat, ended, .. }) => Some((ended, heartbeat)),
        _ => {
            assert!(record.expired, "a candidate never skips an unsealed epoch");
            None
        }
    }
}

fn check_seal(record: &Record, ended: EpochEnd, heartbeat: u64) {
    let name = "n".repeat(LONGEST_NAME);
    let sealed = record.sealed(ended, heartbeat, &name, DateTime::<Utc>::MAX_UTC);
    let body = sealed.to_bytes();
    assert!(
        body.len() <= MAX_WRITTEN_BYTES,
        "a seal of {} bytes exceeds the limit of readers",
        body.len()
    );
    let read = Record::parse(&body).expect("a seal is a record");
    assert_eq!(read, sealed);
    assert_eq!(read.seen().ended, Some(ended));
    assert_eq!(read.seen().nonce, record.seen().nonce, "a seal keeps the nonce");
    assert_eq!(read.validity(), record.validity(), "a validity is fixed for the epoch");
    assert!(read.data.is_null(), "a seal drops the data");
}

/// Asserts that reading the body gives a lock with a token, or a typed error. The lock must count
/// as free if and only if its `expires_at` is zero. Every peer must be able to read the body that
/// releases the lock.
pub fn lock(body: &[u8]) {
    let (token, record) = match Record::decode(Formats::OneStore, None, body) {
        Ok(lock) => lock,
        Err(why) => return check_message(&why),
    };
    let text = std::str::from_utf8(body).expect("JSON is UTF-8");
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        assert_eq!(value["token"].as_u64(), Some(token.get()), "the token is the recorded one");
        let free = value["expires_at"].as_f64() == Some(0.0);
        assert_eq!(record.seen().ended.is_some(), free, "only `expires_at: 0` frees a lock");
    }
    let heartbeat = record.heartbeat.saturating_add(1);
    let name = "n".repeat(LONGEST_NAME);
    let ended = record.sealed(EpochEnd::Deposed, heartbeat, &name, DateTime::<Utc>::MAX_UTC);
    let written = ended.encode(Layout::SingleObject, token, Duration::MAX);
    assert!(
        written.len() <= MAX_WRITTEN_BYTES,
        "{} bytes exceed the limit of readers",
        written.len()
    );
    let (read_token, read) =
        Record::decode(Formats::OneStore, None, &written).expect("a released lock can be decoded");
    assert_eq!(read_token, token, "a release keeps the token");
    assert!(read.expired && read.data.is_null());
    assert_eq!(read.nonce, record.nonce, "a release keeps the nonce");
}

/// Reads numbers from a fuzzer's bytes. After the last byte, every number is zero.
pub struct Reader<'a>(pub &'a [u8]);

impl Reader<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// Reads a number of this many bytes.
    pub fn number(&mut self, bytes: usize) -> u64 {
        (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// Reads up to `most` of the fuzzer's bytes as text.
    pub fn text(&mut self, most: usize) -> String {
        let (text, rest) = self.0.split_at(most.min(self.0.len()));
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }
}
