//! The turns of the threads of one process.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::env::mutex::unpoisoned;

/// Whose turn it is among the threads of one process. They wait for it here: if all tried for the
/// file at once, one of them might miss it for seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn(Arc<(Mutex<Holders>, Condvar)>);

#[derive(Debug, Default)]
struct Holders {
    alone: bool,
    shared: usize,
    /// How often one of them has waited for another process until it gave up.
    given_up: u64,
}

/// Why a thread got no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoTurn {
    /// Another thread of this process has it.
    Taken,
    /// The thread that had it gave up, as another process holds the lock.
    GivenUp,
}

/// A turn, for as long as this lives.
#[derive(Debug)]
pub(super) struct TurnHeld {
    turn: Turn,
    mode: Mode,
}

impl Turn {
    /// Waits up to `limit`, or until the thread that has the turn gives up: all that wait then
    /// would wait for the same process, one after the other.
    pub(super) fn wait(&self, mode: Mode, limit: Duration) -> Result<TurnHeld, NoTurn> {
        let (holders, next) = &*self.0;
        // It is whole whenever the mutex is free.
        let holders = unpoisoned(holders.lock());
        let given_up = holders.given_up;
        let busy = |holders: &mut Holders| {
            let taken = holders.alone || matches!(mode, Mode::Alone) && holders.shared > 0;
            taken && holders.given_up == given_up
        };
        let (mut holders, waited) = unpoisoned(next.wait_timeout_while(holders, limit, busy));
        if holders.given_up != given_up {
            return Err(NoTurn::GivenUp);
        }
        if waited.timed_out() {
            return Err(NoTurn::Taken);
        }
        match mode {
            Mode::Alone => holders.alone = true,
            Mode::Shared => holders.shared += 1,
        }
        Ok(TurnHeld { turn: self.clone(), mode })
    }

    pub(super) fn give_up(&self) {
        let (holders, next) = &*self.0;
        let mut holders = unpoisoned(holders.lock());
        holders.given_up = holders.given_up.wrapping_add(1);
        next.notify_all();
    }

    #[cfg(test)]
    pub(super) fn times_given_up(&self) -> u64 {
        unpoisoned(self.0.0.lock()).given_up
    }
}

impl Drop for TurnHeld {
    fn drop(&mut self) {
        let (holders, next) = &*self.turn.0;
        let mut holders = unpoisoned(holders.lock());
        match self.mode {
            Mode::Alone => holders.alone = false,
            Mode::Shared => holders.shared -= 1,
        }
        next.notify_all();
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Mode {
    Alone,
    Shared,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_shared_or_exclusive() {
        let turn = Turn::default();
        let one = turn.wait(Mode::Shared, Duration::ZERO).expect("free");
        let two = turn.wait(Mode::Shared, Duration::ZERO).expect("shared");
        drop(one);
        turn.wait(Mode::Alone, Duration::ZERO).expect_err("one is left");
        drop(two);
        let alone = turn.wait(Mode::Alone, Duration::ZERO).expect("free");
        turn.wait(Mode::Shared, Duration::from_millis(1)).expect_err("taken");
        drop(alone);
        turn.wait(Mode::Shared, Duration::ZERO).expect("free");
    }
}
