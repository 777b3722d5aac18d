//! This process as a member of one group. Each reply is computed from the current state of the
//! lease.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tenure::{Lease, Loss, Process};
use tenure_groups::{Group, Partition};
use tokio::sync::mpsc;

use super::refusals::{NOT_OWNED, other_token};
use crate::http::refusal::Refusal;
use crate::process::lock::lock;
use crate::serve::machine::{Common, OrderReply, ServedRole, Times};

/// If this member releases a partition without a revocation, the coordinator prefers other members
/// as the next owner for this time. `group run` uses the same time after CMD has ended.
const BACK_OFF: Duration = Duration::from_secs(1);

/// The member that a sidecar runs in one group. The task that joins the group sets the role of this
/// member. A reply combines the role and the current lease.
#[derive(Debug)]
pub struct Member {
    pub common: Common<GroupOrder>,
    pub group: Group,
    /// Time for which the group reserves the partitions for the name of this member, after this
    /// member has left.
    pub leave_for: Option<Duration>,
    state: Mutex<MemberState>,
}

#[derive(Debug)]
struct MemberState {
    role: ServedRole,
    /// The session of this member. `None` after its end was recorded.
    session: Option<Session>,
    /// The partitions that this member owns, by name.
    owned: HashMap<Arc<str>, ServedPartition>,
    /// For each partition that this member has lost, the token and the reason of the last loss.
    ends: HashMap<Arc<str>, (u64, &'static str)>,
    lost: Option<LostSession>,
}

#[derive(Debug)]
struct Session {
    id: String,
    lease: Lease,
    /// The reason why this member is leaving. `None` if it stays.
    leaves: Option<&'static str>,
}

#[derive(Debug)]
struct ServedPartition {
    partition: Partition,
    revoked: bool,
}

/// The end of the last session of this member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostSession {
    pub session: String,
    pub reason: &'static str,
    /// Time on the boot clock at which the session ended.
    pub at: Duration,
}

/// The state of a member at one moment, without the partitions.
#[derive(Debug)]
pub struct MemberNow {
    pub role: ServedRole,
    /// The id of the session, and a lower bound of the time left of its lease.
    pub session: Option<(String, Duration)>,
    /// True if less than a quarter of the validity is left of the session's lease.
    pub at_risk: bool,
    pub lost: Option<LostSession>,
    /// Time on the boot clock at which this state was computed.
    pub at: Duration,
}

/// A partition that this member owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedNow {
    /// The name of the partition. All streams share this text.
    pub name: Arc<str>,
    pub number: u32,
    pub token: u64,
    /// True if the partition is revoked. A revoked partition is still owned.
    pub revoked: bool,
}

/// An order of a client to the task of this member.
#[derive(Debug)]
pub enum GroupOrder {
    /// Makes the member leave the group. The reply is the number of partitions that the application
    /// must release first.
    Leave {
        order: Leave,
        reply: OrderReply<usize>,
    },
    LastSeen {
        reply: OrderReply<tenure_groups::GroupSnapshot>,
    },
}

/// The options of an order to leave.
#[derive(Debug, Clone, Copy, Default)]
pub struct Leave {
    /// Time for which the group reserves the partitions for the name of this member, after this
    /// member has left.
    pub keep: Option<Duration>,
    /// Time for which this member does not join again. `None` means the default.
    pub pause: Option<Duration>,
}

impl Member {
    pub fn new(
        name: &str,
        group: Group,
        times: Times,
        process: Process,
    ) -> (Member, mpsc::Receiver<GroupOrder>) {
        let (common, orders) = Common::new(name, times, process);
        let (owned, ends) = Default::default();
        let state =
            MemberState { role: ServedRole::Starting, session: None, owned, ends, lost: None };
        (Member { common, group, leave_for: None, state: Mutex::new(state) }, orders)
    }

    /// Returns a value that changes whenever a stream may have new events to send.
    pub fn change(&self) -> (u64, bool) {
        let at_risk = self.now().at_risk;
        (self.common.changes.count(), at_risk)
    }

    pub fn enter(&self, role: ServedRole) {
        lock(&self.state).role = role;
        self.common.changes.notify();
    }

    /// Records the new membership. Replies report the membership until its lease ends or the task
    /// gives up the membership.
    pub fn joined(&self, id: String, lease: Lease) {
        let mut state = lock(&self.state);
        state.role = ServedRole::Holding;
        state.session = Some(Session { id, lease, leaves: None });
        drop(state);
        self.common.changes.notify();
    }

    /// Records that this member leaves, and takes no more partitions. The session ends after the
    /// release of the last partition. Later replies report `reason` as the reason for this end.
    pub fn leaves(&self, reason: &'static str, role: ServedRole) {
        let mut state = lock(&self.state);
        if let Some(session) = &mut state.session {
            session.leaves = Some(reason);
            state.role = role;
        }
        drop(state);
        self.common.changes.notify();
    }

    /// Returns the state of the member at this moment.
    pub fn now(&self) -> MemberNow {
        let at = self.common.boot();
        let mut state = lock(&self.state);
        self.now_of(&mut state, at)
    }

    /// Returns the state of the member at this moment, and its owned partitions by number.
    pub fn all(&self) -> (MemberNow, Vec<OwnedNow>) {
        let at = self.common.boot();
        let mut state = lock(&self.state);
        let now = self.now_of(&mut state, at);
        let owned = state.owned.iter().filter(|(_, it)| it.partition.check().is_ok());
        let mut owned: Vec<_> = owned.map(|(name, it)| it.now(name)).collect();
        drop(state);
        owned.sort_by_key(|it| it.number);
        (now, owned)
    }

