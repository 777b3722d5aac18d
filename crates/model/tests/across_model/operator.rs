//! The steps of an operator: depositions, replacements and moves of a store.

use tenure::EpochEnd;

use super::setting::Broken;
use super::store::{Body, OPERATOR};
use super::world::{Game, Replacing, World};

impl Game {
    /// Deletes the contents of a store, and begins their replacement.
    pub fn loses(&self, world: &mut World, store: usize, deposes: bool) {
        let generation = world.sites[store].generation + 1;
        world.sites[store].wipe();
        let others = (0..self.setting.stores).filter(|other| *other != store);
        let notes = others.take(self.majority()).collect();
        let (newest, written) = (None, false);
        world.replacing = Some(Replacing { store, generation, deposes, notes, newest, written });
    }

    /// The operator deletes the marker of a store that moves. Writes in transit reach the old
    /// contents.
    pub fn moves(&self, world: &mut World, store: usize, stale: u8) {
        world.left.moves -= 1;
        let old = world.sites.len();
        world.sites.push(world.sites[store].clone());
        if self.setting.broken != Broken::MoveKeepsMarker {
            world.sites[old].generation = 0;
        }
        world.wires.iter_mut().filter(|(at, _)| *at == store).for_each(|(at, _)| *at = old);
        world.moved = Some(store);
        for (who, process) in world.processes.iter_mut().enumerate() {
            process.stale = stale & 1 << who != 0;
        }
        self.loses(world, store, true);
    }

    /// Deposes the newest epoch of this site.
    pub fn depose(world: &mut World, site: usize) {
        let (_, newest) = world.sites[site].bounds();
        if let Some(body) = world.sites[site].get(newest).filter(|body| body.ended().is_none()) {
            world.sites[site].put(newest, Some(body.sealed(EpochEnd::Deposed)));
        }
    }

    fn newest_of_others(&self, world: &World, store: usize) -> u8 {
        let others = (0..self.setting.stores).filter(|other| *other != store);
        let count = if self.setting.broken == Broken::ListsOne { 1 } else { self.majority() };
        let newest = others.take(count).map(|other| world.sites[other].bounds().1);
        newest.max().unwrap_or(0)
    }

    /// Takes the next step of a replacement: it writes a note, lists the other stores, or writes
    /// the epoch or the marker.
    pub fn replace(&self, world: &mut World) -> Option<()> {
        let broken = self.setting.broken;
        let mut replacing = world.replacing.take()?;
        let Replacing { store, generation, .. } = replacing;
        if replacing.deposes {
            replacing.deposes = false;
            if broken != Broken::MoveDeposesNothing {
                Game::depose(world, world.sites.len() - 1);
            }
        } else if let Some(at) = replacing.notes.pop() {
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
            let body = Body::unsealed(OPERATOR, generation.into()).sealed(ended);
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
}
