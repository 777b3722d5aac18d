//! The state machine of one candidate or observer in `Layout::EpochFiles` (E1 to E20).
//!
//! [`Candidate::step`] returns the next action, and [`Candidate::handle`] takes the result of this
//! action. At most one request is under way. The lapse of a lease is an input, so the machine has
//! no clock. The driver decides on times, jitter and retries.

mod state;

use state::{CandidateState, Suspect};

use super::find::{Listing, Progress, Search, SuccessorSearch, SuccessorStatus};
use super::leader::{HeldEpoch, LeaderNext, LeadingState};
use super::message::{
    Answer, EpochEnd, Event, Failure, Input, Lost, Nonce, Request, Rules, Seen, Sighting, Step,
    Wait, Write,
};
use crate::epoch::Epoch;
use crate::protocol::layout::Layout;

/// The state machine of a candidate or observer in [`Layout::EpochFiles`].
///
/// [`Machine`](super::machine::Machine) documents the methods and the inputs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Candidate {
    pub(super) rules: Rules,
    /// The greatest epoch seen. This candidate creates and wins only greater epochs (E15).
    greatest: Option<Epoch>,
    state: CandidateState,
}

/// After this number of creates with unknown effects, the candidate searches again (E12).
const MAX_CREATE_ATTEMPTS: usize = 16;

impl Candidate {
    /// Returns a candidate or an observer. The greatest epoch that it has seen is `greatest`.
    pub fn new(rules: Rules, greatest: Option<Epoch>) -> Candidate {
        let search = Search::new(greatest);
        Candidate { rules, greatest, state: CandidateState::Find { search, suspect: None } }
    }

    /// Starts another campaign after a leadership has ended.
    pub fn restart(&mut self) {
        self.state = self.find();
    }

    /// Returns the greatest epoch seen.
    pub fn greatest(&self) -> Option<Epoch> {
        self.greatest
    }

    /// Returns the nonce of the current leadership.
    pub fn nonce(&self) -> Option<Nonce> {
        match &self.state {
            CandidateState::Lead(leading) => Some(leading.nonce()),
            _ => None,
        }
    }

    /// Returns the last reading of the followed epoch.
    pub fn followed(&self) -> Option<&Sighting> {
        match &self.state {
            CandidateState::Follow { sighting } | CandidateState::Poll { sighting } => {
                Some(sighting)
            }
            _ => None,
        }
    }

    /// Returns true if the next LIST only searches for the newest epoch (N7). The answer to such a
    /// LIST may omit a greater epoch. Any other LIST must show all epochs.
    pub fn searches_for_the_newest(&self) -> bool {
        matches!(self.state, CandidateState::Find { suspect: None, .. })
    }

    /// Returns the next action.
    pub fn step(&self) -> Step {
        Step::Request(match &self.state {
            CandidateState::Find { search, .. } => Request::List(search.next_page().clone()),
            CandidateState::Read { epoch } | CandidateState::ReadOwn { epoch, .. } => {
                Request::Get { epoch: Some(*epoch), unless: None }
            }
            CandidateState::Poll { sighting } if !sighting.is_foreign() => {
                Request::Get { epoch: Some(sighting.epoch), unless: Some(sighting.etag.clone()) }
            }
            CandidateState::Poll { sighting } | CandidateState::LookAgain { sighting } => {
                Request::Get { epoch: Some(sighting.epoch), unless: None }
            }
            CandidateState::Seal { sighting } => Request::Seal {
                epoch: sighting.epoch,
                etag: sighting.etag.clone(),
                nonce: sighting.seen.nonce,
                heartbeat: sighting.seen.heartbeat.saturating_add(1),
                ended: EpochEnd::Lapsed,
            },
            CandidateState::Create { epoch, tried } => Request::Create {
                epoch: *epoch,
                write: Write {
                    nonce: *tried.last().expect("the state `Create` has a nonce in `tried`"),
                    heartbeat: tried.len() as u64,
                },
            },
            CandidateState::Confirm { beyond, .. } => Request::List(beyond.next_page().clone()),
            CandidateState::SealOwn { held } => held.give_up(),
            CandidateState::Lead(leading) => return leading.step(Layout::EpochFiles),
            CandidateState::NeedNonce { .. } => return Step::Nonce,
            CandidateState::Follow { .. } => return Step::Wait(Wait::Follow),
            CandidateState::Deposed { .. } => return Step::Wait(Wait::Deposed),
            CandidateState::Takeover { .. } => return Step::Wait(Wait::Takeover),
            CandidateState::NoLeader => return Step::Wait(Wait::NoLeader),
            CandidateState::Pause(_) => return Step::Wait(Wait::Retry),
            CandidateState::Over => return Step::Wait(Wait::Over),
            CandidateState::Denied(_) => return Step::Failed(Failure::Denied),
            CandidateState::Failed(failure) => return Step::Failed(*failure),
        })
    }

