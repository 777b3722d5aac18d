//! The command as its users see it: every verb, its output, its exit codes.
#![cfg(all(feature = "cli", unix))]

#[path = "cli/bench.rs"]
mod bench;
#[cfg(any(feature = "gcs", feature = "azure"))]
#[path = "cli/clouds.rs"]
mod clouds;
#[path = "cli/compact.rs"]
mod compact;
#[path = "cli/dynamodb.rs"]
mod dynamodb;
#[cfg(feature = "s3")]
#[path = "cli/interrupt.rs"]
mod interrupt;
#[path = "cli/look.rs"]
mod look;
#[path = "cli/operator.rs"]
mod operator;
#[cfg(feature = "s3")]
#[path = "cli/s3.rs"]
mod s3;
#[path = "cli/single.rs"]
mod single;
#[cfg(any(feature = "s3", feature = "dynamodb", feature = "gcs"))]
mod support;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "cli/usage.rs"]
mod usage;
