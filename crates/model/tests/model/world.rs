//! The state that the checker explores, and its possible actions.

use std::iter;

use stateright::{Model, Property};
use tenure::protocol::compaction::Compaction;
use tenure::protocol::message::{Input, Rules};
use tenure::protocol::message::{Request, Step, Wait};
use tenure_model::hashed_arc::HashedArc;

use super::checks::{self, History};
use super::process::{Phase, Process};
use super::setting::{Broken, Budget, Morling, Role, Setting};
use super::store::{Body, NonceNumber, Number, SLOTS, Store, Wire};

/// The model that the checker explores, defined by one setting.
#[derive(Debug, Clone)]
pub struct Game {
    pub setting: Setting,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub store: Store,
    /// The processes in canonical order. The order has no meaning: the model behaves in the same
    /// way if two candidates exchange their states.
    pub processes: Vec<HashedArc<Process>>,
    pub compactors: Vec<HashedArc<Compactor>>,
    /// Pending writes that their senders have abandoned, in sorted order.
    pub wires: Vec<Message>,
    pub left: Budget,
    pub morling: Peer,
    pub history: History,
    /// For each epoch, the greatest nonce number in the store or in a pending request.
    pub used: [u8; SLOTS],
    /// Number of steps in a random walk, which makes all states of the walk different. 0 in an
    /// exhaustive run.
    pub steps: u16,
}

/// A pending write that its sender has abandoned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    pub wire: Wire,
    /// True if the store has already applied another copy of this write.
    pub done: bool,
    /// True if the created epoch object was sealed after the create was first applied.
    pub sealed_since: bool,
}

/// The state of a compactor between two pages of its listing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Compactor {
    pub run: Option<(Compaction, Number)>,
    /// The first page of a listing without order: the listed epochs.
    pub first_page: Option<Vec<Number>>,
}

/// A peer that follows Morling's post (docs/how-to/upgrade.md).
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Peer {
    /// Epochs that the peer created. The peer may rewrite the objects of these epochs at any time,
    /// because its writes can arrive late.
    pub owned: Vec<Number>,
    /// The epoch that the peer is about to create.
    pub about: Option<Number>,
}

/// A possible action. Each `usize` is an index into one of the lists in [`World`].
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The process receives the input, if any, and sends its next request. The store applies and
    /// answers the request.
    Serve(usize, Due, Serving),
    /// The process receives the input, if any, and sends its next request. The outcome of the
    /// request stays unknown. If the request is a write, the write stays in transit.
    GivesUp(usize, Due),
    Deliver(usize),
    Tell(usize, Input),
    Crash(usize),
    /// A broken process lists the epochs before it creates an epoch, and not afterwards.
    ConfirmsFirst(usize),
    Arrives(usize),
    /// The write arrives, and a copy stays in transit.
    ArrivesTwice(usize),
    Compacts(usize, Page),
    /// An operator deposes the leader of this epoch. `true` means that the operator uses force.
    Depose(Number, bool),
    PeerDecides,
    PeerCreates,
    PeerTouches(Number),
}

/// The input, if any, after which a process immediately sends its request. The model has no wait
/// between the input and the request, because a request that is sent later is equivalent to a
/// request that arrives late.
pub type Due = Option<Input>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    Once,
    /// A copy of the write stays in transit.
    Twice,
    /// The answer stays in transit.
    Late,
    /// The page of a listing has only one key, although the listing has more keys.
    ShortPage,
    /// The write succeeds, but the answer is 412.
    UntrueRefusal,
    /// A foreign record was written again after the last read.
    Touched,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Whole,
    Short,
}

impl Game {
    pub fn rules(&self, role: Role) -> Rules {
        let verify_renewals = self.setting.verify_renewals;
        let (observer, takeover_delay) = (role == Role::Observer, role == Role::Unique);
        Rules { observer, verify_renewals, takeover_delay }
    }

    pub fn walks(&self) -> bool {
        self.setting.steps > 0
    }

    /// Returns whether the next epoch of a process is within the bounds.
    fn may_create(&self, process: &Process) -> bool {
        process.greatest() < self.setting.last_epoch
    }

