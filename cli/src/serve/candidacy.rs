//! One election of a sidecar: what is known of it, decided when it is asked for.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tenure::{Election, LastSeen, Lease, Process};
use tokio::sync::mpsc;

use super::machine::{Common, OrderReply, ServedRole};
use crate::process::lock::lock;

/// This candidate in one election. The task that campaigns and leads changes its role; a reply is
/// made of the role, of the lease as it is at that moment, and of what the election has last seen.
#[derive(Debug)]
pub struct Candidacy {
    pub common: Common<ElectionOrder>,
    pub election: Election,
    state: Mutex<CandidacyState>,
}

#[derive(Debug)]
struct CandidacyState {
    role: ServedRole,
    /// The lease of a leader.
    lease: Option<Lease>,
    /// What this leader has proclaimed with success.
    data: Value,
    lost: Option<LostLeadership>,
}

/// How the last leadership of this candidate ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostLeadership {
    pub epoch: u64,
    pub reason: &'static str,
    /// On the boot clock.
    pub at: Duration,
}

/// What is true at one moment.
#[derive(Debug)]
pub struct CandidacyNow {
    pub role: ServedRole,
    /// The epoch that this candidate leads, and for how long it surely does.
    pub leads: Option<(u64, Duration)>,
    /// Whether less than a quarter of the validity is left of that.
    pub at_risk: bool,
    /// What this leader has proclaimed.
    pub data: Value,
    /// Of another leader, or of none.
    pub seen: Option<LastSeen>,
    pub answered_ago: Option<Duration>,
    pub lost: Option<LostLeadership>,
    /// On the boot clock.
    pub at: Duration,
}

/// What a client asks of the leader. `epoch` refuses any other than this.
#[derive(Debug)]
pub enum ElectionOrder {
    Proclaim { data: Value, epoch: Option<u64>, reply: OrderReply<u64> },
    Resign { order: ResignOrder, epoch: Option<u64>, reply: OrderReply<Resigned> },
}

/// How to resign.
#[derive(Debug, Clone, Default)]
pub struct ResignOrder {
    /// The candidate that goes first.
    pub successor: Option<String>,
    /// How long this candidate stays out of the election; `None` for the default.
    pub pause: Option<Duration>,
}

/// What a resignation has done. The leadership is over in any case.
#[derive(Debug, Clone, Copy)]
pub struct Resigned {
    pub epoch: u64,
    /// Whether the epoch is sealed: otherwise others wait until the lease lapses.
    pub sealed: bool,
}

