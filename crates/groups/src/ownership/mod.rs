//! What the task of a member and the application's handles share.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use super::membership::MembershipEvent;
use super::partition::{Grant, Partition, PartitionLoss};
use super::session_data::{self, Said};
use super::view::GroupSnapshot;
use crate::protocol::holdings::Change;
use crate::protocol::participant::Participant;
use crate::protocol::session::SessionData;
use crate::protocol::{Assignment, PartitionNumber, Session};
use crate::telemetry::Owner;
use crate::unpoisoned;
use tenure::Epoch;
use tenure::Error;
use tenure::internals::groups::Context;
use tenure::internals::groups::Record;
use tenure::{Leadership, Lease, Loss};

/// What of a session's record is not its data: its name and the fields of the lease.
const RECORD_BYTES: usize = 2 * 1024;
/// Of what a member says of itself: some releases always fit beside it, or none would be written.
pub(super) const MAX_SAID_BYTES: usize = Record::MAX_WRITTEN_BYTES - RECORD_BYTES - 2 * 1024;
/// Between two writes of a session: stores limit writes of one object.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// One member, as its task and its handles see it.
#[derive(Debug)]
pub(super) struct Ownership {
    pub(super) cx: Arc<Context>,
    pub(super) session: Session,
    pub(super) lease: Lease,
    said: Said,
    state: Mutex<OwnershipState>,
    /// There is something to write into the session.
    write: Notify,
    /// The end of a grant was set. One for all of them, as few are waited for.
    pub(super) ended: Notify,
    /// It leaves, and the work on all that it owned has stopped.
    left: Notify,
    /// The member is to look at the store now.
    pub(super) wake: Notify,
}

/// What changes.
#[derive(Debug)]
pub(super) struct OwnershipState {
    pub(super) participant: Participant,
    /// The greatest assignment that this process knew of before this session. It owns nothing by a
    /// smaller one.
    remembered: Option<Epoch>,
    grants: BTreeMap<PartitionNumber, Arc<Grant>>,
    /// `None` after the last event.
    events: Option<mpsc::UnboundedSender<MembershipEvent>>,
    /// Completed rounds of planning, or polls.
    pub(super) looks: u64,
    leaving: bool,
    /// For how long its partitions are to be kept for its name once it has left.
    park: Option<Duration>,
    /// Releases that the last write had room for.
    fitted: usize,
    /// It has released what it was not asked to give up.
    unasked: bool,
    /// What is counted of it.
    pub(super) owner: Owner,
}

