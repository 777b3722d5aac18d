//! The state that the checker explores, and its possible actions.

use stateright::{Model, Property};
use tenure::protocol::across::message::{AcrossInput, AcrossRequest, AcrossStep, AcrossWait};
use tenure::protocol::message::{Request, Wait};
use tenure_model::hashed_arc::HashedArc;

use super::checks;
use super::process::Process;
use super::setting::{Broken, Budget, Setting};
use super::store::{NONCES, NonceNumber, Number, SLOTS, Site, Write};

#[derive(Debug, Clone)]
pub struct Game {
    pub setting: Setting,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    /// The stores, and the old contents of a moved store.
    pub sites: Vec<Site>,
    pub moved: Option<usize>,
    /// The candidates in canonical order. The model behaves in the same way if two candidates
    /// exchange their states.
    pub processes: Vec<HashedArc<Process>>,
    /// Pending writes that their senders have abandoned, in sorted order.
    pub wires: Vec<(usize, Write)>,
    pub left: Budget,
    /// The granted epochs with their nonces.
    pub grants: Vec<(Number, NonceNumber)>,
    /// Number of nonces drawn for each epoch.
    pub drawn: [u8; SLOTS],
    pub replacing: Option<Replacing>,
    /// Names of the invariants that were violated.
    pub violated: Vec<&'static str>,
}

/// A replacement under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Replacing {
    pub store: usize,
    pub generation: u8,
    /// True until the newest epoch of the old contents is deposed.
    pub deposes: bool,
    /// The stores that still need a note.
    pub notes: Vec<usize>,
    /// The greatest epoch of the other stores, once they were listed.
    pub newest: Option<Number>,
    /// True once the epoch is written. The marker follows.
    pub written: bool,
}

/// A possible action. Numbers are indices of a process and of a store.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The process takes the input, if any, and sends its next request to this store. The store
    /// applies and answers it.
    Serve(usize, usize, Option<Due>, Serving),
    /// Like `Serve`, but the outcome of the request is unknown, and a write stays in transit. If an
    /// answer was in transit, it is lost.
    GivesUp(usize, usize, Option<Due>),
    /// The answer in transit from this store arrives.
    Deliver(usize, usize),
    /// The pause of the process at this store ends.
    Resumes(usize, usize),
    /// The pause of the process after an attempt or a leadership ends.
    Continues(usize),
    Lapsed(usize, usize),
    WaitOver(usize, usize),
    /// The process draws a nonce and begins an attempt.
    Begin(usize),
    Spread(usize),
    LeaseEnded(usize),
    Resign(usize),
    Crash(usize),
    Arrives(usize),
    Depose(usize),
    Compact(usize),
    /// The contents of the store are lost.
    Wipe(usize),
    /// The contents of the store move. Only the processes in this bit set reach the old contents.
    Move(usize, u8),
    /// The next step of the replacement.
    Replace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    Once,
    /// A copy of the write stays in transit.
    Twice,
    /// The answer stays in transit.
    Late,
    /// The store answers a LIST with a page that is not the last one.
    ShortPage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    Poll,
    Renew,
}

impl Due {
    pub fn input(self, store: usize) -> AcrossInput {
        match self {
            Due::Poll => AcrossInput::PollDue { store },
            Due::Renew => AcrossInput::RenewDue { store },
        }
    }
}

impl Game {
    pub fn walks(&self) -> bool {
        self.setting.walks
    }

