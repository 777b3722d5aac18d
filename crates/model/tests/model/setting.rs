//! What a run of the checker is made of.

use super::store::Number;

/// Who takes part, what may happen to them, and how often.
#[derive(Debug, Clone)]
pub struct Setting {
    pub name: &'static str,
    pub candidates: usize,
    /// Others that take part in random walks.
    pub others: &'static [Role],
    /// How many steps a random walk has; 0 where all states are explored.
    pub steps: u16,
    pub compactors: usize,
    /// No greater epoch is created: whoever would is stuck, as if it had stopped.
    pub last_epoch: Number,
    pub faults: Budget,
    /// Foreign keys, each right after the epoch object of its number.
    pub foreign_keys: &'static [Number],
    pub morling: Morling,
    pub verify_renewals: bool,
    /// A create may be applied once more after its epoch was compacted.
    pub creates_outlive_compaction: bool,
    /// Keep in mind what a candidate sent and gave up, to see whether it takes its own epoch object
    /// for another's.
    pub remembers: bool,
    /// Nobody's lease ever lapses by a follower's clock.
    pub never_lapses: bool,
    /// Keep the candidates in their places, so that a trace can call them by name.
    pub named: bool,
    /// Leave out nothing that makes no difference: see `World::forget_what_cannot_matter`,
    /// `World::bring_into_line` and `Due`.
    pub unreduced: bool,
    /// The names of the properties that must hold, and of those that must be seen to happen.
    pub always: Vec<&'static str>,
    pub sometimes: Vec<&'static str>,
    pub broken: Broken,
}

/// What kind of participant a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    Candidate,
    /// It has a takeover delay and a unique name: started again, it may seal its predecessor's
    /// epoch.
    Unique,
    Observer,
}

/// How often each thing may still happen. Whatever has no number here may always happen: the lapse
/// and the end of a lease, a look at the next epoch, a poll, a resignation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// The sender gives up on a request (a timeout, a 409, a 5xx). A write may be applied any time
    /// later, or never: so this is also the lost request, and the answer that is lost.
    pub gives_up: u8,
    /// A write is applied, and a copy of it stays under way.
    pub twice: u8,
    /// A request is answered, and the answer takes its time.
    pub late: u8,
    /// A foreign record turns out to have been written again with the same body.
    pub touches: u8,
    /// A page of a listing has one key although more follow.
    pub short_pages: u8,
    /// A process stops, and starts again knowing nothing.
    pub crashes: u8,
    /// An operator deposes the leader.
    pub depositions: u8,
    /// A leader renews unasked.
    pub renewals: u8,
    /// A grant is not used.
    pub abandons: u8,
    /// A compactor runs.
    pub compactions: u8,
    /// Morling's peer makes up its mind to create an epoch.
    pub foreign_creates: u8,
    /// An SDK between machine and store resends a write of its own accord, and so answers its
    /// success with 412.
    pub untrue_refusals: u8,
}

/// A peer as in Morling's post: it creates, believes, touches, and never seals, confirms or looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Morling {
    Absent,
    /// What it believes to be granted counts for I1 and I2.
    Counts,
    /// Only the grants of the candidates count: it creates a compacted epoch again.
    TakesPart,
}

/// A rule that is broken, by meddling with what goes into the machine and comes out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    NoConfirm,
    ConfirmsFirst,
    NoSeal,
    ReusesBody,
    CompactsNewest,
    ResignsByDeleting,
    /// A write whose fate is unknown is told as refused.
    ConflictIsRefusal,
    /// Does not know its own nonce when it reads it back.
    ForgetsItself,
    TrustsName,
    /// Takes a page for the whole listing.
    OnePage,
}

pub const LAWFUL: &[&str] = &["I1", "I2", "I3", "I4", "I5", "I6", "honest", "own", "no failure"];
pub const AMONG_ALL: &[&str] = &["I1", "I2", "I3"];
pub const SOMETIMES: &[&str] = &["S1", "S2", "three grants in a row"];

impl Setting {
    /// Two candidates that follow the protocol up to epoch 3, and these faults. As many compactors
    /// as runs of one.
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
    /// A leader renews once, unasked.
    pub const CALM: Budget = Budget { renewals: 1, ..Budget::NONE };
}
