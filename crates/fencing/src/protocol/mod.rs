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
use tenure::seam::fencing::{After, Listing, Nonce, Search, SuccessorSearch, SuccessorStatus};

mod open;
mod trim;

use open::Walk;
pub use trim::{Floor, Sweep};

/// What an object of the log says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// Of its writer.
    pub epoch: Epoch,
    /// Of this object alone.
    pub nonce: Nonce,
    /// The number of its writer's claim; of a claim, that of the claim before. 0: there is none. Of
    /// a fence: 0.
    pub claim: u64,
    pub kind: Kind,
}

/// What an object of the log is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Entry,
    /// The first object of a writer.
    Claim {
        /// The number of the newest entry before it; 0 if there is none.
        last: u64,
        /// How many fences lie directly below it.
        fences: u64,
    },
    /// Refuses the writers of lower epochs, and is no entry.
    Fence {
        /// Up to here no number was free when it was created. At least 1.
        base: u64,
    },
}

impl Header {
    /// The newest entry up to here, where this is the header of `number`. A fence knows of none: 0.
    pub fn last_entry(&self, number: u64) -> u64 {
        match self.kind {
            Kind::Entry => number,
            Kind::Claim { last, .. } => last,
            Kind::Fence { .. } => 0,
        }
    }

    /// The newest claim up to here. A fence knows of none: 0.
    pub fn last_claim(&self, number: u64) -> u64 {
        match self.kind {
            Kind::Entry => self.claim,
            Kind::Claim { .. } => number,
            Kind::Fence { .. } => 0,
        }
    }

    pub fn is_fence(&self) -> bool {
        matches!(self.kind, Kind::Fence { .. })
    }
}

/// What the writer wants to ask the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Request {
    List(After),
    Read(u64),
    Create {
        number: u64,
        header: Header,
    },
    /// The trim marker's floor; 0 if nothing was ever trimmed.
    Floor,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    Listed(Listing<NonZeroU64>),
    Found(Header),
    Missing,
    Created,
    Refused,
    /// A create that may have taken effect, or may yet.
    Unknown,
    Floor(u64),
}

/// Why a writer has ended. For good: a claim is never taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ended {
    /// A greater epoch has claimed the log. `maybe`: the append under way may be in the log.
    Stale { newest: Epoch, maybe: bool },
    /// A later writer of the same epoch has claimed it.
    Replaced { maybe: bool },
    /// This number was seen, and neither it nor a greater one is there.
    Gone(u64),
    /// A lower epoch wrote this number after a greater one: somebody deletes, or the store does not
    /// keep its promises.
    WentBack { number: u64, epoch: Epoch },
    /// The last number is taken.
    Full,
}

/// Where a writer that has opened the log stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Standing {
    /// The number of its claim.
    pub claim: u64,
    /// The number of the newest entry; 0 if there is none.
    pub last: u64,
    /// The number of the next append.
    pub next: u64,
}

/// One writer: from its claim to the claim of the next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Writer {
    epoch: Epoch,
    /// The greatest number seen.
    known: Option<NonZeroU64>,
    /// Since it has opened.
    standing: Option<Standing>,
    /// How often others were faster while it opened the log.
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

/// An object on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Draft {
    number: u64,
    header: Header,
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
    pub fn request(&self) -> Option<Request> {
        Some(match &self.state {
            State::Find { search, .. } => Request::List(search.next_page().clone()),
            State::ReadEnd { end, .. } => Request::Read(*end),
            State::Create(draft) => Request::Create { number: draft.number, header: draft.header },
            State::ReadBack(draft) => Request::Read(draft.number),
            State::Fill(walk) => {
                let Draft { number, header } = walk.draft(self.epoch);
                Request::Create { number, header }
            }
            State::ReadBelow(walk) => Request::Read(walk.number()),
            State::Confirm { beyond, .. } => Request::List(beyond.next_page().clone()),
            State::AskFloor { .. } => Request::Floor,
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
    pub fn handle(&mut self, answer: Answer, fresh: Nonce) {
        // Left in place by every answer that changes nothing.
        let state = self.state.clone();
        self.state = match (state, answer) {
            (State::Find { search, why }, Answer::Listed(page)) => {
                self.found(search, why, page, fresh)
            }
            (State::ReadEnd { end, why }, Answer::Found(header)) => {
                self.read_end(end, why, header, fresh)
            }
            // Trimmed since it was listed.
            (State::ReadEnd { why, .. }, Answer::Missing) => self.find(why),
            (State::Create(draft), Answer::Created) => self.created(draft),
            (State::Create(draft), Answer::Refused | Answer::Unknown) => State::ReadBack(draft),
            (State::ReadBack(draft), Answer::Found(header)) => self.read_back(draft, header),
            // It may have been written and trimmed since; but then as this very object.
            (State::ReadBack(draft), Answer::Missing) => State::Create(draft),
            (State::Confirm { claim, mut beyond }, Answer::Listed(page)) => {
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
            (State::ReadBelow(walk), Answer::Found(header)) => {
                self.read_below(walk, Some(header), fresh)
            }
            (State::ReadBelow(walk), Answer::Missing) => self.read_below(walk, None, fresh),
            (State::AskFloor { append, found }, Answer::Floor(floor)) => {
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
