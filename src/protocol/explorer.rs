//! A random walk through the state machine: candidates, an operator, a compactor and perhaps a peer
//! of Morling's, over a model of the store, without time: whatever a clock could do may happen next.
//!
//! Requests are lost, applied late, applied twice, applied but unanswered, answered late. The
//! invariants are judged from what the store did. Each rule of the protocol can be broken from
//! outside, to see that the walk notices.

mod checks;
mod network;
mod process;
mod store;
mod tests;
mod walk;

use checks::{Checked, Checks, Evaluated, Violation};
use process::Process;
use store::{ModelStore, Name, Reply, Wire};

use super::candidate::{Event, Input, Rules};
use super::find::After;
use super::message::{Answer, Ended, Nonce, Request, Step, Wait, Write};
use crate::epoch::Epoch;

/// A rule that the processes of a walk break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    Nothing,
    NoConfirm,
    NoSeal,
    ReusedBody,
    ResignDeletes,
    TrustsName,
}

/// What a walk is made of.
#[derive(Debug, Clone, Copy)]
struct Setting {
    broken: Broken,
    /// Whether I4 to I6 are to hold, too.
    lawful: bool,
    /// A peer of Morling's takes part.
    morling: bool,
    /// Creates may be applied once more after their epoch was compacted.
    creates_outlive_compaction: bool,
    verify_renewals: bool,
}

const LAWFUL: Setting = Setting {
    broken: Broken::Nothing,
    lawful: true,
    morling: false,
    creates_outlive_compaction: false,
    verify_renewals: false,
};

/// So many requests may be under way before the late ones arrive.
const MANY_MESSAGES: usize = 12;

const OPERATOR: Name = 100;
const COMPACTOR: Name = 101;
const MORLING: Name = 102;

/// A request under way.
#[derive(Debug, Clone)]
struct Message {
    id: usize,
    from: Name,
    wire: Wire,
    /// It took effect before.
    done: bool,
}

/// An answer under way.
#[derive(Debug, Clone)]
struct Pending {
    id: usize,
    reply: Reply,
    evaluated: Option<Evaluated>,
}

struct World {
    setting: Setting,
    rng: fastrand::Rng,
    store: ModelStore,
    processes: Vec<Process>,
    messages: Vec<Message>,
    replies: Vec<Pending>,
    checks: Checks,
    /// The epoch that the peer of Morling's believes in.
    morling_holds: Option<Epoch>,
    /// One in so many looks at an unanswered request gives up on it.
    patience: u32,
    /// The clock of the walk.
    steps: usize,
    sent: usize,
    nonces: u128,
    trace: Option<Vec<String>>,
}

impl World {
    fn new(seed: u64, setting: Setting, trace: bool) -> World {
        let mut rng = fastrand::Rng::with_seed(seed);
        let foreign_keys = (0..6).filter(|_| rng.u8(0..4) == 0).collect();
        let store = ModelStore { foreign_keys, page: rng.usize(1..4), ..ModelStore::default() };
        let checks = Checks::new(setting.lawful, setting.verify_renewals);
        let patience = rng.u32(4..24);
        let mut world = World {
            setting,
            patience,
            rng,
            store,
            processes: Vec::new(),
            messages: Vec::new(),
            replies: Vec::new(),
            checks,
            morling_holds: None,
            steps: 0,
            sent: 0,
            nonces: 0,
            trace: trace.then(Vec::new),
        };
        // Two processes share a name; the last one only observes.
        let candidates: &[Name] = if world.rng.bool() { &[0, 1] } else { &[0, 1, 0] };
        for name in candidates.iter().chain(&[9]) {
            let process = world.process(*name, false);
            world.processes.push(process);
        }
        world
    }

    fn process(&mut self, name: Name, restarted: bool) -> Process {
        let verify_renewals = self.setting.verify_renewals;
        let rules = Rules { observer: name == 9, verify_renewals, takeover_delay: name == 1 };
        Process::new(name, rules, restarted && name == 1)
    }

