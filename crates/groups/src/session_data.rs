//! The `data` of a member's session (GO5).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::protocol::session::SessionData;
use crate::protocol::{PartitionNumber, Release};
use tenure::Epoch;
use tenure::internals::groups::Record;

#[derive(Serialize, Deserialize, Default)]
struct Fields {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    releases: Vec<Ranges>,
    #[serde(default)]
    looks: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seen: Option<Epoch>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    leaving: bool,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    weight: u32,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    member: Value,
}

/// The weight and the data that a member publishes in the assignment.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Weight, at least 1.
    pub weight: u32,
    pub data: Value,
}

/// Releases under one token. Each range of partitions is a pair of its first and its last number.
#[derive(Serialize, Deserialize)]
struct Ranges {
    token: Epoch,
    #[serde(default, skip_serializing_if = "is_zero")]
    back_off_ms: u64,
    partitions: Vec<(u32, u32)>,
}

/// Bytes of a session's record that are reserved for the session's name and the fields of the
/// lease.
const RECORD_BYTES: usize = 2 * 1024;
/// The greatest length of a session's data, in bytes.
pub(crate) const MAX_DATA_BYTES: usize = Record::MAX_WRITTEN_BYTES - RECORD_BYTES;
/// The greatest length of the data without releases, in bytes. The rest of the session always has
/// room for some releases.
pub(crate) const MAX_SAID_BYTES: usize = MAX_DATA_BYTES - 2 * 1024;

/// The greatest number of partitions in the releases of one session. Data with more releases is
/// invalid.
const MAX_RELEASES: usize = 1_000_000;

/// Returns the `data` of a session, at most `room` bytes long, and the number of releases in it. If
/// not all releases fit, the data contains the first releases. Later writes contain the other
/// releases, after partitions have moved.
pub fn encode(
    releases: &[(Release, Duration)],
    data: &SessionData,
    said: &Said,
    room: usize,
) -> (Value, usize) {
    let SessionData { looks, seen, leaving, .. } = *data;
    let fields = |count: usize| {
        let (releases, member) = (ranges(&releases[..count]), said.data.clone());
        let weight = said.weight;
        serde_json::to_value(Fields { releases, looks, seen, leaving, weight, member })
            .expect("the data of a session has string keys")
    };
    let fits = |count| written(&fields(count)) <= room;
    let mut count = releases.len();
    // If only one release were removed, the data could become longer, because a range may split
    // into two. But half of the releases never take more bytes than all releases.
    while count > 0 && !fits(count) {
        count /= 2;
    }
    (fields(count), count)
}

/// Returns the number of bytes that a value takes in a record. In a record, each part of the value
/// is on its own indented line.
pub fn written(value: &Value) -> usize {
    let text = format!("{value:#}");
    text.len() + 2 * text.lines().count()
}

fn ranges(releases: &[(Release, Duration)]) -> Vec<Ranges> {
    let mut sorted: BTreeMap<(Epoch, u64), Vec<u32>> = BTreeMap::new();
    for (Release { partition, token }, back_off) in releases {
        let back_off_ms = u64::try_from(back_off.as_millis()).unwrap_or(u64::MAX);
        sorted.entry((*token, back_off_ms)).or_default().push(partition.0);
    }
    let ranges = |((token, back_off_ms), mut numbers): ((Epoch, u64), Vec<u32>)| {
        numbers.sort_unstable();
        let mut partitions: Vec<(u32, u32)> = Vec::new();
        for number in numbers {
            match partitions.last_mut() {
                Some((_, last)) if number - *last <= 1 => *last = number,
                _ => partitions.push((number, number)),
            }
        }
        Ranges { token, back_off_ms, partitions }
    };
    sorted.into_iter().map(ranges).collect()
}

/// Reads the `data` of a session. Returns `None` if the session has no data, because only the
/// create of the session was written. Also returns `None` for data in a form that no member writes.
pub fn decode(data: &Value) -> Option<(SessionData, Said)> {
    let Fields { releases, looks, seen, leaving, weight, member } =
        Fields::deserialize(data).ok().filter(|_| data.is_object())?;
    let mut all = BTreeMap::new();
    for Ranges { token, back_off_ms, partitions } in releases {
        for (first, last) in partitions {
            let many = usize::try_from(last.checked_sub(first)?).ok()?;
            if all.len().saturating_add(many) >= MAX_RELEASES {
                return None;
            }
            let release = |number| Release { partition: PartitionNumber(number), token };
            let back_off = Duration::from_millis(back_off_ms);
            all.extend((first..=last).map(|number| (release(number), back_off)));
        }
    }
    // The assignment repeats the member's data. If this data is nested too deep, ignore it, because
    // it would make the assignment unreadable.
    let member = if Record::nests_too_deep(&member) { Value::Null } else { member };
    let said = Said { weight: weight.max(1), data: member };
    Some((SessionData { releases: all, looks, seen, leaving }, said))
}

