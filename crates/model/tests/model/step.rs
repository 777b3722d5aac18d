//! What an action makes of a state.

use std::time::Duration;

use tenure::Epoch;
use tenure::protocol::candidate::{Event, Input};
use tenure::protocol::depose::{Order, Verdict};
use tenure::protocol::find::{After, Listing};
use tenure::protocol::message::{Answer, Ended, Request, Sighting, Step};

use super::others::WHOLE;
use super::process::{Phase, Process};
use super::setting::Broken;
use super::store::{Body, NONCES, Number, Wire, small};
use super::world::{Action, Due, Game, Message, Serving, World};

impl Game {
    /// The state after an action; `None` if the action is not possible after all.
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
                // An answer that comes now comes too late.
                world.processes[who].mail = None;
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
                let order = Order { only: None, force };
                let number = Epoch::new(u64::from(epoch)).expect("0 is no slot of an object");
                let verdict = order.decide(number, Some(&tag.seen()), Some(Duration::MAX));
                let Verdict::Seal { heartbeat, ended } = verdict else { return None };
                let body = tag.sealed(heartbeat, ended);
                self.carry_out(&mut world, Message::new(Wire::Replace { epoch, tag, body }));
            }
            Action::PeerDecides => {
                // By its clock, which may say anything, the newest has expired.
                world.left.foreign_creates -= 1;
                let next = world.store.newest() + 1;
                world.morling.about = (next <= self.setting.last_epoch).then_some(next);
            }
            Action::PeerCreates => self.peer_creates(&mut world)?,
            Action::PeerTouches(epoch) => world.store.put(epoch, Some(Body::FOREIGN)),
        }
        Some(world)
    }

    /// What the process asks of the store, a nonce drawn where it takes one.
    fn ask(&self, world: &mut World, who: usize) -> Option<Request> {
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

    fn due(&self, world: &mut World, who: usize, due: Due) {
        if let Some(input) = due {
            world.left.renewals -= u8::from(input == Input::RenewDue);
            self.tell(world, who, input, true);
        }
    }

    fn serve(&self, world: &mut World, who: usize, serving: Serving) -> Option<()> {
        let request = self.ask(world, who)?;
        if let Some(answer) = self.made_up(world, who, &request) {
            self.tell(world, who, Input::Answer(answer), true);
            return Some(());
        }
        let answer = match Wire::of(&request) {
            Some(wire) => self.write(world, wire, serving)?,
            None => self.read(world, who, &request, serving)?,
        };
        let answer = self.meddle(world, who, answer);
        if serving == Serving::Late {
            world.left.late -= 1;
            world.processes[who].mail = Some(answer);
        } else {
            self.tell(world, who, Input::Answer(answer), true);
        }
        Some(())
    }

    fn write(&self, world: &mut World, wire: Wire, serving: Serving) -> Option<Answer> {
        let resigns = wire.body().and_then(Body::ended) == Some(Ended::Resigned);
        let wire = match (self.setting.broken, wire) {
            (Broken::ResignsByDeleting, Wire::Replace { epoch, .. }) if resigns => {
                Wire::Delete { epoch }
            }
            (_, wire) => wire,
        };
        let accepted = world.store.accepts(wire);
        let mut message = Message::new(wire);
        let answer = self.carry_out(world, message);
        message.sealed_since = false;
        match serving {
            Serving::Twice => {
                world.left.twice -= 1;
                self.copy_stays(world, message);
            }
            Serving::UntrueRefusal if !accepted => return None,
            Serving::UntrueRefusal => {
                world.left.untrue_refusals -= 1;
                return Some(Answer::Refused);
            }
            _ => {}
        }
        Some(answer)
    }

    fn read(
        &self,
        world: &mut World,
        who: usize,
        request: &Request,
        serving: Serving,
    ) -> Option<Answer> {
        match request {
            Request::Get { epoch: Some(epoch), unless } => {
                Some(world.store.read(*epoch, unless.as_ref()))
            }
            Request::List(after) => {
                self.date(world, who, after);
                let most = if serving == Serving::ShortPage { 1 } else { WHOLE };
                let mut listing = world.store.list(after, self.setting.foreign_keys, most);
                if serving == Serving::ShortPage {
                    listing.rest.as_ref()?;
                    world.left.short_pages -= 1;
                }
                if self.setting.broken == Broken::OnePage {
                    listing.rest = None;
                }
                Some(Answer::Listed(listing))
            }
            _ => unreachable!("the rest are writes"),
        }
    }

    /// The first page of a confirming LIST dates the grant.
    fn date(&self, world: &mut World, who: usize, after: &After) {
        let epoch = world.processes[who].greatest();
        if let Some(nonce) = world.confirming(who)
            && *after == After::Number(u64::from(epoch))
        {
            world.history.date(&world.store, epoch, nonce);
        }
    }

    /// The answer that a broken process makes up without asking the store.
    fn made_up(&self, world: &mut World, who: usize, request: &Request) -> Option<Answer> {
        match (self.setting.broken, request) {
            (Broken::NoConfirm | Broken::ConfirmsFirst, Request::List(after)) => {
                world.confirming(who)?;
                self.date(world, who, after);
                Some(Answer::Listed(Listing { epochs: None, rest: None }))
            }
            (Broken::NoSeal, Request::Seal { ended: Ended::Lapsed, etag, .. }) => {
                Some(Answer::Done { etag: etag.clone() })
            }
            _ => None,
        }
    }

    /// What a broken process makes of an answer.
    fn meddle(&self, world: &World, who: usize, mut answer: Answer) -> Answer {
        let Process { phase, creating, leads, .. } = &world.processes[who];
        if let Answer::Found { sighting: Sighting { seen, .. }, .. } = &mut answer {
            let own_read = *phase == Phase::Creating || leads.is_some();
            match self.setting.broken {
                Broken::ForgetsItself if own_read => seen.nonce = None,
                Broken::TrustsName if *phase == Phase::Creating => {
                    seen.nonce = creating.last().copied().map(super::store::nonce_of);
                }
                _ => {}
            }
        }
        answer
    }

    fn gives_up(&self, world: &mut World, who: usize) -> Option<()> {
        let request = self.ask(world, who)?;
        if self.made_up(world, who, &request).is_some() {
            return None;
        }
        world.left.gives_up -= 1;
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

    /// Hands an input to a process, and takes note of what it brought about. `fresh`: an answer
    /// that the store gave just now.
    fn tell(&self, world: &mut World, who: usize, input: Input, fresh: bool) {
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
        // One that forgets itself does not know; the store does.
        let shown = asked.and_then(|epoch| store.get(epoch));
        let shown = shown.filter(|body| body.ended().is_none()).map(|body| body.nonce);
        let own = own.or(shown.filter(|nonce| fresh && process.creating.contains(nonce)));
        let answered = matches!(input, Input::Answer(Answer::Found { .. }));
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
        }
        match event {
            Some(Event::Granted { .. }) => {
                let (epoch, nonce) = process.leads.expect("a grant makes a leader");
                history.grant(epoch, nonce);
            }
            Some(Event::Extended { .. }) => {
                let (epoch, _) = led.expect("only a leader's lease is extended");
                if self.setting.verify_renewals && fresh {
                    history.require("verified", store.newest() <= epoch);
                }
            }
            Some(Event::Lost(lost)) => {
                let (epoch, nonce) = led.expect("only a leader loses");
                if fresh {
                    history.lost(store, epoch, nonce, lost);
                }
            }
            None => {}
        }
        if let Phase::Confirming { nonce } = before
            && !matches!(process.phase, Phase::Confirming { .. })
        {
            history.forget_pending(epoch, nonce);
        }
        history.require("I2", process.greatest() >= epoch);
        history.require("no failure", !matches!(process.machine.step(), Step::Failed(_)));
    }

    fn carry_out(&self, world: &mut World, message: Message) -> Answer {
        let Message { wire, sealed_since, .. } = message;
        if !world.store.accepts(wire) {
            return world.store.apply(wire);
        }
        world.history.before(&world.store, wire, sealed_since);
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
            // What section 1 asks for.
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

    fn copy_stays(&self, world: &mut World, message: Message) {
        world.uses(message.wire);
        world.wires.push(Message { done: true, ..message });
    }

    fn crash(&self, world: &mut World, who: usize) {
        world.left.crashes -= 1;
        let process = &world.processes[who];
        if let Some((epoch, _)) = process.leads {
            world.history.crashed = epoch;
        }
        if let Phase::Confirming { nonce } = process.phase {
            world.history.forget_pending(process.greatest(), nonce);
        }
        let again = Process::new(self.rules(), None);
        world.processes[who] = Process { reborn: true, ..again };
    }

    /// A process that lists before it creates, in the place of afterwards.
    fn confirms_first(&self, world: &mut World, who: usize) {
        let process = &mut world.processes[who];
        if world.store.newest() > process.greatest() + 1 {
            *process = Process::new(self.rules(), process.machine.greatest());
        } else {
            process.confirmed = true;
        }
    }
}

impl World {
    /// One that is nowhere to be found: neither in the store, now or ever, nor under way, nor among
    /// those that somebody may still recognise as its own.
    fn fresh_nonce(&self, epoch: Number) -> u8 {
        let creating = self.processes.iter().flat_map(|it| it.creating.iter().chain(&it.sent));
        let number = |nonce: &u8| nonce.checked_sub(epoch * NONCES).filter(|it| *it < NONCES);
        let greatest = creating.filter_map(number).max().unwrap_or(0);
        let fresh = greatest.max(self.used[usize::from(epoch)]) + 1;
        assert!(fresh < NONCES, "more attempts than numbers");
        epoch * NONCES + fresh
    }

    fn uses(&mut self, wire: Wire) {
        if let Wire::Create { epoch, body } = wire
            && body != Body::FOREIGN
        {
            let used = &mut self.used[usize::from(epoch)];
            *used = (*used).max(body.nonce - epoch * NONCES);
        }
    }
}

impl Message {
    pub fn new(wire: Wire) -> Message {
        Message { wire, done: false, sealed_since: false }
    }
}