impl Candidacy {
    pub fn new(
        name: &str,
        election: Election,
        validity: Duration,
        margin: Duration,
        process: Process,
    ) -> (Arc<Candidacy>, mpsc::Receiver<ElectionOrder>) {
        let (common, orders) = Common::new(name, validity, margin, process);
        let state = CandidacyState {
            role: ServedRole::Starting,
            lease: None,
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

    /// From here on replies name this candidate, until the lease or the task ends it.
    pub fn elected(&self, lease: Lease) {
        let mut state = lock(&self.state);
        (state.role, state.lease, state.data) = (ServedRole::Holding, Some(lease), Value::Null);
        drop(state);
        self.common.changes.notify();
    }

    /// What this leader has written is what it has proclaimed.
    pub fn proclaimed(&self, data: Value) {
        lock(&self.state).data = data;
        self.common.changes.notify();
    }

    /// What is true now.
    pub fn now(&self) -> CandidacyNow {
        let at = self.common.boot();
        let mut state = lock(&self.state);
        let leads = self.leads(&mut state, at);
        let at_risk = leads.is_some_and(|(_, left)| self.common.is_at_risk(left));
        CandidacyNow {
            role: state.role,
            leads,
            at_risk,
            data: if leads.is_some() { state.data.clone() } else { Value::Null },
            // What it has given up itself nobody holds, although the lease may run.
            seen: self.election.last_seen().filter(|seen| {
                let given_up = state.lost.as_ref().map(|lost| lost.epoch);
                given_up < Some(seen.leader.epoch.get())
            }),
            answered_ago: self.election.since_last_answer(),
            lost: state.lost.clone(),
            at,
        }
    }

    /// The epoch that this candidate leads, and for how long it surely does.
    pub fn leadership(&self) -> Option<(u64, Duration)> {
        let at = self.common.boot();
        self.leads(&mut lock(&self.state), at)
    }

    /// Ends the leadership for this reason, for every reply from now on.
    pub fn give_up(&self, reason: &'static str) {
        let at = self.common.boot();
        let mut state = lock(&self.state);
        if self.leads(&mut state, at).is_some() {
            self.end(&mut state, reason, at);
        }
    }

    /// Asks the lease itself. The first to find its end makes that final: a renewal that is answered
    /// later revives nothing that a client was told of.
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

    /// On a store behind a way that can be blocked.
    async fn leading(world: &World, name: &str) -> (Arc<Candidacy>, tenure::Leadership) {
        let election = world.node(name).build().expect("settings that fit");
        let process = Process::system().with_clock(Arc::new(world.clock.clone()));
        let (candidacy, _) = Candidacy::new("e", election, VALIDITY, MARGIN, process);
        candidacy.enter(ServedRole::Seeking);
        assert_eq!(candidacy.leadership(), None);
        let leadership = elect(&candidacy.election).await;
        candidacy.elected(leadership.lease());
        (candidacy, leadership)
    }

    #[tokio::test(start_paused = true)]
    async fn a_leadership_is_over_before_its_lease_and_stays_over() {
        let world = World::new();
        let (candidacy, leadership) = leading(&world, "a").await;
        let lease = leadership.lease();
        let (epoch, left) = candidacy.leadership().expect("it leads");
        assert_eq!((epoch, left), (1, lease.remaining() - MARGIN));
        wait(VALIDITY * 2).await;
        assert!(candidacy.leadership().is_some(), "it is renewed");
        world.store.always(Fault::FailBefore);
        while candidacy.leadership().is_some() {
            assert!(lease.remaining() > MARGIN);
            let now = candidacy.now();
            assert_eq!(now.at_risk, lease.remaining() <= VALIDITY / 4);
            wait(millis(10)).await;
        }
        assert!(lease.check().is_ok(), "the lease runs");
        let lost = candidacy.now().lost.expect("it was lost");
        assert_eq!((lost.epoch, lost.reason), (1, NOT_RENEWED));
        // A renewal that comes through after all revives nothing.
        world.store.heal();
        wait(millis(1_500)).await;
        assert!(lease.check().is_ok() && lease.remaining() > MARGIN, "{:?}", lease.remaining());
        assert_eq!(candidacy.leadership(), None);
        assert!(candidacy.now().leads.is_none());
        // It holds the epoch still, by the store, and is not to be taken for its leader.
        let mut changes = candidacy.election.observe();
        changes.next().await.expect("it looks").expect("the store works");
        assert_eq!(candidacy.election.last_seen().map(|seen| seen.is_held()), Some(true));
        assert_eq!(candidacy.now().seen, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_asks_the_lease_and_not_what_was_known() {
        let world = World::new();
        let (candidacy, leadership) = leading(&world, "a").await;
        let mut changes = candidacy.common.changes.subscribe();
        changes.mark_unchanged();
        // The machine sleeps: no task has run since.
        world.clock.suspend(VALIDITY);
        assert_eq!(candidacy.leadership(), None);
        assert!(changes.has_changed().expect("it is open"), "the streams are woken");
        assert!(candidacy.now().lost.is_some());
        drop(leadership);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_reason_stays() {
        let world = World::new();
        let (candidacy, leadership) = leading(&world, "a").await;
        candidacy.give_up("resigned");
        leadership.resign().await.expect("the store works");
        candidacy.give_up("ending");
        assert_eq!(candidacy.now().lost.map(|lost| lost.reason), Some("resigned"));
    }
}