    fn log(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    /// One random step.
    fn step(&mut self) -> Checked {
        self.steps += 1;
        let morling = if self.setting.morling { 8 } else { 0 };
        match self.rng.u32(0..100 + morling) {
            0..54 => self.process_acts(),
            54..92 => self.network_acts(),
            92..94 => self.operator_deposes(),
            94..98 => self.compactor_runs(),
            98..100 => self.somebody_crashes(),
            _ => self.morling_acts(),
        }
    }

    fn send(&mut self, from: Name, wire: Wire) -> usize {
        self.sent += 1;
        let id = self.sent;
        self.log(|| format!("{from} sends #{id} {wire:?}"));
        self.messages.push(Message { id, from, wire, done: false });
        id
    }

    fn process_acts(&mut self) -> Checked {
        let who = self.rng.usize(..self.processes.len());
        if self.is_asleep(who) {
            return Ok(());
        }
        if self.rng.u8(0..64) == 0 {
            self.processes[who].asleep_until = self.steps + self.rng.usize(50..500);
            return Ok(());
        }
        if self.processes[who].asked.is_some() {
            return self.loses_patience(who);
        }
        self.acts(who)
    }

    /// A step of a process that is awake and waits for no answer.
    fn acts(&mut self, who: usize) -> Checked {
        match self.processes[who].machine.step() {
            Step::Request(request) => self.asks(who, request),
            Step::Nonce => {
                self.nonces += 1;
                let fresh = Nonce::from_bits(self.nonces);
                let nonce = self.processes[who].nonce(fresh, self.setting.broken);
                self.tell(who, Input::Nonce(nonce))
            }
            Step::Wait(wait) => {
                let inputs = inputs(&wait, self.processes[who].leads.is_some());
                let input = inputs[self.rng.usize(..inputs.len())].clone();
                self.tell(who, input)
            }
            // Nothing in this world is denied, unreadable, wiped or exhausted.
            Step::Failed(failure) => {
                Err(Violation { id: "no failure", what: format!("{failure:?}") })
            }
        }
    }

    /// Paused, in any place; its requests travel on.
    fn is_asleep(&self, who: usize) -> bool {
        self.steps < self.processes[who].asleep_until
    }

    /// While it waits for an answer: a timeout, or the end of the lease.
    fn loses_patience(&mut self, who: usize) -> Checked {
        match self.rng.u32(0..self.patience) {
            0 => self.answer(who, Answer::Unknown),
            1 if self.processes[who].leads.is_some() => {
                self.processes[who].asked = None;
                let input = if self.rng.bool() { Input::LeaseEnded } else { Input::Abandon };
                self.tell(who, input)
            }
            _ => Ok(()),
        }
    }

    fn asks(&mut self, who: usize, request: Request) -> Checked {
        let broken = self.setting.broken;
        let process = &mut self.processes[who];
        let name = process.name;
        if name == 9 && !matches!(request, Request::List(_) | Request::Get { .. }) {
            return Err(Violation { id: "observer", what: format!("sends {request:?}") });
        }
        if let Some(answer) = process.made_up(&request, broken) {
            if let Request::List(after) = &request {
                process.evaluated = evaluated(after, self.steps, &self.store);
            }
            self.log(|| format!("{name} does not send {request:?}"));
            return self.answer(who, answer);
        }
        let request = process.outgoing(request, broken);
        let wire = match &request {
            Request::Seal { epoch, ended: Ended::Resigned, .. }
                if broken == Broken::ResignDeletes =>
            {
                Wire::Delete(*epoch)
            }
            _ => Wire::Protocol(request.clone()),
        };
        let id = self.send(name, wire);
        self.processes[who].asked = Some((id, request));
        Ok(())
    }

    fn answer(&mut self, who: usize, answer: Answer) -> Checked {
        self.processes[who].asked = None;
        self.tell(who, Input::Answer(answer))
    }

    fn tell(&mut self, who: usize, input: Input) -> Checked {
        let name = self.processes[who].name;
        self.log(|| format!("{name} ({who}) is told {input:?}"));
        let abandons = input == Input::Abandon;
        let restarts =
            input == Input::Resume && self.processes[who].machine.step() == Step::Wait(Wait::Over);
        let process = &mut self.processes[who];
        let led = process.leads;
        let event = process.handle(input);
        if restarts {
            process.machine.restart();
        }
        let evaluated = process.evaluated;
        match event {
            Some(Event::Granted { epoch, heartbeat }) => {
                let (_, nonce) = process.leads.expect("a grant makes a leader");
                self.log(|| format!("{name} ({who}) IS GRANTED {epoch} by attempt {heartbeat}"));
                self.checks.grant(&self.store, epoch, nonce, evaluated)?;
            }
            Some(Event::Extended { heartbeat }) => {
                let (epoch, nonce) = led.expect("only a leader's lease is extended");
                self.checks.extended(epoch, Write { nonce, heartbeat }, evaluated)?;
            }
            Some(Event::Lost(lost)) => {
                self.log(|| format!("{name} ({who}) LOSES: {lost:?}"));
                let (epoch, nonce) = led.expect("only a leader loses");
                self.processes[who].leads = None;
                self.checks.lost(epoch, nonce, lost)?;
            }
            None if abandons => self.processes[who].leads = None,
            None => {}
        }
        Ok(())
    }

    fn operator_deposes(&mut self) -> Checked {
        let Some((epoch, object)) = self.store.objects.last_key_value() else { return Ok(()) };
        if object.body.sealed.is_some() {
            return Ok(());
        }
        let ended = if self.rng.bool() { Ended::Deposed } else { Ended::Lapsed };
        let (epoch, etag, nonce) = (*epoch, object.body.etag(), object.body.nonce);
        let heartbeat = object.body.heartbeat + 1;
        self.send(OPERATOR, Wire::Protocol(Request::Seal { epoch, etag, nonce, heartbeat, ended }));
        Ok(())
    }

    /// Keeps one, at no age, and its deletions come in any order and late.
    fn compactor_runs(&mut self) -> Checked {
        let Some(newest) = self.store.newest() else { return Ok(()) };
        let superseded: Vec<Epoch> = self.store.objects.range(..newest).map(|(e, _)| *e).collect();
        for epoch in superseded {
            let sent = |message: &Message| message.wire == Wire::Delete(epoch);
            if self.messages.iter().any(sent) {
                continue;
            }
            self.send(COMPACTOR, Wire::Delete(epoch));
        }
        Ok(())
    }

    fn somebody_crashes(&mut self) -> Checked {
        let who = self.rng.usize(..self.processes.len());
        self.crash(who);
        Ok(())
    }

    fn crash(&mut self, who: usize) {
        if let Some((epoch, _)) = self.processes[who].leads {
            self.checks.crash(epoch);
        }
        let name = self.processes[who].name;
        self.log(|| format!("{name} ({who}) crashes and starts again"));
        self.processes[who] = self.process(name, true);
    }

    /// As the post says, except that his clock may say anything: he never seals.
    fn morling_acts(&mut self) -> Checked {
        match (self.morling_holds, self.rng.u32(0..4)) {
            (Some(epoch), 0..2) => {
                self.send(MORLING, Wire::ForeignTouch(epoch));
            }
            (Some(_), 2) => self.morling_holds = None,
            (Some(_), _) => {}
            (None, _) => {
                let next = self.store.newest().map_or(Some(Epoch::FIRST), Epoch::next);
                let next = next.expect("a walk is shorter than the epochs");
                self.send(MORLING, Wire::ForeignCreate(next));
            }
        }
        Ok(())
    }
}

fn evaluated(after: &After, at: usize, store: &ModelStore) -> Option<Evaluated> {
    let After::Number(after) = after else { return None };
    Some(Evaluated { after: *after, at, newest: store.newest() })
}

/// What may happen to a process that waits: without clocks, anything.
fn inputs(wait: &Wait, leads: bool) -> Vec<Input> {
    match wait {
        Wait::Follow => vec![Input::PollDue, Input::Lapsed],
        Wait::Deposed => vec![Input::PollDue, Input::Lapsed],
        Wait::Takeover => vec![Input::TakeoverOver],
        Wait::Vacant => vec![Input::PollDue],
        Wait::Retry if leads => {
            vec![Input::Resume, Input::Resume, Input::Resume, Input::Resign, Input::LeaseEnded]
        }
        Wait::Retry => vec![Input::Resume],
        Wait::Over => vec![Input::Resume],
        Wait::Lead => vec![
            Input::RenewDue,
            Input::RenewDue,
            Input::RenewDue,
            Input::LookDue,
            Input::LookDue,
            Input::Resign,
            Input::LeaseEnded,
            Input::Abandon,
        ],
    }
}