    /// Takes an input. An input that does not fit the state changes nothing.
    pub fn handle(&mut self, input: Input) -> Option<Event> {
        if matches!(input, Input::Answer(_)) && !matches!(self.step(), Step::Request(_)) {
            return None;
        }
        let state = std::mem::replace(&mut self.state, CandidateState::Over);
        let (state, event) = match state {
            CandidateState::Lead(leading) => self.lead(leading, input),
            state => match input {
                Input::Answer(Answer::Denied) => (self.denied(state), None),
                Input::Answer(Answer::Unsafe) => (CandidateState::Failed(Failure::Unsafe), None),
                Input::Answer(answer) => self.answered(state, answer),
                input => (self.told(state, input), None),
            },
        };
        self.state = state;
        event
    }

    fn lead(&mut self, leading: LeadingState, input: Input) -> (CandidateState, Option<Event>) {
        match leading.handle(Layout::EpochFiles, self.rules, input) {
            LeaderNext::Leads(leading, event) => (CandidateState::Lead(leading), event),
            LeaderNext::Abandoned(held) => (CandidateState::SealOwn { held }, None),
            LeaderNext::Lost(lost) => {
                if let Lost::Superseded(by) = lost {
                    self.saw(by);
                }
                (CandidateState::Over, Some(Event::Lost(lost)))
            }
        }
    }

    fn told(&mut self, state: CandidateState, input: Input) -> CandidateState {
        match (state, input) {
            (CandidateState::Pause(state) | CandidateState::Denied(state), Input::Resume) => *state,
            (CandidateState::Follow { sighting }, Input::PollDue) => {
                CandidateState::Poll { sighting }
            }
            // If this epoch has no seal, only a LIST shows that a peer created the next epoch.
            (CandidateState::Follow { .. }, Input::Lapsed) if self.rules.observer => self.find(),
            (CandidateState::Follow { sighting }, Input::Lapsed) if sighting.is_foreign() => {
                CandidateState::LookAgain { sighting }
            }
            (CandidateState::Follow { sighting }, Input::Lapsed) => {
                CandidateState::Seal { sighting }
            }
            (CandidateState::NoLeader, Input::PollDue) => self.find(),
            (CandidateState::Deposed { epoch }, Input::Lapsed) => self.take_over(epoch),
            // The timer of another candidate may have started earlier, so the next epoch may exist.
            (CandidateState::Deposed { .. }, Input::PollDue) => self.find(),
            (CandidateState::Takeover { epoch }, Input::TakeoverOver) => self.succeed(Some(epoch)),
            (CandidateState::NeedNonce { epoch, mut tried }, Input::Nonce(nonce)) => {
                tried.push(nonce);
                CandidateState::Create { epoch, tried }
            }
            (state, _) => state,
        }
    }

