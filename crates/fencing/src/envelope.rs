//! The envelope of a body: one line of JSON before the body.
//!
//! The line is part of the object's body and not of its metadata, because S3 computes ETags from
//! the body alone. If a claim changed only the metadata, the object would keep its ETag, and the
//! `If-Match` of a paused writer would succeed after the claim. A nonce in the line makes every
//! body unique, so no two writes have the same ETag.

use bytes::Bytes;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use tenure::{Error, ErrorKind};

/// Number of the format that this version writes. This number is also the greatest that this
/// version reads.
pub(super) const FORMAT: u64 = 1;
/// Maximum length of a line, in bytes. The lines of this crate have at most 300 bytes.
const MAX_LINE: usize = 1_024;

/// The first line of one kind of object. The body of the object follows this line.
pub(super) trait Line: Serialize + DeserializeOwned {
    /// Name of the first field of the line. The field has the number of the format.
    const TAG: &'static str;
    /// Kind of the object, as error messages name it.
    const WHAT: &'static str;
}

/// Returns the bytes of an object with this first line and this body.
pub(super) fn wrap<L: Line>(line: &L, body: &[u8]) -> Bytes {
    let mut bytes =
        serde_json::to_vec(line).expect("JSON can represent string keys and whole numbers");
    bytes.push(b'\n');
    bytes.extend_from_slice(body);
    bytes.into()
}

/// Returns the line and the body of the object at `key`. Returns an error for any other content.
pub(super) fn unwrap<L: Line>(key: &str, bytes: &Bytes) -> Result<(L, Bytes), Error> {
    let end = bytes.iter().take(MAX_LINE).position(|byte| *byte == b'\n');
    let Some(end) = end else {
        return Err(corrupt::<L>(key, "the object does not begin with a line of JSON"));
    };
    Ok((parse(key, &bytes[..end])?, bytes.slice(end + 1..)))
}

/// Parses a line without a body.
pub(super) fn parse<L: Line>(key: &str, line: &[u8]) -> Result<L, Error> {
    // The format is checked first, because a later format may change every other field.
    let format = match serde_json::from_slice::<Tagged>(line) {
        Ok(Tagged { tag, format }) if tag == L::TAG => format,
        Ok(_) => return Err(corrupt::<L>(key, "the object is of another kind")),
        Err(_) => return Err(corrupt::<L>(key, "its first line was not written by tenure")),
    };
    if format > FORMAT {
        let message = format!(
            "{key} has format {format} of {}, but this version of tenure reads only up to \
             {FORMAT}; upgrade tenure",
            L::WHAT
        );
        return Err(Error::new(ErrorKind::RecordTooNew, message));
    }
    serde_json::from_slice(line)
        .ok()
        .filter(|_| format == FORMAT)
        .ok_or_else(|| corrupt::<L>(key, "its first line lacks a field or has an unknown field"))
}

pub(super) fn corrupt<L: Line>(key: &str, why: &str) -> Error {
    let message = format!("{key} is not {}: {why}; it was left unchanged", L::WHAT);
    Error::new(ErrorKind::CorruptRecord, message)
}

/// The format field, which is the first field of a line.
struct Tagged {
    tag: String,
    format: u64,
}

impl<'de> Deserialize<'de> for Tagged {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tagged, D::Error> {
        struct First;
        impl<'de> Visitor<'de> for First {
            type Value = Tagged;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object that begins with its format")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tagged, A::Error> {
                let first = map.next_entry::<String, u64>()?;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                let (tag, format) = first.ok_or_else(|| serde::de::Error::custom("empty"))?;
                Ok(Tagged { tag, format })
            }
        }
        deserializer.deserialize_map(First)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Test {
        tenure_test: u64,
        number: u64,
    }

    impl Line for Test {
        const TAG: &'static str = "tenure_test";
        const WHAT: &'static str = "a test";
    }

    #[test]
    fn any_body_can_be_read_back() {
        let line = Test { tenure_test: 1, number: 7 };
        for body in [&b""[..], b"\n", b"{}\n{}", &[0xff; 10_000]] {
            let (read, rest) = unwrap::<Test>("a", &wrap(&line, body)).unwrap();
            assert_eq!((read.number, &rest[..]), (7, body));
        }
    }

    #[test]
    fn bytes_without_a_valid_first_line_are_refused() {
        for bytes in [
            "",
            "\n",
            "{}\n",
            "plain",
            "{\"tenure_test\":1,\"number\":7}",
            "{\"tenure_test\":0,\"number\":7}\n",
            "{\"tenure_test\":1}\n",
            "{\"tenure_test\":1,\"number\":7,\"more\":1}\n",
            "{\"tenure_test\":1,\"number\":7,\"number\":8}\n",
            "{\"number\":7,\"tenure_test\":1}\n",
            "{\"tenure_other\":1,\"number\":7}\n",
            "{\"tenure_test\":\"1\",\"number\":7}\n",
            "{\"tenure_test\":1,\"number\":7}x\n",
        ] {
            let error = unwrap::<Test>("a", &Bytes::from(bytes)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::CorruptRecord, "{bytes:?}");
        }
        let error = unwrap::<Test>("a", &"{\"tenure_test\":2,\"new\":[]}\nx".into()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RecordTooNew);
    }
}