    fn now_of(&self, state: &mut MutexGuard<'_, MemberState>, at: Duration) -> MemberNow {
        let left = self.left(state, at);
        let at_risk = left.is_some_and(|left| self.common.is_at_risk(left));
        let id = state.session.as_ref().map(|session| session.id.clone());
        MemberNow { role: state.role, session: id.zip(left), at_risk, lost: state.lost.clone(), at }
    }

    /// Returns a lower bound of the time left of the session's lease.
    pub fn remaining(&self) -> Option<Duration> {
        let at = self.common.boot();
        self.left(&mut lock(&self.state), at)
    }

    /// Returns an owned partition, and a lower bound of the time for which this member still owns
    /// the partition.
    pub fn token(&self, name: &str) -> Option<(OwnedNow, Duration)> {
        let at = self.common.boot();
        let mut state = lock(&self.state);
        let left = self.left(&mut state, at)?;
        let (name, owned) = state.owned.get_key_value(name)?;
        owned.partition.check().ok()?;
        Some((owned.now(name), left))
    }

    /// Returns the reason for the loss of the partition, if the partition had this token at its
    /// last loss.
    pub fn reason(&self, name: &str, token: u64) -> Option<&'static str> {
        let state = lock(&self.state);
        state.ends.get(name).filter(|(ended, _)| *ended == token).map(|(_, reason)| *reason)
    }

    /// Releases a partition after the application has reported that its work on the partition has
    /// ended. No other function of this type releases an owned partition.
    pub fn release(
        &self,
        name: &str,
        only: Option<u64>,
        back_off: Option<Duration>,
    ) -> Result<u64, Refusal> {
        let at = self.common.boot();
        let mut state = lock(&self.state);
        self.left(&mut state, at).ok_or(NOT_OWNED)?;
        let owned = state.owned.get(name).filter(|it| it.partition.check().is_ok());
        let token = owned.ok_or(NOT_OWNED)?.partition.token().get();
        if only.is_some_and(|only| only != token) {
            return Err(other_token(token));
        }
        if let Some(ServedPartition { partition, revoked }) = state.end(name, "released") {
            let again = if revoked { Duration::ZERO } else { BACK_OFF };
            partition.release_for(back_off.unwrap_or(again));
        }
        drop(state);
        self.common.changes.notify();
        Ok(token)
    }

    /// Records this member as the owner of the partition. If the session has ended, records no
    /// owner, and returns the partition to the caller.
    pub fn granted(&self, partition: Partition) -> Option<Partition> {
        let at = self.common.boot();
        let mut state = lock(&self.state);
        if self.left(&mut state, at).is_none() {
            return Some(partition);
        }
        let name = Arc::from(partition.name());
        state.owned.insert(name, ServedPartition { partition, revoked: false });
        drop(state);
        self.common.changes.notify();
        None
    }

    /// Marks the partition as revoked. The partition stays owned until the application has released
    /// it.
    pub fn revoked(&self, name: &str) {
        if let Some(owned) = lock(&self.state).owned.get_mut(name) {
            owned.revoked = true;
        }
        self.common.changes.notify();
    }

    pub fn taken(&self, name: &str) {
        lock(&self.state).end(name, "taken");
        self.common.changes.notify();
    }

    /// Records the end of the session and its reason. All later replies report the end and the
    /// reason. Returns the partitions that this member owned, without releasing them. If the
    /// session has already ended, returns `None`, and the partitions can no longer be released.
    pub fn give_up(&self, reason: &'static str) -> Option<Vec<Partition>> {
        let at = self.common.boot();
        let mut state = lock(&self.state);
        self.left(&mut state, at)?;
        Some(self.end(&mut state, reason, at))
    }

    /// Checks the lease. If the lease has ended, records the end of the session permanently. So a
    /// later answer to a renewal cannot revive a session that a reply has reported as lost.
    fn left(&self, state: &mut MutexGuard<'_, MemberState>, at: Duration) -> Option<Duration> {
        let session = state.session.as_ref()?;
        match (self.common.left(&session.lease), session.leaves) {
            (Ok(left), _) => return Some(left),
            (Err(loss), Some(leaves)) if loss == Loss::Resigned.outcome() => {
                self.end(state, leaves, at);
            }
            (Err(loss), _) => drop(self.end(state, loss, at)),
        }
        None
    }

    fn end(
        &self,
        state: &mut MutexGuard<'_, MemberState>,
        reason: &'static str,
        at: Duration,
    ) -> Vec<Partition> {
        if let Some(Session { id, .. }) = state.session.take() {
            state.lost = Some(LostSession { session: id, reason, at });
            state.role = ServedRole::Ending;
            self.common.changes.notify();
        }
        let owned = std::mem::take(&mut state.owned);
        let ends = owned.iter().map(|(name, it)| (Arc::clone(name), (it.token(), reason)));
        state.ends.extend(ends);
        owned.into_values().map(|it| it.partition).collect()
    }
}

impl MemberState {
    fn end(&mut self, name: &str, reason: &'static str) -> Option<ServedPartition> {
        let (name, owned) = self.owned.remove_entry(name)?;
        self.ends.insert(name, (owned.token(), reason));
        Some(owned)
    }
}

impl ServedPartition {
    fn token(&self) -> u64 {
        self.partition.token().get()
    }

    fn now(&self, name: &Arc<str>) -> OwnedNow {
        let number = self.partition.number().0;
        OwnedNow { name: Arc::clone(name), number, token: self.token(), revoked: self.revoked }
    }
}
