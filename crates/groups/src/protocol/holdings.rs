//! The partitions that one member owns (GW1, GW2).

use std::collections::BTreeMap;
use std::time::Duration;

use super::assignment::{Assignment, PartitionNumber};
use super::session::{Release, Session};
use tenure::Epoch;

/// The partitions that one session owns or has begun to release.
///
/// # Contract
///
/// The machine is a value without IO or clock. Three kinds of methods drive it:
///
/// - *Inputs* report an assignment: [`note`](Holdings::note). The driver calls it once when the
///   assignment is read, and again after the LIST that confirms the assignment. The epochs never
///   decrease.
/// - *Orders*: [`release`](Holdings::release), after the work on a partition has stopped.
/// - *Getters* change nothing: [`token`](Holdings::token), [`gains`](Holdings::gains),
///   [`releasing`](Holdings::releasing).
///
/// | assignment | `note` | the driver's next step |
/// | --- | --- | --- |
/// | read, or created | not confirmed: only takes partitions | confirms it if `gains` is true |
/// | confirmed | confirmed: also grants partitions | starts the work on each grant |
///
/// The changes that `note` returns take effect in their order, before the next input or order.
/// After [`Change::Revoked`] the driver stops the work and calls `release`. After that call the
/// session never owns the partition under this token, even if the write of the release fails. The
/// driver writes `releasing` with each renewal of the session.
///
/// The machine does not know the lease of the session. So a member owns a partition only if this
/// machine shows it and the lease of the session runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Holdings {
    session: Session,
    owned: BTreeMap<PartitionNumber, Owned>,
    /// Releases, oldest first. The session never again owns a released partition under the same
    /// token.
    releasing: Vec<(Release, Duration)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Owned {
    token: Epoch,
    revoked: bool,
}

/// A change that an assignment causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    Granted(Release),
    /// The work on the partition must stop. The driver then calls [`release`](Holdings::release).
    Revoked(Release),
    /// The assignment takes the partition although the session has not released it. No rule of the
    /// protocol allows such an assignment while the session lives.
    Lost(Release),
}

impl Holdings {
    pub fn new(session: Session) -> Holdings {
        Holdings { session, owned: BTreeMap::new(), releasing: Vec::new() }
    }

    /// Returns the token of the partition if the session owns it. The session owns it only while
    /// its lease runs.
    pub fn token(&self, partition: PartitionNumber) -> Option<Epoch> {
        self.owned.get(&partition).map(|owned| owned.token)
    }

    #[cfg(any(test, feature = "internals"))]
    pub fn owned(&self) -> impl Iterator<Item = Release> {
        self.owned
            .iter()
            .map(|(partition, owned)| Release { partition: *partition, token: owned.token })
    }

    /// Returns the releases to write with each renewal, oldest first. A release leaves this list
    /// once an assignment has moved its partition.
    pub fn releasing(&self) -> &[(Release, Duration)] {
        &self.releasing
    }

    /// Returns whether this assignment grants a partition. The grant takes effect once the
    /// assignment is confirmed (GA4).
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

    /// Applies an assignment that is newer than all previous assignments, or the newest assignment
    /// again once it is `confirmed`. Only a confirmed assignment grants partitions. Any assignment
    /// can take partitions.
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

    /// Releases a partition after its work has stopped. Returns false if the session does not own
    /// the partition under this token.
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

    /// Returns an assignment in which member `owner` owns partition 0 under this token.
    fn assignment(number: u64, owner: u128, token: u64) -> Assignment {
        let mut it = Assignment::first(Nonce::from_bits(number.into()), vec!["p".into()]);
        it.epoch = epoch(number);
        it.members = vec![Member::new(session(1), "a"), Member::new(session(2), "b")];
        it.partitions[0].owner = Some(session(owner));
        it.partitions[0].token = Some(epoch(token));
        it
    }

    #[test]
    fn an_unconfirmed_assignment_grants_no_partition() {
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
    fn a_released_partition_is_never_owned_again_under_its_token() {
        let mut own = Holdings::new(session(1));
        own.note(&assignment(2, 1, 2), true);
        let mut revoked = assignment(3, 1, 2);
        revoked.partitions[0].target = Some(session(2));
        assert_eq!(own.note(&revoked, false), [Change::Revoked(release(2))]);
        assert_eq!(own.note(&revoked, false), [], "a revocation is reported once");
        assert_eq!(
            own.token(PartitionNumber(0)),
            Some(epoch(2)),
            "the member owns the partition until its release"
        );
        assert!(!own.release(release(1), Duration::ZERO));
        assert!(own.release(release(2), Duration::ZERO));
        assert!(!own.release(release(2), Duration::ZERO));
        assert_eq!(own.token(PartitionNumber(0)), None);
        // The next assignment cancels the move of the partition, but the release still counts
        // (GW2).
        let back = assignment(4, 1, 2);
        assert!(!own.gains(&back));
        assert_eq!(own.note(&back, true), []);
        assert_eq!(own.releasing().len(), 1);
        // A later assignment grants the partition again, under a new token.
        assert_eq!(own.note(&assignment(5, 1, 5), true), [Change::Granted(release(5))]);
        assert_eq!(own.releasing(), []);
    }

    #[test]
    fn an_unconfirmed_assignment_takes_partitions() {
        let mut own = Holdings::new(session(1));
        own.note(&assignment(2, 1, 2), true);
        assert_eq!(own.note(&assignment(3, 2, 3), false), [Change::Lost(release(2))]);
        assert_eq!(own.token(PartitionNumber(0)), None);
    }

    #[test]
    fn a_paused_partition_is_revoked_although_it_has_no_target() {
        let mut own = Holdings::new(session(1));
        let mut paused = assignment(2, 1, 2);
        paused.partitions[0].marks.paused = true;
        let changes = own.note(&paused, true);
        assert_eq!(changes, [Change::Granted(release(2)), Change::Revoked(release(2))]);
    }
}