    fn answered(
        &mut self,
        state: CandidateState,
        answer: Answer,
    ) -> (CandidateState, Option<Event>) {
        let state = match (state, answer) {
            (CandidateState::Find { search, suspect }, Answer::Listed(page)) => {
                self.searched(search, suspect, page)
            }
            (CandidateState::Confirm { held, beyond }, Answer::Listed(page)) => {
                return self.confirmed(held, beyond, page);
            }
            // The candidate ignores the answer, because a failure of this seal does no harm.
            (CandidateState::SealOwn { .. }, _) => self.find(),
            (CandidateState::Read { .. }, Answer::Found { sighting, .. }) => self.enter(sighting),
            (CandidateState::Poll { sighting }, Answer::Found { sighting: now, .. }) => {
                self.polled(&sighting, now)
            }
            (CandidateState::Poll { sighting }, Answer::NotModified) => {
                CandidateState::Follow { sighting }
            }
            (CandidateState::LookAgain { sighting }, Answer::Found { sighting: now, touched }) => {
                if touched || now != sighting {
                    self.polled(&sighting, now)
                } else {
                    CandidateState::Seal { sighting }
                }
            }
            // A compactor deleted the epoch object after the last reading.
            (CandidateState::Poll { .. } | CandidateState::LookAgain { .. }, Answer::Missing) => {
                self.find()
            }
            (CandidateState::Read { .. } | CandidateState::ReadOwn { .. }, Answer::Missing) => {
                self.find().paused()
            }
            (CandidateState::Seal { sighting }, Answer::Done { .. }) => {
                self.take_over(sighting.epoch)
            }
            // A pause prevents a busy loop if GETs find the object but seals do not.
            (CandidateState::Seal { .. }, Answer::Missing) => self.find().paused(),
            (CandidateState::Seal { sighting }, Answer::Refused | Answer::Unknown) => {
                CandidateState::Read { epoch: sighting.epoch }.paused()
            }
            (CandidateState::Create { epoch, tried }, answer) => self.created(epoch, tried, answer),
            (CandidateState::ReadOwn { tried, .. }, Answer::Found { sighting, .. }) => {
                self.read_own(tried, sighting)
            }
            (
                CandidateState::Read { epoch }
                | CandidateState::ReadOwn { epoch, .. }
                | CandidateState::Poll { sighting: Sighting { epoch, .. } }
                | CandidateState::LookAgain { sighting: Sighting { epoch, .. } },
                Answer::Unreadable,
            ) => {
                self.saw(epoch);
                CandidateState::Failed(Failure::Unreadable(epoch))
            }
            // The answer is unknown or does not fit the request, so retry.
            (CandidateState::Poll { sighting }, _) => CandidateState::Follow { sighting }.paused(),
            (state, _) => state.paused(),
        };
        (state, None)
    }

    fn searched(
        &mut self,
        mut search: Search,
        suspect: Option<Suspect>,
        page: Listing,
    ) -> CandidateState {
        match search.handle(page) {
            Progress::More => CandidateState::Find { search, suspect },
            Progress::Newest(None) if self.rules.observer => CandidateState::NoLeader,
            Progress::Newest(None) => self.succeed(None),
            Progress::Newest(Some(epoch)) => {
                self.saw(epoch);
                if suspect == Some(Suspect::Denied(epoch)) {
                    return CandidateState::Read { epoch }.denied();
                }
                CandidateState::Read { epoch }
            }
            Progress::KnownIsGone(epoch) if suspect == Some(Suspect::Gone) => {
                CandidateState::Failed(Failure::NewestDeleted(epoch))
            }
            Progress::KnownIsGone(_) => {
                let search = Search::new(self.greatest);
                CandidateState::Find { search, suspect: Some(Suspect::Gone) }.paused()
            }
        }
    }

    /// Returns the state after a denial. Without permission to list, S3 answers 403 to the GET of a
    /// missing object. So after a denied GET the candidate first sends a LIST (E17).
    fn denied(&mut self, state: CandidateState) -> CandidateState {
        let list = |epoch| CandidateState::Find {
            search: Search::new(self.greatest),
            suspect: Some(Suspect::Denied(epoch)),
        };
        match state {
            CandidateState::SealOwn { .. } => self.find(),
            CandidateState::Read { epoch }
            | CandidateState::Poll { sighting: Sighting { epoch, .. } }
            | CandidateState::LookAgain { sighting: Sighting { epoch, .. } } => list(epoch),
            // A pause prevents a busy loop if the store always refuses to create the object.
            CandidateState::ReadOwn { epoch, .. } => list(epoch).paused(),
            CandidateState::Find { .. } => self.find().denied(),
            // The denied create may still take effect, so the next create has another nonce.
            CandidateState::Create { epoch, tried } if tried.len() < MAX_CREATE_ATTEMPTS => {
                CandidateState::NeedNonce { epoch, tried }.denied()
            }
            CandidateState::Create { .. } => self.find().denied(),
            // A peer without nonces may renew with the same ETag, so read again before a seal.
            CandidateState::Seal { sighting } => CandidateState::LookAgain { sighting }.denied(),
            state => state.denied(),
        }
    }

