//! The effects of the actions.

use tenure::EpochEnd;
use tenure::protocol::across::message::{
    AcrossEvent, AcrossInput, AcrossRequest, AcrossStep, AcrossWait,
};
use tenure::protocol::message::{Answer, Request, Wait};
use tenure_model::hashed_arc::HashedArc;

use super::process::Process;
use super::setting::Broken;
use super::store::{NONCES, OPERATOR, Write, nonce_of, number_of};
use super::world::{Action, Due, Game, Serving, World, confirms};

impl Game {
    /// Returns the state after an action, or `None` if the action changes nothing.
    pub fn after(&self, mut world: World, action: &Action) -> Option<World> {
        let broken = self.setting.broken;
        match *action {
            Action::Serve(who, store, due, serving) => {
                self.due(&mut world, who, store, due);
                self.serve(&mut world, who, store, serving)?;
            }
            Action::GivesUp(who, store, due) => {
                self.due(&mut world, who, store, due);
                self.gives_up(&mut world, who, store)?;
            }
            Action::Deliver(who, store) => {
                let (_, answer) = world.processes[who].mail[store].take()?;
                self.tell(&mut world, who, answer);
            }
            Action::Resumes(who, store) => {
                self.tell(&mut world, who, AcrossInput::StoreResume { store });
            }
            Action::Continues(who) => {
                if world.processes[who].machine.wait() == AcrossWait::Over {
                    world.processes[who].machine.restart();
                }
                self.tell(&mut world, who, AcrossInput::Resume);
            }
            Action::Lapsed(who, store) => {
                self.ends(&mut world, who, store);
                if self.walks() {
                    world.processes[who].closes(store, None);
                }
                let all = broken == Broken::TimersOfOthers;
                for store in (0..self.setting.stores).filter(|it| all || *it == store) {
                    self.tell(&mut world, who, AcrossInput::Lapsed { store });
                }
            }
            Action::WaitOver(who, store) => {
                self.wait_ends(&mut world, who, store);
                self.tell(&mut world, who, AcrossInput::WaitOver { store });
            }
            Action::Begin(who) => self.begin(&mut world, who),
            Action::Spread(who) => self.tell(&mut world, who, AcrossInput::SpreadDue),
            Action::LeaseEnded(who) => {
                world.left.crashes -= 1;
                self.tell(&mut world, who, AcrossInput::LeaseEnded);
            }
            Action::Resign(who) => {
                world.left.resignations -= 1;
                // As soon as the application resigns, `Lease::check` fails. The first seal follows
                // later.
                world.processes[who].leads = false;
                self.tell(&mut world, who, AcrossInput::Resign);
            }
            Action::Crash(who) => {
                world.left.crashes -= 1;
                let stale = world.processes[who].stale;
                let process = Process { stale, ..Process::new(self.setting.stores) };
                world.processes[who] = HashedArc::new(process);
            }
            _ => self.without_a_process(&mut world, action)?,
        }
        if !self.walks() {
            (0..world.processes.len()).for_each(|who| self.read_eagerly(&mut world, who));
        }
        Some(world)
    }

    /// Carries out an action of the network, of an operator or of a compactor.
    fn without_a_process(&self, world: &mut World, action: &Action) -> Option<()> {
        match *action {
            Action::Arrives(which) => {
                let (store, write) = world.wires.remove(which);
                world.sites[store].apply(write);
            }
            Action::Depose(store) => {
                world.left.depositions -= 1;
                Game::depose(world, store);
            }
            Action::Compact(store) => {
                world.left.compactions -= 1;
                let (least, _) = world.sites[store].bounds();
                world.sites[store].put(least, None);
            }
            Action::Wipe(store) => {
                world.left.replacements -= 1;
                self.loses(world, store, false);
            }
            Action::Move(store, stale) => self.moves(world, store, stale),
            Action::Replace => self.replace(world)?,
            _ => unreachable!("all other actions belong to a process"),
        }
        Some(())
    }

    /// Serves all reads of a process, except the confirming LISTs. Only a random walk delays these
    /// reads. In an exhaustive run a delay would add nothing, because a process may act long after
    /// its reads, and its polls read again.
    fn read_eagerly(&self, world: &mut World, who: usize) {
        let reads = |world: &World, store: usize| {
            let process = &world.processes[who];
            match process.machine.step(store) {
                AcrossStep::Request(request) => {
                    Write::of(&request).is_none() && !confirms(process, &request)
                }
                AcrossStep::Wait(_) => false,
            }
        };
        for _ in 0..100 {
            let Some(store) = (0..self.setting.stores).find(|store| reads(world, *store)) else {
                return;
            };
            self.serve(world, who, store, Serving::Once);
        }
        // The limit of 100 is necessary, because a store without a marker is listed repeatedly.
    }

