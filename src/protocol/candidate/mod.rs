//! The timeless state machine of one candidate or observer (docs/protocol.md, section 4).
//!
//! It is a value: [`Candidate::step`] says what to do next, [`Candidate::handle`] takes what came
//! of it. At most one request is under way at a time. That a lease lapsed or ended is an input, so
//! the machine is right under any clock; the driver owns time, jitter and retries.

mod state;

use state::{State, Suspect};

use super::find::{Listing, Progress, Search, SuccessorSearch, SuccessorStatus};
use super::leader::{Held, Leading, Next};
use super::message::{
    Answer, EpochEnd, Event, Failure, Input, Lost, Nonce, Request, Rules, Seen, Sighting, Step,
    Wait, Write,
};
use crate::epoch::Epoch;
use crate::protocol::layout::Layout;

/// The state machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Candidate {
    pub(super) rules: Rules,
    /// The greatest epoch seen to exist: nothing at or below it is ever created or granted.
    greatest: Option<Epoch>,
    state: State,
}

/// Past this many unanswered creates of one epoch the candidate looks for the newest again.
const MAX_CREATE_ATTEMPTS: usize = 16;

impl Candidate {
    /// A participant that has seen epochs up to `greatest`.
    pub fn new(rules: Rules, greatest: Option<Epoch>) -> Candidate {
        let search = Search::new(greatest);
        Candidate { rules, greatest, state: State::Find { search, suspect: None } }
    }

    /// Campaigns anew, after a leadership has ended.
    pub fn restart(&mut self) {
        self.state = self.find();
    }

    /// The greatest epoch seen to exist.
    pub fn greatest(&self) -> Option<Epoch> {
        self.greatest
    }

    /// The nonce under which it leads.
    pub fn nonce(&self) -> Option<Nonce> {
        match &self.state {
            State::Lead(leading) => Some(leading.nonce()),
            _ => None,
        }
    }

    /// The epoch followed and its holder's nonce, while following.
    pub fn followed(&self) -> Option<&Sighting> {
        match &self.state {
            State::Follow { sighting } | State::Poll { sighting } => Some(sighting),
            _ => None,
        }
    }

    /// Whether the next LIST only looks for the newest epoch, so that a greater one may be missing
    /// in the answer. In a confirmation, or where the known one did not show, none may.
    pub fn looks_for_the_newest(&self) -> bool {
        matches!(self.state, State::Find { suspect: None, .. })
    }

    /// What to do next.
    pub fn step(&self) -> Step {
        Step::Request(match &self.state {
            State::Find { search, .. } => Request::List(search.next_page().clone()),
            State::Read { epoch } | State::ReadOwn { epoch, .. } => {
                Request::Get { epoch: Some(*epoch), unless: None }
            }
            State::Poll { sighting } if !sighting.is_foreign() => {
                Request::Get { epoch: Some(sighting.epoch), unless: Some(sighting.etag.clone()) }
            }
            State::Poll { sighting } | State::LookAgain { sighting } => {
                Request::Get { epoch: Some(sighting.epoch), unless: None }
            }
            State::Seal { sighting } => Request::Seal {
                epoch: sighting.epoch,
                etag: sighting.etag.clone(),
                nonce: sighting.seen.nonce,
                heartbeat: sighting.seen.heartbeat.saturating_add(1),
                ended: EpochEnd::Lapsed,
            },
            State::Create { epoch, tried } => Request::Create {
                epoch: *epoch,
                write: Write {
                    nonce: *tried.last().expect("a create is entered with its nonce in `tried`"),
                    heartbeat: tried.len() as u64,
                },
            },
            State::Confirm { beyond, .. } => Request::List(beyond.next_page().clone()),
            State::SealOwn { held } => held.give_up(),
            State::Lead(leading) => return leading.step(Layout::EpochFiles),
            State::NeedNonce { .. } => return Step::Nonce,
            State::Follow { .. } => return Step::Wait(Wait::Follow),
            State::Deposed { .. } => return Step::Wait(Wait::Deposed),
            State::Takeover { .. } => return Step::Wait(Wait::Takeover),
            State::NoLeader => return Step::Wait(Wait::NoLeader),
            State::Pause(_) => return Step::Wait(Wait::Retry),
            State::Over => return Step::Wait(Wait::Over),
            State::Denied(_) => return Step::Failed(Failure::Denied),
            State::Failed(failure) => return Step::Failed(*failure),
        })
    }

    /// Takes an input. One that does not fit the state changes nothing: the driver may be late.
    pub fn handle(&mut self, input: Input) -> Option<Event> {
        if matches!(input, Input::Answer(_)) && !matches!(self.step(), Step::Request(_)) {
            return None;
        }
        let state = std::mem::replace(&mut self.state, State::Over);
        let (state, event) = match state {
            State::Lead(leading) => self.lead(leading, input),
            state => match input {
                Input::Answer(Answer::Denied) => (self.denied(state), None),
                Input::Answer(Answer::Unsafe) => (State::Failed(Failure::Unsafe), None),
                Input::Answer(answer) => self.answered(state, answer),
                input => (self.told(state, input), None),
            },
        };
        self.state = state;
        event
    }

