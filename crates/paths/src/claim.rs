//! The async shell around the table: a claim waits until it is granted, and leaves when dropped.
//!
//! The table grants; a wakeup only says so. So a wakeup that comes late, or to a task that has
//! given up, loses nothing: that task's claim leaves the table, and that grants the next.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::access::Modes;
use super::table::{Table, Ticket};

#[derive(Debug, Default)]
pub(crate) struct ClaimState {
    pub(super) table: Table,
    /// Of the calls that wait and have been polled.
    wakers: BTreeMap<Ticket, Waker>,
}

/// The mutex around the state. The tests that try every interleaving bring another one.
pub(super) trait Cell: Send + Sync + 'static {
    /// Does this in a critical section. It must not run foreign code, so wakers are called, and
    /// dropped, outside: to drop one may end a task, and so drop its guards.
    fn with<T>(&self, act: impl FnOnce(&mut ClaimState) -> T) -> T;
}

impl Cell for Mutex<ClaimState> {
    fn with<T>(&self, act: impl FnOnce(&mut ClaimState) -> T) -> T {
        // No critical section panics between two changes, so the state is whole after a panic, too.
        act(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A call that has entered the table. Dropping it takes it out, whether it was granted or not.
pub(super) struct Claim<C: Cell = Mutex<ClaimState>> {
    cell: Arc<C>,
    ticket: Ticket,
    modes: Modes,
    /// Nothing was in the way when it entered.
    at_once: bool,
}

impl<C: Cell> Claim<C> {
    pub(super) fn enter(cell: &Arc<C>, modes: Modes) -> Claim<C> {
        let (ticket, at_once) = cell.with(|state| {
            let ticket = state.table.enter(&modes);
            (ticket, state.table.is_granted(ticket))
        });
        Claim { cell: Arc::clone(cell), ticket, modes, at_once }
    }

    /// Enters only if that grants it at once.
    pub(super) fn try_enter(cell: &Arc<C>, modes: Modes) -> Option<Claim<C>> {
        let ticket =
            cell.with(|state| state.table.is_free(&modes).then(|| state.table.enter(&modes)))?;
        Some(Claim { cell: Arc::clone(cell), ticket, modes, at_once: true })
    }

    pub(super) fn modes(&self) -> &Modes {
        &self.modes
    }

    /// Waits until all locks are held. Dropping this future leaves the claim in its place.
    pub(super) async fn granted(&self) {
        if !self.at_once {
            poll_fn(|context| self.poll_granted(context)).await;
        }
    }

    fn poll_granted(&self, context: &mut Context<'_>) -> Poll<()> {
        let waker = context.waker().clone();
        let (granted, _dropped_outside) = self.cell.with(|state| {
            if state.table.is_granted(self.ticket) {
                return (true, Some(waker));
            }
            (false, state.wakers.insert(self.ticket, waker))
        });
        if granted { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
impl ClaimState {
    pub(super) fn sleepers(&self) -> usize {
        self.wakers.len()
    }
}

#[cfg(test)]
impl<C: Cell> Claim<C> {
    /// Broken: leaves the table, and wakes none of the calls that this grants.
    pub(super) fn leave_silently(self) {
        let claim = std::mem::ManuallyDrop::new(self);
        claim.cell.with(|state| state.table.leave(claim.ticket, &claim.modes));
    }
}

impl<C: Cell> Drop for Claim<C> {
    fn drop(&mut self) {
        let (_dropped_outside, wakers) = self.cell.with(|state| {
            let own = state.wakers.remove(&self.ticket);
            let granted = state.table.leave(self.ticket, &self.modes);
            // Those that were not polled yet see it when they are.
            let wakers = granted.iter().filter_map(|ticket| state.wakers.remove(ticket));
            (own, wakers.collect::<Vec<_>>())
        });
        wakers.into_iter().for_each(Waker::wake);
    }
}
