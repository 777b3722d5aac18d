//! The state machine of either layout: the driver, and whatever tests it, sees no other.

use super::candidate::Candidate;
use super::message::{Event, Input, Rules};
use super::message::{Nonce, Sighting, Step};
use super::single;
use crate::epoch::Epoch;
use crate::protocol::layout::Layout;

/// A candidate or observer of an election in either layout.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Machine {
    EpochFiles(Candidate),
    SingleObject(single::SingleCandidate),
}

impl Machine {
    /// A participant that has seen epochs up to `greatest`.
    pub fn new(layout: Layout, rules: Rules, greatest: Option<Epoch>) -> Machine {
        match layout {
            Layout::EpochFiles => Machine::EpochFiles(Candidate::new(rules, greatest)),
            Layout::SingleObject => {
                Machine::SingleObject(single::SingleCandidate::new(rules, greatest))
            }
        }
    }

    /// Campaigns anew, after a leadership has ended.
    pub fn restart(&mut self) {
        match self {
            Machine::EpochFiles(machine) => machine.restart(),
            Machine::SingleObject(machine) => machine.restart(),
        }
    }

    /// The greatest epoch seen to exist.
    pub fn greatest(&self) -> Option<Epoch> {
        match self {
            Machine::EpochFiles(machine) => machine.greatest(),
            Machine::SingleObject(machine) => machine.greatest(),
        }
    }

    /// The nonce under which it leads.
    pub fn nonce(&self) -> Option<Nonce> {
        match self {
            Machine::EpochFiles(machine) => machine.nonce(),
            Machine::SingleObject(machine) => machine.nonce(),
        }
    }

    /// The epoch followed, as it was last read, while following.
    pub fn followed(&self) -> Option<&Sighting> {
        match self {
            Machine::EpochFiles(machine) => machine.followed(),
            Machine::SingleObject(machine) => machine.followed(),
        }
    }

    /// Whether the next LIST only looks for the newest epoch.
    pub fn looks_for_the_newest(&self) -> bool {
        match self {
            Machine::EpochFiles(machine) => machine.looks_for_the_newest(),
            Machine::SingleObject(_) => false,
        }
    }

    /// What to do next.
    pub fn step(&self) -> Step {
        match self {
            Machine::EpochFiles(machine) => machine.step(),
            Machine::SingleObject(machine) => machine.step(),
        }
    }

    /// Takes an input. One that does not fit the state changes nothing: the driver may be late.
    pub fn handle(&mut self, input: Input) -> Option<Event> {
        match self {
            Machine::EpochFiles(machine) => machine.handle(input),
            Machine::SingleObject(machine) => machine.handle(input),
        }
    }
}
