//! The effects of the actions on a state of the election with a single object.

use std::time::Duration;

use tenure::Epoch;
use tenure::protocol::depose::{DeposeOrder, Verdict};
use tenure::protocol::message::{Answer, EpochEnd, Request, Step};
use tenure::protocol::message::{Event, Input};
use tenure_model::hashed_arc::HashedArc;

use super::SingleBroken;
use super::process::SingleProcess;
use super::store::{NONCES, SingleBody, SingleWire, nonce_of};
use super::world::{
    SingleAction, SingleDue, SingleGame, SingleMessage, SingleServing, SingleWorld,
};

impl SingleGame {
    /// Returns the state after an action, or `None` if the action is impossible.
    pub fn after(&self, mut world: SingleWorld, action: SingleAction) -> Option<SingleWorld> {
        match action {
            SingleAction::Serve(who, due, serving) => {
                self.due(&mut world, who, due);
                self.serve(&mut world, who, serving)?;
            }
            SingleAction::GivesUp(who, due) => {
                self.due(&mut world, who, due);
                self.gives_up(&mut world, who)?;
            }
            SingleAction::Deliver(who) => {
                let (answer, writes) = world.processes[who].mail.take()?;
                self.tell(&mut world, who, Input::Answer(answer), writes, false);
            }
            SingleAction::Tell(who, input) => {
                world.left.abandons -= u8::from(input == Input::Abandon);
                // After this input the process ignores the answer in transit, so drop the answer.
                world.processes[who].mail = None;
                let writes = world.writes;
                self.tell(&mut world, who, input, writes, true);
            }
            SingleAction::Crash(who) => {
                world.left.crashes -= 1;
                if let Some((token, _)) = world.processes[who].leads {
                    world.history.crashed = token;
                }
                world.processes[who] =
                    HashedArc::new(SingleProcess { reborn: true, ..SingleProcess::new() });
            }
            SingleAction::Arrives(which) => {
                let message = world.wires.remove(which);
                world.carry_out(message);
            }
            SingleAction::ArrivesTwice(which) => {
                world.left.twice -= 1;
                world.carry_out(world.wires[which]);
            }
            SingleAction::Depose(force) => {
                world.left.depositions -= 1;
                let tag = world.store.object?;
                let seen = tag.sighting().seen;
                let order = DeposeOrder { only: None, force };
                let verdict = order.decide(Epoch::FIRST, Some(&seen), Some(Duration::MAX));
                let Verdict::Seal { heartbeat, ended } = verdict else { return None };
                let body = tag.released(heartbeat, ended);
                world.carry_out(SingleMessage {
                    wire: SingleWire::Replace { tag, body },
                    since: None,
                });
            }
            SingleAction::PeerReads => {
                world.left.foreign_creates -= 1;
                let token = world.store.object.map_or(0, |body| body.token);
                if token < self.setting.last_token {
                    world.peer.about = Some(world.store.object);
                }
            }
            SingleAction::PeerTakes => {
                let read = world.peer.about.take()?;
                let body = SingleBody::held(read.map_or(1, |body| body.token + 1), 0, 1);
                if world.peer_writes(read, body) {
                    world.history.grant(body.token, 0);
                    world.peer.holds = Some(body);
                }
            }
            SingleAction::PeerRenews => {
                world.left.renewals -= 1;
                let held = world.peer.holds.take()?;
                let body = SingleBody { heartbeat: held.heartbeat + 1, ..held };
                world.peer.holds = world.peer_writes(Some(held), body).then_some(body);
            }
            SingleAction::PeerReleases => {
                let held = world.peer.holds.take()?;
                world.peer_writes(Some(held), held.released(0, EpochEnd::Resigned));
            }
        }
        Some(world)
    }

    fn due(&self, world: &mut SingleWorld, who: usize, due: SingleDue) {
        if let Some(input) = due {
            world.left.renewals -= u8::from(input == Input::RenewDue);
            let writes = world.writes;
            self.tell(world, who, input, writes, true);
        }
    }

    /// Returns the request of the process. Draws a nonce if the request needs a nonce.
    fn ask(&self, world: &mut SingleWorld, who: usize) -> Option<Request> {
        if world.processes[who].machine.step() == Step::Nonce {
            let token = world.processes[who].greatest() + 1;
            let nonce = world.fresh_nonce(token);
            world.processes[who].draw(nonce);
        }
        match world.processes[who].machine.step() {
            Step::Request(request) => Some(request),
            _ => None,
        }
    }

    pub fn counts_writes(&self) -> bool {
        self.setting.always.contains(&"no ABA")
    }

    /// Returns the write that the process sends for its request. A broken process sends a wrong
    /// write.
    fn wire(&self, world: &SingleWorld, who: usize, request: &Request) -> Option<SingleMessage> {
        let wire = SingleWire::of(request)?;
        let seen = world.processes[who].seen.filter(|_| self.counts_writes());
        let since = match (request, wire) {
            (Request::Take { .. }, SingleWire::Replace { tag, .. }) => {
                seen.filter(|(body, _)| *body == tag).map(|(_, at)| at)
            }
            _ => None,
        };
        let resigns = wire.body().and_then(SingleBody::ended) == Some(EpochEnd::Resigned);
        let wire = match (self.setting.broken, request, wire) {
            (SingleBroken::NoIfMatch, Request::Take { .. }, SingleWire::Replace { body, .. }) => {
                SingleWire::Blind { body }
            }
            (SingleBroken::BodyReused, Request::Renew { .. }, SingleWire::Replace { tag, .. }) => {
                SingleWire::Replace { tag, body: tag }
            }
            (SingleBroken::ReleaseByDelete, _, _) if resigns => SingleWire::Delete,
            (SingleBroken::ReleaseRaises, _, SingleWire::Replace { tag, body }) if resigns => {
                SingleWire::Replace { tag, body: SingleBody { token: body.token + 1, ..body } }
            }
            (SingleBroken::ReleaseResets, _, SingleWire::Replace { tag, body }) if resigns => {
                SingleWire::Replace { tag, body: SingleBody { token: 1, nonce: 0, ..body } }
            }
            (_, _, wire) => wire,
        };
        Some(SingleMessage { wire, since })
    }

