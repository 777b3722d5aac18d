//! The state that the checker explores, and its possible actions.

use stateright::{Model, Property};
use tenure::protocol::message::Input;
use tenure::protocol::message::{Request, Step, Wait};
use tenure_model::hashed_arc::HashedArc;

use super::checks::{self, SingleHistory};
use super::process::SingleProcess;
use super::store::{SingleBody, SingleStore, SingleWire};
use super::{SingleBroken, SingleSetting};
use crate::setting::Budget;

/// The model that the checker explores, defined by one setting.
#[derive(Debug, Clone)]
pub struct SingleGame {
    pub setting: SingleSetting,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SingleWorld {
    pub store: SingleStore,
    pub processes: Vec<HashedArc<SingleProcess>>,
    /// Pending writes that their senders have abandoned, in sorted order.
    pub wires: Vec<SingleMessage>,
    pub left: Budget,
    pub peer: SinglePeer,
    pub history: SingleHistory,
    /// Number of writes to the object. The model counts the writes only for the property `no ABA`.
    pub writes: u8,
}

/// A pending write. `since` counts the writes to the object up to the moment at which the writer
/// first read the content that this write replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SingleMessage {
    pub wire: SingleWire,
    pub since: Option<u8>,
}

/// A peer that follows the If-Match post literally. Its clock is arbitrary.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SinglePeer {
    /// The object that the peer has read and considers expired. `Some(None)` if the peer found no
    /// object.
    pub about: Option<Option<SingleBody>>,
    /// The object as the peer last wrote it. `None` if the peer does not believe that it leads.
    pub holds: Option<SingleBody>,
}

/// A possible action. Each `usize` is an index into one of the lists in [`SingleWorld`].
#[derive(Debug, Clone, PartialEq)]
pub enum SingleAction {
    /// The process receives the input, if any, and sends its next request. The store applies and
    /// answers the request.
    Serve(usize, SingleDue, SingleServing),
    /// The process receives the input, if any, and sends its next request. The outcome of the
    /// request stays unknown. If the request is a write, the write stays in transit.
    GivesUp(usize, SingleDue),
    Deliver(usize),
    Tell(usize, Input),
    Crash(usize),
    Arrives(usize),
    ArrivesTwice(usize),
    /// An operator deposes the leader. `true` means that the operator uses force.
    Depose(bool),
    PeerReads,
    PeerTakes,
    PeerRenews,
    PeerReleases,
}

/// The input, if any, after which a process immediately sends its request. The model has no wait
/// between the input and the request, because a request that is sent later is equivalent to a
/// request that arrives late.
pub type SingleDue = Option<Input>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleServing {
    Once,
    /// A copy of the write stays in transit.
    Twice,
    /// The answer stays in transit.
    Late,
    /// The write succeeds, but the answer is 412.
    UntrueRefusal,
}

impl SingleGame {
    fn process_actions(&self, world: &SingleWorld, who: usize, actions: &mut Vec<SingleAction>) {
        let process = &world.processes[who];
        let left = &world.left;
        let mut may = |is: bool, action| {
            if is {
                actions.push(action);
            }
        };
        may(left.crashes > 0, SingleAction::Crash(who));
        may(process.leads.is_some(), SingleAction::Tell(who, Input::LeaseEnded));
        may(process.leads.is_some() && left.abandons > 0, SingleAction::Tell(who, Input::Abandon));
        if process.mail.is_some() {
            return may(true, SingleAction::Deliver(who));
        }
        let free = process.greatest() < self.setting.last_token;
        let ask = |due, writes| self.request_actions(world, who, due, writes);
        match &process.machine.step() {
            Step::Nonce if free => actions.extend(ask(None, true)),
            Step::Nonce | Step::Failed(_) => {}
            Step::Request(request) => {
                actions.extend(ask(None, !matches!(request, Request::Get { .. })));
            }
            Step::Wait(Wait::Follow | Wait::Deposed) => {
                actions.extend(ask(Some(Input::PollDue), false));
                if free {
                    actions.extend(ask(Some(Input::Lapsed), true));
                }
            }
            Step::Wait(wait) => {
                if *wait == Wait::Retry {
                    actions.extend(ask(Some(Input::Resume), true));
                } else if left.renewals > 0 {
                    actions.extend(ask(Some(Input::RenewDue), true));
                }
                actions.extend(ask(Some(Input::Resign), true));
            }
        }
    }

