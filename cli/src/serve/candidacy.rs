//! One election of a sidecar. Each reply is computed from the current state of the lease.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tenure::{Election, LastSeen, Lease, Process};
use tokio::sync::mpsc;

use super::machine::{Common, OrderReply, ServedRole, Times};
use crate::election::LeaseState;
use crate::process::lock::lock;

/// The candidate that a sidecar runs in one election. The task that campaigns and leads sets the
/// role of this candidate. A reply combines the role, the current lease, and the last observation
/// of the election.
#[derive(Debug)]
pub struct Candidacy {
    pub common: Common<ElectionOrder>,
    pub election: Election,
    state: Mutex<CandidacyState>,
}

#[derive(Debug)]
struct CandidacyState {
    role: ServedRole,
    /// The lease of this candidate while it leads.
    lease: Option<Lease>,
    /// The lease of the last leadership that this candidate gave up. This lease may still run.
    given_up: Option<Lease>,
    /// The data that this candidate has proclaimed as the leader.
    data: Value,
    lost: Option<LostLeadership>,
}

/// The end of the last leadership of this candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostLeadership {
    pub epoch: u64,
    pub reason: &'static str,
    /// Time on the boot clock at which the leadership ended.
    pub at: Duration,
}

/// The state of a candidacy at one moment.
#[derive(Debug)]
pub struct CandidacyNow {
    /// The state of the election. The state may be `held` although this candidate has given up its
    /// lease.
    pub state: LeaseState,
    pub role: ServedRole,
    /// The epoch that this candidate leads, and a lower bound of the time left of its lease.
    pub leads: Option<(u64, Duration)>,
    /// True if this candidate leads and less than a quarter of the validity is left of its lease.
    pub at_risk: bool,
    /// The data that this candidate has proclaimed as the leader.
    pub data: Value,
    /// The last observation of the election. `None` if this candidate has given up the observed
    /// epoch.
    pub seen: Option<LastSeen>,
    pub answered_ago: Option<Duration>,
    pub lost: Option<LostLeadership>,
    /// Time on the boot clock at which this state was computed.
    pub at: Duration,
}

/// An order of a client to the leader. An order with `epoch` is refused if the leader has another
/// epoch.
#[derive(Debug)]
pub enum ElectionOrder {
    Proclaim { data: Value, epoch: Option<u64>, reply: OrderReply<u64> },
    Resign { order: ResignOrder, epoch: Option<u64>, reply: OrderReply<Resigned> },
}

/// The options of a resignation.
#[derive(Debug, Clone, Default)]
pub struct ResignOrder {
    /// The name of the candidate that may campaign before all others.
    pub successor: Option<String>,
    /// Time for which this candidate does not campaign. `None` means the default.
    pub pause: Option<Duration>,
}

/// The result of a resignation. The leadership of this candidate has ended even if the epoch is not
/// sealed.
#[derive(Debug, Clone, Copy)]
pub struct Resigned {
    pub epoch: u64,
    /// True if the epoch is sealed. If it is not, other candidates wait until its lease lapses.
    pub sealed: bool,
}

impl Candidacy {
    pub fn new(
        name: &str,
        election: Election,
        times: Times,
        process: Process,
    ) -> (Arc<Candidacy>, mpsc::Receiver<ElectionOrder>) {
        let (common, orders) = Common::new(name, times, process);
        let state = CandidacyState {
            role: ServedRole::Starting,
            lease: None,
            given_up: None,
            data: Value::Null,
            lost: None,
        };
        (Arc::new(Candidacy { common, election, state: Mutex::new(state) }), orders)
    }

    pub fn enter(&self, role: ServedRole) {
        let mut state = lock(&self.state);
        (state.role, state.lease) = (role, None);
        drop(state);
        self.common.changes.notify();
    }

    /// Records the new leadership. Replies report this candidate as the leader until the lease ends
    /// or the task gives up the leadership.
    pub fn elected(&self, lease: Lease) {
        let mut state = lock(&self.state);
        (state.role, state.lease, state.data) = (ServedRole::Holding, Some(lease), Value::Null);
        drop(state);
        self.common.changes.notify();
    }

    /// Records data that this candidate has proclaimed as the leader.
    pub fn proclaimed(&self, data: Value) {
        lock(&self.state).data = data;
        self.common.changes.notify();
    }

    /// Returns the state of the candidacy at this moment.
    pub fn now(&self) -> CandidacyNow {
        let at = self.common.boot();
        let mut state = lock(&self.state);
        let leads = self.leads(&mut state, at);
        let at_risk = leads.is_some_and(|(_, left)| self.common.is_at_risk(left));
        let (seen, answered_ago) = (self.election.last_seen(), self.election.since_last_answer());
        let runs = |lease: &Option<Lease>| lease.as_ref().is_some_and(|it| it.check().is_ok());
        let is_held = leads.is_some()
            || runs(&state.given_up)
            || seen.as_ref().is_some_and(LastSeen::is_held);
        CandidacyNow {
            state: LeaseState::of_last_seen(is_held, answered_ago, self.common.times.recent),
            role: state.role,
            leads,
            at_risk,
            data: if leads.is_some() { state.data.clone() } else { Value::Null },
            // After this candidate has given up its leadership, replies contain no leader, although
            // the lease may still run.
            seen: seen.filter(|seen| {
                let given_up = state.lost.as_ref().map(|lost| lost.epoch);
                given_up < Some(seen.leader.epoch.get())
            }),
            answered_ago,
            lost: state.lost.clone(),
            at,
        }
    }

