//! What lies under `deploy`: its files parse, and the jobs in them do what they should, as
//! processes that overlap, too.
#![cfg(unix)]

#[path = "cli/bench.rs"]
#[allow(dead_code, reason = "shared with the tests of the command")]
mod bench;
mod files;
mod lifecycle;
mod overlap;