    fn request_actions(
        &self,
        world: &SingleWorld,
        who: usize,
        due: SingleDue,
        writes: bool,
    ) -> Vec<SingleAction> {
        let Budget { gives_up, twice, late, untrue_refusals, .. } = world.left;
        let serve = |serving| SingleAction::Serve(who, due.clone(), serving);
        // Only a leader reacts to a failed read. Other processes repeat the read.
        let matters = writes || world.processes[who].leads.is_some();
        let possible = [
            (true, serve(SingleServing::Once)),
            (gives_up > 0 && matters, SingleAction::GivesUp(who, due.clone())),
            (twice > 0 && writes, serve(SingleServing::Twice)),
            (late > 0, serve(SingleServing::Late)),
            (untrue_refusals > 0 && writes, serve(SingleServing::UntrueRefusal)),
        ];
        possible.into_iter().filter(|(is, _)| *is).map(|(_, action)| action).collect()
    }

    fn other_actions(&self, world: &SingleWorld, actions: &mut Vec<SingleAction>) {
        for (which, message) in world.wires.iter().enumerate() {
            if world.store.accepts(message.wire) {
                actions.push(SingleAction::Arrives(which));
                if world.left.twice > 0 {
                    actions.push(SingleAction::ArrivesTwice(which));
                }
            }
        }
        if let Some(body) = world.store.object.filter(|_| world.left.depositions > 0) {
            let held = body.ended().is_none();
            actions.extend(held.then_some(SingleAction::Depose(false)));
            // After a deposition, candidates wait until the lease of the deposed leader has ended.
            // A forced deposition ends this wait.
            let waited_for = body.sighting().seen.is_waited_for();
            actions.extend((held || waited_for).then_some(SingleAction::Depose(true)));
        }
        if world.left.foreign_creates > 0 && world.peer.about.is_none() {
            actions.push(SingleAction::PeerReads);
        }
        if world.peer.about.is_some() {
            actions.push(SingleAction::PeerTakes);
        }
        if world.peer.holds.is_some() {
            actions.push(SingleAction::PeerReleases);
            if world.left.renewals > 0 {
                actions.push(SingleAction::PeerRenews);
            }
        }
    }
}

impl SingleWorld {
    /// Drops the pending writes that can never be accepted, because an ETag never becomes valid
    /// again.
    fn drop_hopeless_writes(&mut self, broken: SingleBroken) {
        if broken != SingleBroken::Nothing {
            return;
        }
        let mut possible: Vec<Option<SingleBody>> = vec![self.store.object];
        loop {
            let known = possible.len();
            for SingleMessage { wire, .. } in &self.wires {
                let over = match wire {
                    SingleWire::Create { .. } => None,
                    SingleWire::Replace { tag, .. } => Some(*tag),
                    _ => continue,
                };
                if possible.contains(&over) && !possible.contains(&wire.body()) {
                    possible.push(wire.body());
                }
            }
            if possible.len() == known {
                break;
            }
        }
        self.wires.retain(|message| match message.wire {
            SingleWire::Create { .. } => self.store.object.is_none(),
            SingleWire::Replace { tag, .. } => possible.contains(&Some(tag)),
            _ => true,
        });
    }
}

impl Model for SingleGame {
    type State = HashedArc<SingleWorld>;
    type Action = SingleAction;

    fn init_states(&self) -> Vec<HashedArc<SingleWorld>> {
        vec![HashedArc::new(SingleWorld {
            store: SingleStore::default(),
            processes: vec![HashedArc::new(SingleProcess::new()); self.setting.candidates],
            wires: Vec::new(),
            left: self.setting.faults,
            peer: SinglePeer::default(),
            history: SingleHistory::default(),
            writes: 0,
        })]
    }

    fn actions(&self, world: &HashedArc<SingleWorld>, actions: &mut Vec<SingleAction>) {
        for who in 0..world.processes.len() {
            // Equal processes have equal actions, so list only the actions of the first of them.
            if !world.processes[..who].contains(&world.processes[who]) {
                self.process_actions(world, who, actions);
            }
        }
        self.other_actions(world, actions);
    }

    fn next_state(
        &self,
        world: &HashedArc<SingleWorld>,
        action: SingleAction,
    ) -> Option<HashedArc<SingleWorld>> {
        let mut next = self.after(SingleWorld::clone(world), action)?;
        next.drop_hopeless_writes(self.setting.broken);
        if !self.counts_writes() {
            next.writes = 0;
            for process in next.processes.iter_mut().filter(|process| process.seen.is_some()) {
                process.seen = None;
            }
        }
        next.wires.sort_unstable();
        next.wires.dedup();
        next.processes.iter_mut().for_each(HashedArc::settle);
        if !self.setting.named {
            next.processes.sort_by_key(HashedArc::digest);
        }
        (next != **world).then(|| HashedArc::new(next))
    }

    fn properties(&self) -> Vec<Property<SingleGame>> {
        checks::properties(&self.setting.always, &self.setting.sometimes)
    }
}
