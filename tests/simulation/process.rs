//! Simulated processes: a candidate with its application, an observer, a compactor.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tenure::{
    Attempt, Cancellation, Compactor, Election, Entropy, Epoch, Error, ErrorKind, Leadership,
    LeadershipEvent, Loss, Observation, Process,
};

use super::clock::SimClock;
use super::gate::{Gate, Pausable, TaskEnd};
use super::plan::{Broken, CompactorKnobs, Knobs};
use super::store::SimStore;
use super::world::{Member, Who, World, now, sleep};

/// Random numbers from the run's dice.
struct SimEntropy(Arc<World>);

impl Entropy for SimEntropy {
    fn unique(&self) -> u128 {
        let mut state = self.0.state();
        state.uniques += 1;
        (u128::from(state.rng.u64(..)) << 64) | u128::from(state.uniques)
    }

    fn fraction(&self) -> f64 {
        self.0.state().rng.f64()
    }
}

impl fmt::Debug for SimEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimEntropy")
    }
}

/// A new process. The clocks of a machine outlive its processes.
pub fn join(world: &Arc<World>, label: &str, clock: Arc<SimClock>) -> Who {
    let mut state = world.state();
    let who = Who(state.members.len());
    state.members.push(Member {
        label: format!("{who}/{label}"),
        gates: [Arc::<Gate>::default(), Arc::<Gate>::default()],
        clock,
        outage: None,
        alive: true,
        stopped: false,
        near: false,
    });
    who
}

/// A machine that has been up for a while, with a wall clock that is anything but right.
pub fn machine(world: &World, rate: u64) -> Arc<SimClock> {
    let mut state = world.state();
    let boot = Duration::from_millis(state.rng.u64(0..10_000_000));
    let wall = Duration::from_millis(1_800_000_000_000 + state.rng.u64(0..200_000_000));
    SimClock::new(boot, wall, rate)
}

pub fn spawn(
    world: &Arc<World>,
    who: Who,
    gate: usize,
    task: impl Future<Output = ()> + Send + 'static,
) {
    let gate = Arc::clone(&world.state().members[who.0].gates[gate]);
    let task = world.interruptible(who, task);
    let world = Arc::clone(world);
    tokio::spawn(async move {
        if let TaskEnd::Panicked(message) = Pausable::new(gate, task).await {
            world.fail("panic", format!("{who}: {message}"));
        }
    });
}

fn process(world: &Arc<World>, who: Who) -> Process {
    let clock = Arc::clone(&world.state().members[who.0].clock);
    let process = Process::new(clock, Arc::new(SimEntropy(Arc::clone(world))));
    let world = Arc::clone(world);
    process.with_spawner(move |task| spawn(&world, who, 1, task))
}

/// The election as an operator has it. What it began ends soon after the faults do: a deposition is
/// one of them.
pub fn operators(store: Arc<SimStore>) -> Election {
    let (world, who) = (Arc::clone(&store.world), store.who);
    let builder = Election::builder(store, "app").layout(world.plan.layout).name("operator");
    let builder = builder.validity(world.plan.longest_validity() / 4);
    builder.process(process(&world, who)).build().expect("the settings fit together")
}

fn election(world: &Arc<World>, who: Who, knobs: &Knobs) -> Election {
    election_at(SimStore::new(world, who), knobs)
}

fn election_at(store: Arc<SimStore>, knobs: &Knobs) -> Election {
    let (world, who) = (Arc::clone(&store.world), store.who);
    let mut builder = Election::builder(store, "app")
        .layout(world.plan.layout)
        .process(process(&world, who))
        .name(&knobs.name)
        .name_is_unique(knobs.name_is_unique)
        .validity(knobs.validity)
        .poll_interval((!knobs.at_lapse).then_some(knobs.poll))
        .priority_delay(knobs.priority_delay)
        .takeover_delay(knobs.takeover_delay)
        .verify_renewals(knobs.verify_renewals)
        .check_store(knobs.check_store)
        .resign_on_drop(knobs.resign_on_drop)
        .clock_drift_max(world.plan.drift);
    if let Some(renew) = knobs.renew {
        builder = builder.renew_interval(renew);
    }
    if let Some(margin) = knobs.store_clock_margin {
        builder = builder.store_clock_margin(margin);
    }
    builder.build().expect("the knobs lie within their bounds")
}

/// Starts a candidate with its application.
pub fn start_candidate(world: &Arc<World>, knobs: &Knobs, clock: Arc<SimClock>) -> Who {
    let who = join(world, &knobs.name, clock);
    let candidate = Candidate {
        election: election(world, who, knobs),
        world: Arc::clone(world),
        who,
        knobs: knobs.clone(),
    };
    if knobs.watches {
        spawn(world, who, 0, watch(Arc::clone(world), who, candidate.election.clone()));
    }
    if knobs.hears {
        spawn(world, who, 0, hear(Arc::clone(world), candidate.election.clone(), knobs.clone()));
    }
    if knobs.doubled {
        spawn(world, who, 0, candidate.clone().live());
    }
    spawn(world, who, 0, candidate.live());
    who
}

#[derive(Clone)]
struct Candidate {
    world: Arc<World>,
    who: Who,
    knobs: Knobs,
    election: Election,
}