    pub fn majority(&self) -> usize {
        self.setting.stores / 2 + 1
    }

    pub fn begin(&self, world: &mut World, who: usize) {
        let next = world.processes[who].machine.newest().map_or(0, |newest| newest.get()) + 1;
        let drawn = &mut world.drawn[usize::try_from(next).expect("small")];
        *drawn += 1;
        let number = u16::try_from(next).expect("small") * NONCES + u16::from(*drawn);
        self.tell(world, who, AcrossInput::Nonce(nonce_of(number)));
    }

    fn due(&self, world: &mut World, who: usize, store: usize, due: Option<Due>) {
        if let Some(due) = due {
            world.left.renewals -= u8::from(due == Due::Renew);
            self.tell(world, who, due.input(store));
        }
    }

    /// Sends the request of the process to the store, and passes the answer to the process.
    pub fn serve(
        &self,
        world: &mut World,
        who: usize,
        store: usize,
        serving: Serving,
    ) -> Option<()> {
        let request = self.request(world, who, store)?;
        let at = world.site(who, store);
        let input = match (&request, self.write(world, who, store, &request)) {
            (AcrossRequest::Placeholder { .. }, _)
                if self.setting.broken == Broken::NoPlaceholder =>
            {
                return None;
            }
            (_, Some(write)) => {
                let answer = world.sites[at].apply(write);
                if serving == Serving::Twice {
                    world.left.twice -= 1;
                    world.wires.push((at, write));
                }
                self.keeps(world, who, store, write, &answer);
                AcrossInput::Answer { store, answer }
            }
            (AcrossRequest::Plain(Request::List(after)), _) => {
                let whole = serving != Serving::ShortPage;
                world.left.short_pages -= u8::from(!whole);
                let (page, marker) = world.sites[at].list(after, whole);
                let confirms = confirms(&world.processes[who], &request);
                let granted = world.granted();
                let process = &mut world.processes[who];
                if confirms && process.first_list.is_none() {
                    process.first_list = Some(granted);
                }
                self.listed(world, who, store, confirms, page, marker)
            }
            (AcrossRequest::Plain(Request::Get { epoch: Some(epoch), unless }), _) => {
                let unless = unless.as_ref().filter(|_| self.setting.broken != Broken::ClosedByOne);
                let answer = world.sites[at].read(*epoch, unless);
                let answer = self.meddle(world, who, store, *epoch, answer);
                AcrossInput::Answer { store, answer }
            }
            _ => unreachable!("all other requests are writes"),
        };
        if serving == Serving::Late {
            world.left.late -= 1;
            world.processes[who].mail[store] = Some((request, input));
            return Some(());
        }
        self.tell(world, who, input);
        self.lists_early(world, who, store, &request);
        Some(())
    }

    /// Returns the request that the process sends now to this store.
    fn request(&self, world: &World, who: usize, store: usize) -> Option<AcrossRequest> {
        match world.processes[who].machine.step(store) {
            AcrossStep::Request(request) if world.processes[who].mail[store].is_none() => {
                Some(request)
            }
            _ => None,
        }
    }

    fn gives_up(&self, world: &mut World, who: usize, store: usize) -> Option<()> {
        world.left.gives_up -= 1;
        let mut answer = Answer::Unknown;
        if world.processes[who].mail[store].take().is_none() {
            let request = self.request(world, who, store)?;
            let write = self.write(world, who, store, &request);
            let at = world.site(who, store);
            world.wires.extend(write.map(|write| (at, write)));
            if let (Broken::MinorityDone, Some(Write::Create { body, .. })) =
                (self.setting.broken, write)
            {
                answer = Answer::Done { etag: body.etag() };
            }
        }
        self.tell(world, who, AcrossInput::Answer { store, answer });
        Some(())
    }

    /// Returns the write of a request, and records that the process sends it.
    fn write(
        &self,
        world: &mut World,
        who: usize,
        store: usize,
        request: &AcrossRequest,
    ) -> Option<Write> {
        let granted = world.granted();
        let mut write = Write::of(request)?;
        let (Write::Create { epoch, body } | Write::Replace { epoch, body, .. }) = write;
        let process = &world.processes[who];
        let is_newest = process.machine.newest().is_some_and(|it| it.get() == u64::from(epoch));
        if body.ended() == Some(EpochEnd::Lapsed)
            && self.walks()
            && is_newest
            && !process.may_close(epoch, self.majority())
        {
            world.violate("Q4");
        }
        let own = world.processes[who].own();
        if let Write::Create { epoch, body } | Write::Replace { epoch, body, .. } = write
            && own == Some((epoch, body.nonce))
            && body.ended().is_none()
        {
            world.processes[who].sent.push((store, body.heartbeat, granted));
        }
        if self.setting.broken == Broken::NoCondition
            && let Write::Replace { tag, body, .. } = &mut write
            && body.ended().is_none()
        {
            *tag = None;
        }
        Some(write)
    }

