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

/// Why a reader gave up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReaderFailure {
    /// The store denied a request.
    Denied,
    /// The store broke a promise that the protocol needs.
    Unsafe,
    /// The newest assignment cannot be read.
    Unreadable(Epoch),
    /// This assignment existed, and no assignment from it on is left.
    NewestDeleted(Epoch),
    /// The known assignment is the last that there can be.
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
    /// It is there and is no assignment that this version can read.
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
    /// There is no assignment yet.
    Nothing,
    /// The one after the known one does not exist.
    Unchanged,
    /// [`Reader::known`](super::reader::Reader::known) is newer than before, and not confirmed.
    Read,
    /// [`Reader::known`](super::reader::Reader::known) was the newest after it was read.
    Confirmed,
    /// The creation was given up; it may yet take effect.
    GivenUp,
}

/// The next request. Requests of [`SessionRequest::Get`] may run in parallel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionRequest {
    /// LIST the sessions after this one.
    List(Option<SessionId>),
    /// GET each of these.
    Get(BTreeSet<SessionId>),
    /// PUT, `If-Match`: the session of the last read, ended as lapsed.
    Seal { session: Session, record: SessionRecord },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionAnswer {
    /// Sessions in the order of their ids, with their tags where the store lists them, and whether
    /// more may follow.
    Listed {
        sessions: Vec<(SessionId, Option<ETag>)>,
        truncated: bool,
    },
    Found(SessionId, SessionRecord),
    /// Nothing lies under this id; of a member: or no session of its nonce.
    Missing(SessionId),
    /// The object under this id is unreadable for now. Of a member the last record still counts;
    /// another session cannot join.
    Unreadable(SessionId),
    /// Sealed.
    Done,
    Refused,
    /// It failed, or its effect is unknown.
    Unknown,
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RoundProgress {
    More,
    /// The round is complete: plan.
    RoundOver,
    /// Something failed; the next round starts from the beginning.
    Failed,
}
