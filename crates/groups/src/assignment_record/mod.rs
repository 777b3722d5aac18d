//! The JSON body of an assignment. Writers copy unknown fields to the next assignment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::protocol::assignment::Marks;
use crate::protocol::{AssignedPartition, Assignment, Member, PartitionNumber, Session, SessionId};
use tenure::Epoch;
use tenure::internals::groups::Nonce;

/// Maximum length of a body: 4 MiB. A store may have a lower limit.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Maximum length of the name of a member or a partition, in bytes.
pub const MAX_NAME_BYTES: usize = 256;
/// Maximum validity of a session: 1 h.
pub const MAX_VALIDITY: Duration = Duration::from_secs(3_600);
/// The greatest format number that this version reads.
const FORMAT: u64 = RESTORING;
/// Format number of assignments, except during a restore.
const USUAL: u64 = 1;
/// Format number of the assignment during a restore (D9). It differs from `USUAL`, because earlier
/// versions must not plan from this assignment.
const RESTORING: u64 = 2;

/// An assignment, and the fields that this version does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct AssignmentRecord {
    pub assignment: Assignment,
    pub unknown: Unknown,
}

/// Fields that a later version wrote: in the assignment, in its members and in its partitions. The
/// next assignment keeps these fields.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Unknown {
    top: Map<String, Value>,
    members: BTreeMap<SessionId, Map<String, Value>>,
    partitions: BTreeMap<PartitionNumber, Map<String, Value>>,
}

/// The reason why a body is not an assignment. A body with one of these defects never counts as a
/// missing assignment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadAssignment {
    #[error("its body has {0} bytes; an assignment has at most {MAX_BYTES}")]
    TooLarge(usize),
    #[error("it has format {0}; this version of tenure reads up to {FORMAT}")]
    TooNew(u64),
    #[error("its body is not an assignment: {0}")]
    Malformed(String),
}

