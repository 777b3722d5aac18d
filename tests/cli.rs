//! The command as its users see it: every verb, its output, its exit codes.
#![cfg(all(feature = "cli", unix))]

#[path = "cli/bench.rs"]
mod bench;
#[cfg(any(feature = "gcs", feature = "azure"))]
#[path = "cli/clouds.rs"]
mod clouds;
mod command;
#[path = "cli/compact.rs"]
mod compact;
#[path = "cli/cost.rs"]
mod cost;
#[path = "cli/dynamodb.rs"]
mod dynamodb;
#[path = "cli/hand_over.rs"]
mod hand_over;
#[path = "cli/health.rs"]
mod health;
#[path = "cli/history.rs"]
mod history;
#[cfg(feature = "s3")]
#[path = "cli/interrupt.rs"]
mod interrupt;
#[path = "cli/logs.rs"]
mod logs;
#[path = "cli/look.rs"]
mod look;
#[path = "cli/metrics.rs"]
mod metrics;
#[path = "cli/operator.rs"]
mod operator;
#[path = "cli/pages.rs"]
mod pages;
#[path = "cli/probe.rs"]
mod probe;
#[cfg(feature = "s3")]
#[path = "cli/s3.rs"]
mod s3;
#[path = "cli/single.rs"]
mod single;
mod support;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/usage.rs"]
mod usage;
