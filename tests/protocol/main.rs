//! Tests of the protocol with other implementations, and records.

mod fixtures;
mod fuzzing;
mod if_match;
mod morling_lock_interop;
mod records;
mod upgrading;