impl Ownership {
    pub(super) fn new(
        cx: &Arc<Context>,
        session: Session,
        lease: Lease,
        said: Said,
        events: mpsc::UnboundedSender<MembershipEvent>,
    ) -> Ownership {
        let remembered = cx.greatest();
        let state = OwnershipState {
            participant: Participant::new(session, remembered),
            remembered,
            grants: BTreeMap::new(),
            events: Some(events),
            looks: 0,
            leaving: false,
            park: None,
            fitted: 0,
            unasked: false,
            owner: Owner::new(cx.meter()),
        };
        Ownership {
            cx: Arc::clone(cx),
            session,
            lease,
            said,
            state: Mutex::new(state),
            write: Notify::new(),
            ended: Notify::new(),
            left: Notify::new(),
            wake: Notify::new(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, OwnershipState> {
        #[cfg(test)]
        interleavings::before_a_critical_section();
        unpoisoned(self.state.lock())
    }

    /// What the session says at this moment.
    pub(super) fn data(&self) -> Value {
        self.state().data(&self.said)
    }

    /// What changed is told to the application.
    pub(super) fn apply(self: &Arc<Self>, state: &mut OwnershipState, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Granted(release) => {
                    let known = state.participant.known();
                    let found = known.and_then(|known| known.partition(release.partition));
                    let Some(name) = found.map(|partition| Arc::clone(&partition.name)) else {
                        continue;
                    };
                    let stop = self.lease.begin_work().child_token();
                    let grant = Arc::new(Grant::new(name, release, stop));
                    state.grants.insert(release.partition, Arc::clone(&grant));
                    state.owner.granted();
                    let shared = Arc::clone(self);
                    let partition = Partition { grant: Arc::clone(&grant), shared };
                    state.tell(MembershipEvent::Granted(partition));
                    if state.leaving {
                        state.revoke(&grant);
                    }
                }
                Change::Revoked(release) => {
                    if let Some(grant) = state.grants.get(&release.partition).cloned() {
                        state.revoke(&grant);
                    }
                }
                Change::Lost(release) => {
                    let by = state.participant.known().map_or(release.token, |it| it.epoch);
                    if let Some(grant) = state.grants.remove(&release.partition) {
                        let (name, number) = (grant.name.to_string(), release.partition);
                        grant.take(by);
                        self.ended.notify_waiters();
                        state.owner.lost(PartitionLoss::Taken.outcome());
                        state.tell(MembershipEvent::Taken { name, number });
                        if state.has_left() {
                            self.left.notify_one();
                        }
                    }
                }
            }
        }
        let releasing = state.participant.holdings().releasing().len();
        if state.park.is_none() && releasing > state.fitted {
            self.write.notify_one();
        }
    }

    /// The work on a partition has stopped.
    pub(super) fn release(&self, grant: &Arc<Grant>, back_off: Duration) {
        let mut state = self.state();
        grant.give_up();
        self.ended.notify_waiters();
        let number = grant.release.partition;
        if !state.participant.holdings_mut().release(grant.release, back_off) {
            return;
        }
        // Once the session is over its loss has been counted.
        if state.grants.remove(&number).is_some() {
            state.owner.lost(PartitionLoss::Released.outcome());
        }
        let known = state.participant.known();
        state.unasked |= known.is_some_and(|known| !known.is_revoked(number));
        if state.has_left() {
            self.left.notify_one();
        }
        // Kept for its name, they leave it with its session.
        if state.park.is_none() {
            self.write.notify_one();
        }
    }

    /// Takes no more partitions, and signals all work to stop. Nothing is reserved once it has left
    /// without that: its releases are written already.
    pub(super) fn leave(&self, park: Option<Duration>) {
        let mut state = self.state();
        if !state.leaving || state.park.is_some() {
            (state.leaving, state.park) = (true, park);
            let grants: Vec<_> = state.grants.values().map(Arc::clone).collect();
            grants.iter().for_each(|grant| state.revoke(grant));
            self.write.notify_one();
        }
        if state.has_left() {
            self.left.notify_one();
        }
    }

    pub(super) fn park(&self) -> Option<Duration> {
        self.state().park
    }

    /// Its lease runs, and the assignment that it knows names it.
    pub(super) fn is_member(&self) -> bool {
        let named = |known: &Arc<Assignment>| known.member(self.session).is_some();
        let named = self.state().participant.known().is_some_and(named);
        named && self.lease.check().is_ok()
    }

    pub(super) fn last_seen(&self) -> GroupSnapshot {
        let known = self.state().participant.known().cloned();
        GroupSnapshot::of(known.as_ref())
    }

    /// Whether all releases show in the newest known assignment.
    pub(super) fn is_released(&self) -> bool {
        self.state().participant.holdings().releasing().is_empty()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.state().leaving
    }

    /// Returns once it leaves and the work on all that it owned has stopped.
    pub(super) async fn left(&self) {
        // What was granted meanwhile must be released, too.
        while !self.state().has_left() {
            self.left.notified().await;
        }
    }

    /// Waits until the lease has ended and the task of the member has had the time to say so: its
    /// runtime is gone. Depends on no other task.
    pub(super) async fn is_abandoned(&self) -> Loss {
        loop {
            let over = self.lease.ends_at().boot.saturating_add(self.cx.request_timeout());
            let left = over.saturating_sub(self.cx.now().boot);
            match self.lease.check() {
                Err(loss) if left.is_zero() => return loss,
                _ => self.cx.look_pause(left.max(self.cx.validity() / 10)).await,
            }
        }
    }

    /// The session is over, and with it all that it owned.
    pub(super) fn lost(&self, loss: Loss) {
        let mut state = self.state();
        for (_, grant) in std::mem::take(&mut state.grants) {
            grant.stop.cancel();
            state.owner.lost(loss.outcome());
        }
        state.owner.coordinates(false);
        state.tell(MembershipEvent::Lost(loss));
        state.events = None;
    }

    pub(super) fn count_coordinator(&self) {
        let mut state = self.state();
        let coordinates = state.participant.coordinates();
        state.owner.coordinates(coordinates);
    }

    pub(super) fn tell(&self, event: MembershipEvent) {
        self.state().tell(event);
    }

    pub(super) fn failed(&self, error: Error) {
        self.tell(MembershipEvent::StoreFailed(error));
    }

    /// Puts what the session says into its next renewal, so that it costs no request.
    pub(super) fn carry(&self, leadership: &Leadership) {
        leadership.renew_with(self.data());
    }

    /// Writes the session when there is something to say, at most once a second. Never returns.
    pub(super) async fn write(&self, leadership: &Leadership) {
        let validity = self.cx.validity();
        let (mut due, between) = (false, BETWEEN_WRITES.min(validity / 30));
        loop {
            if !due {
                self.write.notified().await;
            }
            leadership.write_data(self.data());
            // A coordinator that awaits nothing of this member reads its session once a validity,
            // unless the tag changes sooner than by renewals (docs/design/groups.md, section 5).
            due = std::mem::take(&mut self.state().unasked);
            self.cx.sleep(if due { validity / 8 } else { between }).await;
        }
    }
}

impl OwnershipState {
    fn has_left(&self) -> bool {
        self.leaving && self.grants.is_empty()
    }

    fn revoke(&self, grant: &Grant) {
        // Each is told once, however many reasons there are.
        if !grant.revoked.swap(true, Ordering::SeqCst) {
            grant.stop.cancel();
            self.owner.revoked();
            let (name, number) = (grant.name.to_string(), grant.release.partition);
            self.tell(MembershipEvent::Revoked { name, number });
        }
    }

    fn tell(&self, event: MembershipEvent) {
        if let Some(events) = &self.events {
            // The application may have dropped its membership.
            let _ = events.send(event);
            #[cfg(test)]
            interleavings::told();
        }
    }

    fn data(&mut self, said: &Said) -> Value {
        let (known, holdings) = (self.participant.known(), self.participant.holdings());
        let data = SessionData {
            releases: BTreeMap::new(),
            looks: self.looks,
            seen: known.map(|known| known.epoch).max(self.remembered),
            leaving: self.leaving && self.park.is_none(),
        };
        let room = Record::MAX_WRITTEN_BYTES - RECORD_BYTES;
        let releases = if self.park.is_none() { holdings.releasing() } else { &[] };
        let (data, fitted) = session_data::encode(releases, &data, said, room);
        self.fitted = fitted;
        data
    }
}

#[cfg(test)]
mod interleavings;
