//! The steps and answers of the machines of a group.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure::Epoch;
use tenure::internals::groups::{After, Listing};
use tenure::store::ETag;

use super::assignment::Assignment;
use super::session::{Session, SessionRecord};
use super::session_id::SessionId;

/// The next action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ParticipantStep {
    Assignment(AssignmentRequest),
    Sessions(SessionRequest),
    Nonce,
    Pause,
    Idle,
    Failed(ReaderFailure),
}

/// The next action.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReaderStep {
    Request(AssignmentRequest),
    /// [`Reader::nonce`](super::reader::Reader::nonce).
    Nonce,
    /// [`Reader::resume`](super::reader::Reader::resume) after a short pause.
    Pause,
    Idle,
    Failed(ReaderFailure),
}

/// The reason why a reader gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReaderFailure {
    /// The store denied a request.
    Denied,
    /// The store broke a promise that the protocol needs.
    Unsafe,
    /// The newest assignment cannot be read.
    Unreadable(Epoch),
    /// This assignment existed, and neither it nor a greater one exists.
    NewestDeleted(Epoch),
    /// The known assignment has the last possible number.
    Exhausted,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AssignmentRequest {
    List(After),
    Get(Epoch),
    /// PUT, `If-None-Match: *`.
    Create(Arc<Assignment>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AssignmentAnswer {
    Listed(Listing),
    Found(Arc<Assignment>),
    /// The object exists, and this version cannot read it as an assignment.
    Unreadable,
    Missing,
    Done,
    Refused,
    Denied,
    /// The store broke a promise that the protocol needs.
    Unsafe,
    /// It failed, or its effect is unknown.
    Unknown,
}

/// The news of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum News {
    /// The group has no assignment.
    Nothing,
    /// The assignment after the known one does not exist.
    Unchanged,
    /// [`Reader::known`](super::reader::Reader::known) is newer than before, and not confirmed.
    Read,
    /// [`Reader::known`](super::reader::Reader::known) was the newest after it was read.
    Confirmed,
    /// The creation was given up. It may still take effect.
    GivenUp,
}

/// The next request. Requests of [`SessionRequest::Get`] may run in parallel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionRequest {
    /// LIST the sessions after this one.
    List(Option<SessionId>),
    /// GET of each of these sessions.
    Get(BTreeSet<SessionId>),
    /// PUT, `If-Match`: the session of the last read, ended as lapsed.
    Seal { session: Session, record: SessionRecord },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionAnswer {
    /// Sessions in the order of their ids, with their tags if the store lists tags, and whether
    /// more may follow.
    Listed {
        sessions: Vec<(SessionId, Option<ETag>)>,
        truncated: bool,
    },
    Found(SessionId, SessionRecord),
    /// No object has this id. For a member: or the object is a session with another nonce.
    Missing(SessionId),
    /// The object with this id is unreadable for now. The last record of a member still counts
    /// (GC11). Another session cannot join.
    Unreadable(SessionId),
    /// The session is sealed.
    Done,
    Refused,
    /// It failed, or its effect is unknown.
    Unknown,
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RoundProgress {
    More,
    /// The round is complete. A plan follows.
    RoundOver,
    /// A request failed. The next round starts from the beginning.
    Failed,
}