    fn serve(&self, world: &mut SingleWorld, who: usize, serving: SingleServing) -> Option<()> {
        let request = self.ask(world, who)?;
        let mut answer = match self.wire(world, who, &request) {
            None => match &request {
                Request::Get { unless, .. } => world.store.look(unless.as_ref()),
                _ => unreachable!("all other requests are writes"),
            },
            Some(message) => {
                if serving == SingleServing::UntrueRefusal && !world.store.accepts(message.wire) {
                    return None;
                }
                if serving == SingleServing::Twice {
                    world.left.twice -= 1;
                    world.wires.push(message);
                }
                world.carry_out(message)
            }
        };
        if serving == SingleServing::UntrueRefusal {
            world.left.untrue_refusals -= 1;
            answer = Answer::Refused;
        }
        let process = &mut world.processes[who];
        if let Answer::Found { sighting, .. } = &mut answer {
            let own_read = !process.sent.is_empty() || process.leads.is_some();
            match self.setting.broken {
                SingleBroken::ForgetsItself if own_read => sighting.seen.nonce = None,
                SingleBroken::TrustsName => {
                    if let Some(nonce) = process.sent.last() {
                        sighting.seen.nonce = Some(nonce_of(*nonce));
                    }
                }
                _ => {}
            }
        }
        let writes = world.writes;
        if serving == SingleServing::Late {
            world.left.late -= 1;
            process.mail = Some((answer, writes));
        } else {
            self.tell(world, who, Input::Answer(answer), writes, true);
        }
        Some(())
    }

    fn gives_up(&self, world: &mut SingleWorld, who: usize) -> Option<()> {
        let request = self.ask(world, who)?;
        world.left.gives_up -= 1;
        let message = self.wire(world, who, &request);
        world.wires.extend(message);
        let takes = matches!(request, Request::Take { .. } | Request::Create { .. });
        if takes && self.setting.broken == SingleBroken::ConflictIsRefusal {
            // The broken process treats the unknown outcome as a refusal, and starts its campaign
            // again.
            world.processes[who].forget_attempts();
            return Some(());
        }
        let writes = world.writes;
        self.tell(world, who, Input::Answer(Answer::Unknown), writes, true);
        Some(())
    }

    /// Passes an input to a process and records the effects. `fresh` is true if the answer shows
    /// the current state of the store.
    fn tell(&self, world: &mut SingleWorld, who: usize, input: Input, writes: u8, fresh: bool) {
        let SingleWorld { processes, history, store, .. } = world;
        let process = &mut processes[who];
        let (led, greatest) = (process.leads, process.greatest());
        let shown = match &input {
            Input::Answer(Answer::Found { sighting, .. }) => Some(SingleBody::of(sighting)),
            _ => None,
        };
        let own = shown.filter(|body| body.ended().is_none() && process.sent.contains(&body.nonce));
        let event = process.handle(input, writes);
        if own.is_some_and(|body| body.token == body.nonce / NONCES) {
            history.require("own", process.leads.is_some());
        }
        match event {
            Some(Event::Granted { .. }) => {
                let (token, nonce) = process.leads.expect("a grant makes a leader");
                history.grant(token, nonce);
            }
            Some(Event::Extended { .. }) if fresh => {
                let (token, _) = led.expect("only a leader's lease is extended");
                history.require("I5", store.object.is_some_and(|body| body.token == token));
            }
            Some(Event::Lost(lost)) if fresh => {
                history.lost(store, led.expect("only a leader loses"), lost);
            }
            _ => {}
        }
        history.require("I2", process.greatest() >= greatest);
        history.require("no failure", !matches!(process.machine.step(), Step::Failed(_)));
    }
}

impl SingleWorld {
    /// Returns the least unused nonce, so that equal states have equal hashes.
    fn fresh_nonce(&self, token: u8) -> u8 {
        let mut known: Vec<u8> = self.history.acquired.iter().map(|(_, nonce)| *nonce).collect();
        known.extend(self.wires.iter().filter_map(|it| Some(it.wire.body()?.nonce)));
        for process in &self.processes {
            known.extend(&process.sent);
            known.extend(process.seen.map(|(body, _)| body.nonce));
        }
        let mut fresh = token * NONCES + 1..(token + 1) * NONCES;
        fresh.find(|nonce| !known.contains(nonce)).expect("each attempt finds an unused nonce")
    }

    fn carry_out(&mut self, message: SingleMessage) -> Answer {
        if self.store.accepts(message.wire) {
            let unseen = message.since.is_some_and(|since| since != self.writes);
            self.history.before(&self.store, message.wire, unseen);
            self.writes += 1;
        }
        self.store.apply(message.wire)
    }

    fn peer_writes(&mut self, over: Option<SingleBody>, body: SingleBody) -> bool {
        let wire = match over {
            None => SingleWire::Create { body },
            Some(tag) => SingleWire::Replace { tag, body },
        };
        let answer = self.carry_out(SingleMessage { wire, since: None });
        matches!(answer, Answer::Done { .. })
    }
}
