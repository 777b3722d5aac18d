//! The writer of a fenced log, and the numbers that a trim may delete.
//!
//! The log is a sequence of objects numbered from 1 on. A writer creates each object on the
//! condition that it does not exist. A writer begins with a *claim*: an object at the end of the
//! sequence, which it then *confirms* with a listing. From then on the writer knows the number of
//! each append, so an append creates one object. A writer that is slower than a busy older writer
//! first creates *fences* at numbers that the older writer has not reached (module `open`). Four
//! rules make these steps safe during trims:
//!
//! 1. *A trim never deletes claims, the fences directly below a claim, or the newest object.* The
//!    last object of a writer is followed by objects of the next writer: first fences, if any, then
//!    a claim. So a superseded writer finds a fence or a claim at its next number, however long it
//!    pauses and however many trims occur.
//! 2. *A claim, or a fence at a number beyond the end, is valid only after a listing that shows no
//!    greater number.* If the writer created the claim or fence at a trimmed number, a greater
//!    number exists, because the newest object is never deleted.
//! 3. *While the effect of an append is unknown, the writer sends no other object to the number of
//!    this append.* So if the append is in the log, it has this number, even if a trim deleted its
//!    object and a late request created it again.
//! 4. *A writer passes fences of lower epochs:* it appends at the number after the fence. The
//!    creator of a passed fence was opening the log when the greater epoch claimed the log. The
//!    creator ends when it finds an object of the greater epoch. The passed fences are between the
//!    entries of the writer that passed them. No paused writer depends on them, so a trim deletes
//!    them.
//!
//! An object below the *floor* of the trim marker may be a *ghost*: a trim deleted the object, and
//! a late request then created it again. A trim raises the floor before it deletes. A reader that
//! reads the object first and the floor afterwards can exclude ghosts: an object at or above the
//! floor is not a ghost.

use std::num::NonZeroU64;

use tenure::Epoch;
use tenure::internals::fencing::{Nonce, Search, SuccessorSearch, SuccessorStatus};

mod message;
mod open;
mod trim;

use message::Draft;
pub use message::{Ended, Header, Kind, LogAnswer, LogRequest, Standing};
use open::Walk;
pub use trim::{Floor, Sweep};

/// A writer, from its claim to the claim of the next writer.
///
/// # Contract
///
/// The driver repeats three steps until [`request`](Writer::request) returns `None`:
///
/// 1. [`request`](Writer::request) returns the next request. The request does not change until the
///    driver handles an answer.
/// 2. The driver sends the request. After a failure without an effect, the driver sends the same
///    request again. If the effect of a create is unknown, the answer is [`LogAnswer::Unknown`].
/// 3. [`handle`](Writer::handle) receives the answer, and a nonce that was never used. `handle`
///    ignores an answer that does not belong to the request.
///
/// | request | answers |
/// | --- | --- |
/// | [`LogRequest::List`] | [`LogAnswer::Listed`] |
/// | [`LogRequest::Read`] | [`LogAnswer::Found`], [`LogAnswer::Missing`] |
/// | [`LogRequest::Create`] | [`LogAnswer::Created`], [`LogAnswer::Refused`], [`LogAnswer::Unknown`] |
/// | [`LogRequest::Floor`] | [`LogAnswer::Floor`] |
///
/// When `request` returns `None`, the writer has [ended](Writer::ended), or it has a
/// [position](Writer::standing) and accepts an [`append`](Writer::append). Only
/// [`withdraw`](Writer::withdraw) gives up an append.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Writer {
    epoch: Epoch,

    // Known facts about the log.
    /// Greatest number seen.
    known: Option<NonZeroU64>,
    /// Position of the writer after it has opened the log.
    standing: Option<Standing>,

    // The step in progress.
    /// Number of times that another writer was faster while this writer opened the log.
    outrun: u32,
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum State {
    Find {
        search: Search<NonZeroU64>,
        why: Why,
    },
    ReadEnd {
        end: u64,
        why: Why,
    },
    Create(Draft),
    ReadBack(Draft),
    /// Lists the log to check that the created claim or fence is the newest object.
    Confirm {
        claim: Draft,
        beyond: SuccessorSearch,
    },
    Fill(Walk),
    ReadBelow(Walk),
    /// Another object already has the number of the append. Reads the floor, which shows whether
    /// this object is the first one at the number.
    AskFloor {
        append: Draft,
        found: Header,
    },
    Open,
    Ended(Ended),
}

