//! Fuzz checks of the body of an assignment and the data of a session.

use serde_json::Value;

use crate::assignment_record::{AssignmentRecord, BadAssignment, MAX_BYTES};
use crate::session_data;
use tenure::Epoch;

/// Checks the decoder with any bytes as the body of an assignment. The decoder must return an
/// assignment or a typed error. If it returns an assignment, encoding and decoding must not change
/// this assignment.
pub fn assignment(body: &[u8]) {
    session(body);
    // In a store, the key of an assignment contains its number. This check has no key, so it takes
    // the number from the body.
    let json = serde_json::from_slice::<Value>(body).ok();
    let number = json.as_ref().and_then(|json| json["epoch"].as_u64());
    let epoch = number.and_then(Epoch::new).unwrap_or(Epoch::FIRST);
    let record = match AssignmentRecord::decode(epoch, body) {
        Ok(record) => record,
        Err(why) => return check_message(&why),
    };
    assert_eq!(record.assignment.epoch, epoch);
    if let Some(other) = epoch.next() {
        let taken = AssignmentRecord::decode(other, body);
        assert!(
            matches!(taken, Err(BadAssignment::Malformed(_))),
            "the body is refused under another number"
        );
    }
    match record.encode() {
        Ok(written) => {
            let again = AssignmentRecord::decode(epoch, &written);
            assert_eq!(again.as_ref(), Ok(&record), "the written body decodes to the same record");
            assert_kept(json.as_ref(), &written);
        }
        // The body that was read has at most `MAX_BYTES`, but escapes can make the written body
        // longer.
        Err(why) => assert!(matches!(why, BadAssignment::TooLarge(MAX_BYTES..)), "{why}"),
    }
}

/// Asserts that the written body keeps each top-level field, known or unknown.
fn assert_kept(read: Option<&Value>, written: &[u8]) {
    let written: Value = serde_json::from_slice(written).expect("a written body is JSON");
    let fields = read.and_then(Value::as_object).into_iter().flatten();
    for (name, value) in fields.filter(|(_, value)| !value.is_null()) {
        assert!(written.get(name).is_some(), "the written body has no field {name:?} with {value}");
    }
}

/// Asserts that the message does not quote the body, because messages reach logs.
fn check_message(why: &BadAssignment) {
    const STARTS: [&str; 3] =
        ["its body has ", "it has format ", "its body is not an assignment: "];
    let message = why.to_string();
    assert!(STARTS.iter().any(|start| message.starts_with(start)), "{message}");
    assert!(message.len() < 200 && message.is_ascii(), "the message quotes the body: {message}");
}

/// Checks that the data of a session does not change when it is written and read again.
fn session(body: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return };
    let Some((data, member)) = session_data::decode(&value) else { return };
    let releases: Vec<_> = data.releases.iter().map(|(it, by)| (*it, *by)).collect();
    // Data with thousands of releases may be too long to be written, so skip it.
    if releases.len() > 1_000 {
        return;
    }
    let (written, count) = session_data::encode(&releases, &data, &member, usize::MAX);
    assert_eq!(count, releases.len());
    assert_eq!(
        session_data::decode(&written),
        Some((data, member)),
        "the written data decodes to the same data"
    );
}
