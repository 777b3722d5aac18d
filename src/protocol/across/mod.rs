#![doc = include_str!("rules.md")]
//!
//! [`EpochEnd::GivenUp`]: super::message::EpochEnd::GivenUp

mod attempt;
mod find;
mod lead;
pub mod message;
mod part;

use message::{AcrossEvent, AcrossInput, AcrossStep, AcrossWait, MAX_STORES, Marker, StoreFault};
use part::{Doing, Known, Own, Part};

use super::find::Listing;
use super::message::{Answer, EpochEnd, Failure, Input, Nonce, Seen, Sighting};
use crate::epoch::Epoch;

/// A candidate or an observer of an election across stores.
///
/// The machine is a value without IO, clock or randomness. Three kinds of methods drive it:
///
/// - [`step`](Across::step) returns the next action at one store, and [`wait`](Across::wait) the
///   input that the whole machine needs. Both change nothing.
/// - [`handle`](Across::handle) takes an input, and is the only method that changes the machine.
/// - Getters return the machine's knowledge: [`newest`](Across::newest),
///   [`counted`](Across::counted), [`leader`](Across::leader).
///
/// A driver has at most one request under way at each store. It may send the requests of several
/// stores at the same time. After each input it calls `step` again for all stores. The machine
/// ignores an input that does not fit its state. The inputs `Lapsed` and `WaitOver` contain no
/// ETag. So the driver passes them only when the timer of the followed object has ended, and never
/// for an older timer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Across {
    observer: bool,
    parts: Vec<Part>,
    /// The greatest epoch that any store has shown.
    newest: Option<Epoch>,
    /// Greatest known generation of each store.
    generations: [u32; MAX_STORES],
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// Find, follow and close the newest epoch (Q1 to Q4).
    Find,
    /// The newest epoch is closed. The next attempt needs a nonce.
    NeedNonce {
        epoch: Epoch,
    },
    /// Create and confirm (Q5 and Q6). `first` is the store that gets the first create. `spread` is
    /// true once the other stores get their creates.
    Attempt {
        epoch: Epoch,
        nonce: Nonce,
        first: usize,
        spread: bool,
    },
    /// The attempt has ended.
    Pause,
    Lead {
        epoch: Epoch,
        nonce: Nonce,
        resigning: bool,
    },
    Over,
    Failed(Failure),
}

impl Across {
    /// Returns a candidate or an observer of an election across this number of stores, 3 or 5.
    pub fn new(stores: usize, observer: bool) -> Across {
        assert!(matches!(stores, 3 | 5), "3 or 5 stores, not {stores}");
        let mut across = Across {
            observer,
            parts: vec![Part::new(); stores],
            newest: None,
            generations: [0; MAX_STORES],
            phase: Phase::Find,
        };
        across.schedule();
        across
    }

    /// Starts another campaign after a leadership has ended.
    pub fn restart(&mut self) {
        self.enter_find();
        self.schedule();
    }

    /// Returns the greatest epoch that any store has shown.
    pub fn newest(&self) -> Option<Epoch> {
        self.newest
    }

    /// Returns the epoch and the nonce of the attempt or of the leadership.
    pub fn own(&self) -> Option<(Epoch, Nonce)> {
        match self.phase {
            Phase::Attempt { epoch, nonce, .. } | Phase::Lead { epoch, nonce, .. } => {
                Some((epoch, nonce))
            }
            _ => None,
        }
    }

    /// Returns the heartbeat of the last write that counts for the lease at this store (Q7).
    pub fn counted(&self, store: usize) -> Option<u64> {
        match &self.parts[store].own {
            Own::Leading(leading) => Some(leading.heartbeat()),
            _ => None,
        }
    }

    /// Returns the last reading of the newest epoch at this store.
    pub fn followed(&self, store: usize) -> Option<&Sighting> {
        match &self.parts[store].known {
            Known::Unsealed { sighting, .. } => Some(sighting),
            _ => None,
        }
    }

    /// Returns true if the machine has received [`AcrossInput::Lapsed`] for the followed object, or
    /// for the absent object, at this store.
    pub fn has_lapsed(&self, store: usize) -> bool {
        matches!(
            self.parts[store].known,
            Known::Absent { lapsed: true } | Known::Unsealed { lapsed: true, .. }
        )
    }

    /// Returns the nonce that a majority of the stores shows in unsealed objects.
    pub fn leader(&self) -> Option<Nonce> {
        let nonces = (0..self.parts.len()).filter_map(|store| self.followed(store)?.seen.nonce);
        let nonces: Vec<Nonce> = nonces.collect();
        let held = |nonce: &&Nonce| nonces.iter().filter(|it| it == nonce).count();
        nonces.iter().find(|nonce| held(nonce) >= self.majority()).copied()
    }

