//! The settings with which the model checker explores a group.

/// One setting. The model checker explores all states of a group with this setting.
#[derive(Debug, Clone)]
pub struct Group {
    pub members: u8,
    pub partitions: u8,
    /// The greatest number of an assignment in the model.
    pub last: u64,
    pub budget: Budget,
    /// True if a restarted member uses the id of its old session again, after the object of that
    /// session was deleted.
    pub reuses_ids: bool,
    /// True if a restarted member remembers the assignments that it has read, because its process
    /// still runs.
    pub remembers: bool,
    /// True if at the start member 1 owns all partitions by assignment 2. The other members have
    /// joined, but have read no assignment.
    pub assigned: bool,
    pub broken: Broken,
    pub always: Vec<&'static str>,
    pub sometimes: Vec<&'static str>,
}

/// The number of events of each kind that may occur on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Writes that get no answer. Such a write takes effect later, or never.
    pub lost: u8,
    /// Writes that the store answers and may apply a second time later.
    pub twice: u8,
    /// Leases that end although their members run.
    pub ends: u8,
    pub crashes: u8,
    pub leaves: u8,
    /// Releases of partitions without a revocation.
    pub gives: u8,
    pub depositions: u8,
    /// Deletions of sessions by other programs.
    pub vanish: u8,
    /// Deletions of assignments by a compactor.
    pub compactions: u8,
    /// Deletions of ended sessions by a compactor.
    pub swept: u8,
    /// Decisions of a member to plan an assignment although another member is the coordinator.
    pub ahead: u8,
    /// Changes of the group by an operator.
    pub operations: u8,
    /// Deletions of the newest assignment by other programs.
    pub deletions: u8,
    /// Deletions of all assignments by other programs.
    pub wipes: u8,
    /// Deletions of all objects of the group by other programs.
    pub losses: u8,
    /// Failed reads of sessions.
    pub unread: u8,
    /// Restores by an operator.
    pub restores: u8,
}

impl Budget {
    /// Returns whether other programs may still delete assignments.
    pub fn deletes(&self) -> bool {
        self.deletions + self.wipes + self.losses > 0
    }
}

/// The behaviour of a broken variant, in which the model omits one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Broken {
    Nothing,
    /// Sessions are identified only by their ids.
    IdsAlone,
    /// Members treat a release under another token as a release under the current token.
    AnyToken,
    /// Before a lapsed session is sealed, members treat it as ended.
    NoSeal,
    /// Members do not wait until the lease of a deposed session has ended.
    NoWaitForDeposed,
    /// Members do not wait until the lease of a deleted session has ended.
    NoWaitForGone,
    /// A grant does not change the token of the partition.
    KeepsToken,
    /// A writer makes an assignment from assignment v, and creates it as v+2.
    SkipsNumber,
    /// The compactor deletes the newest assignment.
    CompactsNewest,
    /// Members treat each assignment as confirmed, although no LIST has confirmed it.
    NoConfirm,
    /// A member writes a release before its work on the partition has stopped.
    ReleasesFirst,
    /// A member withdraws a release whose PUT got no answer.
    TakesBack,
    /// A session joins the group by its create alone, without the second write.
    JoinsByCreate,
    /// A member reads new assignments, and acts on them, while it seals its session.
    FollowsItsSeal,
    // The following variants break rules D1 to D12 of docs/design/groups.md, which concern
    // deletions and restores.
    /// A seal drops the greatest assignment that the member has seen.
    SealsForget,
    /// A process that joins again forgets the greatest assignment that it has seen.
    Forgets,
    /// If an assignment exists, a plan ignores greater assignments that sessions show.
    IgnoresGreater,
    /// Members treat an unreadable session as missing.
    UnreadIsMissing,
    /// Members create no assignment after a deletion.
    StopsAtDeleted,
    /// An operator does not read the sessions before it changes the group.
    OperatesBlindly,
    /// The compactor deletes sessions that show a greater assignment than the newest existing one.
    CompactsEvidence,
    /// The first assignment of a restore does not get a number above the greatest assignment that
    /// was seen.
    RestoresBelow,
    /// Members plan an assignment from the held assignment, the first assignment of a restore (rule
    /// D9 of docs/design/groups.md).
    HoldsNothing,
    /// A restore deposes no session, so it omits the sweep (D10).
    NoSweep,
    /// A restore does not wait until the leases of deposed members have ended (omits D11).
    NoWaitForOwners,
    /// A restore creates only its first assignment, and never the second one (omits D12).
    NeverReleases,
}

impl Broken {
    /// Returns whether reads of the sessions may give new information although no session has
    /// changed since the last read.
    pub fn looks_anew(self) -> bool {
        self != Broken::Nothing && self < Broken::SealsForget
    }
}