    fn process_actions(&self, world: &World, who: usize, actions: &mut Vec<Action>) {
        let machine = &world.processes[who].machine;
        let left = &world.left;
        match machine.wait() {
            AcrossWait::Nonce => {
                let next = machine.newest().map_or(0, |newest| newest.get()) + 1;
                let drawn = world.drawn.get(usize::try_from(next).expect("small"));
                let is_left = drawn.is_some_and(|drawn| u16::from(*drawn) + 1 < NONCES);
                if is_left && next <= self.setting.last_epoch.into() {
                    actions.push(Action::Begin(who));
                }
            }
            AcrossWait::Spread => actions.push(Action::Spread(who)),
            AcrossWait::Lead if left.resignations > 0 => actions.push(Action::Resign(who)),
            AcrossWait::Pause | AcrossWait::Over => actions.push(Action::Continues(who)),
            _ => {}
        }
        if machine.own().is_some() && left.crashes > 0 {
            actions.push(Action::Crash(who));
            actions.push(Action::LeaseEnded(who));
        }
        for store in 0..self.setting.stores {
            if world.processes[who].mail[store].is_some() {
                actions.push(Action::Deliver(who, store));
                if left.gives_up > 0 {
                    actions.push(Action::GivesUp(who, store, None));
                }
                continue;
            }
            match machine.step(store) {
                AcrossStep::Request(request) => {
                    let writes = Write::of(&request).is_some();
                    let lists = matches!(request, AcrossRequest::Plain(Request::List(_)));
                    self.requests(left, (who, store, None), writes, actions);
                    if lists && left.short_pages > 0 {
                        actions.push(Action::Serve(who, store, None, Serving::ShortPage));
                    }
                }
                AcrossStep::Wait(wait) => self.waits(left, who, store, &wait, actions),
            }
        }
    }

    fn waits(
        &self,
        left: &Budget,
        who: usize,
        store: usize,
        wait: &Wait,
        actions: &mut Vec<Action>,
    ) {
        let poll = (who, store, Some(Due::Poll));
        match wait {
            Wait::Follow => {
                self.requests(left, poll, false, actions);
                actions.push(Action::Lapsed(who, store));
            }
            Wait::Deposed => {
                self.requests(left, poll, false, actions);
                actions.push(Action::WaitOver(who, store));
            }
            Wait::NoLeader => self.requests(left, poll, false, actions),
            Wait::Lead if left.renewals > 0 => {
                self.requests(left, (who, store, Some(Due::Renew)), true, actions);
            }
            Wait::Retry => actions.push(Action::Resumes(who, store)),
            _ => {}
        }
    }

    fn requests(
        &self,
        left: &Budget,
        (who, store, due): (usize, usize, Option<Due>),
        writes: bool,
        actions: &mut Vec<Action>,
    ) {
        actions.push(Action::Serve(who, store, due, Serving::Once));
        // A process without pauses repeats a failed read immediately.
        if left.gives_up > 0 && (writes || self.walks()) {
            actions.push(Action::GivesUp(who, store, due));
        }
        if left.twice > 0 && writes {
            actions.push(Action::Serve(who, store, due, Serving::Twice));
        }
        if left.late > 0 {
            actions.push(Action::Serve(who, store, due, Serving::Late));
        }
    }

    fn other_actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (which, (store, write)) in world.wires.iter().enumerate() {
            if world.sites[*store].accepts(*write) {
                actions.push(Action::Arrives(which));
            }
        }
        for (store, site) in world.sites.iter().enumerate() {
            let (least, newest) = site.bounds();
            let unsealed = site.get(newest).is_some_and(|body| body.ended().is_none());
            if world.left.depositions > 0 && unsealed {
                actions.push(Action::Depose(store));
            }
            let deletes = least < newest || self.setting.broken == Broken::CompactsNewest;
            if world.left.compactions > 0 && least > 0 && deletes {
                actions.push(Action::Compact(store));
            }
            if world.replacing.is_some() || store >= self.setting.stores {
                continue;
            }
            if world.left.replacements > 0 {
                actions.push(Action::Wipe(store));
            }
            if world.left.moves > 0 {
                let sets = (0..world.processes.len()).map(|who| 1_u8 << who).chain([u8::MAX]);
                actions.extend(sets.map(|set| Action::Move(store, set)));
            }
        }
        if world.replacing.is_some() {
            actions.push(Action::Replace);
        }
    }

    pub fn changed(&self, world: &World, action: &Action) -> Option<World> {
        let mut next = self.after(world.clone(), action)?;
        self.note(&mut next);
        next.settle(self);
        (next != *world).then_some(next)
    }

    pub fn is_broken(&self, world: &World) -> bool {
        world.violated.iter().any(|name| self.setting.always.contains(name))
    }
}

