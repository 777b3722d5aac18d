//! The writer of a fenced log, and what a trim may delete.
//!
//! The log is a row of objects numbered from 1 on, each created only where there is none. A writer
//! begins with a *claim*: an object of its own at the end of the row, which it then *confirms* with
//! a listing. From there on it knows each number before its next, so it creates one object an
//! append. A writer that is outrun by a busy older one first creates *fences* ahead of it (`open`).
//! Four rules make that safe beside trims:
//!
//! 1. *Claims are never deleted, nor are the fences directly below a claim, nor the newest object.*
//!    The next writer goes on from a writer's last object with fences, if any, and then a claim. So
//!    what a superseded writer finds at its next number is one of these, however long it was paused
//!    and however much was trimmed meanwhile.
//! 2. *A claim or a fence ahead counts only once a listing after it shows nothing greater.* It may
//!    have filled a number that was trimmed; then something greater exists, as the newest is never
//!    deleted.
//! 3. *While the fate of an append is unknown, nothing else is sent to its number.* So whether it
//!    was written once, or once more after a trim, it is in the log at this number.
//! 4. *A writer passes fences of lower epochs.* They are of a writer that was about to open the log
//!    when the greater epoch claimed it, and that is refused when it walks down. Fences that were
//!    passed lie between entries of one writer, so nobody is refused by them and a trim deletes them.
//!
//! An object below the trim marker's *floor* may be a ghost: created anew where another was
//! deleted. The floor is raised before anything is deleted, so an object is none if the floor, read
//! after it, does not lie above it.

use std::num::NonZeroU64;

use tenure::Epoch;
use tenure::seam::fencing::{Nonce, Search, SuccessorSearch, SuccessorStatus};

mod draft;
mod message;
mod open;
mod trim;

use draft::Draft;
pub use message::{Ended, Header, Kind, LogAnswer, LogRequest, Standing};
use open::Walk;
pub use trim::{Floor, Sweep};

/// One writer, from its claim to the claim of the next.
///
/// # Contract
///
/// The driver repeats three steps until [`request`](Writer::request) returns `None`:
///
/// 1. [`request`](Writer::request) returns the next request. It stays the same until it is answered.
/// 2. The driver sends it. After a failure without an effect it sends the same request again. A
///    create with an unknown effect is answered with [`LogAnswer::Unknown`].
/// 3. [`handle`](Writer::handle) takes the answer, with a nonce that was never used. It ignores an
///    answer that does not belong to the request.
///
/// | request | answers |
/// | --- | --- |
/// | [`LogRequest::List`] | [`LogAnswer::Listed`] |
/// | [`LogRequest::Read`] | [`LogAnswer::Found`], [`LogAnswer::Missing`] |
/// | [`LogRequest::Create`] | [`LogAnswer::Created`], [`LogAnswer::Refused`], [`LogAnswer::Unknown`] |
/// | [`LogRequest::Floor`] | [`LogAnswer::Floor`] |
///
/// Then the writer has [ended](Writer::ended), or it has a [position](Writer::standing) and takes an
/// [`append`](Writer::append). Only [`withdraw`](Writer::withdraw) gives up an append.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Writer {
    epoch: Epoch,

    // The log.
    /// The greatest number seen.
    known: Option<NonZeroU64>,
    /// The position, once the log is open.
    standing: Option<Standing>,

    // The work.
    /// Number of times that other writers were faster while this one opened the log.
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
    /// A claim, or a fence ahead: is it the end?
    Confirm {
        claim: Draft,
        beyond: SuccessorSearch,
    },
    Fill(Walk),
    ReadBelow(Walk),
    /// Another object lies where the append was to be: is it the first that ever lay there?
    AskFloor {
        append: Draft,
        found: Header,
    },
    Open,
    Ended(Ended),
}

/// Why the end of the log is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Why {
    Claim,
    /// The writer was superseded: by whom?
    Verdict,
}

impl Writer {
    /// A writer of this epoch that will claim the log. `known`: a number seen there.
    pub fn new(epoch: Epoch, known: Option<NonZeroU64>) -> Writer {
        let state = State::Find { search: Search::new(known), why: Why::Claim };
        Writer { epoch, known, standing: None, outrun: 0, state }
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// What to ask next; `None` once there is nothing under way.
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

    /// Where it stands, if it has claimed the log and no append is under way.
    pub fn standing(&self) -> Option<Standing> {
        self.standing.filter(|_| self.state == State::Open)
    }

    pub fn ended(&self) -> Option<Ended> {
        match self.state {
            State::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// Begins an append under this fresh nonce, at the number that [`Standing::next`] says. False,
    /// and nothing begins, where the writer does not stand.
    pub fn append(&mut self, nonce: Nonce) -> bool {
        let Some(Standing { claim, next, .. }) = self.standing() else { return false };
        let header = Header { epoch: self.epoch, nonce, claim, kind: Kind::Entry };
        self.state = State::Create(Draft { number: next, header });
        true
    }

    /// Takes back the append under way. Only where none of its attempts can have taken effect or
    /// may yet: another append will be sent to its number.
    pub fn withdraw(&mut self) {
        if matches!(self.state, State::Create(_)) && self.standing.is_some() {
            self.state = State::Open;
        }
    }

    /// Takes the answer to [`Writer::request`], which stays the same until there is one: a request
    /// that failed is sent again. `fresh` is a nonce that was never used.
    pub fn handle(&mut self, answer: LogAnswer, fresh: Nonce) {
        // Left in place by every answer that changes nothing.
        let state = self.state.clone();
        self.state = match (state, answer) {
            (State::Find { search, why }, LogAnswer::Listed(page)) => {
                self.found(search, why, page, fresh)
            }
            (State::ReadEnd { end, why }, LogAnswer::Found(header)) => {
                self.read_end(end, why, header, fresh)
            }
            // Trimmed since it was listed.
            (State::ReadEnd { why, .. }, LogAnswer::Missing) => self.find(why),
            (State::Create(draft), LogAnswer::Created) => self.created(draft),
            (State::Create(draft), LogAnswer::Refused | LogAnswer::Unknown) => {
                State::ReadBack(draft)
            }
            (State::ReadBack(draft), LogAnswer::Found(header)) => self.read_back(draft, header),
            // It may have been written and trimmed since; but then as this very object.
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

    /// The object on its way is where it was to be.
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

    /// Another object lies at the number of the append; the floor was read after it.
    fn fenced(&mut self, append: Draft, found: Header, floor: u64) -> State {
        // Nothing was ever deleted there, so the append never was there nor will be.
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

    /// Goes on after the fence of a writer that was too late.
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
