//! What a run of the checker is made of.

/// The model: a setting, to be explored whole.
#[derive(Debug, Clone)]
pub struct Group {
    pub members: u8,
    pub partitions: u8,
    /// No assignment past this one is created.
    pub last: u64,
    pub budget: Budget,
    /// A member that starts again takes the id that it had, once its object is gone.
    pub reuses_ids: bool,
    /// A member that starts again is the same process: it remembers the assignments that it read.
    pub remembers: bool,
    /// At first member 1 owns all by assignment 2, and the others have joined and read nothing.
    pub assigned: bool,
    pub broken: Broken,
    pub always: Vec<&'static str>,
    pub sometimes: Vec<&'static str>,
}

/// How much may go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Writes whose answer is lost; they arrive at any time later, or never.
    pub lost: u8,
    /// Writes of which a copy arrives later.
    pub twice: u8,
    /// Leases that end although their member lives.
    pub ends: u8,
    pub crashes: u8,
    pub leaves: u8,
    /// Partitions that their owner gives up although nobody wants them.
    pub gives: u8,
    pub depositions: u8,
    /// Sessions that somebody deletes.
    pub vanish: u8,
    /// Assignments that are compacted.
    pub compactions: u8,
    /// Ended sessions that are compacted.
    pub swept: u8,
    /// Members that plan although another is named.
    pub ahead: u8,
    /// Changes that an operator makes.
    pub operations: u8,
    /// Deletions of the newest assignment by others.
    pub deletions: u8,
    /// Deletions of all assignments by others.
    pub wipes: u8,
    /// Deletions of the whole prefix.
    pub losses: u8,
    /// Reads of sessions that fail.
    pub unread: u8,
    /// Restorings by an operator.
    pub restores: u8,
}

impl Budget {
    /// Returns true if others may delete assignments.
    pub fn deletes(&self) -> bool {
        self.deletions + self.wipes + self.losses > 0
    }
}

/// A rule that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Broken {
    Nothing,
    /// Sessions are known by their ids alone.
    IdsAlone,
    /// The release of another token counts as the release of this one.
    AnyToken,
    /// A lapsed session is taken for ended without a seal.
    NoSeal,
    /// Nobody waits for the lease of a deposed session.
    NoWaitForDeposed,
    /// Nobody waits for the lease of a session that is gone.
    NoWaitForGone,
    /// A grant keeps the token.
    KeepsToken,
    /// What was made of v is created as v+2.
    SkipsNumber,
    /// The compactor deletes the newest assignment.
    CompactsNewest,
    /// An assignment counts without the LIST.
    NoConfirm,
    /// A release is written before the work has stopped.
    ReleasesFirst,
    /// A release whose write was not answered is taken back.
    TakesBack,
    /// A session counts as joined from its create on.
    JoinsByCreate,
    /// A member follows the assignment while it seals its own session.
    FollowsItsSeal,
    // From here on: rules about deletions, D1 to D12.
    /// A seal drops which assignment its member has seen.
    SealsForget,
    /// A process forgets which assignment it has seen when it joins again.
    Forgets,
    /// Where there is an assignment, a plan ignores the greater ones that sessions have seen.
    IgnoresGreater,
    /// A session that cannot be read counts as missing.
    UnreadIsMissing,
    /// Nothing is made of an assignment that somebody deleted.
    StopsAtDeleted,
    /// An operator reads no session before a change.
    OperatesBlindly,
    /// The compactor deletes sessions that have seen a greater assignment than the newest.
    CompactsEvidence,
    /// The numbers of a restoring continue below the greatest assignment that was seen.
    RestoresBelow,
    /// Members plan from the hold of a restoring.
    HoldsNothing,
    /// A restoring deposes no session.
    NoSweep,
    /// A restoring waits for no lease.
    NoWaitForOwners,
    /// A restoring ends with its hold.
    NeverReleases,
}

impl Broken {
    /// Returns true if a round may show something new while no session changes.
    pub fn looks_anew(self) -> bool {
        self != Broken::Nothing && self < Broken::SealsForget
    }
}
