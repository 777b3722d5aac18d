//! The async layer around the table of locks. A claim belongs to one call, and waits until the
//! table grants this call. When the claim is dropped, the call leaves the table.
//!
//! A wakeup only reports that the table has granted a call. The wakeup may come late, or reach a
//! task that has given up. Even then no grant is lost: when that task drops its claim, the call
//! leaves the table, and the table grants the next call.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use super::access::Modes;
use super::table::{Table, Ticket};

#[derive(Debug, Default)]
pub(crate) struct ClaimState {
    pub(super) table: Table,
    /// Wakers of the waiting calls that have been polled.
    wakers: BTreeMap<Ticket, Waker>,
}

/// The mutex around the state. The tests that explore all interleavings implement this trait for
/// another mutex.
pub(super) trait Cell: Send + Sync + 'static {
    /// Runs `act` in a critical section. `act` must not run foreign code, such as the code of a
    /// waker. A dropped waker can end its task, and the task then drops its guards. A dropped guard
    /// enters this critical section. So the caller wakes and drops wakers outside of the critical
    /// section.
    fn with<T>(&self, act: impl FnOnce(&mut ClaimState) -> T) -> T;
}

impl Cell for Mutex<ClaimState> {
    fn with<T>(&self, act: impl FnOnce(&mut ClaimState) -> T) -> T {
        // No critical section panics between two changes, so the state is consistent even after a
        // panic.
        act(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A call that has entered the table. Dropping the claim removes the call, whether or not it was
/// granted.
pub(super) struct Claim<C: Cell = Mutex<ClaimState>> {
    cell: Arc<C>,
    ticket: Ticket,
    modes: Modes,
    /// True if the table granted the call as soon as the call entered.
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

    /// Enters the table only if the call is granted immediately.
    pub(super) fn try_enter(cell: &Arc<C>, modes: Modes) -> Option<Claim<C>> {
        let ticket =
            cell.with(|state| state.table.is_free(&modes).then(|| state.table.enter(&modes)))?;
        Some(Claim { cell: Arc::clone(cell), ticket, modes, at_once: true })
    }

    pub(super) fn modes(&self) -> &Modes {
        &self.modes
    }

    /// Waits until the call holds all its locks. If this future is dropped, the claim stays in the
    /// queue.
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
    /// Leaves the table, but does not wake the calls that are granted as a result. Only a test of a
    /// broken task calls this method.
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
            // A granted call without a waker was never polled. The first poll of this call returns
            // the grant.
            let wakers = granted.iter().filter_map(|ticket| state.wakers.remove(ticket));
            (own, wakers.collect::<Vec<_>>())
        });
        wakers.into_iter().for_each(Waker::wake);
    }
}
