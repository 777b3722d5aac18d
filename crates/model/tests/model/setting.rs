//! The settings of one run of the model checker.

use super::store::Number;

/// The participants of a model, the events that can occur, and the maximum number of each event.
#[derive(Debug, Clone)]
pub struct Setting {
    pub name: &'static str,
    pub candidates: usize,
    /// Additional participants of random walks.
    pub others: &'static [Role],
    /// Number of steps of a random walk, or 0 for an exhaustive run.
    pub steps: u16,
    pub compactors: usize,
    /// The greatest epoch of the model. A process that would create a greater epoch stops.
    pub last_epoch: Number,
    pub faults: Budget,
    /// Numbers of the foreign keys. A foreign key is not an epoch object, and sorts right after the
    /// epoch object with the same number.
    pub foreign_keys: &'static [Number],
    pub morling: Morling,
    pub verify_renewals: bool,
    /// True if the store lists keys in no order. A short page is then the first of two pages.
    pub unordered: bool,
    /// True if a create may be applied again after its epoch was compacted.
    pub creates_outlive_compaction: bool,
    /// True if the model remembers the abandoned creates of each candidate. The checker then
    /// requires that a candidate recognises its own epoch object.
    pub remembers: bool,
    /// True if no follower observes a lapse.
    pub never_lapses: bool,
    /// True if the model keeps the order of the candidates, so that a trace can name the
    /// candidates.
    pub named: bool,
    /// True if the model uses none of the reductions `World::drop_hopeless_writes`,
    /// `World::bring_into_line` and `Due`.
    pub unreduced: bool,
    /// Names of the properties that must hold in all states.
    pub always: Vec<&'static str>,
    /// Names of the properties that must hold in at least one state.
    pub sometimes: Vec<&'static str>,
    pub broken: Broken,
}

/// The kind of a participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    Candidate,
    /// A candidate with a takeover delay and a unique name. After a restart, the candidate may seal
    /// the epoch of its predecessor.
    Unique,
    Observer,
}

/// Number of events of each kind that may still occur. Some events are unlimited: the lapse of a
/// lease, the end of a lease, a GET of the next epoch, a poll, and a resignation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// The sender abandons a request after a timeout, a 409 or a 5xx. The store may apply the write
    /// later or never. A lost request or a lost answer is also an event of this kind.
    pub gives_up: u8,
    /// Writes that the store applies while a copy of the request remains in transit. The copy may
    /// arrive later.
    pub twice: u8,
    /// Answers that remain in transit after the store has served the request.
    pub late: u8,
    /// Writes of a foreign record that repeat its body.
    pub touches: u8,
    /// Pages of a listing that have only one key, although the listing has more keys.
    pub short_pages: u8,
    /// Crashes of a process, which restarts without its memory.
    pub crashes: u8,
    /// Depositions of the leader by an operator.
    pub depositions: u8,
    /// Early renewals of a leader.
    pub renewals: u8,
    /// Grants that the driver abandons.
    pub abandons: u8,
    /// Runs of a compactor.
    pub compactions: u8,
    /// Epochs that a peer decides to create. The peer follows Morling's post
    /// (docs/how-to/upgrade.md).
    pub foreign_creates: u8,
    /// An SDK resends a write that took effect. The second attempt fails, so the SDK returns 412.
    pub untrue_refusals: u8,
}

/// A peer that follows Morling's post (docs/how-to/upgrade.md). The peer creates lock files,
/// believes that it leads after each create, and rewrites the files. The peer never seals an epoch,
/// confirms a create or reads an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Morling {
    Absent,
    /// For the invariants I1 and I2 (docs/design/protocol.md), the peer's belief that it leads
    /// counts as a grant.
    Counts,
    /// For I1 and I2, only the grants of the candidates count, because the peer may create a
    /// compacted epoch again.
    TakesPart,
}

/// A broken rule. To break a rule, the model changes inputs and outputs of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    NoConfirm,
    ConfirmsFirst,
    NoSeal,
    ReusesBody,
    CompactsNewest,
    ResignsByDeleting,
    /// The state machine treats an unknown outcome of a write as a refusal.
    ConflictIsRefusal,
    /// The state machine does not recognise its own nonce.
    ForgetsItself,
    TrustsName,
    /// The state machine treats a page as the whole listing.
    OnePage,
    /// The state machine uses a listing of two pages without order.
    TornListing,
}

pub const LAWFUL: &[&str] = &["I1", "I2", "I3", "I4", "I5", "I6", "honest", "own", "no failure"];
pub const AMONG_ALL: &[&str] = &["I1", "I2", "I3"];
pub const SOMETIMES: &[&str] = &["S1", "S2", "three grants in a row"];

impl Setting {
    /// Returns a setting in which two candidates follow the protocol up to epoch 3, and these
    /// faults can occur. The setting has one compactor for each compaction in `faults`.
    pub fn new(name: &'static str, faults: Budget) -> Setting {
        Setting {
            name,
            candidates: 2,
            others: &[],
            steps: 0,
            compactors: usize::from(faults.compactions),
            last_epoch: 3,
            faults,
            foreign_keys: &[],
            morling: Morling::Absent,
            verify_renewals: false,
            unordered: false,
            creates_outlive_compaction: false,
            remembers: false,
            never_lapses: false,
            named: false,
            unreduced: false,
            always: LAWFUL.to_vec(),
            sometimes: Vec::new(),
            broken: Broken::Nothing,
        }
    }
}

impl Budget {
    pub const NONE: Budget = Budget {
        gives_up: 0,
        twice: 0,
        late: 0,
        touches: 0,
        short_pages: 0,
        crashes: 0,
        depositions: 0,
        renewals: 0,
        abandons: 0,
        compactions: 0,
        foreign_creates: 0,
        untrue_refusals: 0,
    };
    /// The budget of a run without faults. A leader may renew early once.
    pub const CALM: Budget = Budget { renewals: 1, ..Budget::NONE };
}
