//! Elections without further faults.

use tenure::protocol::across::message::{AcrossInput, AcrossStep, AcrossWait};
use tenure::protocol::message::{Answer, Wait};

use super::world::{Game, Serving, World};

impl Game {
    /// Elects a process while no other process acts.
    pub fn elect(&self, world: &mut World, who: usize) -> bool {
        let stores = 0..self.setting.stores;
        for _ in 0..200 {
            if world.processes[who].machine.wait() == AcrossWait::Nonce {
                self.begin(world, who);
            }
            let acts =
                stores.clone().any(|store| self.serve(world, who, store, Serving::Once).is_some());
            let counted =
                stores.clone().all(|it| world.processes[who].machine.counted(it).is_some());
            if counted {
                return true;
            }
            if !acts {
                return false;
            }
        }
        false
    }

    /// Returns whether the process is elected if all other processes stop, and only these stores
    /// answer. If some stores fail, an attempt may last until its lease ends.
    pub fn can_elect(&self, world: &World, who: usize, stores: &[usize]) -> bool {
        let mut world = world.clone();
        for _ in 0..200 {
            let before = world.processes[who].machine.clone();
            for store in stores.iter().copied() {
                if let Some((_, answer)) = world.processes[who].mail[store].take() {
                    self.tell(&mut world, who, answer);
                }
            }
            match world.processes[who].machine.wait() {
                AcrossWait::Over => world.processes[who].machine.restart(),
                AcrossWait::Lead => return true,
                AcrossWait::Nonce => self.begin(&mut world, who),
                AcrossWait::Pause => self.tell(&mut world, who, AcrossInput::Resume),
                AcrossWait::Spread => self.tell(&mut world, who, AcrossInput::SpreadDue),
                _ => {}
            }
            for store in 0..self.setting.stores {
                if !stores.contains(&store) {
                    let answer = AcrossInput::Answer { store, answer: Answer::Unknown };
                    world.processes[who].mail[store] = None;
                    if matches!(world.processes[who].machine.step(store), AcrossStep::Request(_)) {
                        self.tell(&mut world, who, answer);
                    }
                    continue;
                }
                match world.processes[who].machine.step(store) {
                    AcrossStep::Request(_) => {
                        self.serve(&mut world, who, store, Serving::Once);
                    }
                    AcrossStep::Wait(Wait::Follow) => {
                        self.tell(&mut world, who, AcrossInput::Lapsed { store });
                    }
                    AcrossStep::Wait(Wait::Deposed) => {
                        self.tell(&mut world, who, AcrossInput::WaitOver { store });
                    }
                    AcrossStep::Wait(Wait::NoLeader) => {
                        self.tell(&mut world, who, AcrossInput::PollDue { store });
                    }
                    AcrossStep::Wait(Wait::Retry) => {
                        self.tell(&mut world, who, AcrossInput::StoreResume { store });
                    }
                    AcrossStep::Wait(_) => {}
                }
            }
            if world.processes[who].machine == before {
                if stores.len() == self.setting.stores {
                    return false;
                }
                self.tell(&mut world, who, AcrossInput::LeaseEnded);
            }
        }
        false
    }
}