impl Candidate {
    async fn live(self) {
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
                Attempt::Elected(leadership) => return Ok(leadership),
                Attempt::Held(_) => sleep(self.knobs.poll).await,
            }
        }
    }

    async fn lead(&self, leadership: Leadership) {
        let id = self.world.granted(self.who, &leadership);
        assert!(self.world.plan.broken != Broken::Panics, "as told to");
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
                        Broken::TokenGuessed => token.next().expect("far from the last"),
                        _ => token,
                    };
                    self.world.token(id, token.get(), leadership.remaining());
                    token
                }
                // This application never asks again.
                Err(loss) if self.world.plan.broken == Broken::TokenKept => {
                    drop(loss);
                    self.world.token(id, leadership.epoch().get(), Duration::ZERO);
                    leadership.epoch()
                }
                Err(loss) => return self.lost(id, &loss),
            };
            // What fencing is for: anything may happen between the check and the write.
            self.write(token).await;
            if self.world.state().faults && now() >= until {
                break;
            }
            if proclaimed < 2 && self.world.chance(0.05) {
                proclaimed += 1;
                self.world.count("proclamations");
                // A loss shows at the next check.
                let _ = leadership.proclaim(proclaimed).await;
            }
            self.rest().await;
        }
        self.leave(leadership, id).await;
    }

    /// Counts how often a lease that was at risk was renewed after all.
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

    /// How long this application wants to lead.
    fn term(&self) -> Duration {
        let mut state = self.world.state();
        let validities = state.rng.f64() * state.rng.f64() * 12.0;
        now() + self.knobs.validity.mul_f64(validities)
    }

    /// Between two acts of a leader.
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
            self.world.over(id, "dropped");
            return drop(leadership);
        }
        // From this call on `check()` fails, so this is where the belief ends.
        let lost = leadership.check().err();
        self.world.over(id, lost.as_ref().map_or("resigned", Loss::outcome));
        let resigned = match self.successor() {
            Some(name) => leadership.resign_to(name).await,
            None => leadership.resign().await,
        };
        self.world.note(self.who, || format!("resigned: {resigned:?}"));
        match resigned {
            Ok(()) => self.world.resigned(id),
            Err(_) => self.world.count("resigned in vain"),
        }
    }

    /// Whom to name: one of those who take part, or nobody that exists.
    fn successor(&self) -> Option<String> {
        let candidates = &self.world.plan.candidates;
        if !self.knobs.names {
            return None;
        }
        let drawn = self.world.state().rng.usize(0..=candidates.len());
        self.world.count("successors named");
        Some(candidates.get(drawn).map_or_else(|| "nobody".to_owned(), |knobs| knobs.name.clone()))
    }

    fn lost(&self, id: usize, loss: &Loss) {
        self.world.note(self.who, || format!("was told: {loss}"));
        self.world.over(id, loss.outcome());
    }

    /// As [`Leadership::run`] does it.
    async fn run(&self, leadership: Leadership, id: usize) {
        let until = self.term();
        let outcome = leadership
            .run(|token, cancelled| async move {
                self.work(token, cancelled, until).await;
                // It resigns now.
                self.world.over(id, "ran");
            })
            .await;
        let lost = outcome.loss().is_some();
        self.world.count(if lost { "runs cut short" } else { "runs to the end" });
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

    /// Writes to the resources over a network of its own.
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

/// Tells those who follow through this election to look, from time to time.
async fn hear(world: Arc<World>, election: Election, knobs: Knobs) {
    loop {
        let part = {
            let mut state = world.state();
            state.part(knobs.validity)
        };
        sleep(part.max(Duration::from_millis(1))).await;
        election.refresh();
    }
}

/// Starts an observer: what it sees never goes back.
pub fn start_observer(world: &Arc<World>, knobs: &Knobs) -> Who {
    let who = join(world, "observer", machine(world, knobs.rate));
    let store = SimStore::new(world, who);
    if world.plan.broken == Broken::ObserverBehindACache {
        spawn(world, who, 0, watch_anew(store, knobs.clone()));
    } else {
        spawn(world, who, 0, watch(Arc::clone(world), who, election_at(store, knobs)));
    }
    who
}

/// Observes with another `Election` for every observation, so that nothing is remembered.
async fn watch_anew(store: Arc<SimStore>, knobs: Knobs) {
    loop {
        if let Some(Ok(Observation::Leader(leader))) =
            election_at(Arc::clone(&store), &knobs).observe().next().await
        {
            store.world.observed(store.who, leader.epoch.get());
        }
        sleep(knobs.poll).await;
    }
}

async fn watch(world: Arc<World>, who: Who, election: Election) {
    let mut seen = election.observe();
    while let Some(observation) = seen.next().await {
        world.note(who, || format!("observes {observation:?}"));
        match observation {
            Ok(Observation::Leader(leader)) => world.observed(who, leader.epoch.get()),
            Ok(_) => {}
            Err(error) => return world.fail("observer", format!("{who}: {error:?}")),
        }
    }
    world.fail("observer", format!("{who} stopped observing"));
}

/// Starts a compactor that runs again and again.
pub fn start_compactor(world: &Arc<World>, knobs: &CompactorKnobs) -> Who {
    let who = join(world, "compactor", machine(world, 1_000_000));
    let compactor = Compactor::builder(SimStore::new(world, who), "app")
        .keep_epochs(knobs.keep)
        .min_age(knobs.min_age)
        .request_timeout(world.plan.longest_validity())
        .build()
        .expect("the knobs lie within their bounds");
    let (its_world, interval) = (Arc::clone(world), knobs.interval);
    spawn(world, who, 0, async move {
        loop {
            match compactor.run_once().await {
                Ok(report) => {
                    let mut state = its_world.state();
                    *state.counts.entry("epochs compacted").or_default() += report.deleted;
                    state.note(who, &report.to_string());
                }
                Err(error) if error.kind() == ErrorKind::Unavailable => {}
                Err(error) => return its_world.fail("compactor", format!("{error:?}")),
            }
            sleep(interval).await;
        }
    });
    who
}
