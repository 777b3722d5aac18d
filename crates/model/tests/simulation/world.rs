//! The shared state of one run: the processes, the bucket, the random numbers and the checkers.

use std::fmt::Write as _;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tenure::{Layout, Leadership, Moment};
use tenure_model::clock::SimClock;
use tenure_model::gate::Gate;
use tenure_model::sim::Common;
pub use tenure_model::sim::Who;
use tenure_model::time::{now, sleep};
use tokio::sync::Notify;

use super::bucket::Bucket;
use super::checkers::{Book, Checker, Event, Grant, Lead, LeadId, View, checkers};
use super::plan::{Broken, Plan};

#[derive(Debug)]
pub struct World {
    pub plan: Plan,
    state: Mutex<State>,
    /// Notified when a violation ends the run early.
    pub over: Notify,
    /// Notified when the faults stop.
    calm: Notify,
    /// Notified when a process leads after the faults have stopped.
    pub led: Notify,
}

#[derive(Debug)]
pub struct State {
    pub common: Common,
    traced: bool,
    pub bucket: Bucket,
    pub book: Book,
    checkers: Vec<Box<dyn Checker>>,
    pub members: Vec<Member>,
    /// Number of requests that may still take effect.
    pub in_flight: u64,
    pub last_token: Option<Duration>,
    pub resource: Resources,
    /// An operator that deposes the holder of the next epoch as soon as the epoch is created.
    pub lurking: Option<Who>,
}

/// The resources that leaders write.
#[derive(Debug, Default)]
pub struct Resources {
    pub fenced: u64,
    pub unfenced: u64,
}

/// The state that the simulation keeps for each process.
#[derive(Debug, Clone)]
pub struct Member {
    pub label: String,
    /// Gates that stop the tasks of the process: the first for its application, the second for the
    /// library.
    pub gates: [Arc<Gate>; 2],
    pub clock: Arc<SimClock>,
    pub outage: Option<Outage>,
    pub alive: bool,
    /// True while a fault stops the process. During this time, no other fault stops the process.
    pub stopped: bool,
    /// True if the process has short round trips to the store.
    pub near: bool,
    /// Epoch of the last leader that the process's observer saw. `None` if the process has no
    /// observer that runs as long as the process.
    pub watched: Option<Option<u64>>,
    /// Time of the last lost answer, in a steady run.
    pub lost_at: Option<Duration>,
    /// Index of the candidate in the plan.
    pub slot: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    RequestsLost,
    AnswersLost,
    Unavailable,
}

impl World {
    pub fn new(plan: Plan) -> Arc<World> {
        let state = State {
            // The XOR makes this generator differ from the generator of the plan.
            common: Common::new(plan.seed ^ 0x5eed_0000_0000_0000, plan.only),
            traced: plan.traced,
            bucket: Bucket::default(),
            book: Book::default(),
            checkers: checkers(&plan),
            members: Vec::new(),
            in_flight: 0,
            last_token: None,
            resource: Resources::default(),
            lurking: None,
        };
        let (over, calm, led) = (Notify::new(), Notify::new(), Notify::new());
        Arc::new(World { plan, state: Mutex::new(state), over, calm, led })
    }

    /// Ends the faults and all sleeps in `idle`.
    pub fn calm_down(&self) {
        self.state().faults = false;
        self.calm.notify_waiters();
    }

