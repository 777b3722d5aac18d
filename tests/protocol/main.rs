//! Tests of the protocol with other implementations, scenarios, and records.

mod fixtures;
mod fuzzing;
mod if_match;
mod morling_lock_interop;
mod records;
mod scenarios;
mod upgrading;
