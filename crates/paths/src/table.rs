//! The table of locks and waiting calls: a pure value, without async.
//!
//! A call enters the queues of all its paths in one step and gets a [`Ticket`]. A path admits the
//! call when the call's mode is compatible with the modes of all earlier calls that are still in
//! the table. The call is granted when all its paths have admitted the call. So a call waits only
//! for earlier calls.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::access::Modes;
use super::lock_modes::Mode;
use super::path::Path;

/// Position of a call in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(u64);

#[derive(Debug, Default)]
pub(super) struct Table {
    locks: HashMap<Path, Lock>,
    /// Waiting calls, each with the number of paths that have not admitted the call.
    waiting: BTreeMap<Ticket, usize>,
    entered: u64,
}

/// The state of one path that at least one call holds or waits for.
#[derive(Debug, Default)]
struct Lock {
    /// Number of admitted calls, by mode.
    held: [usize; Mode::ALL.len()],
    /// Waiting calls, by mode. Each mode has one queue, so a grant depends only on the first call
    /// of each queue.
    queues: [BTreeSet<Ticket>; Mode::ALL.len()],
}

impl Table {
    /// Adds a call, and returns its ticket.
    pub(super) fn enter(&mut self, modes: &Modes) -> Ticket {
        // The addition cannot overflow: at one call per nanosecond, 64 bits last for 584 years.
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

    /// Returns whether a call that arrived now would be granted immediately.
    pub(super) fn is_free(&self, modes: &Modes) -> bool {
        let next = Ticket(self.entered);
        modes
            .iter()
            .all(|(path, mode)| self.locks.get(path).is_none_or(|lock| lock.admits(*mode, next)))
    }

    /// Returns whether a call in the table holds all its locks.
    pub(super) fn is_granted(&self, ticket: Ticket) -> bool {
        !self.waiting.contains_key(&ticket)
    }

    /// Removes a call, whether it holds its locks or waits for them. Returns the calls that are
    /// granted as a result.
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

    /// Returns the number of paths that have a lock in memory.
    pub(super) fn locked_paths(&self) -> usize {
        self.locks.len()
    }

    /// Frees memory when the table is mostly empty. Shrinking is rare, so its cost per call is
    /// negligible.
    fn shrink(&mut self) {
        const ALWAYS_KEPT: usize = 64;
        if self.locks.capacity() > ALWAYS_KEPT.max(self.locks.len() * 8) {
            self.locks.shrink_to(self.locks.len() * 2);
        }
    }
}

impl Lock {
    /// Returns false if a holder of this path or an earlier waiting call excludes this call.
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
        /// Number of accesses to locks in this thread.
        pub(super) static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    fn fresh(number: usize) -> Modes {
        let path = Path::new(&format!("/folder-{number}/b/c")).unwrap();
        Access::to_write(&path).into_modes()
    }

    #[test]
    fn the_table_frees_the_memory_of_many_locks() {
        let mut table = Table::default();
        let calls: Vec<_> = (0..10_000).map(fresh).map(|m| (table.enter(&m), m)).collect();
        assert_eq!((table.locked_paths(), table.waiting.len()), (30_001, 0));
        for (left, (ticket, modes)) in calls.iter().enumerate().rev() {
            table.leave(*ticket, modes);
            let needed = if left == 0 { 0 } else { 3 * left + 1 };
            assert_eq!(table.locked_paths(), needed);
            // The bound is not exact, because the size of a hash table is a power of two and the
            // table is at most seven eighths full.
            assert!(table.locks.capacity() <= 64.max(needed * 8), "{}", table.locks.capacity());
        }
    }

    /// Charemza's post requires that a lock takes constant time. So the number of accesses must not
    /// depend on the number of other locks.
    #[test]
    fn a_call_accesses_a_constant_number_of_locks() {
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
        // The call makes one access for each of the four folders: the path and its three ancestors.
        assert_eq!([looks(0..0), looks(0..10), looks(10..1_000), looks(1_000..30_000)], [4; 4]);
    }

    /// A call accesses only the locks of its paths and their ancestors, and no lock of another path
    /// or of a descendant.
    #[test]
    fn a_call_has_one_lock_for_each_component() {
        let mut table = Table::default();
        for number in 0..100 {
            table.enter(&fresh(number));
        }
        assert_eq!(table.locked_paths(), 301);
        let root = Access::to_read(&Path::root()).into_modes();
        assert!(!table.is_free(&root), "the lock of the root shows the conflict");
        assert_eq!((root.len(), fresh(0).len()), (1, 4));
        table.enter(&root);
        assert_eq!((table.locked_paths(), table.waiting.len()), (301, 1));
    }
}
