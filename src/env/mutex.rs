//! Locks that outlive a panic.

use std::sync::{LockResult, PoisonError};

/// What a lock guards, also after a panic of another holder: in this crate every critical section
/// leaves it whole.
pub(crate) fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}
