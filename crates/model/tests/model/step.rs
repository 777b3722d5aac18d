//! The effects of the actions on a state of the election.

use std::time::Duration;

use tenure::Epoch;
use tenure::protocol::depose::{DeposeOrder, Verdict};
use tenure::protocol::message::{Answer, Request, Step};
use tenure::protocol::message::{Event, Input};

use super::process::Phase;
use super::setting::Broken;
use super::store::{Body, NONCES, NonceNumber, Number, Wire, small};
use super::world::{Action, Due, Game, Message, World};

impl Game {
    /// Returns the state after an action, or `None` if the action is impossible.
    pub fn after(&self, mut world: World, action: Action) -> Option<World> {
        match action {
            Action::Serve(who, due, serving) => {
                self.due(&mut world, who, due);
                self.serve(&mut world, who, serving)?;
            }
            Action::GivesUp(who, due) => {
                self.due(&mut world, who, due);
                self.gives_up(&mut world, who)?;
            }
            Action::Deliver(who) => {
                let answer = world.processes[who].mail.take()?;
                self.tell(&mut world, who, Input::Answer(answer), false);
            }
            Action::Tell(who, input) => {
                world.left.abandons -= u8::from(input == Input::Abandon);
                world.left.renewals -= u8::from(input == Input::RenewDue);
                // After this input the process ignores the answer in transit, so drop the answer.
                world.processes[who].mail = None;
                world.processes[who].first_page = None;
                self.tell(&mut world, who, input, true);
            }
            Action::Crash(who) => self.crash(&mut world, who),
            Action::ConfirmsFirst(who) => self.confirms_first(&mut world, who),
            Action::Arrives(which) => {
                let message = world.wires.remove(which);
                self.carry_out(&mut world, message);
            }
            Action::ArrivesTwice(which) => {
                world.left.twice -= 1;
                let message = world.wires.remove(which);
                self.carry_out(&mut world, message);
                self.copy_stays(&mut world, message);
            }
            Action::Compacts(which, page) => self.compacts(&mut world, which, page)?,
            Action::Depose(epoch, force) => {
                world.left.depositions -= 1;
                let tag = world.store.get(epoch)?;
                let order = DeposeOrder { only: None, force };
                let number = Epoch::new(u64::from(epoch)).expect("epochs of this model start at 1");
                let verdict = order.decide(number, Some(&tag.seen()), Some(Duration::MAX));
                let Verdict::Seal { heartbeat, ended } = verdict else { return None };
                let body = tag.sealed(heartbeat, ended);
                self.carry_out(&mut world, Message::new(Wire::Replace { epoch, tag, body }));
            }
            Action::PeerDecides => {
                // A peer that follows Morling's post (docs/how-to/upgrade.md) has an arbitrary
                // clock, so it may consider the newest epoch expired.
                world.left.foreign_creates -= 1;
                let next = world.store.newest() + 1;
                world.morling.about = (next <= self.setting.last_epoch).then_some(next);
            }
            Action::PeerCreates => self.peer_creates(&mut world)?,
            Action::PeerTouches(epoch) => world.store.put(epoch, Some(Body::FOREIGN)),
        }
        Some(world)
    }

    /// Returns the request of the process. Draws a nonce if the request needs a nonce.
    pub fn ask(&self, world: &mut World, who: usize) -> Option<Request> {
        if world.processes[who].is_creating() {
            let process = &world.processes[who];
            let epoch = process.greatest() + 1;
            let before = process.creating.last().copied();
            let nonce = match before.filter(|_| self.setting.broken == Broken::ReusesBody) {
                Some(nonce) => nonce,
                None => world.fresh_nonce(epoch),
            };
            let process = &mut world.processes[who];
            process.draw(nonce);
        }
        match world.processes[who].machine.step() {
            Step::Request(Request::Create { epoch, mut write }) => {
                let above = small(epoch.get()) > world.processes[who].greatest();
                world.history.require("I2", above);
                if self.setting.broken == Broken::ReusesBody {
                    write.heartbeat = 1;
                }
                Some(Request::Create { epoch, write })
            }
            Step::Request(request) => Some(request),
            _ => None,
        }
    }

    pub fn due(&self, world: &mut World, who: usize, due: Due) {
        if let Some(input) = due {
            world.left.renewals -= u8::from(input == Input::RenewDue);
            self.tell(world, who, input, true);
        }
    }

    fn gives_up(&self, world: &mut World, who: usize) -> Option<()> {
        let request = self.ask(world, who)?;
        if self.made_up(world, who, &request).is_some() {
            return None;
        }
        world.left.gives_up -= 1;
        world.processes[who].first_page = None;
        let mut answer = Answer::Unknown;
        if let Some(wire) = Wire::of(&request) {
            world.uses(wire);
            world.wires.push(Message::new(wire));
            if self.setting.broken == Broken::ConflictIsRefusal {
                answer = Answer::Refused;
            }
        }
        self.tell(world, who, Input::Answer(answer), true);
        Some(())
    }

