//! Every verb of the command, its output and its exit codes.
#![cfg(unix)]

#[cfg(feature = "s3")]
mod absent;
mod args;
mod bench;
mod cost;
mod deploy;
mod election;
mod group;
mod output;
mod probe;
mod run;
mod serve;
mod store;

/// The command under test.
const TENURE: &str = env!("CARGO_BIN_EXE_tenure");
