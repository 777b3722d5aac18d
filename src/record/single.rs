//! The body of the object of `Layout::SingleObject`. The two fields of the post *Leader election
//! with S3 and If-Match* come first, and then the record (SO1 to SO3 in docs/design/protocol.md).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{BadRecord, Formats, Record, checked_text, fields, where_not_what};
use crate::epoch::Epoch;
use crate::protocol::message::EpochEnd;

/// The first fields in the body of the object of `Layout::SingleObject`.
#[derive(Serialize, Deserialize)]
pub(super) struct SingleHead {
    /// End of the lease in seconds since the Unix epoch, or 0 after a release. A candidate uses
    /// this time only if a peer that does not use tenure wrote the body.
    expires_at: f64,
    token: u64,
    /// The same number as `token`. A peer that does not use tenure may raise `token` and copy all
    /// other fields. The two numbers then differ, and tenure ignores the copied fields.
    #[serde(default)]
    epoch: Option<u64>,
}

impl SingleHead {
    pub(super) fn of(token: Epoch, record: &Record, expires_at: Duration) -> SingleHead {
        let expires_at = if record.expired { 0.0 } else { expires_at.as_secs_f64() };
        SingleHead { expires_at, token: token.get(), epoch: Some(token.get()) }
    }
}

/// Reads a body. The message of an error does not contain parts of the body. A body without a
/// token, or with a token above the last epoch, is an error, so no candidate takes over its lock.
pub(super) fn parse(body: &[u8]) -> Result<(Epoch, Record), BadRecord> {
    let text = checked_text(Formats::OneStore, body)?;
    let head: SingleHead =
        serde_json::from_str(text).map_err(|error| BadRecord::Malformed(wrong(text, &error)))?;
    let record: Record = fields(text)?;
    let Some(token) = Epoch::token(head.token) else {
        return Err(BadRecord::Malformed(format!("its token is greater than {}", Epoch::MAX)));
    };
    let expired = head.expires_at == 0.0;
    let ours = record.nonce.is_some() && head.epoch == Some(head.token);
    let record = if ours {
        record
    } else {
        // The body has only `expires_at` and `token`, or a peer changed these two and copied the
        // other fields. Among such peers only the holder releases a lock, so a release is a
        // resignation.
        Record { ended: expired.then_some(EpochEnd::Resigned), ..Record::blank() }
    };
    Ok((token, Record { expired, expires_at: Some(head.expires_at), ..record }))
}

/// Describes why a body cannot be read. The description contains no part of the body. The message
/// names a missing field, because peers that follow the first version of the blog post about
/// `If-Match` write no token.
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

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::*;
    use crate::protocol::layout::Layout;
    use crate::protocol::message::Nonce;
    use crate::record::Validity;

    const AT: Duration = Duration::from_millis(1_740_151_473_250);

    fn parse(body: &str) -> Result<(Epoch, Record), BadRecord> {
        super::parse(body.as_bytes())
    }

    fn bytes(token: Epoch, record: &Record) -> Vec<u8> {
        record.encode(Layout::SingleObject, token, AT)
    }

    fn own() -> Record {
        let mut record = parse(r#"{"expires_at":1.5,"token":1}"#).unwrap().1;
        record.nonce = Some(Nonce::from_bits(7));
        record.validity_ms = Validity::Millis(30_000);
        record.candidate = Some("a".to_owned());
        record
    }

    #[test]
    fn a_body_with_the_two_fields_of_the_post_is_a_lock() {
        let (token, record) = parse(r#"{"expires_at": 1740151473.206179, "token": 1}"#).unwrap();
        assert_eq!(token, Epoch::FIRST);
        assert_eq!(record.expires_at, Some(1_740_151_473.206_179));
        assert_eq!((record.nonce, record.seen().ended), (None, None));
        // The tokens of peers that follow the blog post may start at 0.
        assert_eq!(parse(r#"{"expires_at": 1, "token": 0}"#).unwrap().0.get(), 0);
        let released = parse(r#"{"expires_at": 0, "token": 7}"#).unwrap();
        assert_eq!(released.1.seen().ended, Some(EpochEnd::Resigned));
        assert_eq!(released.0.get(), 7);
        let in_the_past = parse(r#"{"expires_at": -1, "token": 7}"#).unwrap();
        assert_eq!(in_the_past.1.seen().ended, None, "the expiry of a lock is no release");
    }

    #[test]
    fn a_written_body_has_the_posts_fields_and_is_read_back() {
        let token = Epoch::new(9).unwrap();
        let mut record = own();
        let body = bytes(token, &record);
        let json: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&json["expires_at"], &json["token"]), (&1_740_151_473.25.into(), &9.into()));
        record.expires_at = Some(AT.as_secs_f64());
        assert_eq!(super::parse(&body).unwrap(), (token, record));
    }

    #[test]
    fn a_release_sets_expires_at_to_zero_and_keeps_the_token() {
        let token = Epoch::new(9).unwrap();
        let sealed = own().sealed(EpochEnd::Resigned, 4, "a", DateTime::<Utc>::UNIX_EPOCH);
        let body = bytes(token, &sealed);
        let json: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((json["expires_at"].as_f64(), &json["token"]), (Some(0.0), &9.into()));
        let (_, record) = super::parse(&body).unwrap();
        assert_eq!(record.seen().ended, Some(EpochEnd::Resigned));
        assert_eq!(record.heartbeat, 4);
    }

    #[test]
    fn fields_that_a_peer_copied_are_ignored() {
        let body = bytes(Epoch::FIRST, &own());
        let mut json: Value = serde_json::from_slice(&body).unwrap();
        json["token"] = 2.into();
        let (token, record) = parse(&json.to_string()).unwrap();
        assert_eq!((token.get(), record.nonce, record.validity()), (2, None, None));
    }

    #[test]
    fn a_manual_release_without_a_reason_has_an_unknown_end() {
        let body = bytes(Epoch::FIRST, &own());
        let mut json: Value = serde_json::from_slice(&body).unwrap();
        json["expires_at"] = 0.into();
        assert_eq!(parse(&json.to_string()).unwrap().1.seen().ended, Some(EpochEnd::Unknown));
    }

    #[test]
    fn the_error_names_a_missing_field() {
        let why = |body| parse(body).unwrap_err().to_string();
        assert!(why(r#"{"expires_at":1.5}"#).contains("`token` is missing"));
        assert!(why(r#"{"token":1}"#).contains("`expires_at` is missing"));
        assert!(why(r#"{"expires_at":"hush","token":1}"#).contains("wrong type"));
    }

    #[test]
    fn an_invalid_body_is_an_error() {
        assert_eq!(parse(""), Err(BadRecord::Empty));
        assert_eq!(parse(r#"{"format":3}"#), Err(BadRecord::TooNew(3)));
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
