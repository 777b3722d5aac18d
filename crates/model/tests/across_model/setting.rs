//! The settings of a run of the model.

use super::store::Number;

/// The participants, the possible events, and the number of each event.
#[derive(Debug, Clone)]
pub struct Setting {
    pub name: &'static str,
    pub stores: usize,
    pub candidates: usize,
    /// True if the first candidate leads epoch 1 at all stores at the start.
    pub led: bool,
    /// The greatest epoch that a candidate creates.
    pub last_epoch: Number,
    pub budget: Budget,
    /// True if all clocks are honest: no follower's timer ends before the lease that it follows.
    pub honest: bool,
    /// True in a random walk.
    pub walks: bool,
    pub broken: Broken,
    /// Names of the properties that must hold in all states.
    pub always: Vec<&'static str>,
    /// Names of the properties that must hold in at least one state.
    pub sometimes: Vec<&'static str>,
}

/// Number of remaining events of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// The sender abandons a request. The store may apply a write later or never.
    pub gives_up: u8,
    /// The answer to a request stays in transit, while the process continues.
    pub late: u8,
    /// A copy of an applied write stays in transit.
    pub twice: u8,
    /// A LIST is cut into two pages.
    pub short_pages: u8,
    pub crashes: u8,
    pub renewals: u8,
    pub resignations: u8,
    /// Depositions of the newest epoch at one store.
    pub depositions: u8,
    /// Deletions of the least epoch at one store.
    pub compactions: u8,
    /// Losses of the contents of a store, each followed by a replacement.
    pub replacements: u8,
    /// Moves of a store. Some processes still reach the old contents.
    pub moves: u8,
}

impl Budget {
    pub const NONE: Budget = Budget {
        gives_up: 0,
        late: 0,
        twice: 0,
        short_pages: 0,
        crashes: 0,
        renewals: 0,
        resignations: 0,
        depositions: 0,
        compactions: 0,
        replacements: 0,
        moves: 0,
    };
}

/// The rule that a run breaks, and the behaviour in its place. To break a rule, the model changes
/// inputs and outputs of the machine. Q1 to Q10 are rules of `tenure::protocol::across`. An answer
/// *counts* if the machine uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// Q1: each LIST counts, even without a marker.
    NoMarker,
    /// Q1: a LIST counts, although its greatest epoch is lower than before.
    MayFall,
    /// Q2: a LIST counts although it was sent before the seal was seen.
    AnyListMarks,
    /// Q2: a deposed epoch is closed immediately, without the wait for its holder's lease.
    NoWait,
    /// Q2: the next epoch is created before the newest one is closed.
    NoClose,
    /// Q2: an epoch that is sealed at one store counts as closed.
    ClosedByOne,
    /// Q4: an epoch that lapsed at one store counts as lapsed at all stores.
    TimersOfOthers,
    /// Q4: an absent object counts as lapsed immediately.
    AbsentLapses,
    /// Q4: absent objects get no placeholder.
    NoPlaceholder,
    /// Q6: a create that the store has not answered counts.
    MinorityDone,
    /// Q6: the LIST after the creates is omitted.
    NoConfirm,
    /// Q6: the LIST at a store is sent right after the create at this store.
    ListsEarly,
    /// Q6: after a repeated create, the LISTs at the other stores stay valid.
    KeepsLists,
    /// Q6: a replaced store keeps its generation.
    SameGeneration,
    /// Q6: after a change of the generation, the last reading of the newest epoch still counts.
    KeepsKnown,
    /// Objects: answers from the old contents of a store count, although a note names the new
    /// contents.
    IgnoresNotes,
    /// Q7: the lease lasts as long as the longest lease at one store.
    GreatestLease,
    /// Q8: a renewal replaces the object without `If-Match`.
    NoCondition,
    /// Q8: a join counts without a LIST.
    JoinsUnconfirmed,
    /// Q10: the compactor deletes the newest epoch of a store.
    CompactsNewest,
    /// A replacement lists only one other store.
    ListsOne,
    /// A replacement does not overwrite an object that a candidate created in the new contents.
    RestoreKeepsObject,
    /// A replacement writes no epoch.
    NoRestoredEpoch,
    /// A replacement seals its epoch as lapsed, so no successor waits.
    RestoredWithoutWait,
    /// A moved store keeps its old marker.
    MoveKeepsMarker,
    /// The newest epoch of a moved store is not deposed in the old contents.
    MoveDeposesNothing,
}

/// The invariants that hold under any clocks.
pub const TIMELESS: &[&str] = &["I1", "I2", "I5", "Q4"];
pub const ALL: &[&str] = &["I1", "I2", "I5", "I8", "Q4"];

impl Setting {
    /// Returns a setting with three stores and two candidates, up to epoch 2.
    pub fn new(name: &'static str, budget: Budget) -> Setting {
        Setting {
            name,
            stores: 3,
            candidates: 2,
            led: false,
            last_epoch: 2,
            budget,
            honest: true,
            walks: false,
            broken: Broken::Nothing,
            always: ALL.to_vec(),
            sometimes: Vec::new(),
        }
    }
}