    /// Sleeps for this duration. Returns earlier if the calm phase begins.
    pub async fn idle(&self, duration: Duration) {
        let mut calm = std::pin::pin!(self.calm.notified());
        calm.as_mut().enable();
        if !self.state().faults {
            return;
        }
        tokio::select! {
            biased;
            () = calm => {}
            () = sleep(duration) => {}
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        // Only a failed assertion of the simulation poisons the mutex, and the run reports the
        // failed assertion.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub fn count(&self, what: &'static str) {
        self.state().count(what);
    }

    /// Writes a line into the timeline if the plan enables the timeline.
    pub fn note(&self, who: Who, what: impl FnOnce() -> String) {
        if self.plan.traced {
            self.state().note(who, &what());
        }
    }

    pub fn chance(&self, probability: f64) -> bool {
        self.state().chance(probability)
    }

    /// Passes an event to the checkers.
    pub fn see_in(&self, state: &mut State, event: &Event<'_>) {
        if state.violation.is_some() {
            return;
        }
        let State { common, checkers, book, bucket, members, .. } = state;
        let clock = |who: Who| -> Moment { members[who.0].clock.truth() };
        let knobs = |who: Who| members[who.0].slot.map(|slot| &self.plan.candidates[slot]);
        let view = View { plan: &self.plan, book, bucket, clock: &clock, knobs: &knobs };
        let mut found = None;
        for checker in checkers {
            let counts = common.is_active(checker.name());
            if let (true, Err(what)) = (counts, checker.see(event, &view)) {
                found.get_or_insert((checker.name(), what));
            }
        }
        match found {
            Some(("I8", _)) if self.plan.beyond_drift => state.count("overlaps beyond the drift"),
            Some((checker, what)) => self.fail_in(state, checker, what),
            None => {}
        }
    }

    pub fn fail(&self, checker: &'static str, what: String) {
        self.fail_in(&mut self.state(), checker, what);
    }

    fn fail_in(&self, state: &mut State, checker: &'static str, what: String) {
        if state.common.fail(checker, what.clone()) {
            state.line("CHECKER", &format!("{checker}: {what}"));
            self.over.notify_one();
        }
    }

    /// Records that a campaign of this process has returned this leadership.
    pub fn granted(&self, who: Who, leadership: &Leadership) -> LeadId {
        let epoch = leadership.epoch().get();
        let mut state = self.state();
        let nonce = state.book.nonce(who, epoch).unwrap_or_default();
        let confirm = match self.plan.layout {
            Layout::SingleObject => state.book.won(who, epoch),
            _ => state.book.confirm(who, epoch).cloned(),
        };
        let grant = Grant { who, epoch, nonce: nonce.clone(), confirm };
        state.note(who, &format!("ELECTED with epoch {epoch}"));
        state.count("grants");
        state.count_succession(epoch);
        state.book.grants.entry(epoch).or_insert_with(|| grant.clone());
        self.see_in(&mut state, &Event::Granted { grant: &grant });
        let id = state.book.leads.len();
        let sealed = state.book.seal(epoch, Some(nonce.clone()));
        let born_sealed = sealed.is_some_and(|seal| {
            grant.confirm.as_ref().is_some_and(|confirm| seal.step < confirm.step)
        });
        if born_sealed {
            state.count("granted though sealed");
        }
        let (began, over, outcome) = (now(), None, "");
        let lead = Lead { id, who, epoch, nonce, born_sealed, began, over, outcome };
        state.book.leads.push(lead);
        self.leads_in(&mut state);
        id
    }

    /// Records that a process leads now.
    pub fn leads_in(&self, state: &mut State) {
        state.last_token = Some(now());
        if !state.faults {
            self.led.notify_one();
        }
    }

    /// Records that `check()` returned this token, and the remaining lease that the library
    /// reported.
    pub fn token(&self, id: LeadId, token: u64, told: Duration) {
        let mut state = self.state();
        let lead = state.book.leads[id].clone();
        if token != lead.epoch {
            self.fail_in(&mut state, "token", format!("{token} instead of {}", lead.epoch));
        }
        state.count("tokens");
        self.leads_in(&mut state);
        let clock = state.members[lead.who.0].clock.truth();
        self.see_in(&mut state, &Event::Token { lead: &lead, clock, told });
    }

    /// Records that a resignation is complete.
    pub fn resigned(&self, id: LeadId) {
        let mut state = self.state();
        let lead = state.book.leads[id].clone();
        state.count("resigned in time");
        self.see_in(&mut state, &Event::Resigned { lead: &lead });
    }

    /// Records that an observer saw this leader.
    pub fn observed(&self, who: Who, by: &'static str, epoch: u64) {
        let mut state = self.state();
        state.count("leaders observed");
        self.see_in(&mut state, &Event::Observed { who, by, epoch });
    }

    /// Records the leader that the observer of this process sees now. This observer runs as long as
    /// the process.
    pub fn watches(&self, who: Who, leader: Option<u64>) {
        self.state().members[who.0].watched = Some(leader);
    }

    /// Records that the method `check` of a `Lease` handle returned Ok, and the remaining lease
    /// that the library reported.
    pub fn lease_ok(&self, id: LeadId, token: u64, told: Duration) {
        let mut state = self.state();
        let lead = state.book.leads[id].clone();
        self.see_in(&mut state, &Event::LeaseOk { lead: &lead });
        drop(state);
        if lead.over.is_none() {
            self.token(id, token, told);
        }
    }

    /// Records that the application dropped a leadership or learned of its loss.
    pub fn over(&self, id: LeadId, outcome: &'static str) {
        let mut state = self.state();
        if state.book.leads[id].over.is_some() {
            return;
        }
        (state.book.leads[id].over, state.book.leads[id].outcome) = (Some(now()), outcome);
        let lead = state.book.leads[id].clone();
        state.note(lead.who, &format!("epoch {} has ended: {outcome}", lead.epoch));
        state.count(loss_count(outcome));
        if lead.born_sealed
            && matches!(outcome, "sealed" | "lease_ended" | "suspended" | "wall_clock_ahead")
        {
            state.count("lost after the grant of a sealed epoch");
        }
        self.see_in(&mut state, &Event::Lost { lead: &lead, outcome });
    }

    /// Applies a leader's write to the fenced and to the unfenced resource.
    pub fn resource_written(&self, who: Who, epoch: u64) {
        let mut state = self.state();
        if epoch < state.resource.unfenced {
            state.count("zombie writes to the unfenced resource");
        }
        state.resource.unfenced = epoch;
        let forgets = self.plan.broken == Broken::ResourceForgets;
        if epoch < state.resource.fenced && !forgets {
            state.count("fenced zombies");
            state.note(who, &format!("the resource refuses a write of epoch {epoch}"));
            return;
        }
        state.resource.fenced = epoch;
        state.count("writes accepted");
        self.see_in(&mut state, &Event::Fenced { epoch });
    }
}

impl tenure_model::sim::World for World {
    fn common<T>(&self, use_it: impl FnOnce(&mut Common) -> T) -> T {
        use_it(&mut self.state().common)
    }

