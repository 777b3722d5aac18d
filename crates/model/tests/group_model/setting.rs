//! The settings of a run of the checker.

/// The setting of a run, which the checker explores completely.
#[derive(Debug, Clone)]
pub struct Group {
    pub members: u8,
    pub partitions: u8,
    /// The greatest number of an assignment in the model.
    pub last: u64,
    pub budget: Budget,
    /// True if a restarted member uses its old id again after the object with this id was deleted.
    pub reuses_ids: bool,
    /// True if a restarted member is the same process and remembers the assignments that it read.
    pub remembers: bool,
    /// True if member 1 owns all partitions by assignment 2 at the start. The other members have
    /// then joined, and have read no assignment.
    pub assigned: bool,
    pub broken: Broken,
    pub always: Vec<&'static str>,
    pub sometimes: Vec<&'static str>,
}

/// Number of events of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Writes with a lost answer. They arrive later, or never.
    pub lost: u8,
    /// Writes with a copy that arrives later.
    pub twice: u8,
    /// Leases that end although their members run.
    pub ends: u8,
    pub crashes: u8,
    pub leaves: u8,
    /// Partitions that their owners release without a revocation.
    pub gives: u8,
    pub depositions: u8,
    /// Sessions that other programs delete.
    pub vanish: u8,
    /// Assignments that are compacted.
    pub compactions: u8,
    /// Ended sessions that are compacted.
    pub swept: u8,
    /// Members that plan although another member is the coordinator.
    pub ahead: u8,
    /// Changes by an operator.
    pub operations: u8,
    /// Deletions of the newest assignment by other programs.
    pub deletions: u8,
    /// Deletions of all assignments by other programs.
    pub wipes: u8,
    /// Deletions of the whole prefix.
    pub losses: u8,
    /// Failed reads of sessions.
    pub unread: u8,
    /// Restores by an operator.
    pub restores: u8,
}

impl Budget {
    /// Returns whether other programs may delete assignments.
    pub fn deletes(&self) -> bool {
        self.deletions + self.wipes + self.losses > 0
    }
}

/// A rule that the model omits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Broken {
    Nothing,
    /// Sessions are identified only by their ids.
    IdsAlone,
    /// Members treat the release of another token as the release of the current token.
    AnyToken,
    /// Members treat a lapsed session as ended without a seal.
    NoSeal,
    /// Members do not wait for the lease of a deposed session.
    NoWaitForDeposed,
    /// Members do not wait for the lease of a deleted session.
    NoWaitForGone,
    /// A grant keeps the token of the previous owner.
    KeepsToken,
    /// An assignment based on v is created as v+2.
    SkipsNumber,
    /// The compactor deletes the newest assignment.
    CompactsNewest,
    /// Members treat an assignment as confirmed without the LIST.
    NoConfirm,
    /// A release is written before the work has stopped.
    ReleasesFirst,
    /// A member withdraws a release whose PUT got no answer.
    TakesBack,
    /// A member treats its session as joined after the create.
    JoinsByCreate,
    /// A member follows assignments while it seals its session.
    FollowsItsSeal,
    // The following variants break rules about deletions, D1 to D12.
    /// A seal drops the greatest assignment that the member has seen.
    SealsForget,
    /// A process that joins again forgets the greatest assignment that it has seen.
    Forgets,
    /// If an assignment exists, a plan ignores greater assignments that sessions have seen.
    IgnoresGreater,
    /// Members treat an unreadable session as missing.
    UnreadIsMissing,
    /// Members create no assignment after a deletion.
    StopsAtDeleted,
    /// An operator reads no session before a change.
    OperatesBlindly,
    /// The compactor deletes sessions that show a greater assignment than the newest existing one.
    CompactsEvidence,
    /// The numbers of a restore continue below the greatest seen assignment.
    RestoresBelow,
    /// Members plan from the hold of a restore (rule D9 of docs/design/groups.md).
    HoldsNothing,
    /// A restore deposes no session (omits D10, the sweep).
    NoSweep,
    /// A restore waits for no lease.
    NoWaitForOwners,
    /// A restore ends with its hold, and never releases the partitions.
    NeverReleases,
}

impl Broken {
    /// Returns whether a round may give new information although no session changes.
    pub fn looks_anew(self) -> bool {
        self != Broken::Nothing && self < Broken::SealsForget
    }
}
