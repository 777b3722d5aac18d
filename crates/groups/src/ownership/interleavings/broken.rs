//! Deliberate defects of the ownership. The tests of the interleavings must find each defect.

use super::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    Nothing,
    /// A grant is reported to the application in one critical section and recorded in the next.
    TellsBeforeItKeeps,
    /// An event reports that a partition was taken, although `check` of this partition still
    /// succeeds.
    TellsBeforeItTakes,
    /// A release is recorded in one critical section, and ends the grant in the next.
    ReleasesBeforeItGivesUp,
    /// A release does not wake the task of the member. The task waits for this wake-up before it
    /// writes the session or ends a leave.
    ReleasesSilently,
    /// A leave revokes partitions that are already revoked.
    RevokesTwice,
    /// The member leaves before its work has stopped.
    DoesNotWait,
    /// The application receives an event after the event that reports the loss of the session.
    SpeaksAfterTheLoss,
}

impl Ownership {
    pub(super) fn tell_before_it_keeps(&self, changes: Vec<Change>) {
        for change in changes {
            let mut state = self.state();
            let Change::Granted(release) = change else {
                self.apply(&mut state, vec![change]);
                continue;
            };
            let stop = self.lease.begin_work().child_token();
            let grant = Arc::new(Grant::new("p".into(), release, stop));
            state.tell(Notice::Granted(Arc::clone(&grant)));
            drop(state);
            self.state().grants.insert(release.partition, grant);
        }
    }

    pub(super) fn tell_before_it_takes(&self, state: &mut OwnershipState, changes: Vec<Change>) {
        for change in &changes {
            if let Change::Lost(release) = change {
                let grant = Arc::clone(&state.grants[&release.partition]);
                state.tell(Notice::Taken(grant));
            }
        }
        self.apply(state, changes);
    }

    pub(super) fn release_before_it_gives_up(&self, grant: &Grant) {
        let number = grant.release.partition;
        {
            let mut state = self.state();
            if !state.holdings.release(grant.release, Duration::ZERO) {
                return grant.give_up();
            }
            state.grants.remove(&number);
            self.write.notify_one();
        }
        let state = self.state();
        grant.give_up();
        if state.has_left() {
            self.left.notify_one();
        }
    }

    /// Releases a partition without waking the task.
    pub(super) fn release_silently(&self, grant: &Grant) {
        let mut state = self.state();
        grant.give_up();
        state.holdings.release(grant.release, Duration::ZERO);
        state.grants.remove(&grant.release.partition);
    }
}
