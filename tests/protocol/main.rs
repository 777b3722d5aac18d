//! Tests of the protocol: other implementations of it, its scenarios, and its records.

mod fixtures;
mod fuzzing;
mod if_match;
mod morling_lock_interop;
mod records;
mod scenarios;
mod upgrading;
