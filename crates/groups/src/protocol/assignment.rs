//! The assignment: all members and partitions of a group, and the owners.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::assignor::Seat;
use super::session::{Session, SessionId};
use tenure::Epoch;
use tenure::internals::groups::Nonce;

/// One assignment. An assignment is never overwritten: a change creates the assignment with the
/// next number. No invariant depends on the fields that are marked as advice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// Number of the assignment.
    pub epoch: Epoch,
    /// Nonce, fresh for each attempt to create the assignment.
    pub nonce: Nonce,
    /// Name of the group's assignor. Advice.
    pub assignor: Arc<str>,
    /// Member that plans. Advice.
    pub coordinator: Option<Session>,
    /// Members, in the order of their joins.
    pub members: Vec<Member>,
    /// Partitions, in the order of their numbers.
    pub partitions: Vec<AssignedPartition>,
    /// Number that the next added partition gets.
    pub next_number: PartitionNumber,
    /// While a restore is unfinished: the shortest time for which the restore waits before it ends.
    /// While this field is set, only a restore makes the next assignment (D9).
    pub restoring: Option<Duration>,
}

/// A member of the group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    pub session: Session,
    /// Display name. Reservations, pins and bars refer to members by this name.
    pub name: Arc<str>,
    /// Validity of the member's session. The assignment repeats the validity, because the session's
    /// object may be missing.
    pub validity: Duration,
    /// Weight, at least 1.
    pub weight: u32,
    /// Data that the member publishes, as JSON. Advice.
    pub data: Option<Arc<str>>,
}

/// A partition and its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AssignedPartition {
    pub number: PartitionNumber,
    pub name: Arc<str>,
    pub owner: Option<Session>,
    /// Epoch of the assignment that granted the partition last. `None` before the first grant.
    pub token: Option<Epoch>,
    /// Next owner, if the partition must move. Advice.
    pub target: Option<Session>,
    /// If the partition is reserved: the name of the members that may own it, and the duration of
    /// the reservation. A reserved partition has no owner. Advice.
    pub kept: Option<(Arc<str>, Duration)>,
    pub marks: Marks,
}

/// The number of a partition in its group. No other partition of the group ever gets this number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionNumber(pub u32);

impl fmt::Display for PartitionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for PartitionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartitionNumber({})", self.0)
    }
}

/// The marks of operators on a partition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    /// Required name: only members of this name may own the partition.
    pub pinned: Option<Arc<str>>,
    /// Excluded name: members of this name must not own the partition.
    pub barred: Option<Arc<str>>,
    /// Whether the partition is paused: no member may own it until an operator resumes it.
    pub paused: bool,
    /// Whether the partition retires: no member may become its owner, and the group removes the
    /// partition once its owner has released it.
    pub retiring: bool,
}

impl Marks {
    /// Returns whether a member of this name may own the partition.
    pub fn allow(&self, name: &str) -> bool {
        !self.paused && !self.retiring && self.names(name)
    }

    /// Returns whether the pin and the bar permit a member of this name.
    pub fn names(&self, name: &str) -> bool {
        self.pinned.as_deref().is_none_or(|pinned| pinned == name)
            && self.barred.as_deref() != Some(name)
    }
}

impl Assignment {
    /// Returns the first assignment of a group, which grants nothing.
    pub fn first(nonce: Nonce, partitions: Vec<Arc<str>>) -> Assignment {
        let partition = |(name, number)| AssignedPartition::new(PartitionNumber(number), name);
        let partitions: Vec<_> = partitions.into_iter().zip(0..).map(partition).collect();
        let next_number = PartitionNumber(u32::try_from(partitions.len()).unwrap_or(u32::MAX));
        Assignment {
            epoch: Epoch::FIRST,
            nonce,
            assignor: "".into(),
            coordinator: None,
            members: Vec::new(),
            partitions,
            next_number,
            restoring: None,
        }
    }

    /// Returns whether the two assignments are equal, apart from their nonces. Each attempt to
    /// create an assignment has a fresh nonce.
    pub fn same_but_for_the_nonce(&self, other: &Assignment) -> bool {
        *self == Assignment { nonce: self.nonce, ..other.clone() }
    }

    /// Returns the member that has this session, with the same id and nonce.
    pub fn member(&self, session: Session) -> Option<&Member> {
        self.members.iter().find(|member| member.session == session)
    }

    /// Returns the session that has this id. `None` means that no member of this assignment has it.
    pub fn session(&self, id: SessionId) -> Option<Session> {
        self.members.iter().map(|member| member.session).find(|session| session.id == id)
    }

    pub fn partition(&self, number: PartitionNumber) -> Option<&AssignedPartition> {
        let found = self.partitions.binary_search_by_key(&number, |partition| partition.number);
        found.ok().map(|index| &self.partitions[index])
    }

