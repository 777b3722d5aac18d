//! Runs the fuzz targets' checks on damaged records and on records with arbitrary fields.

use std::time::Duration;

use chrono::{DateTime, TimeZone as _, Utc};
use proptest::prelude::*;
use serde_json::Value;

use tenure::Epoch;
use tenure::protocol::layout::Layout;
use tenure::protocol::message::{EpochEnd, Nonce};
use tenure::record::{FORMAT, Formats, MAX_READ_BYTES, Record, Validity};
use tenure_model::fuzzing::{lock, record as check};
use tenure_testkit::properties::cases;

fn any_json() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_time() -> impl Strategy<Value = Option<DateTime<Utc>>> {
    let (least, most) = (DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC);
    let time = (least.timestamp()..=most.timestamp(), 0..1_000_000_000_u32);
    let time = prop_oneof![
        4 => (0..4_000_000_000_i64, 0..1_000_000_000_u32),
        1 => time,
    ];
    prop::option::of(time.prop_filter_map("a time", |(s, n)| Utc.timestamp_opt(s, n).single()))
}

fn any_ended() -> impl Strategy<Value = Option<EpochEnd>> {
    let words = [EpochEnd::Resigned, EpochEnd::Lapsed, EpochEnd::Deposed, EpochEnd::Unknown];
    prop::option::of(prop::sample::select(words.to_vec()))
}

fn any_record() -> impl Strategy<Value = Record> {
    let validity = prop_oneof![
        1 => Just(Validity::Absent),
        1 => Just(Validity::Millis(1)),
        4 => (1..=u64::MAX).prop_map(Validity::Millis),
        4 => (1..100_000_u64).prop_map(Validity::Millis),
    ];
    let name = || prop::option::of("\\PC{0,60}");
    let who = (name(), prop::option::of(any::<u128>().prop_map(Nonce::from_bits)), any::<u64>());
    let times = (any_time(), any_time(), any_time());
    let seal = (name(), any_ended(), name(), any::<Option<u64>>(), (name(), name()));
    (any::<bool>(), validity, who, times, seal, any_json()).prop_map(
        |(
            expired,
            validity_ms,
            who,
            times,
            (sealed_by, ended, successor, park_ms, order),
            data,
        )| Record {
            expired,
            expires_at: None,
            validity_ms,
            format: FORMAT,
            candidate: who.0,
            nonce: who.1,
            heartbeat: who.2,
            elected_at: times.0,
            renewed_at: times.1,
            sealed_at: times.2,
            sealed_by,
            ended,
            forced_by: order.0,
            reason: order.1,
            successor,
            park_ms,
            data,
        },
    )
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn records_are_read_as_written(record in any_record()) {
        let body = record.to_bytes();
        prop_assume!(body.len() <= MAX_READ_BYTES);
        prop_assert_eq!(Record::parse(&body), Ok(record));
    }

    #[test]
    fn every_written_record_can_be_sealed(record in any_record()) {
        check(&record.to_bytes());
    }

    #[test]
    fn any_bytes_are_a_record_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        check(&body);
        prop_assert!(Record::parse(&body).is_err(), "the damaged body was parsed: {body:?}");
    }

    #[test]
    fn a_damaged_record_never_counts_as_vacant_by_mistake(
        record in any_record(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        length: prop::sample::Index,
        cut: bool,
    ) {
        let mut body = record.to_bytes();
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if cut {
            body.truncate(length.index(body.len()));
        }
        check(&body);
    }

    /// The body has arbitrary known and unknown fields and values.
    #[test]
    fn errors_of_records_with_arbitrary_fields_contain_no_value(
        fields in proptest::collection::vec((field(), any_json()), 0..8),
        secret in "[a-z]{12}",
    ) {
        let mut body = serde_json::Map::new();
        for (name, value) in fields {
            body.insert(name, value);
        }
        body.insert("nonce".to_owned(), Value::from(secret.clone()));
        let body = Value::Object(body).to_string();
        check(body.as_bytes());
        let error = Record::parse(body.as_bytes()).unwrap_err();
        prop_assert!(!format!("{error} {error:?}").contains(&secret), "{error:?}");
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn locks_are_read_as_written(
        record in any_record(),
        nonce: u128,
        token in 0..=Epoch::MAX.get(),
        nanos in 1..u64::MAX,
    ) {
        let expires_at = Duration::from_nanos(nanos);
        let token = Epoch::token(token).unwrap();
        let mut record = Record { nonce: Some(Nonce::from_bits(nonce)), ..record };
        let body = record.encode(Layout::SingleObject, token, expires_at);
        prop_assume!(body.len() <= MAX_READ_BYTES);
        record.expires_at = Some(if record.expired { 0.0 } else { expires_at.as_secs_f64() });
        prop_assert_eq!(Record::decode(Formats::OneStore, None, &body), Ok((token, record)));
    }

    /// A lock is free only if it has an `expires_at` of zero and a valid token.
    #[test]
    fn a_damaged_lock_never_counts_as_free(
        record in any_record(),
        token in 0..=Epoch::MAX.get(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length: prop::sample::Index,
        cut: bool,
    ) {
        let token = Epoch::token(token).unwrap();
        let mut body = record.encode(Layout::SingleObject, token, Duration::from_secs(1_740_151_473));
        for (at, byte) in damage {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if cut {
            body.truncate(length.index(body.len()));
        }
        lock(&body);
    }
}

fn field() -> impl Strategy<Value = String> {
    let known = ["expired", "validity_ms", "format", "candidate", "heartbeat", "ended", "data"];
    prop_oneof![prop::sample::select(known.to_vec()).prop_map(str::to_owned), "[a-z]{1,8}"]
}
