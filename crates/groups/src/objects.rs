//! Translates requests of the state machines to calls of the store, and the results to answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};

use super::assignment_record::{
    AssignmentRecord, BadAssignment, MAX_BYTES, MAX_NAME_BYTES, Unknown,
};
use super::session_record::{SessionBody, session_key, session_of};
use super::telemetry::created;
use crate::protocol::message::{AssignmentAnswer, AssignmentRequest, ReaderFailure};
use crate::protocol::session_timers::RequestTimes;
use crate::protocol::{Assignment, Member, Session, SessionId};
use tenure::internals::groups::{After, Context, Nonce, Record, Requests, Written};
use tenure::store::{ETag, GetOutcome, StoreError};
use tenure::{Epoch, Error, ErrorKind};

/// A token of seven digits. A group reaches it only after years of operation.
const MANY_EPOCHS: u64 = 9_999_999;
/// The longest time between two LISTs of a reader (GA6). A poll is a GET of the next number. If
/// that assignment was compacted before the poll, only a LIST shows the newer assignments.
pub const LIST_EVERY: Duration = Duration::from_secs(600);
/// Number of sessions that are read at the same time.
const AT_ONCE: usize = 64;

/// Sends the requests of one process, and keeps the state between requests.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) cx: Arc<Context>,
    pub(super) requests: Requests,
    /// Unknown fields of the newest assignment, which a later version of tenure wrote.
    unknown: Unknown,
    unreadable: Option<BadAssignment>,
    /// The reason why an assignment could not be encoded. No request was sent for this assignment.
    unwritable: Option<Error>,
    /// Whether an assignment of this process may have taken effect, or may take effect later.
    pub(super) may_have_created: bool,
}

/// The result of one read of a session.
#[derive(Debug, Clone)]
pub(super) enum Seen {
    /// The object of the session still has the ETag of the last read.
    Unchanged,
    Session(Box<SessionBody>),
    /// The object is not a session.
    Foreign,
    /// The object is damaged or too large. It may have been a session.
    Corrupt,
    Missing,
    /// The read failed.
    Unknown,
}

impl Seen {
    /// Returns the session, if the read found one.
    pub(super) fn session(&self) -> Option<&SessionBody> {
        if let Seen::Session(body) = self { Some(body) } else { None }
    }
}

/// A page of the listing of the sessions.
#[derive(Debug)]
pub(super) struct SessionPage {
    pub(super) sessions: Vec<(SessionId, Option<ETag>)>,
    pub(super) truncated: bool,
    pub(super) when: RequestTimes,
}

impl Objects {
    pub(super) fn new(cx: &Arc<Context>) -> Objects {
        Objects {
            cx: Arc::clone(cx),
            requests: Requests::new(cx),
            unknown: Unknown::default(),
            unreadable: None,
            unwritable: None,
            may_have_created: false,
        }
    }

    /// Returns the last failure since the previous call.
    pub(super) fn failure(&mut self) -> Option<Error> {
        self.unwritable.take().or_else(|| self.requests.take_error())
    }

    /// If an assignment that this process sent may take effect, marks the error
    /// ([`Error::may_have_happened`]).
    pub(super) fn after_creates(&self, error: Error) -> Error {
        if self.may_have_created { error.maybe() } else { error }
    }

    pub(super) fn have_failed(&self, times: u32) -> bool {
        self.requests.have_failed(times)
    }

    /// Returns the pause before the next attempt.
    pub(super) fn retry_delay(&self) -> Duration {
        self.requests.retry_delay(self.cx.poll_interval())
    }

    /// Sends one request about assignments. Returns `None`, and sends no request, if the assignment
    /// cannot be encoded.
    pub(super) async fn assignment(
        &mut self,
        request: &AssignmentRequest,
    ) -> Option<AssignmentAnswer> {
        Some(match request {
            AssignmentRequest::List(after) => self.list(after).await,
            AssignmentRequest::Get(epoch) => self.get(*epoch).await,
            AssignmentRequest::Create(assignment) => self.create(assignment).await?,
        })
    }

