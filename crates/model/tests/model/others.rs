//! Models a crash, a compactor, a peer that follows Morling's post (docs/how-to/upgrade.md), and a
//! broken process. The broken process lists the epochs before its create, and not after it.

use std::num::NonZeroUsize;
use std::time::Duration;

use tenure::Epoch;
use tenure::protocol::compaction::{Compaction, Listed, NewestBody};
use tenure_model::hashed_arc::HashedArc;

use super::process::{Phase, Process};
use super::setting::{Broken, Morling};
use super::store::{Body, Number, Wire, small};
use super::world::{Compactor, Game, Message, Page, World};

/// Maximum number of keys on a page that holds a whole listing. The model never has this many keys.
pub const WHOLE: usize = 100;

impl Game {
    pub fn crash(&self, world: &mut World, who: usize) {
        world.left.crashes -= 1;
        let process = &world.processes[who];
        if let Some((epoch, _)) = process.leads {
            world.history.crashed = epoch;
        }
        if let Phase::Confirming { nonce } = process.phase {
            world.history.forget_pending(process.greatest(), nonce);
        }
        let rules = self.rules(process.role);
        let born_again = Process::clone(process).born_again(rules);
        world.processes[who] = HashedArc::new(born_again);
    }

    /// Performs the step of a broken process. This process lists the epochs before its create, and
    /// not after it.
    pub fn confirms_first(&self, world: &mut World, who: usize) {
        let process = &mut world.processes[who];
        if world.store.newest() > process.greatest() + 1 {
            let rules = self.rules(process.role);
            *process =
                HashedArc::new(Process::new(process.role, rules, process.machine.greatest()));
        } else {
            process.confirmed = true;
        }
    }

    pub fn compacts(&self, world: &mut World, which: usize, page: Page) -> Option<()> {
        let first_page = world.compactors[which].first_page.take();
        let (mut plan, after) = match world.compactors[which].run.take() {
            Some(run) => run,
            None => {
                world.left.compactions -= 1;
                (Compaction::new(NonZeroUsize::MIN, Duration::ZERO), 0)
            }
        };
        if self.setting.unordered && page == Page::Short {
            world.left.short_pages -= 1;
            first_page.is_none().then_some(())?;
            let first_page = Some(world.store.unordered_page(after, true));
            let run = Some((plan, after));
            world.compactors[which] = HashedArc::new(Compactor { run, first_page });
            return Some(());
        }
        let most = if page == Page::Short { 1 } else { WHOLE };
        let mut listing: Vec<Number> =
            world.store.epochs().map(|(epoch, _)| epoch).filter(|epoch| *epoch > after).collect();
        if let Some(first_page) = first_page {
            listing = world.store.unordered_page(after, false);
            listing.extend(first_page);
        }
        let more = listing.len() > most;
        listing.truncate(most);
        if page == Page::Short {
            world.left.short_pages -= 1;
            if !more {
                return None;
            }
        }
        let mut delete = |epoch| world.wires.push(Message::new(Wire::Delete { epoch }));
        for epoch in &listing {
            let epoch = Epoch::new(u64::from(*epoch)).expect("epochs of this model start at 1");
            let listed = plan.handle_listed(Listed { epoch, size: 0, age: None });
            if let Some(listed) = listed.expect("this store lists its keys in order") {
                delete(small(listed.epoch.get()));
            }
        }
        if !more && let Some(newest) = plan.newest() {
            // This model has no restores, so no restore holds the newest epoch. The model reads the
            // newest epoch in the same step as the last page.
            let there = world.store.epochs().any(|(epoch, _)| u64::from(epoch) == newest.get());
            plan.handle_read(
                newest,
                if there { NewestBody::Validity(None) } else { NewestBody::Gone },
            );
            if let Some(listed) = plan.handle_end() {
                delete(small(listed.epoch.get()));
            }
        }
        if more {
            let run = Some((plan, *listing.last()?));
            world.compactors[which] = HashedArc::new(Compactor { run, first_page: None });
        } else if self.setting.broken == Broken::CompactsNewest
            && let Some(newest) = plan.newest()
        {
            delete(small(newest.get()));
        }
        Some(())
    }

    pub fn peer_creates(&self, world: &mut World) -> Option<()> {
        let epoch = world.morling.about.take()?;
        let wire = Wire::Create { epoch, body: Body::FOREIGN };
        if world.store.accepts(wire) {
            world.store.apply(wire);
            world.morling.owned.push(epoch);
            if self.setting.morling == Morling::Counts {
                world.history.date(&world.store, epoch, 0);
                world.history.grant(epoch, 0);
            }
        }
        Some(())
    }
}
