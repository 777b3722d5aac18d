//! The states of the sessions that belong to the members of an assignment, for operators.

use std::time::Duration;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use super::Group;
use super::session_record::{SessionBody, age, session_key};
use super::view::{GroupSnapshot, MemberSnapshot};
use crate::protocol::SessionId;
use tenure::internals::groups::{Context, Record};
use tenure::store::{GetOutcome, StoreErrorKind};
use tenure::{EpochEnd, Error};

/// Number of sessions that are read at the same time.
const AT_ONCE: usize = 16;

/// The state of a member's session at the time of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// The session has not ended. A dead member counts as live until its validity has passed since
    /// its last write.
    Live {
        /// Time since the last write, by the store's clock; `None` if the store has no dates. If
        /// the store has no dates, one read cannot show that a session has lapsed.
        age: Option<Duration>,
    },
    /// The member has not renewed the session for longer than its validity, by the store's clock.
    /// No coordinator has sealed the session.
    Lapsed {
        /// Time since the last write, by the store's clock.
        age: Duration,
    },
    /// The session is sealed, and its object records this end.
    Ended(EpochEnd),
    /// The store has no object of this session. The compactor deletes the objects of ended
    /// sessions.
    Missing,
    /// The session cannot be read.
    Unknown,
}

impl Group {
    /// Reads the sessions of the members of a snapshot, and returns their states in the order of
    /// [`members`](GroupSnapshot::members).
    /// An assignment names a member until a coordinator has removed it. If all members are dead,
    /// the newest assignment still names them, and only their sessions show the deaths. A session
    /// that cannot be read for now is [`Unknown`](SessionState::Unknown). Costs one GET per member,
    /// 16 at a time.
    ///
    /// If this group is observed, the metric `tenure_group_ownerless` then counts the partitions of
    /// the members that cannot work.
    ///
    /// # Errors
    /// - [`AccessDenied`](tenure::ErrorKind::AccessDenied), and other errors that retrying cannot
    ///   fix: the credentials must permit to read `members/*`.
    /// - [`NoRuntime`](tenure::ErrorKind::NoRuntime) outside of a Tokio runtime with timers.
    pub async fn session_states(
        &self,
        snapshot: &GroupSnapshot,
    ) -> Result<Vec<SessionState>, Error> {
        self.cx.require_timers()?;
        let reads: Vec<_> = snapshot.members.iter().map(|it| state(&self.cx, it)).collect();
        let states: Vec<_> = stream::iter(reads).buffered(AT_ONCE).try_collect().await?;
        let ended = snapshot.members.iter().zip(&states).filter(|(_, state)| !state.may_work());
        let ended = ended.filter_map(|(member, _)| SessionId::parse(&member.session));
        self.followers.learn(ended.collect());
        Ok(states)
    }
}

async fn state(cx: &Context, member: &MemberSnapshot) -> Result<SessionState, Error> {
    let Some(id) = SessionId::parse(&member.session) else { return Ok(SessionState::Missing) };
    let key = session_key(cx.prefix(), id);
    Ok(match cx.get(&key, None, Record::MAX_READ_BYTES).await {
        Ok(GetOutcome::Found(object)) => match SessionBody::decode(&object) {
            Ok(Some(body)) if body.session(id).nonce == member.nonce => {
                let age = age(object.served_at, object.last_modified);
                SessionState::of(&body, age)
            }
            // The object is the session of another process, or is not a session. So the session of
            // this member is missing.
            Ok(_) => SessionState::Missing,
            Err(_) => SessionState::Unknown,
        },
        Ok(GetOutcome::NotFound | GetOutcome::TooLarge { .. }) => SessionState::Missing,
        // The enum is `non_exhaustive`. A GET without `If-None-Match` has only the outcomes above.
        Ok(_) => SessionState::Unknown,
        Err(error) if error.kind() == StoreErrorKind::Transient => SessionState::Unknown,
        Err(error) => {
            let doing = format!("reading {key}");
            return Err(Error::from_store(&doing, &cx.place(), error));
        }
    })
}

impl SessionState {
    fn of(body: &SessionBody, age: Option<Duration>) -> SessionState {
        match (body.end(), age) {
            (Some(end), _) => SessionState::Ended(end),
            (None, Some(age)) if age > body.validity() => SessionState::Lapsed { age },
            (None, age) => SessionState::Live { age },
        }
    }

    /// Returns whether the member may still work. Returns false only if the read showed that the
    /// session has ended, has lapsed or is missing.
    #[must_use]
    pub fn may_work(self) -> bool {
        matches!(self, SessionState::Live { .. } | SessionState::Unknown)
    }
}
