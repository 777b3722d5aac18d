//! Reads and writes the special formats of some fields of a record.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::protocol::message::{EpochEnd, Nonce};

/// Value of `ended` in the epoch object of an abandoned attempt, in an election across stores (Q6).
/// A record of an election in one store never has this value.
const ABANDONED: &str = "abandoned";

/// The field `validity_ms` of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Validity {
    /// The body has no field `validity_ms`, so the lease never lapses.
    #[default]
    Absent,
    /// The validity in milliseconds. A whole number that needs more than 64 bits is read as
    /// `u64::MAX`, and such a lease never lapses.
    Millis(u64),
}

impl Validity {
    pub(super) fn is_absent(&self) -> bool {
        *self == Validity::Absent
    }
}

impl Serialize for Validity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Validity::Absent => serializer.serialize_none(),
            Validity::Millis(ms) => serializer.serialize_u64(*ms),
        }
    }
}

impl<'de> Deserialize<'de> for Validity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Validity, D::Error> {
        let invalid = || serde::de::Error::custom("validity_ms is not a positive whole number");
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Validity::Absent),
            Value::Number(number) => match (number.as_u64(), number.as_f64()) {
                (Some(ms), _) if ms > 0 => Ok(Validity::Millis(ms)),
                // A whole number in JSON has no upper bound. serde_json reads a number of more than
                // 64 bits as a float.
                (None, Some(ms)) if ms >= u64::MAX as f64 => Ok(Validity::Millis(u64::MAX)),
                _ => Err(invalid()),
            },
            _ => Err(invalid()),
        }
    }
}

impl Serialize for Nonce {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Nonce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Nonce, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hex = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        match u128::from_str_radix(&text, 16) {
            Ok(bits) if hex => Ok(Nonce::from_bits(bits)),
            _ => Err(serde::de::Error::custom("nonce is not 32 hexadecimal digits")),
        }
    }
}

impl Serialize for EpochEnd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            EpochEnd::GivenUp => serializer.serialize_str(ABANDONED),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for EpochEnd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EpochEnd, D::Error> {
        Ok(match Value::deserialize(deserializer)?.as_str() {
            Some("resigned") => EpochEnd::Resigned,
            Some("lapsed") => EpochEnd::Lapsed,
            Some("deposed") => EpochEnd::Deposed,
            Some("restored") => EpochEnd::Restored,
            Some(ABANDONED) => EpochEnd::GivenUp,
            _ => EpochEnd::Unknown,
        })
    }
}

/// Reads a date that the protocol does not use. If the date is unreadable, the result is `None` and
/// not an error.
pub(super) fn for_people<'de, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<DateTime<Utc>>, D::Error> {
    let value = Value::deserialize(d)?;
    Ok(value.as_str().and_then(|text| text.parse().ok()))
}

/// Reads an optional text, which is a note for people or a preference. If the value is not a text,
/// the result is `None` and not an error.
pub(super) fn if_text<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    Ok(Value::deserialize(d)?.as_str().map(str::to_owned))
}
