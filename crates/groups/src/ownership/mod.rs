//! The state that a member's task and the application's handles share: the member's grants, its
//! releases and its leave. All other state of the member belongs to the task alone.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{Notify, mpsc};

use super::grant::{Grant, PartitionLoss};
use super::session_data::{self, MAX_DATA_BYTES, Said};
use crate::protocol::holdings::{Change, Holdings};
use crate::protocol::message::{AssignmentAnswer, News};
use crate::protocol::participant::Participant;
use crate::protocol::session::SessionData;
use crate::protocol::{Assignment, PartitionNumber, Session};
use crate::telemetry::Owner;
use crate::unpoisoned;
use tenure::internals::groups::Context;
use tenure::{Epoch, Error, Leadership, Lease, Loss};

/// The shortest time between two writes of a session, if its validity is at least 30 s. Stores
/// limit the rate of writes to one object.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// An event that the application has not received.
#[derive(Debug, Clone)]
pub(super) enum Notice {
    Granted(Arc<Grant>),
    Revoked(Arc<Grant>),
    Taken(Arc<Grant>),
    AtRisk(Duration),
    StoreFailed(Error),
    Lost(Loss),
}

/// The state that the task and the handles of one member share.
#[derive(Debug)]
pub(super) struct Ownership {
    pub(super) cx: Arc<Context>,
    pub(super) session: Session,
    pub(super) lease: Lease,
    said: Said,
    state: Mutex<OwnershipState>,
    /// Wakes the task to write the session.
    write: Notify,
    /// Wakes the tasks that wait for the end of a grant. All grants share this `Notify`, because
    /// few tasks wait.
    pub(super) ended: Notify,
    /// Wakes the task once the member leaves and the work on all its partitions has stopped.
    left: Notify,
    /// Wakes the task to poll the store.
    pub(super) wake: Notify,
}

#[derive(Debug)]
struct OwnershipState {
    // The ownership.
    holdings: Holdings,
    grants: BTreeMap<PartitionNumber, Arc<Grant>>,
    /// Newest assignment that the task has read.
    known: Option<Arc<Assignment>>,
    /// Sender of the events; `None` after the last event.
    notices: Option<mpsc::UnboundedSender<Notice>>,
    /// The metrics of the member.
    owner: Owner,

    // The leave.
    leaving: bool,
    /// Time for which the partitions are reserved for the member's name after it has left.
    park: Option<Duration>,

    // The data of the session.
    /// The greatest assignment number that this process knew before this session. An assignment
    /// with a smaller number is older than the session, and grants it no partition.
    remembered: Option<Epoch>,
    /// Number of completed polls. For a coordinator each poll includes a round of planning.
    looks: u64,
    /// Number of releases that the last write of the session contained.
    fitted: usize,
    /// Whether the member has released a partition that no assignment had revoked (GW3).
    unasked: bool,
}

impl Ownership {
    pub(super) fn new(
        cx: &Arc<Context>,
        session: Session,
        lease: Lease,
        said: Said,
        notices: mpsc::UnboundedSender<Notice>,
    ) -> Ownership {
        let state = OwnershipState {
            holdings: Holdings::new(session),
            grants: BTreeMap::new(),
            known: None,
            notices: Some(notices),
            owner: Owner::new(cx.meter()),
            leaving: false,
            park: None,
            remembered: cx.greatest(),
            looks: 0,
            fitted: 0,
            unasked: false,
        };
        let [write, ended, left, wake] = std::array::from_fn(|_| Notify::new());
        let (cx, state) = (Arc::clone(cx), Mutex::new(state));
        Ownership { cx, session, lease, said, state, write, ended, left, wake }
    }

