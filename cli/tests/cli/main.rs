//! The command as its users see it: every verb, its output, its exit codes.
#![cfg(unix)]

#[cfg(feature = "s3")]
mod absent;
mod bench;
#[cfg(any(feature = "gcs", feature = "azure"))]
mod clouds;
mod compact;
mod cost;
mod credentials;
mod cron;
mod deploy;
mod dynamodb;
mod group_depose;
mod group_history;
mod group_restore;
mod groups;
mod hand_over;
mod health;
mod history;
#[cfg(feature = "s3")]
mod interrupt;
mod logs;
mod look;
mod metrics;
mod operator;
mod pages;
#[cfg(feature = "s3")]
mod passing;
mod permissions;
mod probe;
#[cfg(feature = "s3")]
mod s3;
mod serve;
mod settings;
mod single;
mod terminal;
mod usage;
mod variables;

/// The command under test.
const TENURE: &str = env!("CARGO_BIN_EXE_tenure");
