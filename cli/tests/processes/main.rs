//! Tests of `tenure run`, `tenure group run` and their guards as processes. The tests kill, suspend
//! and terminate these processes.
#![cfg(target_os = "linux")]

mod app_health;
mod cron;
mod group_run;
mod guard;
mod guard_by_hand;
mod hooks;
mod killed;
mod run;
mod stopped;

/// Path of the binary `tenure` that these tests run.
const TENURE: &str = env!("CARGO_BIN_EXE_tenure");