    /// Returns true if the holder of the newest epoch has ended it. If another attempt holds a
    /// majority, an attempt that was abandoned at one store does not count as the holder.
    pub fn is_given_back(&self) -> bool {
        let leader = self.leader();
        self.parts.iter().any(|part| match part.known {
            Known::Sealed { ended: EpochEnd::Resigned, .. } => true,
            Known::Sealed { nonce, ended: EpochEnd::GivenUp, .. } => {
                leader.is_some() && nonce == leader
            }
            _ => false,
        })
    }

    /// Returns true if this process has lost its epoch at this store.
    pub fn is_lost(&self, store: usize) -> bool {
        matches!(self.parts[store].own, Own::Lost { .. })
    }

    /// Returns true if a majority of the stores has been listed, so the newest epoch is known (Q1).
    pub fn is_found(&self) -> bool {
        self.parts.iter().filter(|part| part.listed).count() >= self.majority()
    }

    /// Returns the end of the newest epoch at this store. Returns `Some(None)` if the store has no
    /// object of this epoch, and `None` if the object is unsealed or unread.
    pub fn ended(&self, store: usize) -> Option<Option<EpochEnd>> {
        match &self.parts[store].known {
            Known::Absent { .. } => Some(None),
            Known::Sealed { ended, .. } => Some(Some(*ended)),
            Known::Unsealed { .. } | Known::Unread => None,
        }
    }

    /// Returns the reason why this store does not count towards the majority.
    pub fn fault(&self, store: usize) -> Option<StoreFault> {
        self.parts[store].fault
    }

    /// Returns the next action at this store.
    pub fn step(&self, store: usize) -> AcrossStep {
        match self.parts[store].step() {
            Ok(request) => AcrossStep::Request(request),
            Err(wait) => AcrossStep::Wait(wait),
        }
    }

    /// Returns the input that the whole machine waits for.
    pub fn wait(&self) -> AcrossWait {
        match self.phase {
            Phase::Find => AcrossWait::Stores,
            Phase::NeedNonce { .. } => AcrossWait::Nonce,
            Phase::Attempt { spread: false, .. } => AcrossWait::Spread,
            Phase::Attempt { .. } => AcrossWait::Stores,
            Phase::Pause => AcrossWait::Pause,
            Phase::Lead { .. } => AcrossWait::Lead,
            Phase::Over => AcrossWait::Over,
            Phase::Failed(failure) => AcrossWait::Failed(failure),
        }
    }

    /// Handles an input. An input that does not fit the state changes nothing.
    pub fn handle(&mut self, input: AcrossInput) -> Option<AcrossEvent> {
        let event = match input {
            AcrossInput::Listed { store, page, marker } => {
                self.listed(store, page, marker);
                None
            }
            AcrossInput::Answer { store, answer } => self.answered(store, answer),
            AcrossInput::Nonce(nonce) => {
                self.begin(nonce);
                None
            }
            AcrossInput::StoreResume { store } => self.resume(store),
            AcrossInput::PollDue { store } => {
                self.poll(store);
                None
            }
            AcrossInput::Lapsed { store } => {
                self.parts[store].lapse();
                None
            }
            AcrossInput::WaitOver { store } => {
                if let Known::Sealed { waits, .. } = &mut self.parts[store].known {
                    *waits = false;
                }
                None
            }
            AcrossInput::SpreadDue => {
                self.spread();
                None
            }
            AcrossInput::Resume => {
                if self.phase == Phase::Pause {
                    self.enter_find();
                }
                None
            }
            AcrossInput::RenewDue { store } => self.lead(store, Input::RenewDue),
            AcrossInput::LeaseEnded => self.lease_ended(),
            AcrossInput::Resign => {
                self.resign();
                None
            }
        };
        let later = self.schedule();
        event.or(later)
    }

    fn resume(&mut self, store: usize) -> Option<AcrossEvent> {
        match &mut self.parts[store] {
            Part { doing: Doing::Idle, own: Own::Leading(_), .. } => {
                return self.lead(store, Input::Resume);
            }
            Part { doing: Doing::Pause(next), .. } => {
                self.parts[store].doing = std::mem::replace(next, Doing::Idle);
            }
            _ => {}
        }
        None
    }

    /// Handles the answer to a request other than LIST.
    fn answered(&mut self, store: usize, answer: Answer) -> Option<AcrossEvent> {
        let part = &mut self.parts[store];
        match std::mem::replace(&mut part.doing, Doing::Idle) {
            Doing::Idle => return self.lead(store, Input::Answer(answer)),
            doing @ Doing::Pause(_) => part.doing = doing,
            // The LIST failed.
            Doing::Find { .. } | Doing::Confirm { .. } => part.doing = Doing::pause(),
            Doing::Read { epoch, .. } => self.read(store, epoch, answer),
            Doing::Seal { sighting } => self.sealed(store, &sighting, &answer),
            Doing::Place { epoch } => self.placed(store, epoch, &answer),
            Doing::Create { epoch, write } => self.created(store, epoch, write, answer),
            Doing::ReadOwn { epoch, nonce } => return self.read_own(store, epoch, nonce, answer),
            // If the seal of an abandoned attempt fails, it is not repeated, because the object
            // lapses.
            Doing::GiveUp { .. } => {}
        }
        None
    }

