//! Follows the newest assignment, confirms it, and creates the next one.
//!
//! Readers and writers confirm an assignment by the same code (GA4). An assignment is confirmed if
//! a LIST begins after the read or the creation of the assignment, and shows no greater assignment.
//! The reader is a value without IO. At most one request is in progress. The driver decides when to
//! poll and how long to wait.

use std::sync::Arc;

use super::assignment::Assignment;
use super::message::{AssignmentAnswer, AssignmentRequest, News, ReaderFailure, ReaderStep};
use tenure::Epoch;
use tenure::internals::groups::{
    Listing, Nonce, Progress, Search, SuccessorSearch, SuccessorStatus,
};

/// Follows the assignment of one group.
///
/// # Contract
///
/// - *Getters*: [`known`](Reader::known), [`greatest`](Reader::greatest),
///   [`is_behind`](Reader::is_behind), [`step`](Reader::step).
/// - *Orders*: [`poll`](Reader::poll), [`confirm`](Reader::confirm), [`create`](Reader::create),
///   [`create_above`](Reader::create_above). An order has no effect unless the step is
///   [`ReaderStep::Idle`].
/// - *Inputs*, each for one step: [`handle`](Reader::handle) answers [`ReaderStep::Request`],
///   [`nonce`](Reader::nonce) answers [`ReaderStep::Nonce`], [`resume`](Reader::resume) or
///   [`give_up`](Reader::give_up) answers [`ReaderStep::Pause`], [`restart`](Reader::restart)
///   answers [`ReaderStep::Failed`]. [`discard`](Reader::discard) answers a creation that was not
///   sent. [`expect`](Reader::expect) is permitted at any step.
///
/// The driver repeats `step` and the input for it until the step is `Idle`. The driver sends at
/// most one request at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reader {
    /// Newest assignment that was read.
    known: Option<Arc<Assignment>>,
    /// Greatest epoch that is known to have existed. The store, another reader of this process, or
    /// a session has shown it.
    greatest: Option<Epoch>,
    /// Whether the next poll is a LIST instead of a GET. This is the case after the reader gave up
    /// the GET of an assignment, because that assignment may be superseded (GA5).
    lists: bool,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    /// LIST for the newest assignment. The first LIST may miss an assignment that is known to have
    /// existed. Then the reader sends a second LIST, for which `gone` is true.
    Find {
        search: Search,
        gone: bool,
    },
    /// GET of an assignment that a listing showed.
    Read {
        epoch: Epoch,
    },
    /// GET of the assignment with the next number after the known assignment.
    Poll,
    /// LIST that confirms the known assignment.
    Confirm {
        beyond: SuccessorSearch,
    },
    Create(Draft),
    /// GET of the draft's number after an attempt to create it. `refused` is true if the store
    /// refused the attempt, because an object with this number existed.
    ReadBack {
        draft: Draft,
        refused: bool,
    },
    /// The next attempt to create the draft needs a fresh nonce.
    NeedNonce(Draft),
    Idle,
    /// The request of the inner state failed. The reader repeats it after a pause.
    Pause(Box<State>),
    Failed(ReaderFailure),
}

/// An assignment that the reader creates, and the nonces of all attempts to create it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Draft {
    assignment: Arc<Assignment>,
    nonces: Vec<Nonce>,
}

/// The number of unanswered attempts after which the reader gives up the creation.
const MAX_ATTEMPTS: usize = 16;

impl Reader {
    /// Returns a reader that knows no assignment. The process has seen epochs up to `greatest`. The
    /// first step is a LIST for the newest assignment.
    pub fn new(greatest: Option<Epoch>) -> Reader {
        let state = State::Find { search: Search::new(greatest), gone: false };
        Reader { known: None, greatest, lists: false, state }
    }

    /// Returns the newest assignment that was read.
    pub fn known(&self) -> Option<&Arc<Assignment>> {
        self.known.as_ref()
    }

    /// Returns the epoch of the greatest assignment that is known to have existed.
    pub fn greatest(&self) -> Option<Epoch> {
        self.greatest
    }

    pub fn step(&self) -> ReaderStep {
        ReaderStep::Request(match &self.state {
            State::Find { search, .. } => AssignmentRequest::List(search.next_page().clone()),
            State::Read { epoch } => AssignmentRequest::Get(*epoch),
            State::Poll => match self.following() {
                Some(epoch) => AssignmentRequest::Get(epoch),
                None => return ReaderStep::Failed(ReaderFailure::Exhausted),
            },
            State::Confirm { beyond } => AssignmentRequest::List(beyond.next_page().clone()),
            State::Create(draft) => AssignmentRequest::Create(Arc::clone(&draft.assignment)),
            State::ReadBack { draft, .. } => AssignmentRequest::Get(draft.assignment.epoch),
            State::NeedNonce(_) => return ReaderStep::Nonce,
            State::Idle => return ReaderStep::Idle,
            State::Pause(_) => return ReaderStep::Pause,
            State::Failed(failure) => return ReaderStep::Failed(*failure),
        })
    }

