//! The lock among the threads of one process.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::env::mutex::unpoisoned;

/// A lock among the threads of one process. A thread acquires this lock before it tries to lock the
/// file. If all threads tried to lock the file at the same time, one thread might fail in every
/// attempt for seconds.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadLock(Arc<(Mutex<Holders>, Condvar)>);

#[derive(Debug, Default)]
struct Holders {
    alone: bool,
    shared: usize,
    /// Number of threads that have given up because another process held the file lock.
    given_up: u64,
}

/// The reason why a thread did not get the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ThreadLockRefusal {
    /// Another thread of this process holds the lock.
    Taken,
    /// The thread that held the lock gave up, because another process holds the file lock.
    GivenUp,
}

/// The held lock. Dropping this value releases the lock.
#[derive(Debug)]
pub(super) struct ThreadLockGuard {
    thread_lock: ThreadLock,
    mode: Mode,
}

impl ThreadLock {
    /// Waits up to `limit`, or until the thread that holds the lock gives up. If that thread gives
    /// up, all waiting threads give up too, because each of them would wait for the same process.
    pub(super) fn wait(
        &self,
        mode: Mode,
        limit: Duration,
    ) -> Result<ThreadLockGuard, ThreadLockRefusal> {
        let (holders, next) = &*self.0;
        // The state is consistent whenever the mutex is free, so poisoning is ignored.
        let holders = unpoisoned(holders.lock());
        let given_up = holders.given_up;
        let busy = |holders: &mut Holders| {
            let taken = holders.alone || matches!(mode, Mode::Alone) && holders.shared > 0;
            taken && holders.given_up == given_up
        };
        let (mut holders, waited) = unpoisoned(next.wait_timeout_while(holders, limit, busy));
        if holders.given_up != given_up {
            return Err(ThreadLockRefusal::GivenUp);
        }
        if waited.timed_out() {
            return Err(ThreadLockRefusal::Taken);
        }
        match mode {
            Mode::Alone => holders.alone = true,
            Mode::Shared => holders.shared += 1,
        }
        Ok(ThreadLockGuard { thread_lock: self.clone(), mode })
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

impl Drop for ThreadLockGuard {
    fn drop(&mut self) {
        let (holders, next) = &*self.thread_lock.0;
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
    fn the_lock_is_shared_or_exclusive() {
        let thread_lock = ThreadLock::default();
        let one = thread_lock.wait(Mode::Shared, Duration::ZERO).expect("the lock is free");
        let two = thread_lock.wait(Mode::Shared, Duration::ZERO).expect("the lock can be shared");
        drop(one);
        thread_lock.wait(Mode::Alone, Duration::ZERO).expect_err("one shared holder remains");
        drop(two);
        let alone = thread_lock.wait(Mode::Alone, Duration::ZERO).expect("the lock is free");
        thread_lock.wait(Mode::Shared, Duration::from_millis(1)).expect_err("the lock is held");
        drop(alone);
        thread_lock.wait(Mode::Shared, Duration::ZERO).expect("the lock is free");
    }
}
