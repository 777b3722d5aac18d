//! The object of a session. It is the record of an election with `Layout::SingleObject`, and
//! contains the member's `data` (GO1).

use bytes::Bytes;
use chrono::{DateTime, Utc};
use std::time::Duration;

use super::assignment_record::{MAX_NAME_BYTES, MAX_VALIDITY};
use super::session_data::{self, Said};
use crate::protocol::session::{SessionData, SessionRecord};
use crate::protocol::{Member, Session, SessionId};
use tenure::internals::groups::{Nonce, Record};
use tenure::store::{ETag, Object};
use tenure::{ElectionBuilder, Epoch, EpochEnd, Layout, Moment};

/// The decoded object of a session.
#[derive(Debug, Clone)]
pub(super) struct SessionBody {
    record: Record,
    nonce: Nonce,
    etag: ETag,
    /// Validity of the session, at most [`MAX_VALIDITY`].
    validity: Duration,
    name: String,
    data: Option<(SessionData, Said)>,
}

/// Maximum time for which partitions stay reserved after their member has left.
pub(super) const MAX_PARK: Duration = Duration::from_secs(3_600);

/// Returns the key of a session's object in the group at this prefix.
pub(super) fn session_key(prefix: &str, id: SessionId) -> String {
    format!("{prefix}members/{id}/lock.json")
}

/// Returns the id of the session whose object has this key.
pub(crate) fn session_of(prefix: &str, key: &str) -> Option<SessionId> {
    let id = key.strip_prefix(prefix)?.strip_prefix("members/")?.strip_suffix("/lock.json")?;
    SessionId::parse(id)
}

impl SessionBody {
    /// Decodes an object. Returns `None` if the object is not a session. No process of a group
    /// takes over a session (GO4), so an object with a token other than 1 is not a session.
    ///
    /// # Errors
    /// If the object has a format that this version cannot read, returns a description of the
    /// format. The member of such a session may be alive.
    pub(super) fn decode(object: &Object) -> Result<Option<SessionBody>, String> {
        let read = Record::of_single_object(object)?;
        Ok(read.and_then(|(epoch, record)| SessionBody::of(epoch, record, object)))
    }

    fn of(epoch: Epoch, record: Record, object: &Object) -> Option<SessionBody> {
        let (nonce, name) = (record.nonce?, record.candidate.clone()?);
        let validity = record.validity().filter(|it| !it.is_zero() && *it <= MAX_VALIDITY)?;
        let named = (1..=MAX_NAME_BYTES).contains(&name.len());
        if epoch != Epoch::FIRST || !named {
            return None;
        }
        let data = session_data::decode(&record.data);
        Some(SessionBody { nonce, etag: object.etag.clone(), validity, name, data, record })
    }

    pub(super) fn session(&self, id: SessionId) -> Session {
        Session { id, nonce: self.nonce }
    }

    pub(super) fn validity(&self) -> Duration {
        self.validity
    }

    /// Returns the way in which the session ended, for display.
    pub(super) fn end(&self) -> Option<EpochEnd> {
        self.record.end()
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the time for which the partitions of this ended session are reserved for the
    /// session's name. The time is the one that the member wrote when it left (GW6). If instead a
    /// process of the same name ended the session, the time is `reclaimed` (GW7).
    pub(super) fn parked(&self, reclaimed: Duration) -> Option<Duration> {
        let said = self.record.park_ms.map(Duration::from_millis);
        let by_itself = self.record.successor.as_deref() == Some(&*self.name);
        let park = said.or(by_itself.then_some(reclaimed));
        park.filter(|_| self.record.expired).map(|park| park.min(MAX_PARK))
    }

    /// Returns the fields that the state machines of the protocol use.
    pub(super) fn record(&self) -> SessionRecord {
        SessionRecord {
            nonce: self.nonce,
            heartbeat: self.record.heartbeat,
            etag: self.etag.clone(),
            ended: self.record.ended_as(),
            data: self.data.as_ref().map(|(data, _)| data.clone()),
        }
    }

    /// Returns the member that this session describes.
    pub(super) fn member(&self, id: SessionId) -> Member {
        let said = self.data.as_ref().map(|(_, said)| said);
        let data = said.filter(|said| !said.data.is_null()).map(|said| said.data.to_string());
        Member {
            session: self.session(id),
            name: self.name.as_str().into(),
            validity: self.validity,
            weight: said.map_or(1, |said| said.weight),
            data: data.map(Into::into),
        }
    }

    /// Returns the body of the write that seals this session. The seal keeps the greatest
    /// assignment that the member has seen (D1).
    pub(super) fn sealed(
        &self,
        ended: EpochEnd,
        by: &str,
        successor: Option<&str>,
        at: Moment,
    ) -> Bytes {
        let heartbeat = match ended {
            // The process that held the session writes this seal instead of a renewal, so the
            // heartbeat increases.
            EpochEnd::Resigned => self.record.heartbeat.saturating_add(1),
            _ => self.record.heartbeat,
        };
        let data = session_data::seen_alone(&self.record.data);
        self.record.seal((ended, heartbeat), by, at, (successor, data))
    }
}

/// Returns the age of an object, by the store's clock. The age of an object with a date in the
/// future is zero.
pub(super) fn age(
    served_at: Option<DateTime<Utc>>,
    modified: Option<DateTime<Utc>>,
) -> Option<Duration> {
    Some((served_at? - modified?).to_std().unwrap_or_default())
}

/// Returns whether an election under this prefix is a session of a group. The prefix of a session
/// ends with `members/` and an id. A seal of a session must keep the greatest assignment that the
/// session's member has seen, so build such an election with [`session_election`].
pub fn is_session(prefix: &str) -> bool {
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    prefix.rsplit_once("members/").is_some_and(|(before, id)| {
        SessionId::parse(id).is_some() && (before.is_empty() || before.ends_with('/'))
    })
}

/// Returns the settings of a session's election, for operators who depose the session's member. The
/// prefix of `session` must be the prefix of the group, followed by `members/` and the session's
/// id.
pub fn session_election(session: ElectionBuilder) -> ElectionBuilder {
    session.layout(Layout::SingleObject).kept_in_seals(session_data::seen_alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_known_by_its_prefix() {
        let id = "0123456789abcdef0123456789abcdef";
        for (prefix, expected) in [
            (format!("members/{id}"), true),
            (format!("app/members/{id}/"), true),
            (format!("app/bandmembers/{id}"), false),
            (format!("app/members/{}", &id[1..]), false),
            (format!("members/{id}/a"), false),
            (String::new(), false),
        ] {
            assert_eq!(is_session(&prefix), expected, "{prefix}");
        }
    }
}