    fn lead(&mut self, leading: Leading, input: Input) -> (State, Option<Event>) {
        match leading.handle(Layout::EpochFiles, self.rules, input) {
            Next::Leads(leading, event) => (State::Lead(leading), event),
            Next::Abandoned(held) => (State::SealOwn { held }, None),
            Next::Lost(lost) => {
                if let Lost::Superseded(by) = lost {
                    self.saw(by);
                }
                (State::Over, Some(Event::Lost(lost)))
            }
        }
    }

    fn told(&mut self, state: State, input: Input) -> State {
        match (state, input) {
            (State::Pause(state) | State::Denied(state), Input::Resume) => *state,
            (State::Follow { sighting }, Input::PollDue) => State::Poll { sighting },
            // An observer looks for a successor that did not seal.
            (State::Follow { .. }, Input::Lapsed) if self.rules.observer => self.find(),
            (State::Follow { sighting }, Input::Lapsed) if sighting.is_foreign() => {
                State::LookAgain { sighting }
            }
            (State::Follow { sighting }, Input::Lapsed) => State::Seal { sighting },
            (State::NoLeader, Input::PollDue) => self.find(),
            (State::Deposed { epoch }, Input::Lapsed) => self.take_over(epoch),
            // Somebody whose timer started earlier may have gone ahead.
            (State::Deposed { .. }, Input::PollDue) => self.find(),
            (State::Takeover { epoch }, Input::TakeoverOver) => self.succeed(Some(epoch)),
            (State::NeedNonce { epoch, mut tried }, Input::Nonce(nonce)) => {
                tried.push(nonce);
                State::Create { epoch, tried }
            }
            (state, _) => state,
        }
    }

    fn answered(&mut self, state: State, answer: Answer) -> (State, Option<Event>) {
        let state = match (state, answer) {
            (State::Find { search, suspect }, Answer::Listed(page)) => {
                self.searched(search, suspect, page)
            }
            (State::Confirm { held, beyond }, Answer::Listed(page)) => {
                return self.confirmed(held, beyond, page);
            }
            // Deciding nothing, so its answer does not matter.
            (State::SealOwn { .. }, _) => self.find(),
            (State::Read { .. }, Answer::Found { sighting, .. }) => self.enter(sighting),
            (State::Poll { sighting }, Answer::Found { sighting: now, .. }) => {
                self.polled(&sighting, now)
            }
            (State::Poll { sighting }, Answer::NotModified) => State::Follow { sighting },
            (State::LookAgain { sighting }, Answer::Found { sighting: now, touched }) => {
                if touched || now != sighting {
                    self.polled(&sighting, now)
                } else {
                    State::Seal { sighting }
                }
            }
            // Compacted meanwhile.
            (State::Poll { .. } | State::LookAgain { .. }, Answer::Missing) => self.find(),
            (State::Read { .. } | State::ReadOwn { .. }, Answer::Missing) => self.find().paused(),
            (State::Seal { sighting }, Answer::Done { .. }) => self.take_over(sighting.epoch),
            // These have a pause, too: a store may refuse or miss the very object that it shows.
            (State::Seal { .. }, Answer::Missing) => self.find().paused(),
            (State::Seal { sighting }, Answer::Refused | Answer::Unknown) => {
                State::Read { epoch: sighting.epoch }.paused()
            }
            (State::Create { epoch, tried }, answer) => self.created(epoch, tried, answer),
            (State::ReadOwn { tried, .. }, Answer::Found { sighting, .. }) => {
                self.read_own(tried, sighting)
            }
            (
                State::Read { epoch }
                | State::ReadOwn { epoch, .. }
                | State::Poll { sighting: Sighting { epoch, .. } }
                | State::LookAgain { sighting: Sighting { epoch, .. } },
                Answer::Unreadable,
            ) => {
                self.saw(epoch);
                State::Failed(Failure::Unreadable(epoch))
            }
            // Unknown, or an answer that no such request has: ask again.
            (State::Poll { sighting }, _) => State::Follow { sighting }.paused(),
            (state, _) => state.paused(),
        };
        (state, None)
    }

    fn searched(&mut self, mut search: Search, suspect: Option<Suspect>, page: Listing) -> State {
        match search.handle(page) {
            Progress::More => State::Find { search, suspect },
            Progress::Newest(None) if self.rules.observer => State::NoLeader,
            Progress::Newest(None) => self.succeed(None),
            Progress::Newest(Some(epoch)) => {
                self.saw(epoch);
                if suspect == Some(Suspect::Denied(epoch)) {
                    return State::Read { epoch }.denied();
                }
                State::Read { epoch }
            }
            Progress::KnownIsGone(epoch) if suspect == Some(Suspect::Gone) => {
                State::Failed(Failure::NewestDeleted(epoch))
            }
            Progress::KnownIsGone(_) => {
                let search = Search::new(self.greatest);
                State::Find { search, suspect: Some(Suspect::Gone) }.paused()
            }
        }
    }