impl Model for Game {
    type State = HashedArc<World>;
    type Action = Action;

    fn init_states(&self) -> Vec<HashedArc<World>> {
        vec![HashedArc::new(self.start())]
    }

    fn actions(&self, world: &HashedArc<World>, actions: &mut Vec<Action>) {
        self.possible(world, actions);
    }

    fn next_state(&self, world: &HashedArc<World>, action: Action) -> Option<HashedArc<World>> {
        self.changed(world, &action).map(HashedArc::new)
    }

    fn properties(&self) -> Vec<Property<Game>> {
        checks::properties(&self.setting)
    }
}

impl Game {
    pub fn start(&self) -> World {
        let Setting { stores, candidates, budget, .. } = self.setting;
        let process = || HashedArc::new(Process::new(stores));
        let mut world = World {
            sites: vec![Site::new(); stores],
            moved: None,
            processes: (0..candidates).map(|_| process()).collect(),
            wires: Vec::new(),
            left: budget,
            grants: Vec::new(),
            drawn: [0; SLOTS],
            replacing: None,
            violated: Vec::new(),
        };
        if self.setting.led {
            assert!(self.elect(&mut world, 0), "the first candidate leads");
        }
        world.settle(self);
        world
    }

    /// Lists the possible actions. A state that breaks an invariant has no possible action.
    pub fn possible(&self, world: &World, actions: &mut Vec<Action>) {
        if self.is_broken(world) {
            return;
        }
        for who in 0..world.processes.len() {
            if self.walks() || !world.processes[..who].contains(&world.processes[who]) {
                self.process_actions(world, who, actions);
            }
        }
        self.other_actions(world, actions);
    }
}

impl World {
    /// Sorts the lists in which the order has no meaning. Drops writes that can no longer be
    /// accepted.
    fn settle(&mut self, game: &Game) {
        let sites = &self.sites;
        let is_possible = |(store, write): &(usize, Write)| match write {
            Write::Create { .. } | Write::Replace { tag: None, .. } => true,
            // No later body equals an earlier one, so a write with the ETag of a replaced body can
            // never succeed.
            Write::Replace { epoch, tag, .. } => sites[*store].get(*epoch) == *tag,
        };
        if !self.wires.iter().any(|(_, write)| matches!(write, Write::Create { .. })) {
            self.wires.retain(is_possible);
        }
        self.wires.sort_unstable();
        self.processes.iter_mut().for_each(HashedArc::settle);
        if !game.walks() {
            self.processes.sort_by_key(HashedArc::digest);
        }
    }

    /// Returns the index of the contents that the process reaches at this store.
    pub fn site(&self, who: usize, store: usize) -> usize {
        let old = self.moved == Some(store) && self.processes[who].stale;
        if old { self.sites.len() - 1 } else { store }
    }

    /// Returns the greatest granted epoch, or 0.
    pub fn granted(&self) -> Number {
        self.grants.iter().map(|(epoch, _)| *epoch).max().unwrap_or(0)
    }

    pub fn violate(&mut self, name: &'static str) {
        if !self.violated.contains(&name) {
            self.violated.push(name);
        }
    }
}

/// Returns whether the request is a LIST that starts after the epoch of this process.
pub fn confirms(process: &Process, request: &AcrossRequest) -> bool {
    let AcrossRequest::Plain(Request::List(after)) = request else { return false };
    process
        .own()
        .is_some_and(|(epoch, _)| *after == tenure::protocol::find::After::Number(epoch.into()))
}
