//! What one member owns (docs/design/groups.md, section 4).
//!
//! That its session's lease runs is not known here: the caller asks for both.

use std::collections::BTreeMap;
use std::time::Duration;

use super::assignment::Assignment;
use super::partition_number::PartitionNumber;
use super::session::{Release, Session};
use tenure::Epoch;

/// What one session owns, and what it has begun to release.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holdings {
    session: Session,
    owned: BTreeMap<PartitionNumber, Owned>,
    /// In the order in which they were begun. None of them is ever owned again.
    releasing: Vec<(Release, Duration)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Owned {
    token: Epoch,
    revoked: bool,
}

/// What an assignment changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    Granted(Release),
    /// Stop the work on it, and release it then.
    Revoked(Release),
    /// It is not owned any more, although it was not released. No rule of the protocol allows that
    /// while the session lives.
    Lost(Release),
}

impl Holdings {
    pub fn new(session: Session) -> Holdings {
        Holdings { session, owned: BTreeMap::new(), releasing: Vec::new() }
    }

    /// The token of a partition that it owns, as long as its session's lease runs.
    pub fn token(&self, partition: PartitionNumber) -> Option<Epoch> {
        self.owned.get(&partition).map(|owned| owned.token)
    }

    #[cfg(any(test, feature = "internals"))]
    pub fn owned(&self) -> impl Iterator<Item = Release> {
        self.owned
            .iter()
            .map(|(partition, owned)| Release { partition: *partition, token: owned.token })
    }

    /// What it has released and no assignment shows as moved yet, oldest first.
    pub fn releasing(&self) -> &[(Release, Duration)] {
        &self.releasing
    }

    /// Whether this assignment would give it something: then it must be confirmed first.
    pub fn gains(&self, assignment: &Assignment) -> bool {
        self.gained(assignment).next().is_some()
    }

    fn gained(&self, assignment: &Assignment) -> impl Iterator<Item = Release> {
        let owned = assignment.owned_by(self.session);
        let all = owned.map(|(partition, token)| Release { partition, token });
        all.filter(|it| self.token(it.partition) != Some(it.token) && !self.is_releasing(*it))
    }

    fn is_releasing(&self, release: Release) -> bool {
        self.releasing.iter().any(|(begun, _)| *begun == release)
    }

    /// Takes note of an assignment that is newer than all before, or of the same once it is
    /// `confirmed`. Only then does it give anything; it takes away at once.
    pub fn note(&mut self, assignment: &Assignment, confirmed: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        let named: BTreeMap<_, _> = assignment.owned_by(self.session).collect();
        self.releasing.retain(|(it, _)| named.get(&it.partition) == Some(&it.token));
        self.owned.retain(|partition, owned| {
            let stays = named.get(partition) == Some(&owned.token);
            if !stays {
                changes.push(Change::Lost(Release { partition: *partition, token: owned.token }));
            }
            stays
        });
        if confirmed {
            let gained: Vec<_> = self.gained(assignment).collect();
            for release in gained {
                let owned = Owned { token: release.token, revoked: false };
                self.owned.insert(release.partition, owned);
                changes.push(Change::Granted(release));
            }
        }
        for (partition, owned) in &mut self.owned {
            if !owned.revoked && assignment.is_revoked(*partition) {
                owned.revoked = true;
                let release = Release { partition: *partition, token: owned.token };
                changes.push(Change::Revoked(release));
            }
        }
        changes
    }

    /// Gives up a partition, once the work on it has stopped: from here on it is not owned,
    /// whatever becomes of the write that says so. False if it is not owned under this token.
    pub fn release(&mut self, release: Release, back_off: Duration) -> bool {
        let owns = self.token(release.partition) == Some(release.token);
        if owns {
            self.owned.remove(&release.partition);
            self.releasing.push((release, back_off));
        }
        owns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::assignment::Member;
    use crate::test_values::{epoch, session};
    use tenure::internals::groups::Nonce;

    fn release(token: u64) -> Release {
        Release { partition: PartitionNumber(0), token: epoch(token) }
    }

    /// Partition 0 belongs to member `owner` under this token.
    fn assignment(number: u64, owner: u128, token: u64) -> Assignment {
        let mut it = Assignment::first(Nonce::from_bits(number.into()), vec!["p".into()]);
        it.epoch = epoch(number);
        it.members = vec![Member::new(session(1), "a"), Member::new(session(2), "b")];
        it.partitions[0].owner = Some(session(owner));
        it.partitions[0].token = Some(epoch(token));
        it
    }

    #[test]
    fn nothing_is_owned_before_it_is_confirmed() {
        let mut own = Holdings::new(session(1));
        let granted = assignment(2, 1, 2);
        assert!(own.gains(&granted));
        assert_eq!(own.note(&granted, false), []);
        assert_eq!(own.token(PartitionNumber(0)), None);
        assert_eq!(own.note(&granted, true), [Change::Granted(release(2))]);
        assert_eq!(own.token(PartitionNumber(0)), Some(epoch(2)));
        assert!(!own.gains(&granted));
        assert_eq!(own.note(&granted, true), []);
        let mut another = Holdings::new(Session { nonce: Nonce::from_bits(9), ..session(1) });
        assert_eq!(another.note(&granted, true), []);
    }

    #[test]
    fn what_is_released_is_never_owned_again_under_its_token() {
        let mut own = Holdings::new(session(1));
        own.note(&assignment(2, 1, 2), true);
        let mut revoked = assignment(3, 1, 2);
        revoked.partitions[0].target = Some(session(2));
        assert_eq!(own.note(&revoked, false), [Change::Revoked(release(2))]);
        assert_eq!(own.note(&revoked, false), [], "once");
        assert_eq!(own.token(PartitionNumber(0)), Some(epoch(2)), "until the work has stopped");
        assert!(!own.release(release(1), Duration::ZERO));
        assert!(own.release(release(2), Duration::ZERO));
        assert!(!own.release(release(2), Duration::ZERO));
        assert_eq!(own.token(PartitionNumber(0)), None);
        // The target came back: it is released all the same.
        let back = assignment(4, 1, 2);
        assert!(!own.gains(&back));
        assert_eq!(own.note(&back, true), []);
        assert_eq!(own.releasing().len(), 1);
        // It is granted anew.
        assert_eq!(own.note(&assignment(5, 1, 5), true), [Change::Granted(release(5))]);
        assert_eq!(own.releasing(), []);
    }

    #[test]
    fn what_is_taken_is_lost_without_a_confirmation() {
        let mut own = Holdings::new(session(1));
        own.note(&assignment(2, 1, 2), true);
        assert_eq!(own.note(&assignment(3, 2, 3), false), [Change::Lost(release(2))]);
        assert_eq!(own.token(PartitionNumber(0)), None);
    }

    #[test]
    fn a_paused_partition_is_revoked_without_another_target() {
        let mut own = Holdings::new(session(1));
        let mut paused = assignment(2, 1, 2);
        paused.partitions[0].marks.paused = true;
        let changes = own.note(&paused, true);
        assert_eq!(changes, [Change::Granted(release(2)), Change::Revoked(release(2))]);
    }
}
