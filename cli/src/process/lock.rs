//! Locks mutexes, although a panic may have poisoned them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the mutex, even if a thread has panicked while it held the lock. The value must be
/// consistent after every statement.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
