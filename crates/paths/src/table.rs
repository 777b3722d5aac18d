//! Who has locked what, and who waits: a pure value, without async.
//!
//! A call enters the queues of all its paths in one step and gets a [`Ticket`]. At each path it is
//! admitted once its mode goes together with the modes of all that entered before it and have not
//! left; admitted everywhere, it is granted. So it waits for earlier tickets alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::access::Modes;
use super::mode::Mode;
use super::path::Path;

/// A call's place in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(u64);

#[derive(Debug, Default)]
pub(super) struct Table {
    locks: HashMap<Path, Lock>,
    /// At how many paths each call that is not granted still waits.
    waiting: BTreeMap<Ticket, usize>,
    entered: u64,
}

/// One path that somebody holds or waits for.
#[derive(Debug, Default)]
struct Lock {
    /// How many have been admitted, by mode.
    held: [usize; Mode::ALL.len()],
    /// Who waits, by mode: one queue that is split, so that only the heads need be looked at.
    queues: [BTreeSet<Ticket>; Mode::ALL.len()],
}

impl Table {
    /// A call arrives.
    pub(super) fn enter(&mut self, modes: &Modes) -> Ticket {
        // At a call a nanosecond they last for 584 years.
        let ticket = Ticket(self.entered);
        self.entered += 1;
        let mut waits = 0;
        for (path, mode) in modes {
            let lock = self.locks.entry(path.clone()).or_default();
            if lock.admits(*mode, ticket) {
                lock.held[*mode as usize] += 1;
            } else {
                lock.queues[*mode as usize].insert(ticket);
                waits += 1;
            }
        }
        if waits > 0 {
            self.waiting.insert(ticket, waits);
        }
        ticket
    }

    /// Whether a call that arrived now would be granted at once.
    pub(super) fn is_free(&self, modes: &Modes) -> bool {
        let next = Ticket(self.entered);
        modes
            .iter()
            .all(|(path, mode)| self.locks.get(path).is_none_or(|lock| lock.admits(*mode, next)))
    }

    /// Whether a call that has entered, and not left, holds all its locks.
    pub(super) fn is_granted(&self, ticket: Ticket) -> bool {
        !self.waiting.contains_key(&ticket)
    }

    /// A call ends, or gives up waiting. Returns those that are granted through that.
    pub(super) fn leave(&mut self, ticket: Ticket, modes: &Modes) -> Vec<Ticket> {
        self.waiting.remove(&ticket);
        let mut granted = Vec::new();
        for (path, mode) in modes {
            let Some(lock) = self.locks.get_mut(path) else { continue };
            if !lock.queues[*mode as usize].remove(&ticket) {
                lock.held[*mode as usize] -= 1;
            }
            while let Some(admitted) = lock.admit_next() {
                if let Some(waits) = self.waiting.get_mut(&admitted) {
                    *waits -= 1;
                    if *waits == 0 {
                        self.waiting.remove(&admitted);
                        granted.push(admitted);
                    }
                }
            }
            if lock.is_idle() {
                self.locks.remove(path);
            }
        }
        self.shrink();
        granted
    }

    /// How many paths have a lock in memory.
    pub(super) fn locked_paths(&self) -> usize {
        self.locks.len()
    }

    /// Gives memory back, seldom enough to cost nothing: after half of what it kept has gone.
    fn shrink(&mut self) {
        const ALWAYS_KEPT: usize = 64;
        if self.locks.capacity() > ALWAYS_KEPT.max(self.locks.len() * 8) {
            self.locks.shrink_to(self.locks.len() * 2);
        }
    }
}

impl Lock {
    /// Whether nobody who holds this path, or has waited for it since before, keeps this call out.
    fn admits(&self, mode: Mode, ticket: Ticket) -> bool {
        #[cfg(test)]
        tests::LOOKS.with(|looks| looks.set(looks.get() + 1));
        let mut hostile = Mode::ALL.into_iter().filter(|other| !mode.is_compatible(*other));
        hostile.all(|other| {
            let first = self.queues[other as usize].first();
            self.held[other as usize] == 0 && first.is_none_or(|first| *first >= ticket)
        })
    }

    fn admit_next(&mut self) -> Option<Ticket> {
        for mode in Mode::ALL {
            if let Some(first) = self.queues[mode as usize].first().copied()
                && self.admits(mode, first)
            {
                self.queues[mode as usize].remove(&first);
                self.held[mode as usize] += 1;
                return Some(first);
            }
        }
        None
    }

    fn is_idle(&self) -> bool {
        self.held.iter().all(|held| *held == 0) && self.queues.iter().all(BTreeSet::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::access::Access;

    thread_local! {
        /// How often a lock was looked at.
        pub(super) static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    fn fresh(number: usize) -> Modes {
        let path = Path::new(&format!("/folder-{number}/b/c")).unwrap();
        Access::to_write(&path).into_modes()
    }

    #[test]
    fn room_for_many_locks_is_given_back() {
        let mut table = Table::default();
        let calls: Vec<_> = (0..10_000).map(fresh).map(|m| (table.enter(&m), m)).collect();
        assert_eq!((table.locked_paths(), table.waiting.len()), (30_001, 0));
        for (left, (ticket, modes)) in calls.iter().enumerate().rev() {
            table.leave(*ticket, modes);
            let needed = if left == 0 { 0 } else { 3 * left + 1 };
            assert_eq!(table.locked_paths(), needed);
            // A table grows in powers of two, and is seven eighths full at most.
            assert!(table.locks.capacity() <= 64.max(needed * 8), "{}", table.locks.capacity());
        }
    }

    /// The seed's constant time: locking and unlocking take as many looks beside any other locks.
    #[test]
    fn a_call_looks_at_as_many_locks_however_many_there_are() {
        let mut table = Table::default();
        let mut looks = |others: std::ops::Range<usize>| {
            for number in others {
                table.enter(&fresh(number + 1));
            }
            let (before, modes) = (LOOKS.get(), fresh(0));
            let ticket = table.enter(&modes);
            assert!(table.is_granted(ticket));
            table.leave(ticket, &modes);
            LOOKS.get() - before
        };
        // One for each of the four components.
        assert_eq!([looks(0..0), looks(0..10), looks(10..1_000), looks(1_000..30_000)], [4; 4]);
    }

    /// Nobody else's lock is looked at: neither those of others, nor those below.
    #[test]
    fn a_call_has_one_lock_for_each_component() {
        let mut table = Table::default();
        for number in 0..100 {
            table.enter(&fresh(number));
        }
        assert_eq!(table.locked_paths(), 301);
        let root = Access::to_read(&Path::root()).into_modes();
        assert!(!table.is_free(&root), "it is known from the root's own lock");
        assert_eq!((root.len(), fresh(0).len()), (1, 4));
        table.enter(&root);
        assert_eq!((table.locked_paths(), table.waiting.len()), (301, 1));
    }
}
