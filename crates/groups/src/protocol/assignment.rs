//! The assignment: who owns what, whole.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::assignor::Seat;
use super::marks::Marks;
use super::partition_number::PartitionNumber;
use super::session::Session;
use super::session_id::SessionId;
use tenure::Epoch;
use tenure::internals::groups::Nonce;

/// One assignment. It is never overwritten: a change is the assignment with the next number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Assignment {
    /// Its number.
    pub epoch: Epoch,
    /// Fresh for each attempt to create it.
    pub nonce: Nonce,
    /// The name of the assignor by which the group is planned. Advice.
    pub assignor: Arc<str>,
    /// The member that plans. Advice: nothing rests on it.
    pub coordinator: Option<Session>,
    /// In the order in which they joined.
    pub members: Vec<Member>,
    /// In the order of their numbers.
    pub partitions: Vec<AssignedPartition>,
    /// The number of the next partition that is added.
    pub next_number: PartitionNumber,
    /// An operator restores the group, and waits at least this long. Only a restoring makes an
    /// assignment of this one.
    pub restoring: Option<Duration>,
}

/// A member of the group.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    pub session: Session,
    /// For people, and so that a member that comes back is given the same partitions.
    pub name: Arc<str>,
    /// Of its lease. It is repeated here for when the session's object is gone.
    pub validity: Duration,
    /// How many shares of the partitions it takes; at least 1.
    pub weight: u32,
    /// JSON that the member says of itself, such as its address. Advice.
    pub data: Option<Arc<str>>,
}

/// A partition and its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AssignedPartition {
    pub number: PartitionNumber,
    pub name: Arc<str>,
    pub owner: Option<Session>,
    /// The assignment epoch that granted it last; `None` if it was never owned.
    pub token: Option<Epoch>,
    /// The member that is to own it next, if that is not its owner. Advice.
    pub target: Option<Session>,
    /// The member that it is kept for, by name, and for how long; it has no owner then. Advice.
    pub kept: Option<(Arc<str>, Duration)>,
    pub marks: Marks,
}

impl Assignment {
    /// The first of a group. It names its members and grants nothing.
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

    /// Whether the two are the same but for their nonces, which each attempt to create one draws
    /// anew.
    pub fn same_but_for_the_nonce(&self, other: &Assignment) -> bool {
        *self == Assignment { nonce: self.nonce, ..other.clone() }
    }

    /// The member of this session. A session with another nonce is another member.
    pub fn member(&self, session: Session) -> Option<&Member> {
        self.members.iter().find(|member| member.session == session)
    }

    /// The session with this id, as this assignment names it.
    pub fn session(&self, id: SessionId) -> Option<Session> {
        self.members.iter().map(|member| member.session).find(|session| session.id == id)
    }

    pub fn partition(&self, number: PartitionNumber) -> Option<&AssignedPartition> {
        let found = self.partitions.binary_search_by_key(&number, |partition| partition.number);
        found.ok().map(|index| &self.partitions[index])
    }

    /// The partitions of this session, each with its token.
    pub fn owned_by(&self, session: Session) -> impl Iterator<Item = (PartitionNumber, Epoch)> {
        let owned = self.partitions.iter().filter(move |it| it.owner == Some(session));
        owned.filter_map(|it| Some((it.number, it.token?)))
    }

    /// Whether its owner is to stop its work on a partition, and to release it.
    pub fn is_revoked(&self, number: PartitionNumber) -> bool {
        let Some(partition) = self.partition(number) else { return true };
        // Most have no marks, and members are found by a search.
        let marks = Some(&partition.marks).filter(|marks| **marks != Marks::default());
        let forbidden = |marks: &Marks| {
            let owner = partition.owner.and_then(|owner| self.member(owner));
            owner.is_some_and(|it| !marks.allow(&it.name))
        };
        partition.target.is_some() || marks.is_some_and(forbidden)
    }

    /// The sessions that are to release something.
    pub fn awaiting(&self) -> BTreeSet<SessionId> {
        let revoked = self.partitions.iter().filter(|it| self.is_revoked(it.number));
        revoked.filter_map(|it| it.owner).map(|owner| owner.id).collect()
    }

    /// The members after the coordinator, in the order in which they succeed it.
    pub fn successors(&self) -> impl Iterator<Item = Session> {
        let named = |member: &Member| Some(member.session) == self.coordinator;
        let coordinator = self.members.iter().position(named);
        let (before, after) = match coordinator {
            Some(place) => (&self.members[..place], &self.members[place + 1..]),
            None => (&[][..], &self.members[..]),
        };
        after.iter().chain(before).map(|member| member.session)
    }

    /// Whether this member is a deputy: one of the three after the coordinator.
    pub fn is_deputy(&self, session: Session) -> bool {
        self.successors().take(DEPUTIES).any(|deputy| deputy == session)
    }
}

const DEPUTIES: usize = 3;

impl Member {
    /// A member with nothing but a name, valid for half a minute.
    pub fn new(session: Session, name: impl Into<Arc<str>>) -> Member {
        let validity = Duration::from_secs(30);
        Member { session, name: name.into(), validity, weight: 1, data: None }
    }

    /// The member as an assignor sees it.
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
    fn the_deputies_are_the_three_after_the_coordinator() {
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
        // One that is no member any more.
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
