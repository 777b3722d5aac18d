//! Following the newest assignment, confirming it, and creating the next one.
//!
//! Reader and writer confirm by the same code: a LIST that begins after the assignment was read, or
//! created, and shows nothing greater. It is a value: at most one request is
//! under way, and when to poll and how long to wait are the driver's.

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
///   [`create_above`](Reader::create_above). Each begins only while the step is
///   [`ReaderStep::Idle`]; otherwise it changes nothing.
/// - *Inputs*, each for one step: [`handle`](Reader::handle) answers [`ReaderStep::Request`],
///   [`nonce`](Reader::nonce) answers [`ReaderStep::Nonce`], [`resume`](Reader::resume) or
///   [`give_up`](Reader::give_up) answers [`ReaderStep::Pause`], [`restart`](Reader::restart)
///   answers [`ReaderStep::Failed`]. [`discard`](Reader::discard) answers a creation that was not
///   sent. [`expect`](Reader::expect) fits any step.
///
/// The driver repeats `step` and the input for it until the step is `Idle`. It has at most one
/// request under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reader {
    /// The newest that was read.
    known: Option<Arc<Assignment>>,
    /// The greatest epoch that is known to have existed: in the store, by another reader of this
    /// process, or by a session.
    greatest: Option<Epoch>,
    /// The next poll lists: a GET of one assignment kept failing, and it may be superseded.
    lists: bool,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    /// LIST for the newest. `gone`: a known one did not show; look once more.
    Find {
        search: Search,
        gone: bool,
    },
    /// GET one that a listing showed.
    Read {
        epoch: Epoch,
    },
    /// GET the one after the known one.
    Poll,
    /// LIST: is the known one the newest?
    Confirm {
        beyond: SuccessorSearch,
    },
    Create(Draft),
    /// GET what lies where the draft was to be. `refused`: something did.
    ReadBack {
        draft: Draft,
        refused: bool,
    },
    /// A fresh nonce for the next attempt.
    NeedNonce(Draft),
    Idle,
    /// Try again what failed.
    Pause(Box<State>),
    Failed(ReaderFailure),
}

/// An assignment on its way, and the nonces of the attempts to create it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Draft {
    assignment: Arc<Assignment>,
    nonces: Vec<Nonce>,
}

/// Past this many unanswered attempts the plan is made anew.
const MAX_ATTEMPTS: usize = 16;

impl Reader {
    /// One that has seen epochs up to `greatest`; it begins by looking for the newest.
    pub fn new(greatest: Option<Epoch>) -> Reader {
        let state = State::Find { search: Search::new(greatest), gone: false };
        Reader { known: None, greatest, lists: false, state }
    }

    /// The newest that was read.
    pub fn known(&self) -> Option<&Arc<Assignment>> {
        self.known.as_ref()
    }

    /// The greatest epoch that is known to have existed.
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

    /// Looks for the next assignment, unless something is under way: by a GET of the next number,
    /// or by a LIST once such a GET was given up.
    pub fn poll(&mut self) {
        if self.state == State::Idle {
            let lists = std::mem::take(&mut self.lists) || self.is_behind();
            self.state = if lists { self.beyond_known() } else { State::Poll };
        }
    }

    /// Lists what comes after the known assignment: whoever gains by it must, and every reader does
    /// at times, as its next number may have been created and compacted while it slept. If none is
    /// known, it looks for the first, as [`poll`](Reader::poll) does.
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

    /// An assignment with this epoch exists or existed: somebody has seen it. Without it, or a
    /// greater one, no assignment is created.
    pub fn expect(&mut self, seen: Option<Epoch>) {
        self.greatest = self.greatest.max(seen);
    }

    /// Whether the newest assignment is still to be found: none is known, or a greater one existed.
    pub fn is_behind(&self) -> bool {
        self.known.as_ref().is_none_or(|known| Some(known.epoch) < self.greatest)
    }

    /// Creates an assignment that was made of the known one, or the first. False, and nothing
    /// begins, if something is under way or another one is known by now.
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

    /// Creates an assignment above a gap, as a restoring does.
    pub fn create_above(&mut self, assignment: Assignment) {
        if self.state == State::Idle && self.greatest < Some(assignment.epoch) {
            let nonces = vec![assignment.nonce];
            self.state = State::Create(Draft { assignment: Arc::new(assignment), nonces });
        }
    }

    /// Begins anew after a failure, which may have passed: permissions are corrected, an object
    /// that could not be read is replaced. What is known stays so.
    pub fn restart(&mut self) {
        if let State::Failed(_) = self.state {
            self.state = self.find(false);
        }
    }

    /// Gives up a read that keeps failing, so that another kind of request is tried at the next
    /// poll: a LIST after a GET, as the assignment may be superseded, and a GET after a LIST. An
    /// own attempt may be met later, as the attempts of other writers are.
    pub fn give_up(&mut self) {
        if let State::Pause(state) = &self.state {
            self.lists = !matches!(**state, State::Confirm { .. } | State::Find { .. });
            self.state = State::Idle;
        }
    }

    /// Gives up an assignment that is still to be written, and can not be: nothing was sent.
    pub fn discard(&mut self) {
        if let State::Create(draft) = &self.state
            && draft.nonces.len() == 1
        {
            self.state = State::Idle;
        }
    }

    /// Goes on after a pause.
    pub fn resume(&mut self) {
        if let State::Pause(state) = &mut self.state {
            self.state = std::mem::replace(&mut **state, State::Idle);
        }
    }

    /// Takes a nonce that was never used.
    pub fn nonce(&mut self, nonce: Nonce) {
        if let State::NeedNonce(draft) = &mut self.state {
            Arc::make_mut(&mut draft.assignment).nonce = nonce;
            draft.nonces.push(nonce);
            self.state = State::Create(draft.clone());
        }
    }

    /// Takes the answer to the request that [`Reader::step`] asks for.
    pub fn handle(&mut self, answer: AssignmentAnswer) -> Option<News> {
        if !matches!(self.step(), ReaderStep::Request(_)) {
            return None;
        }
        let state = std::mem::replace(&mut self.state, State::Idle);
        let (state, news) = match (state, answer) {
            // It may be superseded: then the newest is read, and only that must be readable.
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
            // Somebody else's, which was compacted since.
            (State::ReadBack { refused: true, .. }, AssignmentAnswer::Missing) => {
                (self.find(false), None)
            }
            // An attempt may still be under way; the next one meets it at the store.
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
            // Compacted since it was listed: there is a greater one.
            (State::Read { .. }, AssignmentAnswer::Missing) => (self.find(false).paused(), None),
            (State::Read { epoch }, AssignmentAnswer::Unreadable) => (unreadable(epoch), None),
            // Unknown, or an answer that no such request has: ask again.
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

    /// An own assignment is in the store; it counts once it is confirmed.
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
    /// The same after a short pause, so that no store can make the machine spin.
    fn paused(self) -> State {
        State::Pause(Box::new(self))
    }
}

fn unreadable(epoch: Epoch) -> State {
    State::Failed(ReaderFailure::Unreadable(epoch))
}

#[cfg(test)]
mod tests;