    /// Handles a page of a listing.
    fn listed(&mut self, store: usize, page: Listing, marker: Option<Marker>) {
        let part = &mut self.parts[store];
        match std::mem::replace(&mut part.doing, Doing::Idle) {
            Doing::Find { search, marker: before } => {
                self.found(store, search, page, marker.or(before));
            }
            Doing::Confirm { beyond, after } => self.confirmed(store, beyond, after, page, marker),
            doing => part.doing = doing,
        }
    }

    /// Compares the marker and the greatest epoch of a LIST with all that is known. Returns false
    /// if the store does not count towards the majority.
    fn count(&mut self, store: usize, marker: Option<Marker>, greatest: Option<Epoch>) -> bool {
        let Some(Marker { generation, notes }) = marker else {
            return self.distrust(store, StoreFault::NoMarker);
        };
        for (other, noted) in notes.into_iter().enumerate().take(self.parts.len()) {
            self.generations[other] = self.generations[other].max(noted);
            let noted = self.generations[other];
            let old = self.parts[other].contents.is_some_and(|it| it.generation < noted);
            if old && other != store {
                self.distrust(other, StoreFault::Replaced { generation: noted });
            }
        }
        let part = &mut self.parts[store];
        if part.contents.is_some_and(|contents| contents.generation != generation) {
            part.void();
        }
        let noted = self.generations[store];
        if generation < noted {
            return self.distrust(store, StoreFault::Replaced { generation: noted });
        }
        let before = self.parts[store].contents.and_then(|contents| contents.greatest);
        if let Some(from) = before.filter(|before| Some(*before) > greatest) {
            return self.distrust(store, StoreFault::GreatestFell { from });
        }
        self.generations[store] = generation;
        let part = &mut self.parts[store];
        part.contents = Some(part::Contents { generation, greatest });
        part.fault = None;
        true
    }

    fn distrust(&mut self, store: usize, fault: StoreFault) -> bool {
        let part = &mut self.parts[store];
        part.fault = Some(fault);
        // The store counts again only if it shows at least the same greatest epoch, so this epoch
        // is kept.
        let contents = part.contents;
        part.void();
        part.contents = contents;
        false
    }

    fn saw(&mut self, epoch: Epoch) {
        if Some(epoch) > self.newest {
            self.newest = Some(epoch);
            self.parts.iter_mut().for_each(Part::forget);
        }
    }

    /// Returns the smallest number of stores that is a majority.
    fn majority(&self) -> usize {
        self.parts.len() / 2 + 1
    }

    fn stores(&self) -> std::ops::Range<usize> {
        0..self.parts.len()
    }

    /// Starts the next request at each idle store, and the next phase if the present phase is
    /// complete.
    fn schedule(&mut self) -> Option<AcrossEvent> {
        match self.phase {
            Phase::Find => {
                self.schedule_find();
                None
            }
            Phase::Attempt { epoch, nonce, first, spread } => {
                self.schedule_attempt(epoch, nonce, first, spread)
            }
            Phase::Lead { epoch, nonce, resigning } => self.schedule_lead(epoch, nonce, resigning),
            Phase::NeedNonce { .. } | Phase::Pause | Phase::Over | Phase::Failed(_) => {
                self.schedule_seals();
                None
            }
        }
    }

    /// At idle stores, seals the objects of this process's ended attempts.
    fn schedule_seals(&mut self) {
        for part in &mut self.parts {
            if part.doing == Doing::Idle && matches!(part.own, Own::Created { .. }) {
                let own = std::mem::replace(&mut part.own, Own::Free);
                let Own::Created { held, .. } = own else {
                    unreachable!("`own` is `Own::Created` here")
                };
                part.doing = Doing::GiveUp { held };
            }
        }
    }
}

/// Returns true if this object needs no wait, because its holder has ended the epoch at another
/// store (Q4).
fn is_waived(known: &Known, ended: &[Option<Nonce>]) -> bool {
    match known {
        Known::Absent { .. } => !ended.is_empty(),
        Known::Unsealed { sighting: Sighting { seen: Seen { nonce, .. }, .. }, .. } => {
            ended.contains(nonce)
        }
        Known::Sealed { .. } | Known::Unread => false,
    }
}

#[cfg(test)]
mod tests;
