//! The invariants of `tenure::protocol::across`.

use stateright::Property;
use tenure::protocol::across::message::AcrossWait;
use tenure_model::hashed_arc::HashedArc;

use super::process::Process;
use super::setting::{Broken, Setting};
use super::store::SLOTS;
use super::world::{Game, World};

impl Game {
    /// Records the invariants that do not hold in this state.
    pub fn note(&self, world: &mut World) {
        let stores = self.setting.stores;
        let leading =
            |process: &&Process| process.leads && process.machine.wait() == AcrossWait::Lead;
        let processes = || world.processes.iter().map(|process| &**process);
        let late = processes().filter(leading).any(|process| {
            let epoch = process.own().map_or(0, |(epoch, _)| epoch);
            process.late_leases(stores, epoch) >= self.majority()
        });
        let needed = match self.setting.broken {
            Broken::GreatestLease => 1,
            _ => self.majority(),
        };
        let believes = |process: &&Process| process.leases(stores) >= needed;
        let beliefs = processes().filter(leading).filter(believes).count();
        if late {
            world.violate("I5");
        }
        if beliefs > 1 {
            world.violate("I8");
        }
    }

    /// Returns whether each majority of the stores can elect a process that starts now, if all
    /// other processes have stopped. In a walk, each other process must also be electable in this
    /// way. During a replacement, returns true.
    pub fn is_live(&self, world: &World) -> bool {
        if world.replacing.is_some()
            || world.sites[..self.setting.stores].iter().any(|site| site.generation == 0)
        {
            return true;
        }
        // Too few epochs of the model are left for these elections.
        if world.sites.iter().any(|site| usize::from(site.bounds().1) + 3 > SLOTS) {
            return true;
        }
        let stores = self.setting.stores;
        let mut fresh = world.clone();
        fresh.processes[0] = HashedArc::new(Process::new(stores));
        let old = 0..if self.walks() { world.processes.len() } else { 0 };
        let sets = (0..1_u32 << stores).filter(|set| set.count_ones() as usize >= self.majority());
        let mut lists =
            sets.map(|set| (0..stores).filter(|store| set & 1 << store != 0).collect::<Vec<_>>());
        lists.all(|stores| {
            let continues =
                |who: usize| world.processes[who].stale || self.can_elect(world, who, &stores);
            self.can_elect(&fresh, 0, &stores) && old.clone().all(continues)
        })
    }
}

fn holds(world: &World, name: &str) -> bool {
    !world.violated.contains(&name)
}

/// Returns the properties that this setting requires.
pub fn properties(setting: &Setting) -> Vec<Property<Game>> {
    let all: Vec<Property<Game>> = vec![
        // An epoch is granted to at most one attempt.
        Property::<Game>::always("I1", |_, world| holds(world, "I1")),
        // If grant A precedes the first LIST of grant B, or the last create that grant B needs, B
        // has a greater epoch than A.
        Property::<Game>::always("I2", |_, world| holds(world, "I2")),
        // No lease begins with a renewal that was sent after a greater epoch was granted.
        Property::<Game>::always("I5", |_, world| holds(world, "I5")),
        // No candidate seals an object as lapsed before its timers have ended at a majority. Only
        // random walks check this property.
        Property::<Game>::always("Q4", |_, world| holds(world, "Q4")),
        // At most one process believes that it leads.
        Property::<Game>::always("I8", |_, world| holds(world, "I8")),
        Property::<Game>::always("live", |game, world| game.is_live(world)),
        Property::<Game>::sometimes("two grants", |_, world| world.grants.len() >= 2),
    ];
    let wanted = |name| setting.always.contains(&name) || setting.sometimes.contains(&name);
    all.into_iter().filter(|property| wanted(property.name)).collect()
}