    /// Returns the partitions that this session owns, each with its token.
    pub fn owned_by(&self, session: Session) -> impl Iterator<Item = (PartitionNumber, Epoch)> {
        let owned = self.partitions.iter().filter(move |it| it.owner == Some(session));
        owned.filter_map(|it| Some((it.number, it.token?)))
    }

    /// Returns whether the owner must stop its work on the partition and release it.
    pub fn is_revoked(&self, number: PartitionNumber) -> bool {
        let Some(partition) = self.partition(number) else { return true };
        // Check the marks before the search for the owner, because most partitions have no marks.
        let marks = Some(&partition.marks).filter(|marks| **marks != Marks::default());
        let forbidden = |marks: &Marks| {
            let owner = partition.owner.and_then(|owner| self.member(owner));
            owner.is_some_and(|it| !marks.allow(&it.name))
        };
        partition.target.is_some() || marks.is_some_and(forbidden)
    }

    /// Returns the ids of the sessions that must release at least one partition.
    pub fn awaiting(&self) -> BTreeSet<SessionId> {
        let revoked = self.partitions.iter().filter(|it| self.is_revoked(it.number));
        revoked.filter_map(|it| it.owner).map(|owner| owner.id).collect()
    }

    /// Returns the members after the coordinator, in the order of succession.
    pub fn successors(&self) -> impl Iterator<Item = Session> {
        let named = |member: &Member| Some(member.session) == self.coordinator;
        let coordinator = self.members.iter().position(named);
        let (before, after) = match coordinator {
            Some(place) => (&self.members[..place], &self.members[place + 1..]),
            None => (&[][..], &self.members[..]),
        };
        after.iter().chain(before).map(|member| member.session)
    }

    /// Returns whether this member is a deputy: one of the three members after the coordinator.
    pub fn is_deputy(&self, session: Session) -> bool {
        self.successors().take(DEPUTIES).any(|deputy| deputy == session)
    }
}

/// Maximum number of deputies. A deputy takes over from a dead coordinator.
pub const DEPUTIES: usize = 3;

impl Member {
    /// Returns a member with this name, a validity of 30 s, the weight 1 and no data.
    pub fn new(session: Session, name: impl Into<Arc<str>>) -> Member {
        let validity = Duration::from_secs(30);
        Member { session, name: name.into(), validity, weight: 1, data: None }
    }

    /// Returns the member as a [`Seat`], the form in which an assignor reads it.
    pub fn seat(&self) -> Seat<'_> {
        let seat = Seat::new(&self.name, self.weight);
        self.data.as_deref().map_or(seat, |data| seat.with_data(data))
    }
}

impl AssignedPartition {
    pub fn new(number: PartitionNumber, name: Arc<str>) -> AssignedPartition {
        let marks = Marks::default();
        AssignedPartition {
            number,
            name,
            owner: None,
            token: None,
            target: None,
            kept: None,
            marks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::session;

    #[test]
    fn the_deputies_are_the_three_members_after_the_coordinator() {
        let member = |id| Member::new(session(id), "m");
        let mut assignment = Assignment::first(Nonce::from_bits(1), Vec::new());
        assignment.members = (0..6).map(member).collect();
        let successors =
            |it: &Assignment| it.successors().map(|it| it.id.bits()).collect::<Vec<_>>();
        assert_eq!(successors(&assignment), [0, 1, 2, 3, 4, 5]);
        assignment.coordinator = Some(session(4));
        assert_eq!(successors(&assignment), [5, 0, 1, 2, 3]);
        let deputies = (0..6).filter(|id| assignment.is_deputy(session(*id)));
        assert_eq!(deputies.collect::<Vec<_>>(), [0, 1, 5]);
        // If the coordinator is not a member, all members are successors in their order.
        assignment.coordinator = Some(session(9));
        assert_eq!(successors(&assignment), [0, 1, 2, 3, 4, 5]);
        assert!(!assignment.is_deputy(session(9)));
    }

    #[test]
    fn a_session_with_another_nonce_is_another_member() {
        let mut assignment = Assignment::first(Nonce::from_bits(1), vec!["p".into()]);
        let (old, new) = (session(1), Session { nonce: Nonce::from_bits(2), ..session(1) });
        assignment.members = vec![Member::new(old, "m")];
        assignment.partitions[0].owner = Some(old);
        assignment.partitions[0].token = Some(Epoch::FIRST);
        assert!(assignment.member(new).is_none());
        assert_eq!(assignment.owned_by(new).count(), 0);
        assert_eq!(assignment.owned_by(old).count(), 1);
    }
}