/// The reason for which the writer searches for the end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Why {
    Claim,
    /// The writer was superseded. The search finds the newest object, which has the epoch of the
    /// successor.
    Verdict,
}

impl Writer {
    /// Creates a writer of this epoch that will claim the log. `known` is a number that was seen in
    /// the log.
    pub fn new(epoch: Epoch, known: Option<NonZeroU64>) -> Writer {
        let state = State::Find { search: Search::new(known), why: Why::Claim };
        Writer { epoch, known, standing: None, outrun: 0, state }
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the pending request; `None` if the writer waits for an append or has ended.
    pub fn request(&self) -> Option<LogRequest> {
        Some(match &self.state {
            State::Find { search, .. } => LogRequest::List(search.next_page().clone()),
            State::ReadEnd { end, .. } => LogRequest::Read(*end),
            State::Create(draft) => {
                LogRequest::Create { number: draft.number, header: draft.header }
            }
            State::ReadBack(draft) => LogRequest::Read(draft.number),
            State::Fill(walk) => {
                let Draft { number, header } = walk.draft(self.epoch);
                LogRequest::Create { number, header }
            }
            State::ReadBelow(walk) => LogRequest::Read(walk.number()),
            State::Confirm { beyond, .. } => LogRequest::List(beyond.next_page().clone()),
            State::AskFloor { .. } => LogRequest::Floor,
            State::Open | State::Ended(_) => return None,
        })
    }

    /// Returns the position if the writer has claimed the log and no append is pending.
    pub fn standing(&self) -> Option<Standing> {
        self.standing.filter(|_| self.state == State::Open)
    }

    pub fn ended(&self) -> Option<Ended> {
        match self.state {
            State::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Begins an append under this fresh nonce, at the number [`Standing::next`]. Returns false and
    /// does nothing if the writer has no position.
    pub fn append(&mut self, nonce: Nonce) -> bool {
        let Some(Standing { claim, next, .. }) = self.standing() else { return false };
        let header = Header { epoch: self.epoch, nonce, claim, kind: Kind::Entry };
        self.state = State::Create(Draft { number: next, header });
        true
    }

    /// Withdraws the pending append. The caller must know that no attempt has taken effect or can
    /// take effect later, because the next append uses the same number.
    pub fn withdraw(&mut self) {
        if matches!(self.state, State::Create(_)) && self.standing.is_some() {
            self.state = State::Open;
        }
    }

    /// Handles the answer to [`Writer::request`]. `fresh` is a nonce that was never used.
    pub fn handle(&mut self, answer: LogAnswer, fresh: Nonce) {
        // An answer that does not belong to the request does not change the state.
        let state = self.state.clone();
        self.state = match (state, answer) {
            (State::Find { search, why }, LogAnswer::Listed(page)) => {
                self.found(search, why, page, fresh)
            }
            (State::ReadEnd { end, why }, LogAnswer::Found(header)) => {
                self.read_end(end, why, header, fresh)
            }
            // The object was trimmed after the listing, so the writer searches for the end again.
            (State::ReadEnd { why, .. }, LogAnswer::Missing) => self.find(why),
            (State::Create(draft), LogAnswer::Created) => self.created(draft),
            (State::Create(draft), LogAnswer::Refused | LogAnswer::Unknown) => {
                State::ReadBack(draft)
            }
            (State::ReadBack(draft), LogAnswer::Found(header)) => self.read_back(draft, header),
            // An earlier create may have taken effect, and a trim may have deleted its object. The
            // repeated create is harmless, because it creates the same object.
            (State::ReadBack(draft), LogAnswer::Missing) => State::Create(draft),
            (State::Confirm { claim, mut beyond }, LogAnswer::Listed(page)) => {
                match beyond.handle(page) {
                    SuccessorStatus::NotYet => State::Confirm { claim, beyond },
                    SuccessorStatus::No => self.confirmed(claim, fresh),
                    SuccessorStatus::Yes { greatest, .. } => {
                        self.known = self.known.max(Some(greatest));
                        if claim.header.is_fence() { self.outrun() } else { self.find(Why::Claim) }
                    }
                }
            }
            (State::Fill(walk), answer) => self.filled(walk, answer, fresh),
            (State::ReadBelow(walk), LogAnswer::Found(header)) => {
                self.read_below(walk, Some(header), fresh)
            }
            (State::ReadBelow(walk), LogAnswer::Missing) => self.read_below(walk, None, fresh),
            (State::AskFloor { append, found }, LogAnswer::Floor(floor)) => {
                self.fenced(append, found, floor)
            }
            (state, _) => state,
        };
    }

    /// Continues after the pending object was created at its number.
    fn created(&mut self, draft: Draft) -> State {
        self.known = self.known.max(NonZeroU64::new(draft.number));
        match draft.header.kind {
            Kind::Entry => self.open(draft),
            Kind::Claim { .. } | Kind::Fence { .. } => {
                State::Confirm { claim: draft, beyond: SuccessorSearch::new(draft.number) }
            }
        }
    }

    fn confirmed(&mut self, draft: Draft, fresh: Nonce) -> State {
        match draft.header.kind {
            Kind::Fence { base } => self.walk_from(draft.number, base, fresh),
            Kind::Claim { .. } | Kind::Entry => self.open(draft),
        }
    }

    fn open(&mut self, draft: Draft) -> State {
        let Draft { number, header } = draft;
        let Some(next) = number.checked_add(1) else { return State::Ended(Ended::Full) };
        let (claim, last) = (header.last_claim(number), header.last_entry(number));
        self.standing = Some(Standing { claim, last, next });
        State::Open
    }

    fn read_back(&mut self, draft: Draft, found: Header) -> State {
        if found.nonce == draft.header.nonce {
            return self.created(draft);
        }
        self.known = self.known.max(NonZeroU64::new(draft.number));
        match draft.header.kind {
            Kind::Claim { .. } | Kind::Fence { .. } => self.outrun(),
            Kind::Entry => State::AskFloor { append: draft, found },
        }
    }

    /// Handles an append that was refused because its number has another object, `found`. The
    /// writer read the floor after it read this object.
    fn fenced(&mut self, append: Draft, found: Header, floor: u64) -> State {
        // If this number was never trimmed, `found` is the first object at the number. So the
        // append never was in the log, and never will be.
        let first = floor <= append.number;
        if first && found.is_fence() && found.epoch < self.epoch {
            return self.pass(append);
        }
        State::Ended(if found.epoch > self.epoch {
            Ended::Stale { newest: found.epoch, maybe: !first }
        } else if !first {
            return self.find(Why::Verdict);
        } else if found.epoch == self.epoch {
            Ended::Replaced { maybe: false }
        } else {
            Ended::WentBack { number: append.number, epoch: found.epoch }
        })
    }

    /// Passes the fence of an older writer: the append uses the next number.
    fn pass(&mut self, append: Draft) -> State {
        let next = append.number.checked_add(1);
        let (Some(number), Some(standing)) = (next, &mut self.standing) else {
            return State::Ended(Ended::Full);
        };
        standing.next = number;
        State::Create(Draft { number, ..append })
    }
}

#[cfg(test)]
mod tests;