    /// Returns the epoch that this candidate leads, and a lower bound of the time left of its
    /// lease.
    pub fn leadership(&self) -> Option<(u64, Duration)> {
        let at = self.common.boot();
        self.leads(&mut lock(&self.state), at)
    }

    /// Records that the leadership has ended for `reason`, unless an end is already recorded. Later
    /// replies contain the end and its reason.
    pub fn give_up(&self, reason: &'static str) {
        let at = self.common.boot();
        let mut state = lock(&self.state);
        if self.leads(&mut state, at).is_some() {
            self.end(&mut state, reason, at);
        }
    }

    /// Checks the lease. If the lease has ended, records the end of the leadership permanently. So
    /// a later answer to a renewal cannot revive a leadership that a reply has reported as lost.
    fn leads(
        &self,
        state: &mut MutexGuard<'_, CandidacyState>,
        at: Duration,
    ) -> Option<(u64, Duration)> {
        let lease = state.lease.as_ref()?;
        match self.common.left(lease) {
            Ok(left) => Some((lease.epoch().get(), left)),
            Err(reason) => {
                self.end(state, reason, at);
                None
            }
        }
    }

    fn end(&self, state: &mut MutexGuard<'_, CandidacyState>, reason: &'static str, at: Duration) {
        if let Some(lease) = state.lease.take() {
            state.lost = Some(LostLeadership { epoch: lease.epoch().get(), reason, at });
            state.role = ServedRole::Ending;
            state.given_up = Some(lease);
            self.common.changes.notify();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use tenure_testkit::fault_store::Fault;
    use tenure_testkit::time::{millis, wait};
    use tenure_testkit::world::{VALIDITY, World, elect};

    use super::*;
    use crate::serve::machine::NOT_RENEWED;

    const MARGIN: Duration = Duration::from_secs(2);
    const TIMES: Times = Times { validity: VALIDITY, margin: MARGIN, recent: VALIDITY };

    /// Returns a candidacy that leads. Its requests go to `world.store`, whose faults the test
    /// controls.
    async fn leading(world: &World, name: &str) -> (Arc<Candidacy>, tenure::Leadership) {
        let election = world.node(name).build().expect("settings that fit");
        let process = Process::system().with_clock(Arc::new(world.clock.clone()));
        let (candidacy, _) = Candidacy::new("e", election, TIMES, process);
        candidacy.enter(ServedRole::Seeking);
        assert_eq!(candidacy.leadership(), None);
        let leadership = elect(&candidacy.election).await;
        candidacy.elected(leadership.lease());
        (candidacy, leadership)
    }

    #[tokio::test(start_paused = true)]
    async fn a_leadership_that_ended_before_its_lease_stays_ended() {
        let world = World::new();
        let (candidacy, leadership) = leading(&world, "a").await;
        let lease = leadership.lease();
        let (epoch, left) = candidacy.leadership().expect("the candidate leads");
        assert_eq!((epoch, left), (1, lease.remaining() - MARGIN));
        wait(VALIDITY * 2).await;
        assert!(candidacy.leadership().is_some(), "the lease is renewed");
        world.store.always(Fault::FailBefore);
        while candidacy.leadership().is_some() {
            assert!(lease.remaining() > MARGIN);
            let now = candidacy.now();
            assert_eq!(now.at_risk, lease.remaining() <= VALIDITY / 4);
            wait(millis(10)).await;
        }
        assert!(lease.check().is_ok(), "the lease runs");
        let lost = candidacy.now().lost.expect("the leadership is lost");
        assert_eq!((lost.epoch, lost.reason), (1, NOT_RENEWED));
        // A renewal that succeeds after the end of the leadership does not restore the leadership.
        world.store.heal();
        wait(millis(1_500)).await;
        assert!(lease.check().is_ok() && lease.remaining() > MARGIN, "{:?}", lease.remaining());
        assert_eq!(candidacy.leadership(), None);
        assert!(candidacy.now().leads.is_none());
        // The record in the store still names this candidate, but a reply must not report this
        // candidate as the leader.
        let mut changes = candidacy.election.observe();
        changes.next().await.expect("the watch polls").expect("the store works");
        assert_eq!(candidacy.election.last_seen().map(|seen| seen.is_held()), Some(true));
        assert_eq!(candidacy.now().seen, None);
    }

    #[tokio::test(start_paused = true)]
    async fn each_reply_reads_the_lease() {
        let world = World::new();
        let (candidacy, leadership) = leading(&world, "a").await;
        let mut changes = candidacy.common.changes.subscribe();
        changes.mark_unchanged();
        // The machine sleeps here, so no task observes the end of the lease before the next line.
        world.clock.suspend(VALIDITY);
        assert_eq!(candidacy.leadership(), None);
        assert!(changes.has_changed().expect("the channel is open"), "the streams are woken");
        assert!(candidacy.now().lost.is_some());
        drop(leadership);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_reason_of_a_loss_is_kept() {
        let world = World::new();
        let (candidacy, leadership) = leading(&world, "a").await;
        candidacy.give_up("resigned");
        leadership.resign().await.expect("the store works");
        candidacy.give_up("ending");
        assert_eq!(candidacy.now().lost.map(|lost| lost.reason), Some("resigned"));
    }
}
