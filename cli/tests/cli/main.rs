//! Tests the output and the exit codes of each verb.
#![cfg(unix)]

#[cfg(feature = "s3")]
mod absent;
mod across;
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
mod ui;

/// Path of the binary `tenure` that these tests run.
const TENURE: &str = env!("CARGO_BIN_EXE_tenure");