    fn following(&self) -> Option<Epoch> {
        self.known.as_ref().map_or(Some(Epoch::FIRST), |known| known.epoch.next())
    }

    /// Polls for the next assignment if the step is [`ReaderStep::Idle`]. The poll is a GET of the
    /// next number. If the reader gave up the previous GET, or [`is_behind`](Reader::is_behind) is
    /// true, the poll is a LIST.
    pub fn poll(&mut self) {
        if self.state == State::Idle {
            let lists = std::mem::take(&mut self.lists) || self.is_behind();
            self.state = if lists { self.beyond_known() } else { State::Poll };
        }
    }

    /// Lists the assignments after the known one. A member that gains partitions must call this
    /// method (GA4). The driver of each reader also calls it regularly, because the next assignment
    /// may be created and compacted between two polls (GA6). If the reader knows no assignment, it
    /// searches for the newest assignment, as [`poll`](Reader::poll) does.
    pub fn confirm(&mut self) {
        if self.state == State::Idle {
            self.state = self.beyond_known();
        }
    }

    fn beyond_known(&self) -> State {
        match &self.known {
            Some(known) if !self.is_behind() => {
                State::Confirm { beyond: SuccessorSearch::new(known.epoch.get()) }
            }
            _ => self.find(false),
        }
    }

    /// Records that an assignment with the epoch `seen` exists or existed. The reader creates no
    /// assignment before it has found that assignment or a greater one.
    pub fn expect(&mut self, seen: Option<Epoch>) {
        self.greatest = self.greatest.max(seen);
    }

    /// Returns whether the reader must still find the newest assignment: either it knows no
    /// assignment, or a greater assignment than the known one exists or existed.
    pub fn is_behind(&self) -> bool {
        self.known.as_ref().is_none_or(|known| Some(known.epoch) < self.greatest)
    }

    /// Creates the successor of the known assignment, or the first assignment of a group. Does
    /// nothing and returns false if the step is not [`ReaderStep::Idle`], or if the assignment does
    /// not follow the known assignment.
    pub fn create(&mut self, assignment: Assignment) -> bool {
        let fits = self.state == State::Idle
            && self.following() == Some(assignment.epoch)
            && self.greatest < Some(assignment.epoch);
        if fits {
            let nonces = vec![assignment.nonce];
            self.state = State::Create(Draft { assignment: Arc::new(assignment), nonces });
        }
        fits
    }

    /// Creates an assignment for a restore. The number of this assignment may be greater than the
    /// next number.
    pub fn create_above(&mut self, assignment: Assignment) {
        if self.state == State::Idle && self.greatest < Some(assignment.epoch) {
            let nonces = vec![assignment.nonce];
            self.state = State::Create(Draft { assignment: Arc::new(assignment), nonces });
        }
    }

    /// Begins again after a failure, because an operator may have corrected permissions or replaced
    /// an unreadable object. The reader keeps the epochs that it knows.
    pub fn restart(&mut self) {
        if let State::Failed(_) = self.state {
            self.state = self.find(false);
        }
    }

    /// Gives up a read that keeps failing. The next poll is a request of the other kind. After a
    /// GET it is a LIST, because the assignment may be superseded. After a LIST it is a GET, unless
    /// [`is_behind`](Reader::is_behind) is true. If the reader created an
    /// assignment and gave up its read-back, a later poll may find that assignment. The reader then
    /// treats it like an assignment of another writer.
    pub fn give_up(&mut self) {
        if let State::Pause(state) = &self.state {
            self.lists = !matches!(**state, State::Confirm { .. } | State::Find { .. });
            self.state = State::Idle;
        }
    }

    /// Gives up the creation of an assignment that cannot be encoded. No request was sent.
    pub fn discard(&mut self) {
        if let State::Create(draft) = &self.state
            && draft.nonces.len() == 1
        {
            self.state = State::Idle;
        }
    }

    /// Continues after a pause.
    pub fn resume(&mut self) {
        if let State::Pause(state) = &mut self.state {
            self.state = std::mem::replace(&mut **state, State::Idle);
        }
    }

    /// Sets the nonce of the next attempt. The nonce must never have been used.
    pub fn nonce(&mut self, nonce: Nonce) {
        if let State::NeedNonce(draft) = &mut self.state {
            Arc::make_mut(&mut draft.assignment).nonce = nonce;
            draft.nonces.push(nonce);
            self.state = State::Create(draft.clone());
        }
    }