/// Returns the part of a session's `data` that a seal keeps: the greatest assignment that the
/// session's member has seen (D1). If all assignments are deleted, this value prevents the group
/// from starting again at epoch 1.
pub(crate) fn seen_alone(data: &Value) -> Value {
    match seen(data) {
        Some(seen) => serde_json::json!({ "seen": seen }),
        None => Value::Null,
    }
}

/// Returns the greatest assignment that a member has seen, from the `data` of its session.
pub(crate) fn seen(data: &Value) -> Option<Epoch> {
    decode(data)?.0.seen
}

fn is_zero(ms: &u64) -> bool {
    *ms == 0
}

fn one() -> u32 {
    1
}

fn is_one(weight: &u32) -> bool {
    *weight == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Said = Said { weight: 1, data: Value::Null };

    fn release(partition: u32, token: u64, back_off: u64) -> (Release, Duration) {
        let (partition, token) = (PartitionNumber(partition), Epoch::new(token).unwrap());
        (Release { partition, token }, Duration::from_millis(back_off))
    }

    fn data(releases: &[(Release, Duration)]) -> SessionData {
        let releases = releases.iter().copied().collect();
        SessionData { releases, looks: 9, seen: Epoch::new(7), leaving: true }
    }

    #[test]
    fn written_data_is_read_unchanged() {
        let releases = [
            release(3, 5, 0),
            release(1, 5, 0),
            release(2, 5, 0),
            release(9, 6, 0),
            release(7, 5, 250),
        ];
        let said = Said { weight: 3, data: serde_json::json!({ "addr": "10.0.0.7:80" }) };
        let (value, count) = encode(&releases, &data(&releases), &said, 1_000);
        assert_eq!(count, 5);
        assert_eq!(value["releases"][0]["partitions"], serde_json::json!([[1, 3]]));
        assert_eq!(decode(&value), Some((data(&releases), said)));
        let (empty, _) = encode(&[], &SessionData::default(), &NOTHING, 1_000);
        assert_eq!(empty.to_string(), r#"{"looks":0}"#);
    }

    #[test]
    fn a_seal_keeps_only_the_greatest_assignment_seen() {
        let said = Said { weight: 3, data: serde_json::json!("10.0.0.7:80") };
        let releases = [release(3, 5, 0)];
        let kept = seen_alone(&encode(&releases, &data(&releases), &said, 1_000).0);
        assert_eq!(kept.to_string(), r#"{"seen":7}"#);
        let seen = SessionData { seen: Epoch::new(7), ..Default::default() };
        assert_eq!(decode(&kept), Some((seen, NOTHING)));
        let nothing = encode(&[], &SessionData::default(), &NOTHING, 1_000).0;
        assert_eq!((seen_alone(&nothing), seen_alone(&Value::Null)), (Value::Null, Value::Null));
    }

    #[test]
    fn only_releases_that_fit_into_the_room_are_written() {
        let releases: Vec<_> = (0..5_000).map(|number| release(number * 2, 5, 0)).collect();
        let (value, count) = encode(&releases, &data(&[]), &NOTHING, 10_000);
        assert!(written(&value) <= 10_000 && count > 100, "{count}");
        let (read, _) = decode(&value).unwrap();
        assert_eq!(read.releases, releases[..count].iter().copied().collect());
        // Releases of consecutive partitions form a range, and a range takes as many bytes as one
        // release. So all 5,000 releases fit into 300 bytes.
        let releases: Vec<_> = (0..5_000).map(|number| release(number, 5, 0)).collect();
        assert_eq!(encode(&releases, &data(&[]), &NOTHING, 300).1, 5_000);
    }

    #[test]
    fn data_that_no_member_wrote_is_ignored() {
        for text in ["null", "[]", "7", r#"{"looks":-1}"#, r#"{"seen":0}"#] {
            assert_eq!(decode(&serde_json::from_str(text).unwrap()), None, "{text}");
        }
        for ranges in ["[[5,4]]", "[[0,4294967295]]", "[[0,999998],[2000000,2000001]]"] {
            let text = format!(r#"{{"releases":[{{"token":1,"partitions":{ranges}}}]}}"#);
            assert_eq!(decode(&serde_json::from_str(&text).unwrap()), None, "{text}");
        }
    }
}