    /// Where to go on once access is no longer denied. A GET can be denied because the object is
    /// gone and the credentials may not list (section 7 of the S3 API's errors), so list first.
    fn denied(&mut self, state: State) -> State {
        let list = |epoch| State::Find {
            search: Search::new(self.greatest),
            suspect: Some(Suspect::Denied(epoch)),
        };
        match state {
            State::SealOwn { .. } => self.find(),
            State::Read { epoch }
            | State::Poll { sighting: Sighting { epoch, .. } }
            | State::LookAgain { sighting: Sighting { epoch, .. } } => list(epoch),
            // The store may refuse the same create again, without an object that shows.
            State::ReadOwn { epoch, .. } => list(epoch).paused(),
            State::Find { .. } => self.find().denied(),
            // The next attempt has another nonce.
            State::Create { epoch, tried } if tried.len() < MAX_CREATE_ATTEMPTS => {
                State::NeedNonce { epoch, tried }.denied()
            }
            State::Create { .. } => self.find().denied(),
            // A touch of a foreign leader does not change the ETag.
            State::Seal { sighting } => State::LookAgain { sighting }.denied(),
            state => state.denied(),
        }
    }

    fn polled(&mut self, before: &Sighting, now: Sighting) -> State {
        // The same number with another nonce: the store was wiped, or the epoch was created again.
        if before.seen.nonce == now.seen.nonce { self.enter(now) } else { self.find() }
    }

    /// What the newest epoch object asks for.
    fn enter(&mut self, sighting: Sighting) -> State {
        let epoch = sighting.epoch;
        self.saw(epoch);
        let Seen { ended, reclaimable, .. } = sighting.seen;
        match ended {
            None if self.rules.observer => State::Follow { sighting },
            Some(_) if self.rules.observer => State::NoLeader,
            None if reclaimable => State::Seal { sighting },
            None => State::Follow { sighting },
            Some(EpochEnd::Resigned) => self.succeed(Some(epoch)),
            Some(_) if sighting.seen.is_waited_for() => State::Deposed { epoch },
            Some(_) => self.take_over(epoch),
        }
    }

    fn take_over(&mut self, epoch: Epoch) -> State {
        if self.rules.takeover_delay {
            State::Takeover { epoch }
        } else {
            self.succeed(Some(epoch))
        }
    }

    /// Creates the epoch after this one, the first if there never was one.
    fn succeed(&mut self, epoch: Option<Epoch>) -> State {
        let Some(next) = epoch.map_or(Some(Epoch::FIRST), Epoch::next) else {
            return State::Failed(Failure::Exhausted);
        };
        if self.greatest >= Some(next) {
            return self.find();
        }
        State::NeedNonce { epoch: next, tried: Vec::new() }
    }

    fn created(&mut self, epoch: Epoch, tried: Vec<Nonce>, answer: Answer) -> State {
        match answer {
            Answer::Done { etag } => {
                let heartbeat = tried.len() as u64;
                let nonce = *tried.last().expect("a create is entered with its nonce in `tried`");
                self.confirm(Held { epoch, nonce, etag, heartbeat, sent: heartbeat })
            }
            // Not seen until it is read: the winner of the race may have failed after all.
            Answer::Refused => State::ReadOwn { epoch, tried },
            _ if tried.len() >= MAX_CREATE_ATTEMPTS => self.find().paused(),
            _ => State::NeedNonce { epoch, tried }.paused(),
        }
    }

    fn read_own(&mut self, tried: Vec<Nonce>, now: Sighting) -> State {
        let epoch = now.epoch;
        self.saw(epoch);
        let mine = tried.iter().position(|nonce| Some(*nonce) == now.seen.nonce);
        match mine {
            Some(attempt) if now.seen.ended.is_none() => self.confirm(Held {
                epoch,
                nonce: tried[attempt],
                etag: now.etag,
                heartbeat: attempt as u64 + 1,
                sent: tried.len() as u64,
            }),
            // Who lost the race follows its winner: an unsealed epoch object is the current one,
            // and a look at the listing would cost 12 times as much as the poll that comes anyway.
            None if now.seen.nonce.is_some() && now.seen.ended.is_none() => self.enter(now),
            _ => self.find(),
        }
    }

    fn confirm(&mut self, held: Held) -> State {
        self.saw(held.epoch);
        State::Confirm { beyond: SuccessorSearch::new(held.epoch.get()), held }
    }

    fn confirmed(
        &mut self,
        held: Held,
        mut beyond: SuccessorSearch,
        page: Listing,
    ) -> (State, Option<Event>) {
        match beyond.handle(page) {
            SuccessorStatus::NotYet => (State::Confirm { held, beyond }, None),
            SuccessorStatus::Yes { greatest, .. } => {
                self.saw(greatest);
                (State::SealOwn { held }, None)
            }
            SuccessorStatus::No => {
                let (leading, granted) = Leading::granted(held);
                (State::Lead(leading), Some(granted))
            }
        }
    }

    fn saw(&mut self, epoch: Epoch) {
        self.greatest = self.greatest.max(Some(epoch));
    }

    fn find(&self) -> State {
        State::Find { search: Search::new(self.greatest), suspect: None }
    }
}

#[cfg(test)]
mod tests;
