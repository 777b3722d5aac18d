//! The state machine of both layouts. The driver and the tests use only this type.

use super::candidate::Candidate;
use super::message::{Event, Input, Rules};
use super::message::{Nonce, Sighting, Step};
use super::single;
use crate::epoch::Epoch;
use crate::protocol::layout::Layout;

/// A candidate or observer of an election in either layout.
///
/// The machine is a value without IO, clock or randomness. The driver uses three kinds of methods:
///
/// - [`step`](Machine::step) returns the next action. The method changes nothing, so a driver may
///   call it at any time.
/// - [`handle`](Machine::handle) takes the result of that action. Only `handle` and
///   [`restart`](Machine::restart) change the state. `handle` returns an event if an epoch was
///   granted, or a lease was extended or lost.
/// - Getters return the machine's knowledge: [`greatest`](Machine::greatest),
///   [`nonce`](Machine::nonce), [`followed`](Machine::followed).
///
/// A driver repeats three actions: it calls `step`, carries out the step, and passes one input to
/// `handle`. At most one request is under way. The machine ignores an input that does not fit the
/// current step. So an input that arrives late, after a change of the step, does no harm. Each step
/// expects these inputs:
///
/// | step | inputs |
/// | --- | --- |
/// | [`Step::Request`] | [`Input::Answer`] |
/// | [`Step::Nonce`] | [`Input::Nonce`] |
/// | [`Wait::Follow`](super::message::Wait::Follow) | [`Input::PollDue`], [`Input::Lapsed`] |
/// | [`Wait::Deposed`](super::message::Wait::Deposed) | [`Input::Lapsed`], [`Input::PollDue`] |
/// | [`Wait::Takeover`](super::message::Wait::Takeover) | [`Input::TakeoverOver`] |
/// | [`Wait::NoLeader`](super::message::Wait::NoLeader) | [`Input::PollDue`] |
/// | [`Wait::Lead`](super::message::Wait::Lead) | [`Input::RenewDue`], [`Input::LookDue`], [`Input::Resign`] |
/// | [`Wait::Retry`](super::message::Wait::Retry) | [`Input::Resume`]; for a leader also [`Input::Resign`] |
/// | [`Wait::Over`](super::message::Wait::Over) | none: call [`restart`](Machine::restart) |
/// | [`Step::Failed`], denied | [`Input::Resume`] |
///
/// A leader also takes [`Input::LeaseEnded`] and [`Input::Abandon`] at any step.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Machine {
    EpochFiles(Candidate),
    SingleObject(single::SingleCandidate),
}

impl Machine {
    /// Returns a candidate or an observer. `greatest` is the greatest epoch that the process has
    /// seen.
    pub fn new(layout: Layout, rules: Rules, greatest: Option<Epoch>) -> Machine {
        match layout {
            Layout::EpochFiles => Machine::EpochFiles(Candidate::new(rules, greatest)),
            Layout::SingleObject => {
                Machine::SingleObject(single::SingleCandidate::new(rules, greatest))
            }
        }
    }

    /// Starts another campaign after a leadership has ended.
    pub fn restart(&mut self) {
        match self {
            Machine::EpochFiles(machine) => machine.restart(),
            Machine::SingleObject(machine) => machine.restart(),
        }
    }

    /// Returns the greatest epoch seen.
    pub fn greatest(&self) -> Option<Epoch> {
        match self {
            Machine::EpochFiles(machine) => machine.greatest(),
            Machine::SingleObject(machine) => machine.greatest(),
        }
    }

    /// Returns the nonce of the current leadership.
    pub fn nonce(&self) -> Option<Nonce> {
        match self {
            Machine::EpochFiles(machine) => machine.nonce(),
            Machine::SingleObject(machine) => machine.nonce(),
        }
    }

    /// Returns the last reading of the followed epoch.
    pub fn followed(&self) -> Option<&Sighting> {
        match self {
            Machine::EpochFiles(machine) => machine.followed(),
            Machine::SingleObject(machine) => machine.followed(),
        }
    }

    /// Returns true if the next LIST only searches for the newest epoch, so its answer may omit
    /// epochs.
    pub fn searches_for_the_newest(&self) -> bool {
        match self {
            Machine::EpochFiles(machine) => machine.searches_for_the_newest(),
            Machine::SingleObject(_) => false,
        }
    }

    /// Returns the next action.
    pub fn step(&self) -> Step {
        match self {
            Machine::EpochFiles(machine) => machine.step(),
            Machine::SingleObject(machine) => machine.step(),
        }
    }

    /// Takes an input. An input that does not fit the state changes nothing, so a late input does
    /// no harm.
    pub fn handle(&mut self, input: Input) -> Option<Event> {
        match self {
            Machine::EpochFiles(machine) => machine.handle(input),
            Machine::SingleObject(machine) => machine.handle(input),
        }
    }
}
