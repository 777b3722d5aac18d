//! Makes random public calls of an [`Election`] and a [`Leadership`] during a campaign, and drops
//! some of them. Only the operator calls `Election::restore`, because a restore suspends some
//! invariants (docs/design/protocol.md).

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tenure::{
    CampaignEvent, CampaignOutcome, Deposed, Error, ErrorKind, Leader, Leadership, Lease, Loss,
    Observation,
};
use tenure_model::time::{now, sleep};

use super::application::Candidate;
use super::checkers::{Event, LeadId};
use super::plan::Broken;
use super::process::spawn;
use super::world::{Who, World};

/// A call that the application makes on its `Election` during the campaign.
#[derive(Debug, Clone, Copy)]
enum Call {
    Leader,
    Snapshot,
    Refresh,
    Observe,
    Events,
    SinceLastAnswer,
    Campaign,
    TryCampaign,
    Depose,
}

/// Calls that only read. The simulation continues to make these calls after the end of the faults.
const LOOKS: [Call; 6] = [
    Call::Leader,
    Call::Snapshot,
    Call::Refresh,
    Call::Observe,
    Call::Events,
    Call::SinceLastAnswer,
];
const ALL: [Call; 9] = [
    Call::Leader,
    Call::Snapshot,
    Call::Refresh,
    Call::Observe,
    Call::Events,
    Call::SinceLastAnswer,
    Call::Campaign,
    Call::TryCampaign,
    Call::Depose,
];

impl Candidate {
    /// Makes one random call after another. Drops a call that does not return within a random time.
    pub async fn call(self, every: Duration) {
        loop {
            let (call, rest, patience) = {
                let mut state = self.world.state();
                let calls: &[Call] = if state.faults { &ALL } else { &LOOKS };
                let call = *state.rng.choice(calls).expect("not empty");
                (call, state.tail(every), state.part(self.knobs.validity))
            };
            sleep(rest.max(Duration::from_millis(1))).await;
            // These calls may end a leadership, which counts as a fault. So the calls must end
            // before the faults end.
            let late = now() + patience >= self.world.plan.length;
            if late && matches!(call, Call::Campaign | Call::TryCampaign | Call::Depose) {
                continue;
            }
            self.world.note(self.who, || format!("calls {call:?} for {patience:.3?}"));
            tokio::select! {
                biased;
                done = self.make(call) => match done {
                    Err(error) if error.kind() != ErrorKind::Unavailable => {
                        return self.world.fail("campaign", format!("{call:?}: {error:?}"));
                    }
                    Err(_) => self.world.count("calls failed"),
                    Ok(()) => self.world.count("calls"),
                },
                () = sleep(patience) => self.world.count("calls given up"),
            }
        }
    }

    async fn make(&self, call: Call) -> Result<(), Error> {
        let election = &self.election;
        match call {
            Call::Leader => self.saw(election.leader().await?.as_ref()),
            Call::Snapshot => self.saw(election.snapshot().await?.leader.as_ref()),
            Call::Refresh => election.refresh(),
            Call::Observe => {
                let mut seen = election.observe();
                while let Some(observation) = seen.next().await {
                    if let Observation::Leader(leader) = observation? {
                        self.saw(Some(&leader));
                    }
                }
            }
            Call::Events => {
                let mut events = election.events();
                while let Some(event) = events.next().await {
                    if let CampaignEvent::Following(leader) = event {
                        self.exists(&leader);
                    }
                }
            }
            Call::SinceLastAnswer => {
                assert!(!election.name().is_empty());
                // The simulation does not know the correct result, so it ignores the returned
                // duration.
                let _ = election.since_last_answer();
            }
            Call::Campaign => self.elected_beside(election.campaign().await?),
            Call::TryCampaign => match election.try_campaign().await? {
                CampaignOutcome::Elected(leadership) => self.elected_beside(leadership),
                CampaignOutcome::Held(leader) => self.exists(&leader),
                other => unreachable!("{other:?}"),
            },
            Call::Depose if self.world.plan.operator => self.depose().await?,
            Call::Depose => {}
        }
        Ok(())
    }

    /// Reports to the checkers that a call of this task returned this leader. The epoch of the
    /// leader must not be lower than the epochs that earlier calls returned.
    fn saw(&self, leader: Option<&Leader>) {
        if let Some(leader) = leader {
            self.world.observed(self.who, "calls", leader.epoch.get());
        }
    }

    fn exists(&self, leader: &Leader) {
        if self.world.state().bucket.newest() < Some(leader.epoch.get()) {
            self.world
                .fail("observer", format!("{}: the leader does not exist: {leader:?}", self.who));
        }
    }

    /// Drops a leadership that a random call of the application has won.
    fn elected_beside(&self, leadership: Leadership) {
        let id = self.world.granted(self.who, &leadership);
        self.world.count("elected by a call");
        self.let_go(leadership, id);
    }