    async fn list(&mut self, after: &After) -> AssignmentAnswer {
        match self.cx.list_numbered(after).await {
            Ok(listing) => self.answered(AssignmentAnswer::Listed(listing)),
            Err(error) => self.failed("listing the assignments", error),
        }
    }

    async fn get(&mut self, epoch: Epoch) -> AssignmentAnswer {
        let key = self.cx.key(epoch);
        match self.cx.get(&key, None, MAX_BYTES).await {
            Ok(GetOutcome::Found(object)) => match AssignmentRecord::decode(epoch, &object.body) {
                Ok(AssignmentRecord { assignment, unknown }) => {
                    self.unknown = unknown;
                    self.answered(AssignmentAnswer::Found(Arc::new(assignment)))
                }
                Err(why) => self.unreadable(why),
            },
            Ok(GetOutcome::TooLarge { len, .. }) => {
                let length = usize::try_from(len).unwrap_or(usize::MAX);
                self.unreadable(BadAssignment::TooLarge(length))
            }
            Ok(GetOutcome::NotFound | GetOutcome::NotModified) => {
                self.answered(AssignmentAnswer::Missing)
            }
            // A later version of `GetOutcome` may add outcomes.
            Ok(_) => AssignmentAnswer::Unknown,
            Err(error) => self.failed(&format!("reading {key}"), error),
        }
    }

    fn unreadable(&mut self, why: BadAssignment) -> AssignmentAnswer {
        self.unreadable = Some(why);
        self.answered(AssignmentAnswer::Unreadable)
    }

    async fn create(&mut self, assignment: &Assignment) -> Option<AssignmentAnswer> {
        let (cx, epoch) = (Arc::clone(&self.cx), assignment.epoch);
        let body = match self.encode(assignment) {
            Ok(body) => body,
            Err(error) => {
                created(cx.meter(), "unwritable");
                self.unwritable = Some(error);
                return None;
            }
        };
        let written = cx.create(&cx.key(epoch), body).await;
        self.may_have_created |= matches!(written, Written::Done(_) | Written::Unknown(_));
        created(
            cx.meter(),
            match &written {
                Written::Done(_) => "created",
                Written::Refused | Written::Missing => "refused",
                Written::Unknown(_) => "unknown",
                Written::Failed(_) => "failed",
            },
        );
        Some(self.written(&format!("creating assignment {epoch}"), written))
    }

    /// Encodes `assignment`, and keeps the unknown fields of the last assignment that was read.
    pub(super) fn encode(&self, assignment: &Assignment) -> Result<Bytes, Error> {
        let record =
            AssignmentRecord { assignment: assignment.clone(), unknown: self.unknown.clone() };
        let most = self.cx.max_body_bytes().unwrap_or(MAX_BYTES).min(MAX_BYTES);
        match record.encode() {
            Ok(body) if body.len() <= most => Ok(body.into()),
            Ok(body) => Err(self.too_large(body.len(), most)),
            Err(BadAssignment::TooLarge(length)) => Err(self.too_large(length, most)),
            Err(why) => Err(Error::new(ErrorKind::InvalidInput, why.to_string())),
        }
    }

    /// Returns an error if the partitions do not fit into an assignment in which each of them has
    /// an owner and a target. A reservation takes fewer bytes than an owner and a target, so no
    /// partition needs more room later.
    pub(super) fn check_owned(&self, assignment: &Assignment) -> Result<(), Error> {
        let mut owned = assignment.clone();
        let session = Session { id: SessionId::from_bits(0), nonce: Nonce::from_bits(0) };
        let name = "n".repeat(MAX_NAME_BYTES);
        // Each partition refers to the last of eleven members, so that each index has two digits.
        owned.members = (0..=10)
            .map(|id| Member::new(Session { id: SessionId::from_bits(id), ..session }, &*name))
            .collect();
        let last = owned.members.last().map(|it| it.session);
        for partition in &mut owned.partitions {
            // Paused and retiring partitions have no target.
            let moves = !(partition.marks.paused || partition.marks.retiring);
            (partition.owner, partition.target) = (last, last.filter(|_| moves));
            partition.kept = None;
            partition.token =
                Some(partition.token.max(Epoch::new(MANY_EPOCHS)).unwrap_or(owned.epoch));
        }
        self.encode(&owned).map(drop)
    }