    fn state(&self) -> MutexGuard<'_, OwnershipState> {
        #[cfg(test)]
        interleavings::before_a_critical_section();
        unpoisoned(self.state.lock())
    }

    /// Returns the data for the next write of the session.
    fn data(&self) -> Value {
        self.state().data(&self.said)
    }

    /// Passes an answer about an assignment to the member's state machine, and reports the changes
    /// to the application.
    pub(super) fn answer(
        &self,
        participant: &mut Participant,
        answer: AssignmentAnswer,
    ) -> Option<News> {
        let mut state = self.state();
        let (news, changes) = participant.assignment(answer, &mut state.holdings);
        state.known = participant.known().cloned();
        self.cx.learn(participant.greatest());
        self.apply(&mut state, changes);
        news
    }

    fn apply(&self, state: &mut OwnershipState, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Granted(release) => {
                    let found = state.known.as_ref().and_then(|it| it.partition(release.partition));
                    let Some(name) = found.map(|partition| Arc::clone(&partition.name)) else {
                        continue;
                    };
                    let stop = self.lease.begin_work().child_token();
                    let grant = Arc::new(Grant::new(name, release, stop));
                    state.grants.insert(release.partition, Arc::clone(&grant));
                    state.owner.granted();
                    state.tell(Notice::Granted(Arc::clone(&grant)));
                    if state.leaving {
                        state.revoke(&grant);
                    }
                }
                Change::Revoked(release) => {
                    if let Some(grant) = state.grants.get(&release.partition) {
                        state.revoke(grant);
                    }
                }
                Change::Lost(release) => {
                    let by = state.known.as_ref().map_or(release.token, |it| it.epoch);
                    if let Some(grant) = state.grants.remove(&release.partition) {
                        grant.take(by);
                        self.ended.notify_waiters();
                        state.owner.lost(PartitionLoss::Taken.outcome());
                        state.tell(Notice::Taken(grant));
                        if state.has_left() {
                            self.left.notify_one();
                        }
                    }
                }
            }
        }
        if state.park.is_none() && state.holdings.releasing().len() > state.fitted {
            self.write.notify_one();
        }
    }

    /// Releases a partition after its work has stopped.
    pub(super) fn release(&self, grant: &Arc<Grant>, back_off: Duration) {
        let mut state = self.state();
        grant.give_up();
        self.ended.notify_waiters();
        let number = grant.release.partition;
        if !state.holdings.release(grant.release, back_off) {
            return;
        }
        // If the session has ended, the metric of losses already counts this grant.
        if state.grants.remove(&number).is_some() {
            state.owner.lost(PartitionLoss::Released.outcome());
        }
        let unasked = state.known.as_ref().is_some_and(|known| !known.is_revoked(number));
        state.unasked |= unasked;
        if state.has_left() {
            self.left.notify_one();
        }
        // A member that leaves with reservations keeps its partitions until its session ends, so it
        // writes no release (GW6).
        if state.park.is_none() {
            self.write.notify_one();
        }
    }

    /// Begins to leave: the member gets no more partitions, and all work gets the signal to stop.
    /// If the member already leaves without a reservation, `park` has no effect, because the
    /// releases may already be written.
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

    /// Returns whether the lease runs and the newest known assignment names the session.
    pub(super) fn is_member(&self) -> bool {
        let named = self.known().is_some_and(|known| known.member(self.session).is_some());
        named && self.lease.check().is_ok()
    }

    /// Returns the newest assignment that the task has read.
    pub(super) fn known(&self) -> Option<Arc<Assignment>> {
        self.state().known.clone()
    }

    /// Returns whether the newest known assignment has ended all grants that this member has
    /// released.
    pub(super) fn is_released(&self) -> bool {
        self.state().holdings.releasing().is_empty()
    }

    pub(super) fn is_leaving(&self) -> bool {
        self.state().leaving
    }

    /// Waits until the member leaves and all work on its partitions has stopped.
    pub(super) async fn left(&self) {
        while !self.state().has_left() {
            self.left.notified().await;
        }
    }

    /// Waits until the lease has ended, and then for one request timeout. If the task of the member
    /// were still running, it would have reported the loss earlier. So the runtime of the task has
    /// ended. This method depends on no other task.
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

    /// Ends all grants because the session has ended, and sends the last event.
    pub(super) fn lost(&self, loss: Loss) {
        let mut state = self.state();
        for (_, grant) in std::mem::take(&mut state.grants) {
            grant.stop.cancel();
            state.owner.lost(loss.outcome());
        }
        state.owner.coordinates(false);
        state.tell(Notice::Lost(loss));
        state.notices = None;
    }

    /// Records the end of a poll: whether it was completed, and whether the member coordinates.
    pub(super) fn polled(&self, completed: bool, coordinates: bool) {
        let mut state = self.state();
        state.looks += u64::from(completed);
        state.owner.coordinates(coordinates);
    }

    pub(super) fn tell(&self, notice: Notice) {
        self.state().tell(notice);
    }

    /// Puts the data of the session into its next renewal. This costs no additional request.
    pub(super) fn carry(&self, leadership: &Leadership) {
        leadership.renew_with(self.data());
    }

    /// Writes the session after each change. Between two writes, it waits for a second, or for a
    /// thirtieth of the validity if that is shorter. Never returns.
    pub(super) async fn write(&self, leadership: &Leadership) {
        let validity = self.cx.validity();
        let (mut due, between) = (false, BETWEEN_WRITES.min(validity / 30));
        loop {
            if !due {
                self.write.notified().await;
            }
            leadership.write_data(self.data());
            // A coordinator that expects no release from this member reads the session only once
            // per validity. If the session's ETag changes twice within a short time, the
            // coordinator reads the session earlier (GC2). So after a release that no assignment
            // had requested, write twice.
            due = std::mem::take(&mut self.state().unasked);
            self.cx.sleep(if due { validity / 8 } else { between }).await;
        }
    }
}

impl OwnershipState {
    fn has_left(&self) -> bool {
        self.leaving && self.grants.is_empty()
    }

    fn revoke(&self, grant: &Arc<Grant>) {
        // Several reasons for a revocation cause only one event.
        if !grant.revoked.swap(true, Ordering::SeqCst) {
            grant.stop.cancel();
            self.owner.revoked();
            self.tell(Notice::Revoked(Arc::clone(grant)));
        }
    }

    fn tell(&self, notice: Notice) {
        if let Some(notices) = &self.notices {
            // Sending fails if the application has dropped its membership.
            let _ = notices.send(notice);
            #[cfg(test)]
            interleavings::told();
        }
    }

    fn data(&mut self, said: &Said) -> Value {
        let data = SessionData {
            releases: BTreeMap::new(),
            looks: self.looks,
            seen: self.known.as_ref().map(|known| known.epoch).max(self.remembered),
            leaving: self.leaving && self.park.is_none(),
        };
        let releases = if self.park.is_none() { self.holdings.releasing() } else { &[] };
        let (data, fitted) = session_data::encode(releases, &data, said, MAX_DATA_BYTES);
        self.fitted = fitted;
        data
    }
}

#[cfg(test)]
mod interleavings;
