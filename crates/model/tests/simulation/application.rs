//! The application of a candidate. The application campaigns, leads for a while, writes to the
//! resources and resigns.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tenure::{
    CampaignOutcome, Cancellation, Election, Epoch, Error, ErrorKind, Leadership, LeadershipEvent,
    Loss,
};
use tenure_model::time::{now, sleep};

use super::plan::{Broken, Knobs};
use super::process::spawn;
use super::world::{Who, World};

#[derive(Clone)]
pub struct Candidate {
    pub world: Arc<World>,
    pub who: Who,
    pub knobs: Knobs,
    pub election: Election,
}

impl Candidate {
    pub async fn live(self) {
        loop {
            match self.campaign().await {
                Ok(leadership) => self.lead(leadership).await,
                Err(error) => {
                    self.world.note(self.who, || format!("campaign failed: {error}"));
                    if !self.knobs.tries || error.kind() != ErrorKind::Unavailable {
                        return self.world.fail("campaign", format!("{}: {error:?}", self.who));
                    }
                    self.world.count("campaigns that gave up");
                    sleep(self.knobs.poll).await;
                }
            }
            let rest = {
                let mut state = self.world.state();
                if state.faults { state.part(self.knobs.validity / 2) } else { Duration::ZERO }
            };
            self.world.idle(rest).await;
        }
    }

    async fn campaign(&self) -> Result<Leadership, Error> {
        if !self.knobs.tries {
            return self.election.campaign().await;
        }
        loop {
            match self.election.try_campaign().await? {
                CampaignOutcome::Elected(leadership) => return Ok(leadership),
                _ => sleep(self.knobs.poll).await,
            }
        }
    }

    async fn lead(&self, leadership: Leadership) {
        let id = self.world.granted(self.who, &leadership);
        assert!(self.world.plan.broken != Broken::Panics, "a deliberate panic");
        self.count_recoveries(&leadership);
        if self.world.chance(0.2) {
            return self.run(leadership, id).await;
        }
        let until = self.term();
        let mut proclaimed = 0;
        loop {
            let token = match leadership.check() {
                Ok(token) => {
                    let token = match self.world.plan.broken {
                        Broken::TokenGuessed => {
                            token.next().expect("the epoch is far below the maximum")
                        }
                        _ => token,
                    };
                    self.world.token(id, token.get(), leadership.remaining());
                    token
                }
                // The broken application continues with its token, and does not check the lease
                // again.
                Err(loss) if self.world.plan.broken == Broken::TokenKept => {
                    drop(loss);
                    self.world.token(id, leadership.epoch().get(), Duration::ZERO);
                    leadership.epoch()
                }
                Err(loss) => return self.lost(id, &loss),
            };
            // An arbitrary delay may occur between the check and this write, so only fencing
            // protects the resource.
            self.write(token).await;
            if self.world.state().faults && now() >= until {
                break;
            }
            if proclaimed < 2 && self.world.chance(0.05) {
                proclaimed += 1;
                self.world.count("proclamations");
                // The result of `proclaim` is ignored, because the next check reports any loss.
                self.world.proclaims(self.who);
                let _ = leadership.proclaim(proclaimed).await;
            }
            if self.knobs.calls.is_some() && self.world.chance(0.3) {
                self.call_leadership(&leadership, id).await;
            }
            self.rest().await;
        }
        self.leave(leadership, id).await;
    }

    /// Counts the recoveries of the lease: the first renewal after each event `AtRisk`.
    fn count_recoveries(&self, leadership: &Leadership) {
        let (world, mut events) = (Arc::clone(&self.world), leadership.events());
        spawn(&self.world, self.who, 0, async move {
            let mut at_risk = false;
            while let Some(event) = events.next().await {
                match event {
                    LeadershipEvent::AtRisk { .. } => at_risk = true,
                    LeadershipEvent::Renewed { .. } if std::mem::take(&mut at_risk) => {
                        world.count("at-risk recoveries");
                    }
                    _ => {}
                }
            }
        });
    }

    /// Returns the time at which the application intends to end this leadership.
    fn term(&self) -> Duration {
        let mut state = self.world.state();
        if self.world.plan.steady {
            return self.world.plan.length;
        }
        let validities = state.rng.f64() * state.rng.f64() * 12.0;
        now() + self.knobs.validity.mul_f64(validities)
    }

    /// Waits between two actions of a leader.
    async fn rest(&self) {
        let (faults, part) = {
            let mut state = self.world.state();
            (state.faults, state.part(self.knobs.validity / 5))
        };
        let part = part.max(Duration::from_millis(1));
        if faults { self.world.idle(part).await } else { sleep(part).await }
    }

    async fn leave(&self, leadership: Leadership, id: usize) {
        if self.world.chance(0.3) {
            return self.let_go(leadership, id);
        }
        self.resign(leadership, id).await;
    }

    /// Returns the name of a successor. Sometimes no participant has this name.
    pub fn successor(&self) -> Option<String> {
        let candidates = &self.world.plan.candidates;
        if !self.knobs.names {
            return None;
        }
        let drawn = self.world.state().rng.usize(0..=candidates.len());
        self.world.count("successors named");
        Some(candidates.get(drawn).map_or_else(|| "nobody".to_owned(), |knobs| knobs.name.clone()))
    }

    fn lost(&self, id: usize, loss: &Loss) {
        self.world.note(self.who, || format!("learns of the loss: {loss}"));
        self.world.over(id, loss.outcome());
    }

    /// Leads with [`Leadership::run`], and sometimes drops the future of this call.
    async fn run(&self, leadership: Leadership, id: usize) {
        let (until, lease) = (self.term(), leadership.lease());
        let mut running = Box::pin(leadership.run(|token, cancelled| async move {
            self.work(token, cancelled, until).await;
            // The work has ended, so `run` resigns the leadership now.
            self.world.over(id, "ran");
        }));
        let patience = {
            let mut state = self.world.state();
            let gives_up = self.knobs.calls.is_some() && state.faults && state.chance(0.3);
            if gives_up { state.part(self.knobs.validity * 2) } else { Duration::MAX }
        };
        let gives_up = async {
            sleep(patience).await;
            let is_calm = !self.world.state().faults;
            // In the calm phase, the application does not drop the call, and keeps its leadership.
            if is_calm {
                std::future::pending().await
            }
        };
        tokio::select! {
            biased;
            outcome = &mut running => {
                let cut = outcome.loss().is_some();
                self.world.count(if cut { "runs cut short" } else { "runs to the end" });
            }
            () = gives_up => {
                self.world.count("runs given up");
                self.world.over(id, "dropped");
                drop(running);
            }
        }
        self.world.lease_checked(id, &lease);
        self.keep(lease, id);
    }

    async fn work(&self, token: Epoch, cancelled: Cancellation, until: Duration) {
        loop {
            self.write(token).await;
            tokio::select! {
                biased;
                () = cancelled.cancelled() => return self.world.count("runs cancelled"),
                () = self.rest() => {}
            }
            let mut state = self.world.state();
            if !state.faults {
                self.world.leads_in(&mut state);
            } else if now() >= until {
                return;
            }
        }
    }

    /// Writes to the resources. The network delay of this write is independent of the store's
    /// delays.
    async fn write(&self, token: Epoch) {
        let (before, latency) = {
            let mut state = self.world.state();
            let most = self.world.plan.rtt;
            (state.tail(most), state.part(most))
        };
        sleep(before).await;
        let (world, who) = (Arc::clone(&self.world), self.who);
        let arrives = async move {
            sleep(latency).await;
            world.resource_written(who, token.get());
        };
        tokio::spawn(arrives);
    }
}