    /// Handles the answer to the request that [`Reader::step`] returned.
    pub fn handle(&mut self, answer: AssignmentAnswer) -> Option<News> {
        if !matches!(self.step(), ReaderStep::Request(_)) {
            return None;
        }
        let state = std::mem::replace(&mut self.state, State::Idle);
        let (state, news) = match (state, answer) {
            // Only the newest assignment must be readable (GA5). The unreadable assignment may be
            // superseded, so list the later ones.
            (
                State::Poll | State::ReadBack { .. },
                AssignmentAnswer::Denied | AssignmentAnswer::Unreadable,
            ) => (self.beyond_known(), None),
            (_, AssignmentAnswer::Denied) => (State::Failed(ReaderFailure::Denied), None),
            (_, AssignmentAnswer::Unsafe) => (State::Failed(ReaderFailure::Unsafe), None),
            (State::Find { search, gone }, AssignmentAnswer::Listed(page)) => {
                self.found(search, gone, page)
            }
            (State::Confirm { beyond }, AssignmentAnswer::Listed(page)) => {
                self.listed(beyond, page)
            }
            (State::Create(draft), AssignmentAnswer::Done) => {
                (self.adopt(&draft.assignment), Some(News::Read))
            }
            (State::Create(draft), AssignmentAnswer::Refused) => {
                (State::ReadBack { draft, refused: true }, None)
            }
            (State::Create(draft), _) => (State::ReadBack { draft, refused: false }.paused(), None),
            (State::ReadBack { draft, .. }, AssignmentAnswer::Found(found)) => {
                self.read_back(&draft, &found)
            }
            // The store refused the PUT, so an object with this number existed. The object is gone,
            // so a compactor has deleted it.
            (State::ReadBack { refused: true, .. }, AssignmentAnswer::Missing) => {
                (self.find(false), None)
            }
            // An earlier attempt may still take effect. The store's answer to the next attempt,
            // with the same number, shows whether it did.
            (State::ReadBack { draft, .. }, AssignmentAnswer::Missing) => {
                match draft.nonces.len() {
                    ..MAX_ATTEMPTS => (State::NeedNonce(draft), None),
                    _ => (State::Idle, Some(News::GivenUp)),
                }
            }
            (State::Read { .. } | State::Poll, AssignmentAnswer::Found(found)) => {
                self.saw(found.epoch);
                self.known = Some(found);
                (State::Idle, Some(News::Read))
            }
            (State::Poll, AssignmentAnswer::Missing) => (State::Idle, Some(News::Unchanged)),
            // A compactor deleted the assignment after the LIST, so a greater assignment exists.
            (State::Read { .. }, AssignmentAnswer::Missing) => (self.find(false).paused(), None),
            (State::Read { epoch }, AssignmentAnswer::Unreadable) => (unreadable(epoch), None),
            // Repeat the request after an unknown result, or after an answer to another kind of
            // request.
            (state, _) => (state.paused(), None),
        };
        self.state = state;
        news
    }

    fn found(&mut self, mut search: Search, gone: bool, page: Listing) -> (State, Option<News>) {
        match search.handle(page) {
            Progress::More => (State::Find { search, gone }, None),
            Progress::Newest(None) => (State::Idle, Some(News::Nothing)),
            Progress::Newest(Some(epoch)) => {
                self.saw(epoch);
                match &self.known {
                    Some(known) if known.epoch >= epoch => (State::Idle, Some(News::Unchanged)),
                    _ => (State::Read { epoch }, None),
                }
            }
            Progress::KnownIsGone(_) if !gone => (self.find(true).paused(), None),
            Progress::KnownIsGone(epoch) => {
                (State::Failed(ReaderFailure::NewestDeleted(epoch)), None)
            }
        }
    }

    fn listed(&mut self, mut beyond: SuccessorSearch, page: Listing) -> (State, Option<News>) {
        match beyond.handle(page) {
            SuccessorStatus::NotYet => (State::Confirm { beyond }, None),
            SuccessorStatus::No => (State::Idle, Some(News::Confirmed)),
            SuccessorStatus::Yes { greatest, .. } => {
                self.saw(greatest);
                (State::Read { epoch: greatest }, None)
            }
        }
    }

    fn read_back(&mut self, draft: &Draft, found: &Arc<Assignment>) -> (State, Option<News>) {
        if draft.nonces.contains(&found.nonce) {
            return (self.adopt(found), Some(News::Read));
        }
        self.saw(found.epoch);
        self.known = Some(Arc::clone(found));
        (State::Idle, Some(News::Read))
    }

    /// Records that the store has the assignment `own`, which this reader created. The reader must
    /// confirm it next.
    fn adopt(&mut self, own: &Arc<Assignment>) -> State {
        self.saw(own.epoch);
        self.known = Some(Arc::clone(own));
        State::Confirm { beyond: SuccessorSearch::new(own.epoch.get()) }
    }

    fn find(&self, gone: bool) -> State {
        State::Find { search: Search::new(self.greatest), gone }
    }

    fn saw(&mut self, epoch: Epoch) {
        self.greatest = self.greatest.max(Some(epoch));
    }
}

impl State {
    /// Returns the state that repeats this request after a short pause. The reader repeats no
    /// request without a pause.
    fn paused(self) -> State {
        State::Pause(Box::new(self))
    }
}

fn unreadable(epoch: Epoch) -> State {
    State::Failed(ReaderFailure::Unreadable(epoch))
}

#[cfg(test)]
mod tests;
