//! Checks the body of the object that an election with `Layout::SingleObject` writes.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use super::{LONGEST_NAME, check_message};
use tenure::protocol::layout::Layout;
use tenure::protocol::message::EpochEnd;
use tenure::record::{Formats, MAX_WRITTEN_BYTES, Record};

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
        Record::decode(Formats::OneStore, None, &written).expect("a released lock is a lock");
    assert_eq!(read_token, token, "a release keeps the token");
    assert!(read.expired && read.data.is_null());
    assert_eq!(read.nonce, record.nonce, "a release keeps the nonce");
}
