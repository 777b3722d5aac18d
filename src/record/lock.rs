//! The body of the single object: the record with the two fields of the post *Leader election with
//! S3 and If-Match* in front (docs/protocol.md, section 13).

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    BadRecord, Record, Validity, checked_text, first_format, for_people, if_text, where_not_what,
};
use crate::epoch::Epoch;
use crate::protocol::message::{Ended, Nonce};

/// The body of the single object, as read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lock {
    pub(crate) token: Epoch,
    pub(crate) record: Record,
}

/// As it stands in the JSON.
#[derive(Serialize, Deserialize)]
struct Fields {
    /// Seconds since the Unix epoch; 0 once released. It decides only where a peer has nothing
    /// else.
    expires_at: f64,
    token: u64,
    /// Repeats the token: a peer that raises the token and keeps the fields that it does not know
    /// has not made them its own.
    #[serde(default)]
    epoch: Option<u64>,
    #[serde(default, skip_serializing_if = "Validity::is_absent")]
    validity_ms: Validity,
    #[serde(default = "first_format")]
    format: u64,
    #[serde(default)]
    candidate: Option<String>,
    #[serde(default)]
    nonce: Option<Nonce>,
    #[serde(default)]
    heartbeat: u64,
    #[serde(default, deserialize_with = "for_people")]
    elected_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "for_people")]
    renewed_at: Option<DateTime<Utc>>,
    #[serde(default, deserialize_with = "for_people")]
    sealed_at: Option<DateTime<Utc>>,
    #[serde(default)]
    sealed_by: Option<String>,
    #[serde(default)]
    ended: Option<Ended>,
    #[serde(default, deserialize_with = "if_text", skip_serializing_if = "Option::is_none")]
    successor: Option<String>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    data: Value,
}

impl Lock {
    /// Reads a body. `Err` names what is wrong, without the body itself. A lock without a token, or
    /// with one past the last epoch, is never treated as free.
    pub(crate) fn parse(body: &[u8]) -> Result<Lock, BadRecord> {
        let text = checked_text(body)?;
        let fields: Fields = serde_json::from_str(text)
            .map_err(|error| BadRecord::Malformed(wrong(text, &error)))?;
        let Some(token) = Epoch::token(fields.token) else {
            return Err(BadRecord::Malformed(format!("its token is greater than {}", Epoch::MAX)));
        };
        let released = fields.expires_at == 0.0;
        let ours = fields.nonce.is_some() && fields.epoch == Some(fields.token);
        let record =
            if ours { fields.own(released) } else { Record::of_the_post(&fields, released) };
        Ok(Lock { token, record })
    }

    /// The body to write. `expires_at` is by the wall clock, for peers of the post; what has ended
    /// is released, whatever it says.
    pub(crate) fn to_bytes(token: Epoch, record: &Record, expires_at: Duration) -> Vec<u8> {
        let record = record.clone();
        let fields = Fields {
            expires_at: if record.expired { 0.0 } else { expires_at.as_secs_f64() },
            token: token.get(),
            epoch: Some(token.get()),
            validity_ms: record.validity_ms,
            format: record.format,
            candidate: record.candidate,
            nonce: record.nonce,
            heartbeat: record.heartbeat,
            elected_at: record.elected_at,
            renewed_at: record.renewed_at,
            sealed_at: record.sealed_at,
            sealed_by: record.sealed_by,
            ended: record.ended,
            successor: record.successor,
            data: record.data,
        };
        let mut body = serde_json::to_vec_pretty(&fields)
            .expect("a record has string keys and finite numbers, which JSON can hold");
        body.push(b'\n');
        body
    }
}

/// What is wrong with a body, without the body itself. A missing field is named: the first version
/// of the post has no token.
fn wrong(text: &str, error: &serde_json::Error) -> String {
    let missing = match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => {
            ["token", "expires_at"].into_iter().find(|name| !fields.contains_key(*name))
        }
        _ => None,
    };
    match missing {
        Some(name) => format!("the field `{name}` is missing"),
        None => where_not_what(error),
    }
}

impl Fields {
    fn own(self, expired: bool) -> Record {
        Record {
            expired,
            expires_at: Some(self.expires_at),
            validity_ms: self.validity_ms,
            format: self.format,
            candidate: self.candidate,
            nonce: self.nonce,
            heartbeat: self.heartbeat,
            elected_at: self.elected_at,
            renewed_at: self.renewed_at,
            sealed_at: self.sealed_at,
            sealed_by: self.sealed_by,
            ended: self.ended,
            successor: self.successor,
            data: self.data,
        }
    }
}