    fn too_large(&self, length: usize, most: usize) -> Error {
        let store = self.cx.place();
        let why = format!(
            "the assignment must have at most {most} bytes in {store}, got {length}: give the \
            partitions and the members shorter names, or the members less data"
        );
        Error::new(ErrorKind::InvalidInput, why)
    }

    /// Lists the sessions with greater ids than `after`. Returns a page with sessions, or the last
    /// page.
    pub(super) async fn list_sessions(&mut self, after: Option<SessionId>) -> Option<SessionPage> {
        let cx = Arc::clone(&self.cx);
        let prefix = format!("{}members/", cx.prefix());
        let mut start = after.map_or_else(|| prefix.clone(), |id| session_key(cx.prefix(), id));
        let sent = cx.now();
        loop {
            let (page, last) = match cx.list(&prefix, &start).await {
                Ok(page) => page,
                Err(error) => {
                    self.failed("listing the sessions", error);
                    return None;
                }
            };
            let session = |entry: &tenure::store::Entry| {
                Some((session_of(cx.prefix(), &entry.key)?, entry.etag.clone()))
            };
            let sessions: Vec<_> = page.entries.iter().filter_map(session).collect();
            if page.truncated && sessions.is_empty() {
                start = last;
                continue;
            }
            self.answered(AssignmentAnswer::Missing);
            let when = RequestTimes { sent, received: cx.now() };
            return Some(SessionPage { sessions, truncated: page.truncated, when });
        }
    }

    /// Reads these sessions, several at the same time, and returns each result.
    pub(super) async fn read_sessions(
        &mut self,
        ids: impl IntoIterator<Item = SessionId>,
    ) -> Vec<(SessionId, Seen, RequestTimes)> {
        let cx = &self.cx;
        let reads = ids.into_iter().map(|id| async move { (id, read(cx, id, None).await) });
        let reads: Vec<_> = stream::iter(reads).buffer_unordered(AT_ONCE).collect().await;
        let mut seen = Vec::with_capacity(reads.len());
        for (id, (outcome, when)) in reads {
            seen.push((id, self.seen(id, outcome), when));
        }
        seen
    }

    /// Reads one session if the ETag of its object differs from `unless`.
    pub(super) async fn read_session(
        &mut self,
        id: SessionId,
        unless: Option<ETag>,
    ) -> (Seen, RequestTimes) {
        let (outcome, when) = read(&self.cx, id, unless).await;
        (self.seen(id, outcome), when)
    }

    fn seen(&mut self, id: SessionId, outcome: Result<GetOutcome, StoreError>) -> Seen {
        let seen = match outcome {
            Ok(GetOutcome::Found(object)) => match SessionBody::decode(&object) {
                Ok(Some(body)) => Seen::Session(Box::new(body)),
                Ok(None) if is_an_object(&object.body) => Seen::Foreign,
                Ok(None) => Seen::Corrupt,
                Err(later) => {
                    let at = self.cx.place();
                    let why = format!("the session {id} in {at} cannot be read: {later}");
                    self.requests.cannot_read(Error::new(ErrorKind::RecordTooNew, why));
                    return Seen::Unknown;
                }
            },
            Ok(GetOutcome::TooLarge { .. }) => Seen::Corrupt,
            Ok(GetOutcome::NotModified) => Seen::Unchanged,
            Ok(GetOutcome::NotFound) => Seen::Missing,
            // A later version of `GetOutcome` may add outcomes.
            Ok(_) => return Seen::Unknown,
            Err(error) => {
                self.failed(&format!("reading the session {id}"), error);
                return Seen::Unknown;
            }
        };
        self.answered(AssignmentAnswer::Missing);
        seen
    }