    /// Passes an input to a process and records the effects. `fresh` is true if the answer shows
    /// the current state of the store.
    pub fn tell(&self, world: &mut World, who: usize, input: Input, fresh: bool) {
        let World { processes, history, store, .. } = world;
        let process = &mut processes[who];
        let (led, epoch, before) = (process.leads, process.greatest(), process.phase);
        let asked = match process.machine.step() {
            Step::Request(Request::Get { epoch: Some(epoch), .. }) => {
                u8::try_from(epoch.get()).ok()
            }
            _ => None,
        };
        let own = match &input {
            Input::Answer(answer @ Answer::Found { sighting, .. })
                if sighting.seen.ended.is_none() =>
            {
                process.own_nonce(answer)
            }
            _ => None,
        };
        // The answer may hide the nonce from a broken process, so this check reads the nonce from
        // the store.
        let shown = asked.and_then(|epoch| store.get(epoch));
        let shown = shown.filter(|body| body.ended().is_none()).map(|body| body.nonce);
        let own = own.or(shown.filter(|nonce| fresh && process.creating.contains(nonce)));
        let answered = matches!(input, Input::Answer(Answer::Found { .. }));
        let reclaimable = matches!(&input, Input::Answer(Answer::Found { sighting, .. })
            if sighting.seen.reclaimable);
        let sent = process.creating.clone();
        let event = process.handle(input);
        if self.setting.remembers {
            process.remember(sent);
            let followed = process.followed_nonce();
            let own = followed.is_some_and(|nonce| process.sent.contains(&nonce));
            history.require("own", !own);
        }
        if before == Phase::Creating && answered && own.is_some() {
            history.require("own", matches!(process.phase, Phase::Confirming { .. }));
            history.past.reach("an earlier write adopted");
        }
        let seals = matches!(process.machine.step(), Step::Request(Request::Seal { .. }));
        if seals && reclaimable {
            history.past.reach("a predecessor's epoch reclaimed");
        }
        if matches!(before, Phase::Confirming { .. }) && seals {
            history.past.reach("a campaign not confirmed");
        }
        self.takes_note(world, who, led, event, fresh);
        let World { processes, history, .. } = world;
        let process = &processes[who];
        if let Phase::Confirming { nonce } = before
            && !matches!(process.phase, Phase::Confirming { .. })
        {
            history.forget_pending(epoch, nonce);
        }
        history.require("I2", process.greatest() >= epoch);
        history.require("no failure", !matches!(process.machine.step(), Step::Failed(_)));
    }

    /// Records the event that an input caused. `led` is the grant that the process had before the
    /// input.
    fn takes_note(
        &self,
        world: &mut World,
        who: usize,
        led: Option<(Number, NonceNumber)>,
        event: Option<Event>,
        fresh: bool,
    ) {
        let World { processes, history, store, .. } = world;
        let process = &mut processes[who];
        match event {
            Some(Event::Granted { .. }) => {
                let (epoch, nonce) = process.leads.expect("a grant makes a leader");
                history.grant(epoch, nonce);
            }
            Some(Event::Extended { heartbeat }) => {
                let (epoch, nonce) = led.expect("only a leader's lease is extended");
                history.extended(epoch, nonce, heartbeat);
                if self.setting.verify_renewals && self.walks() {
                    history.require("verified", std::mem::take(&mut process.verified));
                } else if self.setting.verify_renewals && fresh {
                    history.require("verified", store.newest() <= epoch);
                }
            }
            Some(Event::Lost(lost)) => {
                let (epoch, nonce) = led.expect("only a leader loses");
                if fresh {
                    history.lost(store, epoch, nonce, lost);
                }
                history.lost_once(epoch, nonce, lost);
            }
            None => {}
        }
    }

    pub fn carry_out(&self, world: &mut World, message: Message) -> Answer {
        let Message { wire, sealed_since, .. } = message;
        if !world.store.accepts(wire) {
            return world.store.apply(wire);
        }
        world.history.before(&world.store, wire, sealed_since);
        world.history.past.accepted(wire);
        world.uses(wire);
        match wire {
            Wire::Replace { epoch, body, .. } if body.ended().is_some() => {
                for message in &mut world.wires {
                    let creates = matches!(message.wire, Wire::Create { .. });
                    let this = message.wire.epoch() == epoch
                        && message.wire.body().is_some_and(|it| it.nonce == body.nonce);
                    message.sealed_since |= creates && this;
                }
            }
            // The protocol assumes that no create takes effect after its epoch was compacted.
            Wire::Delete { epoch } if !self.setting.creates_outlive_compaction => {
                world.wires.retain(|message| {
                    let creates = matches!(message.wire, Wire::Create { .. });
                    !(creates && message.done && message.wire.epoch() == epoch)
                });
            }
            _ => {}
        }
        world.store.apply(wire)
    }

    pub fn copy_stays(&self, world: &mut World, message: Message) {
        world.uses(message.wire);
        world.wires.push(Message { done: true, ..message });
    }
}

impl World {
    /// Returns an unused nonce. An unused nonce is neither in the store nor in a pending request,
    /// and no process would recognise it.
    fn fresh_nonce(&self, epoch: Number) -> NonceNumber {
        let first = NonceNumber::from(epoch) * NONCES;
        let creating = self.processes.iter().flat_map(|it| it.creating.iter().chain(&it.sent));
        let number = |nonce: &NonceNumber| nonce.checked_sub(first).filter(|it| *it < NONCES);
        let greatest = creating.filter_map(number).max().unwrap_or(0);
        let fresh = greatest.max(self.used[usize::from(epoch)].into()) + 1;
        assert!(fresh < NONCES, "more attempts than nonces of this epoch");
        first + fresh
    }

    fn uses(&mut self, wire: Wire) {
        if let Wire::Create { epoch, body } = wire
            && body != Body::FOREIGN
        {
            let used = &mut self.used[usize::from(epoch)];
            *used = (*used).max(small((body.nonce % NONCES).into()));
        }
    }
}

impl Message {
    pub fn new(wire: Wire) -> Message {
        Message { wire, done: false, sealed_since: false }
    }
}