impl Record {
    /// Of a body that has only the post's two fields, or whose others are not its writer's.
    fn of_the_post(fields: &Fields, released: bool) -> Record {
        Record {
            expired: released,
            expires_at: Some(fields.expires_at),
            // In the post nobody but the holder releases a lock.
            ended: released.then_some(Ended::Resigned),
            ..Record::blank()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Duration = Duration::from_millis(1_740_151_473_250);

    fn parse(body: &str) -> Result<Lock, BadRecord> {
        Lock::parse(body.as_bytes())
    }

    fn own() -> Record {
        let mut record = parse(r#"{"expires_at":1.5,"token":1}"#).unwrap().record;
        record.nonce = Some(Nonce::from_bits(7));
        record.validity_ms = Validity::Millis(30_000);
        record.candidate = Some("a".to_owned());
        record
    }

    #[test]
    fn the_posts_two_fields_are_a_lock() {
        let Lock { token, record } =
            parse(r#"{"expires_at": 1740151473.206179, "token": 1}"#).unwrap();
        assert_eq!(token, Epoch::FIRST);
        assert_eq!(record.expires_at, Some(1_740_151_473.206_179));
        assert_eq!((record.nonce, record.seen().ended), (None, None));
        // "Starting at zero."
        assert_eq!(parse(r#"{"expires_at": 1, "token": 0}"#).unwrap().token.get(), 0);
        let released = parse(r#"{"expires_at": 0, "token": 7}"#).unwrap();
        assert_eq!(released.record.seen().ended, Some(Ended::Resigned));
        assert_eq!(released.token.get(), 7);
        let in_the_past = parse(r#"{"expires_at": -1, "token": 7}"#).unwrap();
        assert_eq!(in_the_past.record.seen().ended, None, "not released, only long over");
    }

    #[test]
    fn what_is_written_has_the_posts_fields_and_is_read_back() {
        let token = Epoch::new(9).unwrap();
        let mut record = own();
        let body = Lock::to_bytes(token, &record, AT);
        let json: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&json["expires_at"], &json["token"]), (&1_740_151_473.25.into(), &9.into()));
        record.expires_at = Some(AT.as_secs_f64());
        assert_eq!(Lock::parse(&body).unwrap(), Lock { token, record });
    }

    #[test]
    fn a_release_sets_expires_at_to_zero_and_keeps_the_token() {
        let token = Epoch::new(9).unwrap();
        let sealed = own().sealed(Ended::Resigned, 4, "a", DateTime::<Utc>::UNIX_EPOCH);
        let body = Lock::to_bytes(token, &sealed, AT);
        let json: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((json["expires_at"].as_f64(), &json["token"]), (Some(0.0), &9.into()));
        let Lock { record, .. } = Lock::parse(&body).unwrap();
        assert_eq!(record.seen().ended, Some(Ended::Resigned));
        assert_eq!(record.heartbeat, 4);
    }

    #[test]
    fn fields_that_a_peer_left_standing_are_not_its_own() {
        let body = Lock::to_bytes(Epoch::FIRST, &own(), AT);
        let mut json: Value = serde_json::from_slice(&body).unwrap();
        json["token"] = 2.into();
        let Lock { token, record } = parse(&json.to_string()).unwrap();
        assert_eq!((token.get(), record.nonce, record.validity()), (2, None, None));
    }

    #[test]
    fn a_release_by_hand_that_does_not_say_why_is_a_deposition() {
        let body = Lock::to_bytes(Epoch::FIRST, &own(), AT);
        let mut json: Value = serde_json::from_slice(&body).unwrap();
        json["expires_at"] = 0.into();
        assert_eq!(parse(&json.to_string()).unwrap().record.seen().ended, Some(Ended::Unknown));
    }

    #[test]
    fn a_missing_field_is_named() {
        let why = |body| parse(body).unwrap_err().to_string();
        assert!(why(r#"{"expires_at":1.5}"#).contains("`token` is missing"));
        assert!(why(r#"{"token":1}"#).contains("`expires_at` is missing"));
        assert!(why(r#"{"expires_at":"hush","token":1}"#).contains("wrong type"));
    }

    #[test]
    fn what_is_not_a_lock_is_never_free() {
        assert_eq!(parse(""), Err(BadRecord::Empty));
        assert_eq!(parse(r#"{"format":2}"#), Err(BadRecord::TooNew(2)));
        for bad in [
            "{}",
            r#"{"expires_at":0}"#,
            r#"{"token":1}"#,
            r#"{"expires_at":"0","token":1}"#,
            r#"{"expires_at":null,"token":1}"#,
            r#"{"expires_at":NaN,"token":1}"#,
            r#"{"expires_at":0,"token":-1}"#,
            r#"{"expires_at":0,"token":1.5}"#,
            r#"{"expires_at":0,"token":10000000000}"#,
            r#"{"expired":true,"validity_ms":1000}"#,
        ] {
            assert!(matches!(parse(bad), Err(BadRecord::Malformed(_))), "{bad}");
        }
    }
}
