//! Locks that ignore poisoning.

use std::sync::{LockResult, PoisonError};

/// Returns the guard, even if another thread panicked while it held the lock. In this crate no
/// panic in a critical section leaves an inconsistent value.
pub(crate) fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}
