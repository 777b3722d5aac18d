//! Tests of records and of invalid bodies.

use super::*;

fn parse(body: &str) -> Result<Record, BadRecord> {
    Record::parse(body.as_bytes())
}

#[test]
fn a_body_with_the_two_fields_of_morlings_post_is_a_record() {
    let record = parse(r#"{"validity_ms": 60000, "expired": false}"#).unwrap();
    assert_eq!(record.validity(), Some(Duration::from_secs(60)));
    assert_eq!(record.seen(), Seen { nonce: None, heartbeat: 0, ended: None, reclaimable: false });
    let record = parse(r#"{"expired": true}"#).unwrap();
    assert_eq!(record.validity(), None);
    assert_eq!(record.seen().ended, Some(EpochEnd::Unknown));
}

#[test]
fn a_validity_must_be_a_positive_whole_number_and_a_huge_one_never_lapses() {
    for bad in ["0", "-1", "-30000", "1.5", "\"30000\"", "[]", "true", "-1e300"] {
        let body = format!(r#"{{"expired":false,"validity_ms":{bad}}}"#);
        assert!(matches!(parse(&body), Err(BadRecord::Malformed(_))), "{bad}");
    }
    for never in ["null", "18446744073709551615", "99999999999999999999999", "31708800000"] {
        let body = format!(r#"{{"expired":false,"validity_ms":{never}}}"#);
        assert_eq!(parse(&body).unwrap().validity(), None, "{never}");
    }
}

#[test]
fn a_validity_of_a_leap_year_is_the_longest_that_lapses() {
    let validity = |ms: u64| {
        let body = format!(r#"{{"expired":false,"validity_ms":{ms}}}"#);
        parse(&body).unwrap().validity()
    };
    assert_eq!(validity(31_622_400_000), Some(Duration::from_secs(366 * 86_400)));
    assert_eq!(validity(31_622_400_001), None);
}

#[test]
fn a_record_of_64_kibibytes_is_the_largest_that_is_read() {
    let of = |length: usize| {
        let (before, after) = (r#"{"expired":false,"data":""#, r#""}"#);
        let data = "x".repeat(length - before.len() - after.len());
        parse(&[before, &data, after].concat())
    };
    assert!(of(65_536).is_ok());
    assert_eq!(of(65_537), Err(BadRecord::TooLarge(65_537)));
}

#[test]
fn a_body_that_is_not_a_record_is_an_error() {
    assert_eq!(parse(""), Err(BadRecord::Empty));
    for bad in ["{}", "[]", "null", "<html>", "{\"expired\":", "{\"expired\":\"false\"}", "\0"] {
        assert!(matches!(parse(bad), Err(BadRecord::Malformed(_))), "{bad}");
    }
    let long = format!(r#"{{"expired":false,"data":"{}"}}"#, "x".repeat(MAX_READ_BYTES));
    assert_eq!(parse(&long), Err(BadRecord::TooLarge(long.len() as u64)));
    assert_eq!(parse(r#"{"format":3,"expired":"later"}"#), Err(BadRecord::TooNew(3)));
    assert!(parse(r#"{"format":0,"expired":false}"#).is_err());
    assert!(parse(r#"{"expired":false,"nonce":"xyz"}"#).is_err());
}

#[test]
fn an_end_outside_of_the_format_is_unknown() {
    for word in ["superseded", "given_up", "later"] {
        let record = parse(&format!(r#"{{"expired":true,"ended":"{word}"}}"#)).unwrap();
        assert_eq!(record.seen().ended, Some(EpochEnd::Unknown), "{word}");
    }
}

#[test]
fn a_nonce_is_32_hexadecimal_digits() {
    let nonce = |text: &str| {
        let record = parse(&format!(r#"{{"expired":false,"nonce":"{text}"}}"#));
        record.map(|record| record.nonce)
    };
    assert_eq!(nonce(&"0f".repeat(16)), Ok(Some(Nonce::from_bits(u128::MAX / 17))));
    for bad in ["f".repeat(31), "f".repeat(33), format!("+{}", "f".repeat(31))] {
        assert!(nonce(&bad).is_err(), "{bad}");
    }
}

#[test]
fn absent_fields_are_not_written() {
    let body = Record::blank().to_bytes();
    let body: serde_json::Map<String, Value> = serde_json::from_slice(&body).unwrap();
    for absent in ["validity_ms", "successor", "data"] {
        assert_eq!(body.get(absent), None, "{absent}");
    }
}

/// serde_json does not check that ignored fields are UTF-8. Before the fix, a body was read as a
/// record even if an ignored field was not UTF-8. Fuzzing found this defect.
#[test]
fn regression_a_body_that_is_not_text_is_not_a_record() {
    let error = Record::parse(b"{\"expired\":true,\"later\":\"\xff\"}").unwrap_err();
    assert_eq!(error.to_string(), "its body is not a record: it is not UTF-8, at byte 25");
}

/// Before the fix, the seal of a record with a long name could be longer than the maximum length of
/// a readable body. No process could read the seal, so the election stopped. Fuzzing found this
/// defect.
#[test]
fn regression_the_seal_of_a_record_with_a_long_name_can_be_read() {
    let name = "ä".repeat(32_700);
    let record = parse(&format!(r#"{{"expired":false,"candidate":"{name}"}}"#)).unwrap();
    let by = "n".repeat(256);
    let sealed = record.sealed(EpochEnd::Lapsed, u64::MAX, &by, DateTime::<Utc>::MAX_UTC);
    assert!(sealed.to_bytes().len() <= MAX_WRITTEN_BYTES);
    assert_eq!(sealed.candidate.unwrap(), "ä".repeat(MAX_SEALED_NAME / 2));
}

#[test]
fn an_invalid_successor_is_ignored() {
    let successor = |value: &str| {
        let body = format!(r#"{{"expired":true,"ended":"resigned","successor":{value}}}"#);
        parse(&body).unwrap().successor
    };
    assert_eq!(successor("\"b\""), Some("b".to_owned()));
    for none in ["null", "7", "[\"b\"]", "{}"] {
        assert_eq!(successor(none), None, "{none}");
    }
}

/// Before the fix, the last bit of some floats in `data` was wrong after a read, because the
/// feature `float_roundtrip` of serde_json was disabled. Fuzzing found this defect.
#[test]
fn regression_a_float_is_read_without_a_change() {
    let body = r#"{"expired":false,"data":118446744073709551615}"#;
    let record = parse(body).unwrap();
    assert_eq!(Record::parse(&record.to_bytes()).unwrap(), record);
}

#[test]
fn messages_never_quote_the_body() {
    let error = parse(r#"{"expired":"hunter2"}"#).unwrap_err();
    assert!(!error.to_string().contains("hunter2"), "{error}");
}

#[test]
fn a_seal_keeps_the_candidate_and_drops_the_data() {
    let nonce = Nonce::from_bits(7);
    let body = format!(
        r#"{{"expired":false,"validity_ms":5000,"format":1,"candidate":"a","nonce":"{nonce}",
            "heartbeat":4,"elected_at":"soon","successor":"c","data":{{"x":1}},"later":true}}"#
    );
    let record = parse(&body).unwrap();
    let sealed = record.sealed(EpochEnd::Lapsed, 5, "b", DateTime::<Utc>::UNIX_EPOCH);
    let read = Record::parse(&sealed.to_bytes()).unwrap();
    assert_eq!(read, sealed);
    assert_eq!(read.candidate.as_deref(), Some("a"));
    assert_eq!(read.sealed_by.as_deref(), Some("b"));
    assert_eq!(read.sealed_at, Some(DateTime::<Utc>::UNIX_EPOCH));
    // Only the seal of a resignation has the field `successor`, so the seal after a lapse omits
    // this field.
    assert_eq!(read.successor, None);
    let ended = Some(EpochEnd::Lapsed);
    assert_eq!(read.seen(), Seen { nonce: Some(nonce), heartbeat: 5, ended, reclaimable: false });
    assert!(read.data.is_null() && read.validity() == Some(Duration::from_secs(5)));
}
