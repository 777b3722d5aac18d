//! The effects of the actions.

use tenure::EpochEnd;
use tenure::protocol::across::message::{
    AcrossEvent, AcrossInput, AcrossRequest, AcrossStep, AcrossWait,
};
use tenure::protocol::message::{Answer, Request};
use tenure_model::hashed_arc::HashedArc;

use super::process::Process;
use super::setting::Broken;
use super::store::{Body, NONCES, OPERATOR, Write, nonce_of, number_of};
use super::world::{Action, Due, Game, Replacing, World, confirms};

impl Game {
    /// Returns the state after an action, or `None` if the action changes nothing.
    pub fn after(&self, mut world: World, action: &Action) -> Option<World> {
        let broken = self.setting.broken;
        match *action {
            Action::Serve(who, store, due) => {
                self.due(&mut world, who, store, due);
                self.serve(&mut world, who, store)?;
            }
            Action::GivesUp(who, store, due) => {
                self.due(&mut world, who, store, due);
                self.gives_up(&mut world, who, store)?;
            }
            Action::Lapsed(who, store) => {
                self.ends(&mut world, who, store);
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
                // `check` fails before the first seal.
                world.processes[who].leads = false;
                self.tell(&mut world, who, AcrossInput::Resign);
            }
            Action::Crash(who) => {
                world.left.crashes -= 1;
                world.processes[who] = HashedArc::new(Process::new(self.setting.stores));
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
                let (_, newest) = world.sites[store].bounds();
                let body = world.sites[store].get(newest)?;
                world.sites[store].put(newest, Some(body.sealed(EpochEnd::Deposed)));
            }
            Action::Compact(store) => {
                world.left.compactions -= 1;
                let (least, _) = world.sites[store].bounds();
                world.sites[store].put(least, None);
            }
            Action::Wipe(store) => {
                world.left.replacements -= 1;
                let generation = world.sites[store].generation + 1;
                world.sites[store].wipe();
                let others = (0..self.setting.stores).filter(|other| *other != store);
                let notes = others.take(self.majority()).collect();
                world.replacing =
                    Some(Replacing { store, generation, notes, newest: None, written: false });
            }
            Action::Replace => self.replace(world)?,
            _ => unreachable!("a process takes this action"),
        }
        Some(())
    }

    /// Serves all reads of a process, except the confirming LISTs. A process may act long after its
    /// reads, and polls read again, so only a random walk delays these reads.
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
            self.serve(world, who, store);
        }
        // A store without a marker is listed again and again.
    }

    pub fn majority(&self) -> usize {
        self.setting.stores / 2 + 1
    }

    fn newest_of_others(&self, world: &World, store: usize) -> u8 {
        let others = (0..self.setting.stores).filter(|other| *other != store);
        let count = if self.setting.broken == Broken::ListsOne { 1 } else { self.majority() };
        let newest = others.take(count).map(|other| world.sites[other].bounds().1);
        newest.max().unwrap_or(0)
    }

    /// Takes the next step of a replacement: a note, the LIST, the epoch, the marker.
    fn replace(&self, world: &mut World) -> Option<()> {
        let broken = self.setting.broken;
        let mut replacing = world.replacing.take()?;
        let Replacing { store, generation, .. } = replacing;
        if let Some(at) = replacing.notes.pop() {
            world.sites[at].notes[store] = generation;
        } else if replacing.newest.is_none() {
            replacing.newest = Some(self.newest_of_others(world, store));
        } else if !replacing.written {
            replacing.written = true;
            // A candidate that has not seen the loss may have created objects in the new contents.
            let newest = replacing.newest?.max(world.sites[store].bounds().1);
            let ended = match broken {
                Broken::RestoredWithoutWait => EpochEnd::Lapsed,
                _ => EpochEnd::Restored,
            };
            let body = Body::unsealed(OPERATOR, 0).sealed(ended);
            let exists = world.sites[store].get(newest).is_some();
            let keeps = exists && broken == Broken::RestoreKeepsObject;
            if newest > 0 && broken != Broken::NoRestoredEpoch && !keeps {
                world.sites[store].put(newest, Some(body));
            }
        } else {
            world.sites[store].generation = generation;
            return Some(());
        }
        world.replacing = Some(replacing);
        Some(())
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
    pub fn serve(&self, world: &mut World, who: usize, store: usize) -> Option<()> {
        let AcrossStep::Request(request) = world.processes[who].machine.step(store) else {
            return None;
        };
        let input = match (&request, self.write(world, who, store, &request)) {
            (AcrossRequest::Placeholder { .. }, _)
                if self.setting.broken == Broken::NoPlaceholder =>
            {
                return None;
            }
            (_, Some(write)) => {
                let answer = world.sites[store].apply(write);
                AcrossInput::Answer { store, answer }
            }
            (AcrossRequest::Plain(Request::List(after)), _) => {
                let (page, marker) = world.sites[store].list(after);
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
                let answer = world.sites[store].read(*epoch, unless);
                AcrossInput::Answer { store, answer: self.meddle(world, answer) }
            }
            _ => unreachable!("no other request reads"),
        };
        self.tell(world, who, input);
        self.lists_early(world, who, store, &request);
        Some(())
    }

    fn gives_up(&self, world: &mut World, who: usize, store: usize) -> Option<()> {
        let AcrossStep::Request(request) = world.processes[who].machine.step(store) else {
            return None;
        };
        world.left.gives_up -= 1;
        let write = self.write(world, who, store, &request)?;
        world.wires.push((store, write));
        let answer = match (self.setting.broken, write) {
            (Broken::MinorityDone, Write::Create { body, .. }) => {
                Answer::Done { etag: body.etag() }
            }
            _ => Answer::Unknown,
        };
        self.tell(world, who, AcrossInput::Answer { store, answer });
        Some(())
    }

    /// Returns the write of a request, and records its sending.
    fn write(
        &self,
        world: &mut World,
        who: usize,
        store: usize,
        request: &AcrossRequest,
    ) -> Option<Write> {
        let granted = world.granted();
        let mut write = Write::of(request)?;
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
        let event = world.processes[who].handle(stores, input);
        if let Some(AcrossEvent::Granted { epoch }) = event {
            let epoch = u8::try_from(epoch.get()).expect("small");
            let process = &world.processes[who];
            let nonce = process.machine.own().map_or(0, |(_, nonce)| number_of(nonce));
            if world.grants.iter().any(|(other, _)| *other == epoch) {
                world.violate("I1");
            }
            let first_list = world.processes[who].first_list.unwrap_or(0);
            if epoch <= first_list {
                world.violate("I2");
            }
            world.grants.push((epoch, nonce));
        }
        self.end_leases(world);
    }

    /// Ends the lease of each honest process that holds too few leases of stores.
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
                process.handle(stores, AcrossInput::LeaseEnded);
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

    /// The wait of a follower has ended, so all leases of the sealed epoch have ended at this
    /// store.
    fn wait_ends(&self, world: &mut World, who: usize, store: usize) {
        let Some(newest) = world.processes[who].machine.newest() else { return };
        for process in &mut world.processes {
            if process.own().is_some_and(|(epoch, _)| u64::from(epoch) <= newest.get()) {
                process.ended[store] = u8::MAX;
            }
        }
        self.end_leases(world);
    }
}
