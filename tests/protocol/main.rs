//! Tests of the protocol: elections together with other implementations, and the format of records.

mod fixtures;
mod fuzzing;
mod if_match;
mod morling_lock_interop;
mod records;
mod upgrading;