    fn polled(&mut self, before: &Sighting, now: Sighting) -> CandidateState {
        // A new nonce shows that the store was wiped, or that the epoch was created again.
        if before.seen.nonce == now.seen.nonce { self.enter(now) } else { self.find() }
    }

    /// Returns the state after a reading of the newest epoch object.
    fn enter(&mut self, sighting: Sighting) -> CandidateState {
        let epoch = sighting.epoch;
        self.saw(epoch);
        let Seen { ended, reclaimable, .. } = sighting.seen;
        match ended {
            None if self.rules.observer => CandidateState::Follow { sighting },
            Some(_) if self.rules.observer => CandidateState::NoLeader,
            None if reclaimable => CandidateState::Seal { sighting },
            None => CandidateState::Follow { sighting },
            Some(EpochEnd::Resigned) => self.succeed(Some(epoch)),
            Some(_) if sighting.seen.is_waited_for() => CandidateState::Deposed { epoch },
            Some(_) => self.take_over(epoch),
        }
    }

    fn take_over(&mut self, epoch: Epoch) -> CandidateState {
        if self.rules.takeover_delay {
            CandidateState::Takeover { epoch }
        } else {
            self.succeed(Some(epoch))
        }
    }

    /// Starts the creation of the epoch after `epoch`, or of the first epoch if no epoch exists.
    fn succeed(&mut self, epoch: Option<Epoch>) -> CandidateState {
        let Some(next) = epoch.map_or(Some(Epoch::FIRST), Epoch::next) else {
            return CandidateState::Failed(Failure::Exhausted);
        };
        if self.greatest >= Some(next) {
            return self.find();
        }
        CandidateState::NeedNonce { epoch: next, tried: Vec::new() }
    }

    fn created(&mut self, epoch: Epoch, tried: Vec<Nonce>, answer: Answer) -> CandidateState {
        match answer {
            Answer::Done { etag } => {
                let heartbeat = tried.len() as u64;
                let nonce = *tried.last().expect("the state `Create` has a nonce in `tried`");
                self.confirm(HeldEpoch { epoch, nonce, etag, heartbeat, sent: heartbeat })
            }
            // Another create may have caused the refusal, and may still fail itself.
            Answer::Refused => CandidateState::ReadOwn { epoch, tried },
            _ if tried.len() >= MAX_CREATE_ATTEMPTS => self.find().paused(),
            _ => CandidateState::NeedNonce { epoch, tried }.paused(),
        }
    }

    fn read_own(&mut self, tried: Vec<Nonce>, now: Sighting) -> CandidateState {
        let epoch = now.epoch;
        self.saw(epoch);
        let mine = tried.iter().position(|nonce| Some(*nonce) == now.seen.nonce);
        match mine {
            Some(attempt) if now.seen.ended.is_none() => self.confirm(HeldEpoch {
                epoch,
                nonce: tried[attempt],
                etag: now.etag,
                heartbeat: attempt as u64 + 1,
                sent: tried.len() as u64,
            }),
            // The loser of the race follows the winner (E11). An unsealed epoch object is the
            // newest one. So the candidate needs no LIST, which costs 12 times as much as a poll.
            None if now.seen.nonce.is_some() && now.seen.ended.is_none() => self.enter(now),
            _ => self.find(),
        }
    }

    fn confirm(&mut self, held: HeldEpoch) -> CandidateState {
        self.saw(held.epoch);
        CandidateState::Confirm { beyond: SuccessorSearch::new(held.epoch.get()), held }
    }

    fn confirmed(
        &mut self,
        held: HeldEpoch,
        mut beyond: SuccessorSearch,
        page: Listing,
    ) -> (CandidateState, Option<Event>) {
        match beyond.handle(page) {
            SuccessorStatus::NotYet => (CandidateState::Confirm { held, beyond }, None),
            SuccessorStatus::Yes { greatest, .. } => {
                self.saw(greatest);
                (CandidateState::SealOwn { held }, None)
            }
            SuccessorStatus::No => {
                let (leading, granted) = LeadingState::granted(held);
                (CandidateState::Lead(leading), Some(granted))
            }
        }
    }

    fn saw(&mut self, epoch: Epoch) {
        self.greatest = self.greatest.max(Some(epoch));
    }

    fn find(&self) -> CandidateState {
        CandidateState::Find { search: Search::new(self.greatest), suspect: None }
    }
}

#[cfg(test)]
mod tests;