    async fn depose(&self) -> Result<(), Error> {
        let Some(leader) = self.election.leader().await? else { return Ok(()) };
        // The deposition may fail, because the record of a foreign peer does not state the validity
        // of its lease.
        let deposed = self.election.depose(Some(leader.epoch)).await;
        if let Ok(Deposed::Sealed { .. }) = deposed {
            self.world.count("deposed by a call");
        }
        Ok(())
    }

    /// Drops a leadership. Afterwards the method `check` of its lease must return an error.
    pub fn let_go(&self, leadership: Leadership, id: LeadId) {
        let lease = leadership.lease();
        self.world.over(id, "dropped");
        if self.world.plan.broken == Broken::DroppedButKept {
            let world = Arc::clone(&self.world);
            spawn(&self.world, self.who, 0, async move {
                sleep(world.plan.longest_validity()).await;
                drop(leadership);
            });
        } else {
            drop(leadership);
        }
        self.world.lease_checked(id, &lease);
        self.keep(lease, id);
    }

    /// Keeps a [`Lease`] handle, and periodically calls its method `check`.
    pub fn keep(&self, lease: Lease, id: LeadId) {
        if self.knobs.calls.is_none() {
            return;
        }
        let (world, validity) = (Arc::clone(&self.world), self.knobs.validity);
        spawn(&self.world, self.who, 0, async move {
            for _ in 0..4 {
                let rest = world.state().tail(validity);
                sleep(rest.max(Duration::from_millis(1))).await;
                world.lease_checked(id, &lease);
            }
        });
    }

    /// Calls a random method of the leadership, and sometimes drops the future of the call.
    pub async fn call_leadership(&self, leadership: &Leadership, id: LeadId) {
        let (call, patience) = {
            let mut state = self.world.state();
            (state.rng.u32(0..5), state.tail(self.knobs.validity / 5))
        };
        match call {
            0 => self.keep(leadership.lease(), id),
            1 => {
                self.world.proclaims(self.who);
                let proclaimed = leadership.proclaim("given up");
                self.give_up(patience, proclaimed).await;
            }
            2 => {
                if self.give_up(patience, leadership.lost()).await.is_some() {
                    self.world.lease_lost(id, &leadership.lease());
                }
            }
            3 => {
                let next = async { leadership.events().next().await };
                self.give_up(patience, next).await;
            }
            _ => self.look(leadership),
        }
    }

    /// Makes all calls that send no request. No time passes between the calls, so their results
    /// must agree.
    fn look(&self, leadership: &Leadership) {
        let (token, left) = (leadership.token(), leadership.remaining());
        let consistent = token.is_none_or(|token| token == leadership.epoch())
            && token.is_some() != left.is_zero()
            && leadership.ends_at() == leadership.lease().ends_at()
            && leadership.candidate() == leadership.lease().candidate();
        if !consistent {
            self.world.fail("token", format!("{leadership:?}: {token:?}, {left:?} left"));
        }
    }

    async fn give_up<T>(&self, patience: Duration, call: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = call => Some(done),
            () = sleep(patience) => {
                self.world.count("leadership calls given up");
                None
            }
        }
    }

    /// Resigns, and sometimes drops the future of the call.
    pub async fn resign(&self, leadership: Leadership, id: LeadId) {
        let lease = leadership.lease();
        // `check` fails as soon as the application calls `resign`. So the application no longer
        // believes that it leads.
        let lost = leadership.check().err();
        self.world.over(id, lost.as_ref().map_or("resigned", Loss::outcome));
        let successor = self.successor();
        let resigning = async {
            match successor {
                Some(name) => leadership.resign_to(name).await,
                None => leadership.resign().await,
            }
        };
        let patience = {
            let mut state = self.world.state();
            let gives_up = self.knobs.calls.is_some() && state.chance(0.3);
            gives_up.then(|| state.tail(self.knobs.validity))
        };
        let resigned = match patience {
            Some(patience) => self.give_up(patience, resigning).await,
            None => Some(resigning.await),
        };
        self.world.note(self.who, || format!("resigned: {resigned:?}"));
        match resigned {
            Some(Ok(())) => self.world.resigned(id),
            Some(Err(_)) => self.world.count("resignations failed"),
            None => {}
        }
        self.world.lease_checked(id, &lease);
    }
}

impl World {
    /// Checks a [`Lease`] handle. Any task may own the handle, and the handle may outlive the
    /// leadership.
    pub fn lease_checked(&self, id: LeadId, lease: &Lease) {
        match lease.check() {
            Ok(token) => {
                self.lease_ok(id, token.get(), lease.remaining());
            }
            Err(_) => self.count("leases that had ended at a check"),
        }
    }

    /// Records that the application of a leader calls `proclaim`, which requests an additional
    /// write.
    pub fn proclaims(&self, who: Who) {
        self.see_in(&mut self.state(), &Event::Proclaims { who });
    }

    /// Checks the lease after the application has received the loss.
    fn lease_lost(&self, id: LeadId, lease: &Lease) {
        if let Ok(token) = lease.check() {
            self.fail("dropped", format!("the lease of token {token} is Ok after the application of lead {id} has received the loss"));
        }
    }
}