    fn process_actions(&self, world: &World, who: usize, actions: &mut Vec<Action>) {
        let process = &world.processes[who];
        if world.left.crashes > 0 {
            actions.push(Action::Crash(who));
        }
        if process.leads.is_some() {
            actions.push(Action::Tell(who, Input::LeaseEnded));
            if world.left.abandons > 0 {
                actions.push(Action::Tell(who, Input::Abandon));
            }
        }
        if process.mail.is_some() {
            actions.push(Action::Deliver(who));
            return;
        }
        match process.machine.step() {
            Step::Request(request) => {
                let writes = !matches!(request, Request::List(_) | Request::Get { .. });
                let lists = matches!(request, Request::List(_));
                self.request_actions(world, who, None, writes, actions);
                if world.left.short_pages > 0 && lists {
                    actions.push(Action::Serve(who, None, Serving::ShortPage));
                }
                if world.left.touches > 0 && !writes && !lists {
                    actions.push(Action::Serve(who, None, Serving::Touched));
                }
            }
            Step::Nonce if !self.may_create(process) => {}
            Step::Nonce if self.setting.broken == Broken::ConfirmsFirst && !process.confirmed => {
                actions.push(Action::ConfirmsFirst(who));
            }
            // The process draws the nonce and sends the create in one action.
            Step::Nonce => self.request_actions(world, who, None, true, actions),
            Step::Wait(wait) => self.wait_actions(world, who, &wait, actions),
            Step::Failed(_) => {}
        }
    }

    fn request_actions(
        &self,
        world: &World,
        who: usize,
        due: Due,
        writes: bool,
        actions: &mut Vec<Action>,
    ) {
        let Budget { gives_up, twice, late, untrue_refusals, .. } = world.left;
        actions.push(Action::Serve(who, due.clone(), Serving::Once));
        // Only a leader reacts to a failed read. Other processes repeat the read.
        if gives_up > 0 && (writes || world.processes[who].leads.is_some()) {
            actions.push(Action::GivesUp(who, due.clone()));
        }
        if twice > 0 && writes {
            actions.push(Action::Serve(who, due.clone(), Serving::Twice));
        }
        if late > 0 {
            actions.push(Action::Serve(who, due.clone(), Serving::Late));
        }
        if untrue_refusals > 0 && writes {
            actions.push(Action::Serve(who, due, Serving::UntrueRefusal));
        }
    }

    /// The model has no clocks, so every timer may fire next.
    fn wait_actions(&self, world: &World, who: usize, wait: &Wait, actions: &mut Vec<Action>) {
        let mut due = |input, writes| {
            if self.setting.unreduced {
                actions.push(Action::Tell(who, input));
            } else {
                self.request_actions(world, who, Some(input), writes, actions);
            }
        };
        match wait {
            Wait::Follow => {
                due(Input::PollDue, false);
                if !self.setting.never_lapses {
                    due(Input::Lapsed, true);
                }
            }
            Wait::Deposed => {
                due(Input::PollDue, false);
                if self.may_create(&world.processes[who]) {
                    due(Input::Lapsed, true);
                }
            }
            Wait::Lead => {
                if world.left.renewals > 0 {
                    due(Input::RenewDue, true);
                }
                due(Input::LookDue, false);
                due(Input::Resign, true);
            }
            Wait::Retry => {
                due(Input::Resume, true);
                due(Input::Resign, true);
            }
            Wait::Takeover => due(Input::TakeoverOver, true),
            Wait::NoLeader => due(Input::PollDue, false),
            Wait::Over => unreachable!("no process waits after its end"),
        }
    }

