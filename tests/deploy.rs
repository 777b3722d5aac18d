//! What lies under `deploy`: its files parse, and the jobs in them do what they should, as processes
//! that overlap, too.
#![cfg(all(feature = "cli", unix))]

#[path = "cli/bench.rs"]
#[allow(dead_code, reason = "shared with the tests of the command")]
mod bench;
mod command;
#[path = "deploy/files.rs"]
mod files;
#[path = "deploy/lifecycle.rs"]
mod lifecycle;
#[path = "deploy/overlap.rs"]
mod overlap;
#[cfg(feature = "s3")]
mod support;
