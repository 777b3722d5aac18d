//! Locking.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whether a thread that held the lock has panicked or not. Only for a value that is whole
/// after every statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