    /// Passes an input to a process, and records the effects.
    pub fn tell(&self, world: &mut World, who: usize, input: AcrossInput) {
        let stores = self.setting.stores;
        self.learns(world, who, &input);
        let event = world.processes[who].handle(stores, !self.walks(), input);
        if let Some(AcrossEvent::Granted { epoch }) = event {
            let epoch = u8::try_from(epoch.get()).expect("small");
            let process = &world.processes[who];
            let nonce = process.machine.own().map_or(0, |(_, nonce)| number_of(nonce));
            if world.grants.iter().any(|(other, _)| *other == epoch) {
                world.violate("I1");
            }
            let process = &world.processes[who];
            let before = process.granted_before(stores, self.majority());
            if epoch <= before.max(process.first_list.unwrap_or(0)) {
                world.violate("I2");
            }
            world.grants.push((epoch, nonce));
        }
        self.end_leases(world);
        if self.setting.broken == Broken::AbsentLapses {
            let machine = &mut world.processes[who].machine;
            for store in 0..stores {
                let follows = machine.step(store) == AcrossStep::Wait(Wait::Follow);
                if follows && machine.followed(store).is_none() {
                    machine.handle(AcrossInput::Lapsed { store });
                }
            }
        }
    }

    /// Records that an answer shows a closed epoch (Q4), or leases to wait for (E9).
    fn learns(&self, world: &mut World, who: usize, input: &AcrossInput) {
        let AcrossInput::Answer { store, answer } = input else { return };
        let machine = &world.processes[who].machine;
        let (ended, holder) = match (answer, machine.step(*store)) {
            (Answer::Found { sighting, .. }, _) if Some(sighting.epoch) == machine.newest() => {
                (sighting.seen.ended, sighting.seen.nonce.map_or(0, number_of))
            }
            (
                Answer::Done { .. },
                AcrossStep::Request(
                    AcrossRequest::Placeholder { .. }
                    | AcrossRequest::Plain(Request::Seal { ended: EpochEnd::Lapsed, .. }),
                ),
            ) => (Some(EpochEnd::Lapsed), 0),
            _ => return,
        };
        if self.walks() && ended.is_some() {
            world.processes[who].closes(*store, ended);
        }
        if self.setting.honest && matches!(ended, Some(EpochEnd::Deposed | EpochEnd::Restored)) {
            let leases = world.processes.iter().filter_map(|process| {
                let (_, nonce) = process.own()?;
                let here = process.sent.iter().filter(|(at, ..)| at == store);
                let last = here.map(|(_, heartbeat, _)| *heartbeat).max()?;
                (nonce == holder || holder == OPERATOR).then_some((nonce, last))
            });
            let leases = leases.collect();
            world.processes[who].waited[*store] = leases;
        }
    }

    /// Ends the lease of each honest process that holds leases at too few stores.
    fn end_leases(&self, world: &mut World) {
        if !self.setting.honest {
            return;
        }
        let stores = self.setting.stores;
        let needed = match self.setting.broken {
            Broken::GreatestLease => 1,
            _ => self.majority(),
        };
        for process in &mut world.processes {
            if process.machine.wait() == AcrossWait::Lead && process.leases(stores) < needed {
                process.handle(stores, !self.setting.walks, AcrossInput::LeaseEnded);
            }
        }
    }

    /// The timer of a follower has ended, so the lease that it follows has ended.
    fn ends(&self, world: &mut World, who: usize, store: usize) {
        let Some(sighting) = world.processes[who].machine.followed(store) else { return };
        let Some(nonce) = sighting.seen.nonce.map(number_of) else { return };
        let heartbeat = u8::try_from(sighting.seen.heartbeat).expect("small");
        for process in &mut world.processes {
            if process.own().is_some_and(|(_, own)| own == nonce) {
                process.ended[store] = process.ended[store].max(heartbeat);
            }
        }
        self.end_leases(world);
    }

    /// The wait of a follower has ended, so the leases that it waited for have ended at this store.
    fn wait_ends(&self, world: &mut World, who: usize, store: usize) {
        for (holder, heartbeat) in std::mem::take(&mut world.processes[who].waited[store]) {
            for process in &mut world.processes {
                if process.own().is_some_and(|(_, own)| own == holder) {
                    process.ended[store] = process.ended[store].max(heartbeat);
                }
            }
        }
        self.end_leases(world);
    }
}