#[derive(Serialize, Deserialize)]
struct Body {
    format: u64,
    epoch: Epoch,
    nonce: Nonce,
    #[serde(default)]
    assignor: Arc<str>,
    /// Index of the coordinator in `members`. The fields `owner` and `target` of a partition are
    /// also indexes in `members`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    coordinator: Option<usize>,
    next_number: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    kept: Vec<KeptFields>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    restoring_ms: Option<u64>,
    members: Vec<MemberFields>,
    partitions: Vec<PartitionFields>,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct MemberFields {
    id: SessionId,
    nonce: Nonce,
    name: Arc<str>,
    validity_ms: u64,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    weight: u32,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    data: Value,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

/// A reservation: the name of a member, and a duration. Partitions refer to a reservation by its
/// index, so a reserved partition takes no more bytes than an owned one.
#[derive(Serialize, Deserialize)]
struct KeptFields {
    name: Arc<str>,
    ms: u64,
}

#[derive(Serialize, Deserialize)]
struct PartitionFields {
    /// Number of the partition. Absent if it is one more than the number of the previous partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    name: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<Epoch>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<usize>,
    /// Index in `kept`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kept: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pinned: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    barred: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "is_false")]
    paused: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    retiring: bool,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

impl AssignmentRecord {
    /// Decodes the body of the assignment with this epoch. The error does not quote the body.
    pub fn decode(epoch: Epoch, body: &[u8]) -> Result<AssignmentRecord, BadAssignment> {
        if body.len() > MAX_BYTES {
            return Err(BadAssignment::TooLarge(body.len()));
        }
        // Check the format first, because a later format may change every other field.
        #[derive(Deserialize)]
        struct Format {
            format: u64,
        }
        match parse::<Format>(body)?.format {
            0 => return malformed("format 0"),
            USUAL | RESTORING => {}
            newer => return Err(BadAssignment::TooNew(newer)),
        }
        let mut body: Body = parse(body)?;
        if body.epoch != epoch {
            return malformed(&format!("its epoch is {}", body.epoch));
        }
        let mut unknown = Unknown { top: std::mem::take(&mut body.unknown), ..Unknown::default() };
        let members = body.members(&mut unknown)?;
        let partitions = body.partitions(&members, &mut unknown)?;
        let coordinator = session_at(&members, body.coordinator)?;
        let next_number = PartitionNumber(body.next_number);
        if partitions.last().is_some_and(|last| last.number >= next_number) {
            return malformed("the number of a partition is not below next_number");
        }
        let (nonce, assignor) = (body.nonce, body.assignor);
        if assignor.len() > MAX_NAME_BYTES {
            return malformed("the assignor's name has more than 256 bytes");
        }
        let restoring = body.restoring_ms.map(Duration::from_millis).map(|it| it.min(MAX_VALIDITY));
        let assignment = Assignment {
            epoch,
            nonce,
            assignor,
            coordinator,
            members,
            partitions,
            next_number,
            restoring,
        };
        Ok(AssignmentRecord { assignment, unknown })
    }

    /// Returns the body of the assignment. The only error is `TooLarge`, for a body above
    /// [`MAX_BYTES`]. A store may have a lower limit.
    pub fn encode(&self) -> Result<Vec<u8>, BadAssignment> {
        let AssignmentRecord { assignment, unknown } = self;
        let places: BTreeMap<Session, usize> =
            assignment.members.iter().map(|it| it.session).zip(0..).collect();
        let place = |of: Option<Session>| of.and_then(|session| places.get(&session).copied());
        let mut expected = 0;
        let kept = kept_by(assignment);
        let places_kept: BTreeMap<_, usize> = kept.iter().zip(0..).collect();
        let body = Body {
            format: if assignment.restoring.is_some() { RESTORING } else { USUAL },
            epoch: assignment.epoch,
            nonce: assignment.nonce,
            assignor: Arc::clone(&assignment.assignor),
            coordinator: place(assignment.coordinator),
            next_number: assignment.next_number.0,
            kept: kept
                .iter()
                .map(|(name, time)| KeptFields { name: Arc::clone(name), ms: millis(*time) })
                .collect(),
            restoring_ms: assignment.restoring.map(millis),
            members: assignment.members.iter().map(|it| unknown.member(it)).collect(),
            partitions: assignment
                .partitions
                .iter()
                .map(|it| {
                    let number = (it.number.0 != expected).then_some(it.number.0);
                    expected = it.number.0.saturating_add(1);
                    let fields = unknown.partition(it);
                    let (owner, target) = (place(it.owner), place(it.target));
                    let kept = it.kept.as_ref().and_then(|it| places_kept.get(it).copied());
                    PartitionFields { number, owner, target, kept, ..fields }
                })
                .collect(),
            unknown: unknown.top.clone(),
        };
        let mut body = serde_json::to_vec(&body)
            .expect("an assignment has only string keys and finite numbers");
        body.push(b'\n');
        if body.len() > MAX_BYTES { Err(BadAssignment::TooLarge(body.len())) } else { Ok(body) }
    }
}

impl Body {
    fn members(&mut self, unknown: &mut Unknown) -> Result<Vec<Member>, BadAssignment> {
        let mut ids = BTreeSet::new();
        let mut members = Vec::new();
        for fields in self.members.drain(..) {
            let validity = Duration::from_millis(fields.validity_ms);
            if !ids.insert(fields.id) {
                return malformed("two members have the same id");
            }
            if validity.is_zero() || validity > MAX_VALIDITY || fields.weight == 0 {
                return malformed("a member's validity or weight is out of bounds");
            }
            checked_name(&fields.name)?;
            if !fields.unknown.is_empty() {
                unknown.members.insert(fields.id, fields.unknown);
            }
            members.push(Member {
                session: Session { id: fields.id, nonce: fields.nonce },
                name: fields.name,
                validity,
                weight: fields.weight,
                data: (!fields.data.is_null()).then(|| fields.data.to_string().into()),
            });
        }
        Ok(members)
    }

    fn partitions(
        &mut self,
        members: &[Member],
        unknown: &mut Unknown,
    ) -> Result<Vec<AssignedPartition>, BadAssignment> {
        let mut names = BTreeSet::new();
        // Allocate the exact capacity, because the newest assignment stays in memory.
        let mut partitions = Vec::with_capacity(self.partitions.len());
        let mut expected = Some(0);
        for fields in self.partitions.drain(..) {
            let Some(number) = fields.number.or(expected) else {
                return malformed(
                    "a partition follows the partition with the greatest possible number",
                );
            };
            if expected.is_none_or(|expected| number < expected) {
                return malformed("the numbers of the partitions do not ascend");
            }
            expected = number.checked_add(1);
            checked_name(&fields.name)?;
            if !names.insert(Arc::clone(&fields.name)) {
                return malformed("two partitions have the same name");
            }
            let number = PartitionNumber(number);
            if !fields.unknown.is_empty() {
                unknown.partitions.insert(number, fields.unknown);
            }
            let (owner, token) = (session_at(members, fields.owner)?, fields.token);
            if owner.is_some() && token.is_none() || token.is_some_and(|it| it > self.epoch) {
                return malformed(
                    "an owned partition has no token, or a token is greater than the epoch",
                );
            }
            let target = session_at(members, fields.target)?;
            let kept = match fields.kept.map(|place| self.kept.get(place)) {
                None => None,
                Some(Some(it)) => Some((Arc::clone(&it.name), Duration::from_millis(it.ms))),
                Some(None) => {
                    return malformed("an index in `kept` is out of bounds");
                }
            };
            let PartitionFields { name, .. } = fields;
            let PartitionFields { pinned, barred, paused, retiring, .. } = fields;
            let marks = Marks { pinned, barred, paused, retiring };
            partitions.push(AssignedPartition { number, name, owner, token, target, kept, marks });
        }
        Ok(partitions)
    }
}

impl Unknown {
    fn member(&self, member: &Member) -> MemberFields {
        let Member { session, name, validity, weight, data } = member;
        MemberFields {
            id: session.id,
            nonce: session.nonce,
            name: Arc::clone(name),
            validity_ms: millis(*validity),
            weight: *weight,
            data: data.as_ref().and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default(),
            unknown: self.members.get(&session.id).cloned().unwrap_or_default(),
        }
    }

    /// Returns the fields of a partition. The caller sets `number`, `owner`, `target` and `kept`.
    fn partition(&self, partition: &AssignedPartition) -> PartitionFields {
        let Marks { pinned, barred, paused, retiring } = partition.marks.clone();
        PartitionFields {
            number: None,
            name: Arc::clone(&partition.name),
            owner: None,
            token: partition.token,
            target: None,
            kept: None,
            pinned,
            barred,
            paused,
            retiring,
            unknown: self.partitions.get(&partition.number).cloned().unwrap_or_default(),
        }
    }
}

/// Returns the distinct reservations.
fn kept_by(assignment: &Assignment) -> BTreeSet<(Arc<str>, Duration)> {
    assignment.partitions.iter().filter_map(|it| it.kept.clone()).collect()
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, BadAssignment> {
    serde_json::from_slice(body).map_err(|error| {
        // The message of the parser may quote the body, so return only the position.
        let (line, column) = (error.line(), error.column());
        BadAssignment::Malformed(format!("at line {line} column {column}"))
    })
}

fn malformed<T>(why: &str) -> Result<T, BadAssignment> {
    Err(BadAssignment::Malformed(why.to_owned()))
}

fn checked_name(name: &str) -> Result<(), BadAssignment> {
    match name.len() {
        1..=MAX_NAME_BYTES => Ok(()),
        length => malformed(&format!("a name must have 1 to {MAX_NAME_BYTES} bytes, got {length}")),
    }
}

fn session_at(members: &[Member], place: Option<usize>) -> Result<Option<Session>, BadAssignment> {
    match place.map(|place| members.get(place)) {
        None => Ok(None),
        Some(Some(member)) => Ok(Some(member.session)),
        Some(None) => malformed("an index in `members` is out of bounds"),
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn one() -> u32 {
    1
}

fn is_one(weight: &u32) -> bool {
    *weight == 1
}

fn is_false(mark: &bool) -> bool {
    !mark
}

impl Serialize for SessionId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SessionId, D::Error> {
        let text = String::deserialize(deserializer)?;
        SessionId::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("a session's id has 32 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests;