    fn other_actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (which, message) in world.wires.iter().enumerate() {
            // No sender waits for the answer to a pending write. So the arrival of a pending write
            // is an action only if the store would accept the write now.
            if world.store.accepts(message.wire) {
                actions.push(Action::Arrives(which));
                if world.left.twice > 0 && !message.done {
                    actions.push(Action::ArrivesTwice(which));
                }
            }
        }
        for (which, compactor) in world.compactors.iter().enumerate() {
            if compactor.run.is_some() || world.left.compactions > 0 {
                actions.push(Action::Compacts(which, Page::Whole));
                if world.left.short_pages > 0 {
                    actions.push(Action::Compacts(which, Page::Short));
                }
            }
        }
        if world.left.depositions > 0 {
            for (epoch, body) in world.store.epochs() {
                let unsealed = body.ended().is_none();
                actions.extend(unsealed.then_some(Action::Depose(epoch, false)));
                // After a deposition, candidates wait until the lease of the deposed leader has
                // ended. A forced deposition ends this wait.
                let waited_for = body.seen().is_waited_for();
                actions.extend((unsealed || waited_for).then_some(Action::Depose(epoch, true)));
            }
        }
        if self.setting.morling != Morling::Absent {
            if world.morling.about.is_some() {
                actions.push(Action::PeerCreates);
            } else if world.left.foreign_creates > 0 {
                actions.push(Action::PeerDecides);
            }
            let changed = |epoch: &&Number| world.store.get(**epoch) != Some(Body::FOREIGN);
            let owned = world.morling.owned.iter().filter(changed);
            actions.extend(owned.map(|epoch| Action::PeerTouches(*epoch)));
        }
    }
}

impl Game {
    /// Returns the state after an action, or `None` if the state does not change.
    fn changed(&self, world: &World, action: Action) -> Option<World> {
        let twice = world.left.twice;
        let mut next = self.after(world.clone(), action)?;
        if !self.setting.unreduced {
            next.drop_hopeless_writes(self);
            let copies = |world: &World| world.wires.iter().filter(|it| it.done).count();
            // The copy was dropped because it can never take effect. So the action is equivalent to
            // the action without a copy.
            if next.left.twice < twice && copies(&next) <= copies(world) {
                return None;
            }
        }
        next.bring_into_line(self);
        (next != *world).then_some(next)
    }
}

impl Model for Game {
    type State = HashedArc<World>;
    type Action = Action;

    fn init_states(&self) -> Vec<HashedArc<World>> {
        let candidates = iter::repeat_n(&Role::Candidate, self.setting.candidates);
        let roles = candidates.chain(self.setting.others);
        let process = |role: &Role| HashedArc::new(Process::new(*role, self.rules(*role), None));
        vec![HashedArc::new(World {
            store: Store::default(),
            processes: roles.map(process).collect(),
            compactors: vec![HashedArc::new(Compactor::default()); self.setting.compactors],
            wires: Vec::new(),
            left: self.setting.faults,
            morling: Peer::default(),
            history: if self.walks() { History::of_a_walk() } else { History::default() },
            used: [0; SLOTS],
            steps: 0,
        })]
    }

    fn actions(&self, world: &HashedArc<World>, actions: &mut Vec<Action>) {
        if self.walks() && (world.steps == self.setting.steps || self.is_broken(world)) {
            return;
        }
        for who in 0..world.processes.len() {
            // Equal processes have equal actions, so list only the actions of the first of them.
            if self.setting.unreduced || !world.processes[..who].contains(&world.processes[who]) {
                self.process_actions(world, who, actions);
            }
        }
        self.other_actions(world, actions);
    }

    fn next_state(&self, world: &HashedArc<World>, action: Action) -> Option<HashedArc<World>> {
        let next = self.changed(world, action);
        if !self.walks() {
            return next.map(HashedArc::new);
        }
        // In a random walk, a step without an effect also leads to a new state. If the state stayed
        // the same, stateright could not retrace the path.
        let mut next = next.unwrap_or_else(|| World::clone(world));
        next.steps += 1;
        Some(HashedArc::new(next))
    }

    fn properties(&self) -> Vec<Property<Game>> {
        checks::properties(&self.setting)
    }
}

impl World {
    fn bring_into_line(&mut self, game: &Game) {
        self.wires.sort_unstable();
        self.processes.iter_mut().for_each(HashedArc::settle);
        self.compactors.iter_mut().for_each(HashedArc::settle);
        self.history.past.settle();
        let named = game.setting.unreduced || game.setting.named;
        if !named {
            self.processes.sort_by_key(HashedArc::digest);
        }
        self.compactors.sort_by_key(HashedArc::digest);
    }

    pub fn confirming(&self, who: usize) -> Option<NonceNumber> {
        match self.processes[who].phase {
            Phase::Confirming { nonce } => Some(nonce),
            _ => None,
        }
    }
}
