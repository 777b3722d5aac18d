//! The steps and answers of the machines of a group.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure::Epoch;
use tenure::internals::groups::{After, Listing};
use tenure::store::ETag;

use super::assignment::Assignment;
use super::session::{Session, SessionId, SessionRecord};

/// The next action of the driver of a [`Participant`](super::participant::Participant).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ParticipantStep {
    Assignment(AssignmentRequest),
    Sessions(SessionRequest),
    Nonce,
    Pause,
    Idle,
    Failed(ReaderFailure),
}

/// The next action of the driver of a [`Reader`](super::reader::Reader).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ReaderStep {
    Request(AssignmentRequest),
    /// The driver calls [`Reader::nonce`](super::reader::Reader::nonce).
    Nonce,
    /// The driver calls [`Reader::resume`](super::reader::Reader::resume) after a short pause.
    Pause,
    Idle,
    Failed(ReaderFailure),
}

/// The reason why a reader has stopped. The driver must restart the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReaderFailure {
    /// The store denied a request.
    Denied,
    /// The store broke a promise that the protocol needs.
    Unsafe,
    /// The newest assignment cannot be read.
    Unreadable(Epoch),
    /// This assignment was deleted, and no greater assignment exists.
    NewestDeleted(Epoch),
    /// The newest assignment has the last possible number, so no other can follow.
    Exhausted,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AssignmentRequest {
    List(After),
    Get(Epoch),
    /// PUT with `If-None-Match: *`.
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
    /// The request failed, or its effect is unknown.
    Unknown,
}

/// The effect of an answer on the facts that a reader knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum News {
    /// The group has no assignment.
    Nothing,
    /// No assignment follows the one that the reader knows.
    Unchanged,
    /// [`Reader::known`](super::reader::Reader::known) is a newer assignment than before. It is not
    /// yet confirmed.
    Read,
    /// A LIST shows that [`Reader::known`](super::reader::Reader::known) is the newest assignment.
    /// The LIST began after the read of that assignment.
    Confirmed,
    /// The reader gave up the creation of an assignment. The PUT may still take effect.
    GivenUp,
}

/// The next request for the sessions. The GETs of one [`SessionRequest::Get`] may run in parallel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionRequest {
    /// LIST of the sessions with greater ids than this one. `None` lists from the first session.
    List(Option<SessionId>),
    /// GET of each of these sessions.
    Get(BTreeSet<SessionId>),
    /// PUT with `If-Match` that seals the session as lapsed. `record` is the result of the last
    /// read.
    Seal { session: Session, record: SessionRecord },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SessionAnswer {
    /// One page of a LIST: the sessions in the order of their ids, each with its tag if the store
    /// lists tags. `truncated` is true if more pages may follow.
    Listed {
        sessions: Vec<(SessionId, Option<ETag>)>,
        truncated: bool,
    },
    Found(SessionId, SessionRecord),
    /// The object with this id does not exist, or is not a session.
    Missing(SessionId),
    /// The object with this id cannot be read for now. If the session belongs to a member, its last
    /// record still counts (GC11). Otherwise the session cannot join.
    Unreadable(SessionId),
    /// The session is sealed.
    Done,
    Refused,
    /// The request failed, or its effect is unknown.
    Unknown,
}

/// The progress of a round after an answer. In a round, the coordinator reads the sessions that a
/// plan needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RoundProgress {
    More,
    /// The round is complete. A plan follows.
    RoundOver,
    /// A request failed. The next round starts from the beginning.
    Failed,
}
