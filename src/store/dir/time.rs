//! The dates of files, and the initial value of write counters.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;

use chrono::{DateTime, Utc};

use crate::env::clock;

/// Returns the modification time of an open file.
pub(super) fn last_modified(file: &File) -> Option<DateTime<Utc>> {
    let metadata = file.metadata().ok()?;
    time_of_day(metadata.mtime(), metadata.mtime_nsec())
}

pub(super) fn time_of_day(seconds: i64, nanos: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(seconds, u32::try_from(nanos).ok()?)
}

/// Returns the initial value of a write counter: the present time in nanoseconds. So an object that
/// is deleted and created again never repeats an old ETag.
pub(super) fn first_count() -> u64 {
    let nanos = clock::wall_clock().timestamp_nanos_opt();
    nanos.and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(0)
}
