//! `tenure run`, `tenure group run` and their guards as processes that are killed, stopped and told to end.
#![cfg(target_os = "linux")]

#[path = "../command/mod.rs"]
mod command;
mod cron;
mod group;
mod guard;
mod hooks;
mod killed;
mod partitions;
mod processes;
