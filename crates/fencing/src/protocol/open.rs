//! The opening of a log: the writer claims the end. If an older writer is faster, the new writer
//! first creates fences at numbers that the older writer has not reached.
//!
//! A claim takes a LIST, a GET and a create at the number after the end, in this order. If a busy
//! writer of an older epoch appends during these requests, the create is refused. After a refused
//! claim the new writer creates a *fence* at a number beyond the end. The distance is 2, and
//! doubles after each refusal. The older writer appends at consecutive numbers, so it reaches the
//! fence and is refused permanently. The new writer confirms the fence as it confirms a claim. Then
//! it *walks* down from the fence, and creates a fence at each free number. The walk ends at the
//! newest entry or claim, the last object of the older epochs. No number between that object and
//! the fence is free, so the new writer creates its claim at the number after the fence.

use std::num::NonZeroU64;

use tenure::Epoch;
use tenure::internals::fencing::{Listing, Nonce, Progress, Search};

use super::message::Draft;
use super::message::{Ended, Header, Kind, LogAnswer};
use super::{State, Why, Writer};

/// The walk down from a fence to the newest entry or claim below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Walk {
    why: Why,
    /// Number of the fence at the end of the log.
    top: u64,
    /// Number at which the writer next reads an object or creates a fence. It is at least `base`.
    number: u64,
    /// One less than the first number that was free when the fence was created.
    base: u64,
    /// Nonce of the fence that is created if the number is free.
    nonce: Nonce,
}

impl Walk {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the fence to create at `number`.
    pub(super) fn draft(&self, epoch: Epoch) -> Draft {
        let kind = Kind::Fence { base: self.base };
        let header = Header { epoch, nonce: self.nonce, claim: 0, kind };
        Draft { number: self.number, header }
    }
}

impl Writer {
    pub(super) fn find(&self, why: Why) -> State {
        State::Find { search: Search::new(self.known), why }
    }

    /// Searches for the end of the log again, because a claim or a fence failed: another object has
    /// its number, or the log has an object above the fence.
    pub(super) fn outrun(&mut self) -> State {
        self.outrun = self.outrun.saturating_add(1);
        self.find(Why::Claim)
    }

    pub(super) fn found(
        &mut self,
        mut search: Search<NonZeroU64>,
        why: Why,
        page: Listing<NonZeroU64>,
        fresh: Nonce,
    ) -> State {
        match search.handle(page) {
            Progress::More => State::Find { search, why },
            Progress::KnownIsGone(number) => State::Ended(Ended::Gone(number.get())),
            Progress::Newest(Some(end)) => {
                self.known = self.known.max(Some(end));
                State::ReadEnd { end: end.get(), why }
            }
            Progress::Newest(None) => self.claim_after(0, 0, None, fresh),
        }
    }

    pub(super) fn read_end(&mut self, end: u64, why: Why, found: Header, fresh: Nonce) -> State {
        if found.epoch > self.epoch {
            return State::Ended(Ended::Stale { newest: found.epoch, maybe: why == Why::Verdict });
        }
        match (found.kind, why) {
            (Kind::Fence { base }, _) => {
                self.step_down(Walk { why, top: end, number: end, base, nonce: fresh }, fresh)
            }
            (_, Why::Verdict) => self.verdict(end, found),
            (_, Why::Claim) => match self.ahead(end) {
                Some(number) => {
                    let kind = Kind::Fence { base: end };
                    let header = Header { epoch: self.epoch, nonce: fresh, claim: 0, kind };
                    State::Create(Draft { number, header })
                }
                None => self.claim_after(end, end, Some(found), fresh),
            },
        }
    }

    /// Returns the number at which the writer creates a fence if the log ends at `end`. Returns
    /// `None` if no claim of this writer was refused, or if the fence would leave no number for the
    /// claim.
    fn ahead(&self, end: u64) -> Option<u64> {
        let window = 1_u64.checked_shl(self.outrun).filter(|window| *window > 1)?;
        // The number after the fence must exist, because the claim uses it.
        end.checked_add(window).filter(|number| *number < u64::MAX)
    }

    fn verdict(&self, number: u64, found: Header) -> State {
        State::Ended(if found.epoch > self.epoch {
            Ended::Stale { newest: found.epoch, maybe: true }
        } else if found.epoch == self.epoch {
            Ended::Replaced { maybe: true }
        } else {
            Ended::WentBack { number, epoch: found.epoch }
        })
    }

    /// Creates the claim at the number after `top`. `below` is the header of the newest entry or
    /// claim, which has the number `number`. All objects above that number up to `top` are fences.
    fn claim_after(&self, top: u64, number: u64, below: Option<Header>, fresh: Nonce) -> State {
        let Some(next) = top.checked_add(1) else { return State::Ended(Ended::Full) };
        let last = below.map_or(0, |below| below.last_entry(number));
        let claim = below.map_or(0, |below| below.last_claim(number));
        let kind = Kind::Claim { last, fences: top - number };
        let header = Header { epoch: self.epoch, nonce: fresh, claim, kind };
        State::Create(Draft { number: next, header })
    }

    /// Begins the walk from the fence at the end of the log.
    pub(super) fn walk_from(&self, top: u64, base: u64, fresh: Nonce) -> State {
        self.step_down(Walk { why: Why::Claim, top, number: top, base, nonce: fresh }, fresh)
    }

    fn step_down(&self, walk: Walk, fresh: Nonce) -> State {
        let number = walk.number - 1;
        let walk = Walk { number, nonce: fresh, ..walk };
        if walk.why == Why::Claim && number > walk.base {
            State::Fill(walk)
        } else {
            State::ReadBelow(walk)
        }
    }

    pub(super) fn filled(&self, walk: Walk, answer: LogAnswer, fresh: Nonce) -> State {
        match answer {
            LogAnswer::Created => self.step_down(walk, fresh),
            LogAnswer::Refused | LogAnswer::Unknown => State::ReadBelow(walk),
            _ => State::Fill(walk),
        }
    }

    pub(super) fn read_below(&self, walk: Walk, found: Option<Header>, fresh: Nonce) -> State {
        let above_base = walk.number > walk.base;
        let Some(found) = found else {
            return match walk.why {
                // An earlier attempt to create this fence may still take effect. Both attempts
                // create the same fence.
                Why::Claim if above_base => State::Fill(walk),
                Why::Verdict if above_base => self.step_down(walk, fresh),
                // The object was trimmed, so the log has newer objects. The writer searches for the
                // end again.
                why => self.find(why),
            };
        };
        if found.epoch > self.epoch {
            let maybe = walk.why == Why::Verdict;
            return State::Ended(Ended::Stale { newest: found.epoch, maybe });
        }
        match (found.kind, walk.why) {
            (Kind::Fence { base }, _) => {
                let base = if above_base { walk.base } else { base };
                self.step_down(Walk { base, ..walk }, fresh)
            }
            (_, Why::Verdict) => self.verdict(walk.number, found),
            (_, Why::Claim) => self.claim_after(walk.top, walk.number, Some(found), fresh),
        }
    }
}