    fn gate(&self, who: Who, number: usize) -> Arc<Gate> {
        Arc::clone(&self.state().members[who.0].gates[number])
    }

    fn fail(&self, checker: &'static str, what: String) {
        World::fail(self, checker, what);
    }
}

impl Deref for State {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl DerefMut for State {
    fn deref_mut(&mut self) -> &mut Common {
        &mut self.common
    }
}

impl State {
    /// Counts a takeover (S1 in docs/design/protocol.md) if the previous leader is dead or still
    /// believes that it leads. Otherwise counts a succession without a wait (S2) if the lease of
    /// the previous leader had time left. The summary requires that each has occurred.
    fn count_succession(&mut self, epoch: u64) {
        let before = self.book.leads.iter().rev().find(|lead| lead.epoch < epoch);
        let Some(before) = before.cloned() else { return };
        let clock = self.members[before.who.0].clock.truth();
        if before.over.is_none() || !self.members[before.who.0].alive {
            self.count("takeovers");
        } else if !self.book.left(&before, clock).is_zero() {
            self.count("succeeded without waiting");
        }
    }

    pub fn note(&mut self, who: Who, what: &str) {
        if self.traced {
            let label = self.members[who.0].label.clone();
            self.line(&label, what);
        }
    }

    /// Adds a line to the timeline, if the plan enables it. By default the timeline is off, because
    /// formatting the lines takes longer than the simulation.
    pub fn line(&mut self, label: &str, event: &str) {
        if self.traced {
            let (seconds, millis) = (now().as_secs(), now().subsec_millis());
            // Writing to a String cannot fail.
            let _ = writeln!(self.trace, "{seconds:>5}.{millis:03} {label:<9} {event}");
        }
    }
}

fn loss_count(outcome: &str) -> &'static str {
    match outcome {
        "superseded" => "lost: superseded",
        "sealed" => "lost: sealed",
        "lease_ended" => "lost: lease ended",
        "suspended" => "lost: suspended",
        "wall_clock_ahead" => "lost: wall clock ahead",
        "vanished" => "lost: vanished",
        "tampered" => "lost: tampered",
        "resigned" => "resignations",
        "dropped" => "leaderships dropped",
        "crashed" => "leaders crashed",
        "ran" => "runs",
        _ => "lost: other",
    }
}
