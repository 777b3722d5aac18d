//! Locks that outlive a panic.

use std::sync::{LockResult, PoisonError};

/// Returns the guarded value, also after a panic of another holder. In this crate no critical
/// section leaves a value half changed.
pub(crate) fn unpoisoned<T>(locked: LockResult<T>) -> T {
    locked.unwrap_or_else(PoisonError::into_inner)
}