    /// Replaces the object of a session by its seal, if the object still has this ETag.
    pub(super) async fn seal(
        &mut self,
        id: SessionId,
        body: Bytes,
        etag: ETag,
    ) -> AssignmentAnswer {
        let written = self.cx.replace(&session_key(self.cx.prefix(), id), body, etag).await;
        self.written(&format!("sealing the session {id}"), written)
    }

    fn written(&mut self, doing: &str, written: Written) -> AssignmentAnswer {
        match written {
            Written::Done(_) => self.answered(AssignmentAnswer::Done),
            Written::Refused | Written::Missing => self.answered(AssignmentAnswer::Refused),
            Written::Unknown(error) | Written::Failed(error) => self.failed(doing, error),
        }
    }

    fn answered(&mut self, answer: AssignmentAnswer) -> AssignmentAnswer {
        self.requests.answered();
        answer
    }

    fn failed(&mut self, doing: &str, error: StoreError) -> AssignmentAnswer {
        match self.requests.fails(doing, error) {
            None => AssignmentAnswer::Unknown,
            Some(ErrorKind::UnsafeStore) => AssignmentAnswer::Unsafe,
            Some(_) => AssignmentAnswer::Denied,
        }
    }

    /// Returns the error for an unreadable session that blocks the first assignment (D4).
    pub(super) fn blocks_the_first(&self, id: SessionId) -> Error {
        let (key, store) = (session_key(self.cx.prefix(), id), self.cx.place());
        let why = format!(
            "{key} in {store} cannot be read, and no assignment exists: a member may have seen a \
            deleted assignment. Repair the object, or delete it if it is not a session. Until then \
            no partition is assigned"
        );
        Error::new(ErrorKind::CorruptRecord, why)
    }

    /// Returns the error for a reader that has stopped. The message contains the remedy.
    pub(super) fn explain(&mut self, failure: ReaderFailure) -> Error {
        let store = self.cx.place();
        let key = |epoch| self.cx.key(epoch);
        match failure {
            ReaderFailure::Denied | ReaderFailure::Unsafe => {
                self.requests.take_error().unwrap_or_else(|| {
                    Error::new(ErrorKind::UnsafeStore, format!("{store} refused a request"))
                })
            }
            ReaderFailure::Unreadable(epoch) => {
                let kind = match self.unreadable {
                    Some(BadAssignment::TooNew(_)) => ErrorKind::RecordTooNew,
                    _ => ErrorKind::CorruptRecord,
                };
                let why =
                    self.unreadable.as_ref().map_or_else(String::new, |why| format!(": {why}"));
                Error::new(kind, format!("{} in {store} cannot be read{why}", key(epoch)))
            }
            ReaderFailure::NewestDeleted(epoch) => {
                let why = format!(
                    "{} in {store} was deleted: a process has seen it, and no greater assignment \
                    exists. The next tokens must be above {epoch} and above each granted token: \
                    restore the group (`tenure group restore --epoch`)",
                    key(epoch)
                );
                Error::new(ErrorKind::NewestDeleted, why)
            }
            ReaderFailure::Exhausted => {
                let why = format!("{} in {store} is the last possible assignment", key(Epoch::MAX));
                Error::new(ErrorKind::EpochsExhausted, why)
            }
        }
    }
}

async fn read(
    cx: &Context,
    id: SessionId,
    unless: Option<ETag>,
) -> (Result<GetOutcome, StoreError>, RequestTimes) {
    let (key, sent) = (session_key(cx.prefix(), id), cx.now());
    let outcome = cx.get(&key, unless, Record::MAX_READ_BYTES).await;
    (outcome, RequestTimes { sent, received: cx.now() })
}

/// Returns whether the body is a JSON object. A JSON object that is not a session belongs to
/// another program, so it is not a damaged session (D4).
fn is_an_object(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Map<_, _>>(body).is_ok()
}

/// The sessions that were read, by their ids.
pub(super) type Bodies = BTreeMap<SessionId, SessionBody>;
